"""Tests of D109 (other units), D110 (other class frequencies) and D119 (missing class) between two splits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.measurements import Measurements
from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from tests.rules.rule_findings import fault_messages, rule_findings

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(400, 4, generator=GENERATOR)
Y = (X @ torch.randn(4, 3, generator=GENERATOR)).argmax(1)
TARGETS = X.sum(1, keepdim=True)
IMAGES = torch.rand(200, 3, 6, 6, generator=GENERATOR) * torch.tensor([0.9, 0.6, 0.3])[:, None, None]
SPARSE_IMAGES = (IMAGES - 0.3).relu()
SERIES = (0.1 * torch.randn(600, 2, generator=GENERATOR)).cumsum(0)
WINDOWS = torch.stack([SERIES[i : i + 12] for i in range(580)])
Split = tuple[Tensor, Tensor]


class TransformedSamples(Dataset[Any]):
    """Samples that a function transforms."""

    def __init__(self, split: Split, transform: Callable[[Tensor], Tensor]) -> None:
        self.split, self.transform = split, transform

    def __len__(self) -> int:
        return len(self.split[0])

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input": self.transform(self.split[0][index]), "label": self.split[1][index]}


def two_split_setup(train: Split, val: Split, model: nn.Module | None = None, loss_fn: Any = None) -> Setup:
    loaders = [DataLoader(TensorDataset(*split), 20) for split in (train, val)]
    return Setup(model or network(3), *loaders, loss_fn=loss_fn or nn.CrossEntropyLoss())


def transform_setup(train: Callable[[Tensor], Tensor], val: Callable[[Tensor], Tensor]) -> Setup:
    datasets = TransformedSamples((X[:300], Y[:300]), train), TransformedSamples((X[300:], Y[300:]), val)
    return Setup(network(3), *(DataLoader(split, 20) for split in datasets), loss_fn=nn.CrossEntropyLoss())


def image_setup(val: Tensor, train: Tensor = IMAGES[:120]) -> Setup:
    labels = torch.arange(200) % 2
    head = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 2))
    return two_split_setup((train, labels[:120]), (val, labels[120:]), head)


def regression_setup(scale: float) -> Setup:
    return two_split_setup((X[:300], TARGETS[:300]), (X[300:], scale * TARGETS[300:]), network(1), nn.MSELoss())


def augment(x: Tensor) -> Tensor:
    return x * (0.7 + 0.6 * torch.rand(1)) + 0.2 * torch.randn(4)


UNITS = torch.tensor([0.01, 300.0, 0.02, 50.0])


def standardized(values: Tensor) -> Tensor:
    return (values - values.mean(0)) / values.std(0)


def measured_setup(measured: Tensor, is_val_standardized: bool = False) -> Setup:
    """Measurements that are standardized in training."""
    train, val = standardized(measured[:300]), measured[300:]
    val = (val - measured[:300].mean(0)) / measured[:300].std(0) if is_val_standardized else val
    return two_split_setup((train, Y[:300]), (val, Y[300:]))


def trending_table() -> Setup:
    time = torch.linspace(0, 1, 400)[:, None]
    return measured_setup(X * torch.tensor([0.01, 0.02, 0.5, 1.0]) + time * torch.tensor([3.0, 1.0, -2.0, 0.0]), True)


def drifting_series() -> Setup:
    model = nn.Sequential(nn.Flatten(), nn.Linear(24, 1))
    target = WINDOWS[:, -1, :1] + 1
    return two_split_setup((WINDOWS[:400], target[:400]), (WINDOWS[412:], target[412:]), model, nn.MSELoss())


def padded_series() -> Setup:
    """Waves of 10 to 40 steps, padded to the longest one in training and to 120 steps in validation."""
    lengths = torch.randint(10, 41, (400, 1), generator=torch.Generator().manual_seed(4))
    waves = (torch.arange(120) * 0.7 + X[:, :1]).sin().where(torch.arange(120) < lengths, 0.0)[:, :, None]
    model = nn.Sequential(nn.AdaptiveAvgPool2d((4, 1)), nn.Flatten(), nn.Linear(4, 3))
    return two_split_setup((waves[:300, :40], Y[:300]), (waves[300:], Y[300:]), model)


def column_setup(train: list[float], val: list[float]) -> Setup:
    """A feature, and a column that has one of two values in each row."""
    group = (torch.arange(400) % 3 == 0).long()
    column = torch.cat([torch.tensor(train)[group[:300]], torch.tensor(val)[group[300:]]])
    x = torch.stack([X[:, 0], column], 1)
    return two_split_setup((x[:300], Y[:300]), (x[300:], Y[300:]), nn.Linear(2, 3))


OTHER_UNITS: dict[str, Callable[[], Setup]] = {
    "only training normalized": lambda: transform_setup(lambda x: (x - 0.5) / 0.2, lambda x: x),
    "divided in training only": lambda: transform_setup(lambda x: x / 255, lambda x: x),
    "columns scaled by their own range": lambda: two_split_setup(
        (X[:300], Y[:300]), ((X[300:] - X.min(0).values) / (X.max(0).values - X.min(0).values), Y[300:])
    ),
    "only training standardized": lambda: measured_setup(UNITS * (X + torch.tensor([20.0, 1.0, 40.0, 15.0]))),
    "only training standardized, means of zero": lambda: measured_setup(UNITS * X),
    "targets in thousands": lambda: regression_setup(1000.0),
    "only training centered": lambda: image_setup(SPARSE_IMAGES[120:] - SPARSE_IMAGES.mean(), SPARSE_IMAGES[:120]),
    "reversed channels": lambda: image_setup(IMAGES[120:].flip(1)),
    "flags of other values": lambda: column_setup([0.0, 1.0], [2.0, 3.0]),
}
SAME_UNITS: dict[str, Callable[[], Setup]] = {
    "augmented training": lambda: transform_setup(augment, lambda x: x),
    "background of both": lambda: image_setup(SPARSE_IMAGES[120:], SPARSE_IMAGES[:120]),
    "same channels": lambda: image_setup(IMAGES[120:]),
    "a series that drifts": drifting_series,
    "a table with a trend": trending_table,
    "series that are padded to other lengths": padded_series,
    "standardized by the training split": lambda: measured_setup(UNITS * (X + 20), True),
    "targets a little wider": lambda: regression_setup(1.5),
    "weights of two groups, normalized in each split": lambda: column_setup([1.0, 3.0], [3.02, 0.98]),
}


@pytest.mark.parametrize("name", OTHER_UNITS)
def test_split_shift_of_other_units_is_reported(name: str) -> None:
    assert len(fault_messages(OTHER_UNITS[name](), "D109")) == 1


@pytest.mark.parametrize(
    ("setup", "cause", "fix"),
    [
        (measured_setup(UNITS * (X + 20)), "The training rows are standardized", "to the validation rows"),
        (
            two_split_setup((7 * X[:300] + 99, Y[:300]), (standardized(X[300:]), Y[300:])),
            "The validation rows are standardized",
            "to the training rows",
        ),
        (two_split_setup((7 * X[:300], Y[:300]), (90 * X[300:], Y[300:])), "One split was preprocessed", "x_val"),
    ],
    ids=["training", "validation", "neither"],
)
def test_split_shift_names_the_split_that_is_standardized(setup: Setup, cause: str, fix: str) -> None:
    (finding,) = rule_findings(setup, "D109")
    assert finding.cause.startswith(cause)
    assert fix in finding.fix


def test_split_shift_of_unequal_units_states_the_ranges_of_ratios_and_shifts() -> None:
    measured = UNITS * 300 * (X + 3)
    train, val = standardized(measured[:300]), measured[300:]
    (finding,) = rule_findings(two_split_setup((train, Y[:300]), (val, Y[300:])), "D109")
    deviations = [(side - side.mean(0)).abs().mean(0) for side in (train, val)]
    ratios, shifts = deviations[1] / deviations[0], (val.mean(0) - train.mean(0)).abs() / deviations[0]
    stated = [f"{float(f'{float(value):.3g}'):,g}" for side in (ratios, shifts) for value in (side.min(), side.max())]
    assert " to ".join(stated[:2]) in finding.message
    assert " to ".join(stated[2:]) in finding.message


@pytest.mark.parametrize("name", SAME_UNITS)
def test_split_shift_of_drift_or_augmentation_is_quiet(name: str) -> None:
    assert fault_messages(SAME_UNITS[name](), "D109") == []


@pytest.mark.parametrize(
    ("level", "text"),
    [([0.6, 0.3, 0.0], "have their channels in reverse order"), ([0.0, 0.0, 0.0], "in reverse order, the learner")],
)
def test_reversed_channels_are_no_other_numbers_of_classes(level: list[float], text: str) -> None:
    labels = torch.arange(600) % 3
    images = torch.rand(600, 3, 4, 4, generator=torch.Generator().manual_seed(1))
    images += torch.tensor(level)[:, None, None]
    images[torch.arange(600), labels, 1:3, 1:3] += 1
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 3))
    setup = two_split_setup((images[:300], labels[:300]), (images[300:].flip(1), labels[300:]), model)
    (finding,) = Debugger.of(setup).checkup(select=["D109", "D125"]).faults
    assert finding.code == "D109"
    assert text in finding.message
    renumbered = two_split_setup((images[:300], labels[:300]), (images[300:], (labels[300:] + 1) % 3), model)
    assert "D125" in [item.code for item in Debugger.of(renumbered).checkup(select=["D109", "D125"]).faults]


def scaled_to_thousands(target: Tensor) -> Tensor:
    return target / 1000


def test_split_shift_finding_names_the_scaling_line() -> None:
    datasets = TensorDataset(X[:300], scaled_to_thousands(TARGETS[:300])), TensorDataset(X[300:], TARGETS[300:])

    def squared_error(output: Tensor, target: Tensor) -> Tensor:
        return nn.functional.mse_loss(output, target)

    setup = Setup(network(1), *(DataLoader(split, 20) for split in datasets), loss_fn=squared_error)
    assert [finding.where.source for finding in rule_findings(setup, "D109")] == ["    return target / 1000"]


def ordered_split(order: Tensor) -> Setup:
    return two_split_setup((X[order[:300]], Y[order[:300]]), (X[order[300:]], Y[order[300:]]))


def class_count_setup(train: list[int], val: list[int]) -> Setup:
    labels = [torch.repeat_interleave(torch.arange(3), torch.tensor(counts)) for counts in (train, val)]
    return two_split_setup(*((torch.randn(len(y), 4), y) for y in labels))


@pytest.mark.parametrize("code", ["D110", "D119"])
def test_split_with_unlabeled_samples_is_not_compared(code: str) -> None:
    known = torch.where(torch.arange(300) % 4 == 0, torch.where(Y[:300] == 2, 2, -1), -1)  # positives and unlabeled
    assert not fault_messages(two_split_setup((X[:300], known), (X[300:], Y[300:])), code)
    assert fault_messages(two_split_setup((X[:300][known == 2], known[known == 2]), (X[300:], Y[300:])), "D119")


# By name: the labels of both splits, the severity of D119, and a part of its cause.
MISSING: dict[str, tuple[Tensor, Tensor, str, str]] = {
    "unlabeled samples of another domain": (Y[:300], torch.zeros(100).long(), "note", "placeholder"),
    "one class for all": (Y[:300], torch.ones(100).long(), "note", "placeholder"),
    "sorted, the last class for validation": (
        Y[:300].clamp(max=1).sort()[0],
        torch.ones(100).long(),
        "warning",
        "sorted by class and were probably split",
    ),
    "sorted from the last class on": (
        Y[:300].sort(descending=True)[0],
        torch.zeros(100).long(),
        "warning",
        "sorted by class and were probably split",
    ),
    "classes from different sources": (Y[:300], Y[:100].clamp(max=1), "warning", "different sources"),
    "new class": (Y[:300].clamp(max=1), torch.full((100,), 2), "warning", "different sources"),
}


def test_d110_cause_names_no_order_that_was_not_measured() -> None:
    (finding,) = rule_findings(class_count_setup([200, 80, 20], [20, 30, 60]), "D110")
    assert "Possible causes are" in finding.cause


@pytest.mark.parametrize("name", MISSING)
def test_d119_cause_is_what_the_order_of_the_labels_shows(name: str) -> None:
    train, val, severity, cause = MISSING[name]
    findings = rule_findings(two_split_setup((X[:300], train), (X[300:], val)), "D119")
    assert findings
    assert all(finding.severity == severity and cause in finding.cause for finding in findings)


def counted_split(train: list[int], val: list[int]) -> Setup:
    """Return a setup whose splits have these numbers of samples of each class, in random order."""
    labels = [torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts)) for counts in (train, val)]
    generator = torch.Generator().manual_seed(0)
    splits = [(torch.randn(len(y), 4), y[torch.randperm(len(y), generator=generator)]) for y in labels]
    return two_split_setup(*splits)


# Validation lacks classes: the numbers of samples of each class in training and in validation.
LEFT_OUT: dict[str, tuple[list[int], list[int]]] = {
    "first of six": ([220, 230, 240, 250, 260, 265], [0, 92, 97, 99, 105, 107]),
    "middle of five": ([100, 100, 100, 100, 100], [30, 27, 0, 33, 31]),
    "two of seven": ([90, 60, 90, 60, 90, 60, 90], [0, 21, 31, 0, 28, 19, 30]),
    "last but one": ([400, 200, 300, 100], [81, 39, 0, 21]),
    "rare classes beside it": ([500, 40, 300, 20], [0, 9, 62, 4]),
}
# Each with what is wrong: it may not be a note.
MISSING_BY_MISTAKE: dict[str, tuple[list[int], list[int]]] = {
    "last class, so that the others may be numbered again": ([220, 230, 240, 250], [60, 57, 63, 0]),
    "first class merged with the second": ([100, 100, 100, 100], [0, 80, 38, 41]),
    "sorted, the last classes": ([100, 100, 60, 10], [0, 0, 40, 80]),
    "sorted the other way": ([0, 30, 100, 100], [100, 70, 0, 0]),
    "other class in training": ([0, 100, 100, 100, 100], [30, 0, 30, 30, 30]),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_d119_of_a_class_that_validation_data_of_another_source_do_not_have_is_a_note(name: str) -> None:
    (finding,) = rule_findings(counted_split(*LEFT_OUT[name]), "D119")
    assert finding.severity == "note"
    assert "shares of the other classes agree" in finding.cause


@pytest.mark.parametrize("name", MISSING_BY_MISTAKE)
def test_d119_of_a_class_that_a_mistake_may_leave_out_is_a_warning(name: str) -> None:
    findings = rule_findings(counted_split(*MISSING_BY_MISTAKE[name]), "D119")
    assert findings
    assert all(finding.severity == "warning" for finding in findings)


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda: ordered_split(torch.argsort(Y)), "D119"),
        (lambda: ordered_split(torch.argsort(Y)), "D110"),
        (lambda: ordered_split(torch.argsort(Y + 1.5 * torch.rand(400, generator=GENERATOR))), "D110"),
        (lambda: class_count_setup([100, 100, 0], [30, 30, 30]), "D119"),
        (lambda: class_count_setup([100, 100, 100], [30, 40, 0]), "D119"),
        (lambda: class_count_setup([200, 80, 20], [20, 30, 60]), "D110"),
    ],
    ids=[
        "sorted, missing class",
        "sorted, other frequencies",
        "nearly sorted",
        "class not in training",
        "class not in validation",
        "other frequencies",
    ],
)
def test_label_shift_or_missing_class_of_a_split_by_class_is_reported(build: Callable[[], Setup], code: str) -> None:
    assert fault_messages(build(), code)


@pytest.mark.parametrize(
    "build",
    [
        lambda: ordered_split(torch.randperm(400, generator=GENERATOR)),
        lambda: class_count_setup([100, 100, 100], [300, 60, 15]),
        lambda: class_count_setup([300, 60, 15], [30, 30, 30]),
        lambda: class_count_setup([200, 100, 2], [60, 30, 0]),
        lambda: class_count_setup([200, 100, 50], [40, 28, 12]),
    ],
    ids=["shuffled", "balanced training", "balanced validation", "two of a class", "about the same"],
)
def test_label_shift_and_missing_class_of_random_or_balanced_splits_are_quiet(build: Callable[[], Setup]) -> None:
    setup = build()
    assert fault_messages(setup, "D110") + fault_messages(setup, "D119") == []


SCALED_COLUMNS = X * torch.tensor([1.0, 3.0, 0.5, 2.0]) + torch.tensor([0.0, 4.0, -2.0, 1.0])


@pytest.mark.parametrize("order", [[1, 0, 2, 3], [3, 2, 1, 0], [1, 2, 3, 0]])
def test_split_shift_names_order_of_columns(order: list[int]) -> None:
    setup = two_split_setup((SCALED_COLUMNS[:300], Y[:300]), (SCALED_COLUMNS[300:][:, order], Y[300:]))
    (finding,) = rule_findings(setup, "D109")
    restored = [order[i] for i in eval(finding.fix.partition("[:, ")[2].partition("]]")[0] + "]")]
    assert "another order" in finding.message
    assert restored == [0, 1, 2, 3]


@pytest.mark.parametrize("shift", [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 2.0, 2.0], [1.0, 0.0, -1.0, 0.0]])
def test_split_shift_of_drifting_columns_names_no_order(shift: list[float]) -> None:
    setup = two_split_setup((SCALED_COLUMNS[:300], Y[:300]), (SCALED_COLUMNS[300:] + torch.tensor(shift), Y[300:]))
    assert not any("another order" in finding.message for finding in rule_findings(setup, "D109"))


WORDS = torch.randint(0, 40, (900, 12), generator=torch.Generator().manual_seed(3))
TONES = ((WORDS < 12).sum(1) > (WORDS >= 28).sum(1)).long()
RENUMBERED = torch.randperm(40, generator=torch.Generator().manual_seed(4))


def word_setup(val_words: Tensor, val_labels: Tensor = TONES[600:]) -> Setup:
    """Texts of two tones; validation words as they are passed."""
    model = nn.Sequential(nn.EmbeddingBag(40, 8), nn.Linear(8, 2))
    return two_split_setup((WORDS[:600], TONES[:600]), (val_words, val_labels), model, nn.CrossEntropyLoss())


def test_split_shift_of_words_that_validation_numbers_by_another_vocabulary_is_reported() -> None:
    (finding,) = rule_findings(word_setup(RENUMBERED[WORDS[600:]]), "D109")
    assert "vocabulary" in finding.cause
    across, inside = finding.evidence["across"], finding.evidence["inside"]
    assert f"{across:.0%}" in finding.message
    assert f"{inside:.0%}" in finding.message
    assert inside > across + 0.1


def test_split_shift_of_one_vocabulary_is_quiet_also_if_validation_labels_are_noisy() -> None:
    noisy = torch.where(torch.rand(300, generator=torch.Generator().manual_seed(5)) < 0.3, 1 - TONES[600:], TONES[600:])
    assert rule_findings(word_setup(WORDS[600:]), "D109") == []
    assert rule_findings(word_setup(WORDS[600:], noisy), "D109") == []


def own_cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    return (scores.logsumexp(1) - scores.gather(1, labels[:, None])[:, 0]).mean()


@pytest.mark.parametrize("is_renumbered", [True, False])
@pytest.mark.parametrize("keys", [(), ("ids", "to")])
def test_split_shift_of_words_in_lists_of_samples_with_a_loss_of_the_users_own(
    is_renumbered: bool, keys: tuple[str, ...]
) -> None:
    val_words = RENUMBERED[WORDS[600:]] if is_renumbered else WORDS[600:]
    parts = [(WORDS[:600], TONES[:600].tolist()), (val_words, TONES[600:].tolist())]
    train, val = (
        [dict(zip(keys, pair, strict=True)) if keys else pair for pair in zip(*p, strict=True)] for p in parts
    )
    loaders = DataLoader(train, 20, shuffle=True), DataLoader(val, 20)  # type: ignore[arg-type]
    model = nn.Sequential(nn.EmbeddingBag(40, 8), nn.Linear(8, 2))
    findings = rule_findings(Setup(model, *loaders, loss_fn=own_cross_entropy), "D109")
    assert len(findings) == is_renumbered


def token_splits(unknown_share: float) -> tuple[Split, Split]:
    """Sentences of different lengths, padded with zeros; a share of the validation words is unknown, token 1."""
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(2, 60, (300, 12), generator=generator)
    is_unknown = (
        torch.rand(300, 12, generator=generator) < torch.where(torch.arange(300) < 200, 0.02, unknown_share)[:, None]
    )
    lengths = torch.where(torch.arange(300) < 200, 10, 5)  # validation has more padding
    tokens = tokens.masked_fill(is_unknown, 1).masked_fill(torch.arange(12) >= lengths[:, None], 0)
    labels = tokens[:, 0] % 3
    return (tokens[:200], labels[:200]), (tokens[200:], labels[200:])


def test_split_shift_of_validation_words_that_are_unknown_names_their_token() -> None:
    model = nn.Sequential(nn.Embedding(60, 4), nn.Flatten(), nn.Linear(48, 3))
    train, val = token_splits(0.6)
    (finding,) = rule_findings(two_split_setup(train, val, model), "D109")
    counts = [int((tokens == 1).sum()) / int((tokens > 0).sum()) for tokens in (val[0], train[0])]
    assert f"{counts[0]:.1%} of the validation tokens and {counts[1]:.1%} of the training tokens" in finding.message
    assert rule_findings(two_split_setup(*token_splits(0.05), model), "D109") == []


def test_split_shift_of_large_identifiers_needs_no_memory_for_each_possible_token() -> None:
    identifiers = torch.randint(0, 10**12, (300, 4), generator=torch.Generator().manual_seed(0))
    labels = torch.arange(300) % 3
    setup = two_split_setup((identifiers[:200], labels[:200]), (identifiers[200:], labels[200:]), Remainders())
    assert rule_findings(setup, "D109") == []


class Remainders(nn.Module):
    """Scores of the remainders of whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, identifiers: Tensor) -> Tensor:
        return self.head((identifiers % 7).float())


@pytest.mark.parametrize("padding", [0.0, -1.0, 2.0])
def test_units_of_sequences_are_compared_without_padding_to_another_length_in_each_split(padding: float) -> None:
    generator = torch.Generator().manual_seed(1)
    values, lengths = torch.randn(400, 40, 3, generator=generator), torch.randint(6, 12, (400, 1), generator=generator)
    lengths[:300] += 26  # in training
    padded = values.masked_fill((torch.arange(40) >= lengths)[:, :, None], padding)
    labels = (values[:, 0, 0] > 0).long()
    model = nn.Sequential(nn.AdaptiveAvgPool2d((1, 3)), nn.Flatten(), nn.Linear(3, 2))
    train, val = (padded[:300], labels[:300]), (padded[300:, :12], labels[300:])
    (units,) = Measurements(two_split_setup(train, val, model))["unit_comparisons"]
    assert abs(units.scale_factor - 1) < 0.1
    assert units.mean_shift < 0.1
