"""Tests of D105 (labels unrelated to inputs) and D125 (other class numbers in the other split)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.loop_monitor.conclusions import LABELS_UNRELATED, disproved_assumptions
from nbdebug.loop_monitor.summary import LoopSummary
from nbdebug.measurements import Measurements
from nbdebug.records import Record
from nbdebug.rule_engine import rule_registry
from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from tests.rules.data.dict_dataset import DictDataset
from tests.rules.rule_findings import rule_faults

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(800, 4, generator=GENERATOR)
Y = (X @ torch.randn(4, 3, generator=GENERATOR)).argmax(1)
PERMUTATION = torch.randperm(400, generator=GENERATOR)
CE, MSE, BCE = nn.CrossEntropyLoss(), nn.MSELoss(), nn.BCEWithLogitsLoss()
TARGETS = torch.stack([X[:, 0].sin() + X[:, 1], X[:, 2] * 2], 1)
NOISE = torch.randn(800, 2, generator=torch.Generator().manual_seed(1))
NOISY, MULTIPLE = 0.3 * TARGETS + NOISE, (X[:, :3] > 0.3).float()
IMAGES = torch.rand(800, 1, 8, 8, generator=GENERATOR) + torch.eye(8)[Y * 3 % 8].reshape(-1, 1, 1, 8)
TOKENS = (
    torch.randint(0, 20, (800, 6), generator=GENERATOR)
    + 20 * (torch.rand(800, 6, generator=GENERATOR) < 0.5) * Y[:, None]
)


def two_split_builder(
    model: nn.Module, x: Tensor, train: Tensor, val: Tensor, loss_fn: nn.Module = CE
) -> Callable[[], Setup]:
    datasets = [TensorDataset(x[:400], train), TensorDataset(x[400:], val)]
    return lambda: Setup(model, DataLoader(datasets[0], 32, shuffle=True), DataLoader(datasets[1], 32), loss_fn=loss_fn)


def named_classes_builder(train: dict[str, Any], val: dict[str, Any]) -> Callable[[], Setup]:
    datasets = [DictDataset(X[:400], Y[:400], **train), DictDataset(X[400:], Y[400:], **val)]
    return lambda: Setup(network(3), DataLoader(datasets[0], 32), DataLoader(datasets[1], 32), loss_fn=CE)


def one_split_builder(y: Tensor, model: nn.Module | None = None, x: Tensor = X) -> Callable[[], Setup]:
    return lambda: Setup(model or network(3), DataLoader(TensorDataset(x, y), 32), loss_fn=CE)


class Tagger(nn.Module):
    """Scores of two classes for each token from the token alone."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.embedding(x).transpose(1, 2)


SMOOTH = nn.functional.avg_pool2d(torch.randn(800, 1, 10, 10, generator=GENERATOR), 3, 1, 1)
MASKS = (SMOOTH > 0).float()
MAPS = MASKS[:, 0].long().index_fill(1, torch.tensor([0, 9]), -100)
SENTENCES = torch.randint(0, 40, (800, 9), generator=GENERATOR)
TAGS = (SENTENCES % 7 < 3).long()
segmenter, mask_model = nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(1, 1, 3, padding=1)
image_model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
token_model = nn.Sequential(nn.Embedding(60, 4), nn.Flatten(), nn.Linear(24, 3))
NAMES = ["cat", "dog", "fox"]
PARITY = ((X[:, :4] > 0).sum(1) % 2).long()
UNRELATED_LABELS: dict[str, Callable[[], Setup]] = {
    "shuffled training labels": two_split_builder(network(3), X, Y[:400][PERMUTATION], Y[400:]),
    "images": two_split_builder(image_model, IMAGES, Y[:400][PERMUTATION], Y[400:]),
    "tokens": two_split_builder(token_model, TOKENS, Y[:400][PERMUTATION], Y[400:]),
    "real-valued targets": two_split_builder(nn.Linear(4, 2), X, TARGETS[:400][PERMUTATION], TARGETS[400:], MSE),
    "multiple labels": two_split_builder(nn.Linear(4, 3), X, MULTIPLE[:400], MULTIPLE[400:][PERMUTATION], BCE),
    "shuffled validation labels": two_split_builder(network(3), X, Y[:400], Y[400:][PERMUTATION]),
    "maps of classes": two_split_builder(segmenter, SMOOTH, MAPS[:400][PERMUTATION], MAPS[400:]),
    "binary masks": two_split_builder(mask_model, SMOOTH, MASKS[:400], MASKS[400:][PERMUTATION], BCE),
    "tags of tokens": two_split_builder(Tagger(), SENTENCES, TAGS[:400][PERMUTATION], TAGS[400:]),
    "maps shifted by one sample": one_split_builder(MAPS.roll(1, 0), segmenter, SMOOTH),
    "shifted by one sample": one_split_builder(Y.roll(1)),
}
RELATED_LABELS: dict[str, Callable[[], Setup]] = {
    "maps of classes": two_split_builder(segmenter, SMOOTH, MAPS[:400], MAPS[400:]),
    "tags of tokens": two_split_builder(Tagger(), SENTENCES, TAGS[:400], TAGS[400:]),
    "tags of reversed sentences": two_split_builder(Tagger(), SENTENCES, TAGS[:400].flip(1), TAGS[400:].flip(1)),
    "plain": two_split_builder(network(3), X, Y[:400], Y[400:]),
    "a third of labels random": two_split_builder(
        network(3), X, torch.where(torch.rand(400) < 0.3, Y[:400][PERMUTATION], Y[:400]), Y[400:]
    ),
    "real-valued": two_split_builder(nn.Linear(4, 2), X, TARGETS[:400], TARGETS[400:], MSE),
    "real-valued, mostly noise": two_split_builder(nn.Linear(4, 2), X, NOISY[:400], NOISY[400:], MSE),
    "real-valued, random": two_split_builder(nn.Linear(4, 2), X, NOISE[:400], NOISE[400:], MSE),
    "not learnable by the probe": one_split_builder(PARITY),
    "random in one split": one_split_builder(Y[torch.randperm(800)]),
    "few samples": lambda: Setup(network(3), DataLoader(TensorDataset(X[:60], Y[:60].flip(0)), 32), loss_fn=CE),
    "all of one class": one_split_builder(torch.ones_like(Y)),
}
DIFFERENT_CLASS_MAPS: dict[str, Callable[[], Setup]] = {
    "two classes swapped": two_split_builder(network(3), X, Y[:400], torch.tensor([2, 1, 0])[Y[400:]]),
    "images, all classes shifted": two_split_builder(image_model, IMAGES, Y[:400], (Y[400:] + 1) % 3),
    "lists of names": named_classes_builder({"classes": NAMES}, {"classes": NAMES[::-1]}),
    "maps of names": named_classes_builder(
        {"class_to_idx": {"a": 0, "b": 1, "c": 2}}, {"class_to_idx": {"b": 0, "c": 1}}
    ),
    "hidden folder": named_classes_builder({"classes": [".ipynb_checkpoints", "a", "b"]}, {}),
}
EQUAL_CLASS_MAPS: dict[str, Callable[[], Setup]] = {
    "the same": two_split_builder(network(3), X, Y[:400], Y[400:]),
    "the same names": named_classes_builder({"classes": NAMES}, {"classes": NAMES}),
    "fewer classes at the end": named_classes_builder({"classes": NAMES}, {"classes": NAMES[:2]}),
    "names in training only": named_classes_builder({"class_to_idx": {"a": 0, "b": 1, "c": 2}}, {}),
    "another domain": two_split_builder(network(3), torch.cat([X[:400], X[400:] * 3 + 2]), Y[:400], Y[400:]),
    "sizes by name": named_classes_builder({"shape": {"height": 8, "width": 9}}, {"shape": {"height": 8, "width": 9}}),
}


class _TwoInputs(nn.Module):
    """Embeds both inputs of a pair by the same layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 8)

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        return self.layer(first), self.layer(second)


def hinge(output: Tensor, target: Tensor) -> Tensor:
    return (1 - output.squeeze(1) * target.reshape(-1)).clamp(min=0).mean()


def signs_setup(loss: str, splits: str, labels: Callable[[Tensor], Tensor]) -> Setup:
    """Setup of targets of -1 and 1, whose order is random in the splits that are named."""
    first, second = X, torch.where(Y[:, None] > 0, X, -X) + 0.2 * torch.randn(800, 4, generator=GENERATOR)
    related = (2 * (Y > 0).long() - 1) if loss == "pairs" else (X[:, 0] + X[:, 1] * X[:, 2]).sign().long()
    parts = {"train": slice(0, 400), "val": slice(400, 800)}
    loaders = []
    for split, rows in parts.items():
        y = labels(related[rows][PERMUTATION] if split in splits else related[rows])
        inputs = (first[rows], second[rows]) if loss == "pairs" else (first[rows],)
        loaders.append(DataLoader(TensorDataset(*inputs, y), 32))
    losses: dict[str, Any] = {
        "pairs": lambda output, target: nn.CosineEmbeddingLoss()(*output, target),
        "hinge": hinge,
        "logistic": lambda output, target: F.softplus(-output.squeeze(1) * target.reshape(-1)).mean(),
        "squared": nn.MSELoss(),
        "margin": lambda output, target: nn.SoftMarginLoss()(output.squeeze(1), target),
    }
    return Setup(_TwoInputs() if loss == "pairs" else nn.Linear(4, 1), *loaders, loss_fn=losses[loss])


def in_a_column(labels: Tensor) -> Tensor:
    return labels.float()[:, None]


SIGNS = [("pairs", Tensor.float), ("hinge", Tensor.float), ("hinge", in_a_column), ("logistic", Tensor.long)]
SIGNS += [("squared", in_a_column), ("margin", Tensor.float)]


@pytest.mark.parametrize(("loss", "labels"), SIGNS)
@pytest.mark.parametrize("split", ["train", "val"])
def test_signs_unrelated_to_inputs_are_an_error(loss: str, labels: Callable[[Tensor], Tensor], split: str) -> None:
    (finding,) = rule_faults(signs_setup(loss, split, labels), "D105")
    assert finding.evidence["split"] == split


@pytest.mark.parametrize(("loss", "labels"), SIGNS)
@pytest.mark.parametrize("splits", ["", "train val"])
def test_signs_of_the_same_relation_in_both_splits_are_quiet(
    loss: str, labels: Callable[[Tensor], Tensor], splits: str
) -> None:
    setup = signs_setup(loss, splits, labels)
    assert [*rule_faults(setup, "D105"), *rule_faults(setup, "D125")] == []


def test_missing_labels_of_minus_one_are_no_class() -> None:
    missing = torch.rand(800, generator=torch.Generator().manual_seed(3)) < 0.3
    labels = Y.where(~missing, -1)
    setup = two_split_builder(network(3), X, labels[:400], labels[400:], nn.CrossEntropyLoss(ignore_index=-1))()
    assert not Measurements(setup)["label_probe"].has_signs
    assert rule_faults(setup, "D105") == []


@pytest.mark.parametrize("name", UNRELATED_LABELS)
def test_labels_unrelated_to_inputs_are_an_error(name: str) -> None:
    (finding,) = rule_faults(UNRELATED_LABELS[name](), "D105")
    assert finding.severity == "error"


@pytest.mark.parametrize("name", RELATED_LABELS)
def test_labels_unrelated_with_related_or_unlearnable_labels_is_quiet(name: str) -> None:
    assert rule_faults(RELATED_LABELS[name](), "D105") == []


@pytest.mark.parametrize("name", DIFFERENT_CLASS_MAPS)
def test_class_map_mismatch_of_different_class_numbers_is_an_error(name: str) -> None:
    (finding,) = rule_faults(DIFFERENT_CLASS_MAPS[name](), "D125")
    assert finding.severity == "error"


@pytest.mark.parametrize("name", EQUAL_CLASS_MAPS)
def test_class_map_mismatch_of_consistent_class_numbers_is_quiet(name: str) -> None:
    assert rule_faults(EQUAL_CLASS_MAPS[name](), "D125") == []


def test_labels_of_which_few_belong_to_their_inputs_are_an_error() -> None:
    x, y = (torch.tensor(part)[:900] for part in load_digits(return_X_y=True))
    other_labels = y[:500][torch.randperm(500, generator=torch.Generator().manual_seed(2))]
    is_right = torch.arange(500) % 5 == 0
    train = TensorDataset(x[:500].float(), torch.where(is_right, y[:500], other_labels))
    loaders = [DataLoader(data, 50) for data in (train, TensorDataset(x[500:].float(), y[500:]))]
    (finding,) = rule_faults(Setup(nn.Linear(64, 10), *loaders, loss_fn=CE), "D105")
    assert finding.message.startswith("The train labels have almost no relation to the inputs")
    assert finding.evidence["sigma"] > 2


def test_labels_unrelated_in_both_splits_is_a_note_with_assumption() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.tensor(load_digits().data[:800], dtype=torch.float32)
    y = torch.randint(0, 10, (800,), generator=generator)
    loaders = [DataLoader(TensorDataset(x[i : i + 400], y[i : i + 400]), 50) for i in (0, 400)]
    setup = Setup(nn.Linear(x.shape[1], 10), *loaders, loss_fn=CE)
    findings = rule_registry.find_rule("D105")(Measurements(setup))
    assert [(finding.severity, finding.assumes) for finding in findings] == [("note", (LABELS_UNRELATED,))]


def test_disproved_assumptions_of_record_without_scores_keep_labels_unrelated() -> None:
    assert LABELS_UNRELATED not in disproved_assumptions(LoopSummary(), Record())


def chosen_value_loss(values: Tensor, action: Tensor) -> Tensor:
    return F.smooth_l1_loss(values.gather(1, action.view(-1, 1)), torch.zeros(len(values), 1))


@pytest.mark.parametrize("loss_fn", [nn.SmoothL1Loss(), chosen_value_loss])
@pytest.mark.parametrize("shape", [(400,), (400, 1)])
def test_labels_unrelated_of_actions_that_index_values_is_quiet(loss_fn: Any, shape: tuple[int, ...]) -> None:
    state = torch.randn(400, 2, generator=torch.Generator().manual_seed(5))
    action = torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(6))
    data = TensorDataset(state, action, -state.abs().sum(1, keepdim=True), state.roll(1, 0))
    setup = Setup(nn.Linear(2, 2), DataLoader(data, 50), loss_fn=loss_fn)
    findings = rule_registry.find_rule("D105")(Measurements(setup))
    assert findings == []


def test_a_class_of_few_samples_with_the_highest_number_does_not_stop_the_probe() -> None:
    related = (X[:, 0] > 0).long()
    order = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    related[order[-1]] = 2  # in none of the rows that the probe draws
    setup = two_split_builder(network(3), X, related[:400], related[400:])()
    probe = Measurements(setup)["label_probe"]
    assert probe.within["train"].is_detectable
    assert rule_faults(setup, "D105") == rule_faults(setup, "D125") == []


@pytest.mark.parametrize("is_related", [True, False])
def test_labels_unrelated_of_targets_with_outliers_in_one_split(*, is_related: bool) -> None:
    values = TARGETS[:, :1] if is_related else TARGETS[PERMUTATION.repeat(2)][:, :1]
    train, val = values[:400].clone(), TARGETS[400:, :1]
    train[::130] = 100.0
    findings = rule_faults(two_split_builder(nn.Linear(4, 1), X, train, val, MSE)(), "D105")
    assert len(findings) == (not is_related)
