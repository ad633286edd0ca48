"""Tests of the table and the sample losses that collect_predictions chooses for a task."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import SetupError
from nbdebug.predictions import ClassificationTable
from nbdebug.predictions.collection import collect_predictions
from nbdebug.predictions.multilabel import MultiLabelTable
from nbdebug.predictions.regression import ReconstructionTable, RegressionTable
from nbdebug.predictions.segmentation import SegmentationTable
from nbdebug.predictions.sequences import SequenceTable
from nbdebug.predictions.table import PredictionTable
from nbdebug.setup import Setup

ROWS = 10


class EchoModel(nn.Module):
    """Returns its input, times a weight of one, in another shape."""

    def __init__(self, transform: Callable[[Tensor], Any] = lambda x: x) -> None:
        super().__init__()
        self.weight, self.transform = nn.Parameter(torch.ones(())), transform

    def forward(self, x: Tensor) -> Any:
        return self.transform(x * self.weight)


def collect(
    x: Tensor, target: Tensor, loss: Any, transform: Callable[[Tensor], Any] = lambda x: x, **options: Any
) -> PredictionTable:
    loader = DataLoader(TensorDataset(x, target), 4)
    table = collect_predictions(Setup(EchoModel(transform), loader, loss_fn=loss, **options), loader)
    assert table.index.tolist() == list(range(ROWS))
    assert len(table) == ROWS
    assert table.headline()
    return table


def random_floats(*shape: int) -> Tensor:
    return torch.randn(ROWS, *shape, generator=torch.Generator().manual_seed(0))


def random_integers(limit: int, *shape: int) -> Tensor:
    return torch.randint(limit, (ROWS, *shape), generator=torch.Generator().manual_seed(1))


WEIGHT = torch.tensor([1.0, 2.0, 3.0])
CROSS_ENTROPY = nn.CrossEntropyLoss()
BINARY_LOSS = nn.BCEWithLogitsLoss()
CASES: dict[str, tuple[Tensor, Tensor, Any, type[PredictionTable]]] = {
    "classes": (random_floats(3), random_integers(3), CROSS_ENTROPY, ClassificationTable),
    "classes with target axis": (
        random_floats(3),
        random_integers(3, 1),
        lambda o, t: F.cross_entropy(o, t[:, 0]),
        ClassificationTable,
    ),
    "one logit": (random_floats(1), random_integers(2, 1).float(), BINARY_LOSS, ClassificationTable),
    "one flat logit": (random_floats(), random_integers(2).float(), BINARY_LOSS, ClassificationTable),
    "one probability": (random_floats().sigmoid(), random_integers(2).float(), nn.BCELoss(), ClassificationTable),
    "labels": (random_floats(4), random_integers(2, 4).float(), BINARY_LOSS, MultiLabelTable),
    "label probabilities": (
        random_floats(4).sigmoid(),
        random_integers(2, 4).float(),
        F.binary_cross_entropy,
        MultiLabelTable,
    ),
    "number": (random_floats(1), random_floats(1) + 1, nn.MSELoss(), RegressionTable),
    "flat number": (random_floats(), random_floats() + 1, nn.L1Loss(), RegressionTable),
    "numbers": (random_floats(3), random_floats(3) + 1, F.huber_loss, RegressionTable),
    "map of numbers": (random_floats(1, 9, 9), random_floats(1, 9, 9) + 1, nn.MSELoss(), ReconstructionTable),
    "input as target": (random_floats(1, 9, 9), random_floats(1, 9, 9), nn.MSELoss(), ReconstructionTable),
    "pixels": (random_floats(3, 6, 5), random_integers(3, 6, 5), CROSS_ENTROPY, SegmentationTable),
    "mask": (random_floats(1, 6, 5), random_integers(2, 1, 6, 5).float(), BINARY_LOSS, SegmentationTable),
    "flat mask": (random_floats(6, 5), random_integers(2, 6, 5).float(), BINARY_LOSS, SegmentationTable),
    "voxels": (random_floats(3, 2, 6, 5), random_integers(3, 2, 6, 5), CROSS_ENTROPY, SegmentationTable),
    "tags": (random_floats(3, 7), random_integers(3, 7), CROSS_ENTROPY, SequenceTable),
    "as many tags as tokens": (random_floats(7, 7), random_integers(7, 7), CROSS_ENTROPY, SequenceTable),
    "soft classes": (random_floats(3), random_floats(3).softmax(1), CROSS_ENTROPY, ClassificationTable),
}


@pytest.mark.parametrize("name", CASES)
def test_collect_predictions_builds_table_of_task_with_user_loss(name: str) -> None:
    x, target, loss, table_class = CASES[name]
    table = collect(x, target, loss)
    assert type(table) is table_class
    expected = [float(loss(x[i : i + 1], target[i : i + 1])) for i in range(ROWS)]
    np.testing.assert_allclose(table.columns["loss"], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "loss",
    [
        nn.CrossEntropyLoss(weight=WEIGHT, label_smoothing=0.1, reduction="sum"),
        partial(F.cross_entropy, weight=WEIGHT, reduction="sum"),
    ],
    ids=["module", "function"],
)
def test_sample_losses_include_class_weights_and_label_smoothing(loss: Any) -> None:
    x, target = random_floats(3), random_integers(3)
    expected = [float(loss(x[i : i + 1], target[i : i + 1])) for i in range(ROWS)]
    np.testing.assert_allclose(collect(x, target, loss).columns["loss"], expected, rtol=1e-5)
    target[2] = -100
    table = collect(x, target, loss)
    assert np.isnan(table.columns["loss"]).tolist() == [i == 2 for i in range(ROWS)]


class FocalLoss(nn.Module):
    """A custom loss with a reduction option, which may return inconsistent values for "none"."""

    def __init__(self, reduction: str = "mean", is_consistent: bool = True) -> None:
        super().__init__()
        self.reduction, self.is_consistent = reduction, is_consistent

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        sample_losses = (1 - output.softmax(1).gather(1, target[:, None])[:, 0]) ** 2 * F.cross_entropy(
            output, target, reduction="none"
        )
        if self.reduction == "none":
            return sample_losses if self.is_consistent else sample_losses * 7
        return sample_losses.mean()


def test_sample_losses_use_custom_loss_only_with_consistent_reduction() -> None:
    x, target = random_floats(3), random_integers(3)
    cross_entropy = F.cross_entropy(x, target, reduction="none").numpy()
    focal_table = collect(x, target, FocalLoss())
    np.testing.assert_allclose(focal_table.columns["loss"], FocalLoss("none")(x, target).numpy(), rtol=1e-6)
    assert not any("your own loss" in note for note in focal_table.notes)
    for loss in (FocalLoss(is_consistent=False), lambda output, target: F.cross_entropy(output, target)):
        table = collect(x, target, loss)
        np.testing.assert_allclose(table.columns["loss"], cross_entropy, rtol=1e-5)
        assert "the loss is cross-entropy: your own loss function has no per-sample value" in table.notes


def test_task_detection_of_tokens_accepts_all_layouts() -> None:
    x, target = random_floats(7, 3), random_integers(3, 7)
    expected = SequenceTable.from_arrays(x, target).columns
    second_axis_table = collect(x, target, CROSS_ENTROPY, lambda x: x.transpose(1, 2))
    last_axis_table = collect(x, target, lambda o, t: F.cross_entropy(o.flatten(0, 1), t.flatten()))
    flat_table = collect(x, target, lambda o, t: F.cross_entropy(o, t.flatten()), lambda x: x.flatten(0, 1))
    for table in (second_axis_table, last_axis_table, flat_table):
        assert isinstance(table, SequenceTable)
        for name, values in expected.items():
            np.testing.assert_allclose(table.columns[name], values, rtol=1e-5)
        assert table.matrix.sum() == 7 * ROWS


def test_task_detection_of_time_first_tokens_uses_sampler() -> None:
    def collate_time_first(samples: list[Any]) -> Any:
        x, target = torch.utils.data.default_collate(samples)
        return x.transpose(0, 1), target.transpose(0, 1)

    x, target = random_floats(7, 3), random_integers(3, 7)
    loader = DataLoader(TensorDataset(x, target), 4, collate_fn=collate_time_first)
    loss = lambda o, t: F.cross_entropy(o.flatten(0, 1), t.flatten())  # noqa: E731
    table = collect_predictions(Setup(EchoModel(), loader, loss_fn=loss), loader)
    assert len(table) == len(table.index) == ROWS
    np.testing.assert_allclose(table.columns["loss"], SequenceTable.from_arrays(x, target).columns["loss"], rtol=1e-5)


class CausalModel(nn.Module):
    """Computes its own loss of the next token, as models of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(5, 8), nn.Linear(8, 5)

    def forward(self, input_ids: Tensor, labels: Tensor) -> Any:
        logits = self.head(self.embed(input_ids))
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return SimpleNamespace(loss=loss, logits=logits)


def test_task_detection_of_model_with_own_loss_is_next_token() -> None:
    torch.manual_seed(0)
    tokens = random_integers(5, 7)
    batches = [{"input_ids": chunk, "labels": chunk.clone()} for chunk in tokens.split(4)]
    model = CausalModel()
    table = collect_predictions(Setup(model, batches), batches)
    assert isinstance(table, SequenceTable)
    expected = [float(model(row[None], row[None]).loss.detach()) for row in tokens]
    np.testing.assert_allclose(table.columns["loss"], expected, rtol=1e-5)
    assert table.columns["tokens"].tolist() == [6] * ROWS


def test_task_detection_of_text_targets_is_classification() -> None:
    x = random_floats(3)
    names = ["cat", "cow", "dog"]
    labels = [names[i] for i in random_integers(3).tolist()]
    batches = [(x[:6], labels[:6]), (x[6:], labels[6:])]
    setup = Setup(EchoModel(), batches, loss_fn=lambda output, target: output.sum(), class_names=names)
    table = collect_predictions(setup, batches)
    assert [table.describe_row(i)["target"] for i in range(ROWS)] == labels
    assert table.target.tolist() == random_integers(3).tolist()


def test_soft_binary_targets_count_as_nearer_class() -> None:
    target = torch.linspace(0, 1, ROWS)
    table = collect(random_floats(), target, BINARY_LOSS)
    assert table.target.tolist() == (target >= 0.5).int().tolist()
    assert "8 targets lie between 0 and 1: the label is the nearer of the two" in table.notes


def test_collect_predictions_with_wrong_number_of_class_names_raises() -> None:
    for count in (2, 4):
        with pytest.raises(SetupError, match=f"class_names has {count} names; expected 3"):
            collect(random_floats(3), random_integers(3), CROSS_ENTROPY, class_names=list("abcd")[:count])
    with pytest.raises(SetupError, match="class_names has 2 names; expected 4"):
        collect(random_floats(4), random_integers(2, 4).float(), BINARY_LOSS, class_names=["a", "b"])
    with pytest.raises(SetupError, match="class_names has 2 names; expected 3"):
        collect(random_floats(3, 6, 5), random_integers(3, 6, 5), CROSS_ENTROPY, class_names=["a", "b"])


@pytest.mark.parametrize(
    ("x", "target", "loss", "message"),
    [
        (
            random_floats(2, 4, 4),
            random_integers(2, 2, 4, 4).float(),
            BINARY_LOSS,
            r"the model returns shape \(4, 2, 4, 4\) for targets",
        ),
        (
            random_floats(3),
            random_integers(3, 2),
            nn.MSELoss(),
            r"the model returns shape \(4, 3\) for targets \(4, 2\)",
        ),
    ],
)
def test_task_detection_of_unsupported_shapes_raises(x: Tensor, target: Tensor, loss: Any, message: str) -> None:
    with pytest.raises(SetupError, match=message):
        collect(x, target, loss)


def test_collect_predictions_without_exactly_one_target_raises() -> None:
    loader = DataLoader(TensorDataset(random_floats(3)), 4)
    with pytest.raises(SetupError, match="the target is None; expected one tensor"):
        collect_predictions(Setup(EchoModel(), loader), loader)
    batches = [(random_floats(3), (random_integers(3), random_integers(3)))]
    with pytest.raises(SetupError, match="the target is tuple; expected one tensor"):
        collect_predictions(Setup(EchoModel(), batches, loss_fn=lambda output, target: output.sum()), batches)


def test_masks_and_tokens_over_memory_limit_are_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("segmentation.MaskAccumulator", "sequences.TokenAccumulator"):
        monkeypatch.setitem(import_accumulator(module).__init__.__kwdefaults__, "max_bytes", 100)
    pixels = collect(*CASES["pixels"][:3])
    array_table = SegmentationTable.from_arrays(CASES["pixels"][0], CASES["pixels"][1])
    assert not pixels.masks
    assert any("recomputes that of an image" in note for note in pixels.notes)
    x, target = CASES["pixels"][:2]
    for row in (0, 7):
        assert pixels.overlay(row)["prediction"].tolist() == x[row].argmax(0).tolist()
        assert pixels.overlay(row)["target"].tolist() == target[row].tolist()
    assert array_table.masks == ()
    tags = collect(*CASES["tags"][:3])
    assert not tags.token_sequences
    loss = F.cross_entropy(CASES["tags"][0], CASES["tags"][1], reduction="none")
    np.testing.assert_allclose([token_loss for _, token_loss in tags.tokens(7)], loss[7].numpy(), atol=1e-4)
    with pytest.raises(SetupError, match="masks are not stored"):
        array_table.overlay(0)


def import_accumulator(path: str) -> Any:
    from importlib import import_module

    module, name = path.split(".")
    return getattr(import_module(f"nbdebug.predictions.{module}"), name)


def test_mask_that_cannot_be_recomputed_raises_with_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(import_accumulator("segmentation.MaskAccumulator").__init__.__kwdefaults__, "max_bytes", 100)
    table = collect(*CASES["pixels"][:3])
    assert not table.is_at_hand
    table.recompute.setup.model.transform = lambda x: x / [0]
    with pytest.raises(SetupError, match="sample 3 raised TypeError when the model was run on it again"):
        table.overlay(3)
