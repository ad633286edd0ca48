"""The pass makes the table that a task calls for, with the user's own loss of each sample."""

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


class Said(nn.Module):
    """A model that says what it is given, through a weight of one, in a shape of its own."""

    def __init__(self, change: Callable[[Tensor], Any] = lambda x: x) -> None:
        super().__init__()
        self.weight, self.change = nn.Parameter(torch.ones(())), change

    def forward(self, x: Tensor) -> Any:
        return self.change(x * self.weight)


def passed(
    x: Tensor, target: Tensor, loss: Any, change: Callable[[Tensor], Any] = lambda x: x, **given: Any
) -> PredictionTable:
    loader = DataLoader(TensorDataset(x, target), 4)
    table = collect_predictions(Setup(Said(change), loader, loss_fn=loss, **given), loader)
    assert table.index.tolist() == list(range(ROWS))
    assert len(table) == ROWS
    assert table.headline()
    return table


def real(*shape: int) -> Tensor:
    return torch.randn(ROWS, *shape, generator=torch.Generator().manual_seed(0))


def whole(most: int, *shape: int) -> Tensor:
    return torch.randint(most, (ROWS, *shape), generator=torch.Generator().manual_seed(1))


WEIGHT = torch.tensor([1.0, 2.0, 3.0])
CLASSES = nn.CrossEntropyLoss()
BITS = nn.BCEWithLogitsLoss()
CASES: dict[str, tuple[Tensor, Tensor, Any, type[PredictionTable]]] = {
    "classes": (real(3), whole(3), CLASSES, ClassificationTable),
    "classes, by axis": (real(3), whole(3, 1), lambda o, t: F.cross_entropy(o, t[:, 0]), ClassificationTable),
    "one logit": (real(1), whole(2, 1).float(), BITS, ClassificationTable),
    "one flat logit": (real(), whole(2).float(), BITS, ClassificationTable),
    "one probability": (real().sigmoid(), whole(2).float(), nn.BCELoss(), ClassificationTable),
    "labels": (real(4), whole(2, 4).float(), BITS, MultiLabelTable),
    "probable labels": (real(4).sigmoid(), whole(2, 4).float(), F.binary_cross_entropy, MultiLabelTable),
    "a number": (real(1), real(1) + 1, nn.MSELoss(), RegressionTable),
    "a flat number": (real(), real() + 1, nn.L1Loss(), RegressionTable),
    "numbers": (real(3), real(3) + 1, F.huber_loss, RegressionTable),
    "a map of numbers": (real(1, 9, 9), real(1, 9, 9) + 1, nn.MSELoss(), ReconstructionTable),
    "the input": (real(1, 9, 9), real(1, 9, 9), nn.MSELoss(), ReconstructionTable),
    "pixels": (real(3, 6, 5), whole(3, 6, 5), CLASSES, SegmentationTable),
    "a mask": (real(1, 6, 5), whole(2, 1, 6, 5).float(), BITS, SegmentationTable),
    "a flat mask": (real(6, 5), whole(2, 6, 5).float(), BITS, SegmentationTable),
    "voxels": (real(3, 2, 6, 5), whole(3, 2, 6, 5), CLASSES, SegmentationTable),
    "tags": (real(3, 7), whole(3, 7), CLASSES, SequenceTable),
    "as many tags as tokens": (real(7, 7), whole(7, 7), CLASSES, SequenceTable),
    "soft classes": (real(3), real(3).softmax(1), CLASSES, ClassificationTable),
}


@pytest.mark.parametrize("name", CASES)
def test_the_loss_of_each_sample_is_the_users(name: str) -> None:
    x, target, loss, kind = CASES[name]
    table = passed(x, target, loss)
    assert type(table) is kind
    wanted = [float(loss(x[i : i + 1], target[i : i + 1])) for i in range(ROWS)]
    np.testing.assert_allclose(table.columns["loss"], wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "loss",
    [
        nn.CrossEntropyLoss(weight=WEIGHT, label_smoothing=0.1, reduction="sum"),
        partial(F.cross_entropy, weight=WEIGHT, reduction="sum"),
    ],
)
def test_weights_and_smoothing_count(loss: Any) -> None:
    x, target = real(3), whole(3)
    wanted = [float(loss(x[i : i + 1], target[i : i + 1])) for i in range(ROWS)]
    np.testing.assert_allclose(passed(x, target, loss).columns["loss"], wanted, rtol=1e-5)
    target[2] = -100
    found = passed(x, target, loss)
    assert np.isnan(found.columns["loss"]).tolist() == [i == 2 for i in range(ROWS)]


class Focal(nn.Module):
    """A loss of the user's own that takes a reduction, and may lie about it."""

    def __init__(self, reduction: str = "mean", honest: bool = True) -> None:
        super().__init__()
        self.reduction, self.honest = reduction, honest

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        each = (1 - output.softmax(1).gather(1, target[:, None])[:, 0]) ** 2 * F.cross_entropy(
            output, target, reduction="none"
        )
        if self.reduction == "none":
            return each if self.honest else each * 7
        return each.mean()


def test_a_loss_of_the_users_own_is_taken_where_it_can_be_had() -> None:
    x, target = real(3), whole(3)
    usual = F.cross_entropy(x, target, reduction="none").numpy()
    mine = passed(x, target, Focal())
    np.testing.assert_allclose(mine.columns["loss"], Focal("none")(x, target).numpy(), rtol=1e-6)
    assert not any("your own loss" in note for note in mine.notes)
    for loss in (Focal(honest=False), lambda output, target: F.cross_entropy(output, target)):
        table = passed(x, target, loss)
        np.testing.assert_allclose(table.columns["loss"], usual, rtol=1e-5)
        assert "the loss is cross-entropy: your own loss function has no per-sample value" in table.notes


def test_tokens_come_in_all_layouts() -> None:
    x, target = real(7, 3), whole(3, 7)
    wanted = SequenceTable.from_arrays(x, target).columns
    middle = passed(x, target, CLASSES, lambda x: x.transpose(1, 2))
    last = passed(x, target, lambda o, t: F.cross_entropy(o.flatten(0, 1), t.flatten()))
    flat = passed(x, target, lambda o, t: F.cross_entropy(o, t.flatten()), lambda x: x.flatten(0, 1))
    for table in (middle, last, flat):
        assert isinstance(table, SequenceTable)
        for name, values in wanted.items():
            np.testing.assert_allclose(table.columns[name], values, rtol=1e-5)
        assert table.matrix.sum() == 7 * ROWS


def test_tokens_with_time_first_are_told_by_the_sampler() -> None:
    def turned(samples: list[Any]) -> Any:
        x, target = torch.utils.data.default_collate(samples)
        return x.transpose(0, 1), target.transpose(0, 1)

    x, target = real(7, 3), whole(3, 7)
    loader = DataLoader(TensorDataset(x, target), 4, collate_fn=turned)
    loss = lambda o, t: F.cross_entropy(o.flatten(0, 1), t.flatten())  # noqa: E731
    table = collect_predictions(Setup(Said(), loader, loss_fn=loss), loader)
    assert len(table) == len(table.index) == ROWS
    np.testing.assert_allclose(table.columns["loss"], SequenceTable.from_arrays(x, target).columns["loss"], rtol=1e-5)


class Causal(nn.Module):
    """A model that computes its own loss of the next token, as those of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(5, 8), nn.Linear(8, 5)

    def forward(self, input_ids: Tensor, labels: Tensor) -> Any:
        logits = self.head(self.embed(input_ids))
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return SimpleNamespace(loss=loss, logits=logits)


def test_a_model_with_a_loss_of_its_own_predicts_the_next_token() -> None:
    torch.manual_seed(0)
    tokens = whole(5, 7)
    batches = [{"input_ids": part, "labels": part.clone()} for part in tokens.split(4)]
    model = Causal()
    table = collect_predictions(Setup(model, batches), batches)
    assert isinstance(table, SequenceTable)
    wanted = [float(model(row[None], row[None]).loss.detach()) for row in tokens]
    np.testing.assert_allclose(table.columns["loss"], wanted, rtol=1e-5)
    assert table.columns["tokens"].tolist() == [6] * ROWS


def test_targets_as_texts_are_classes() -> None:
    x = real(3)
    names = ["cat", "cow", "dog"]
    said = [names[i] for i in whole(3).tolist()]
    batches = [(x[:6], said[:6]), (x[6:], said[6:])]
    setup = Setup(Said(), batches, loss_fn=lambda output, target: output.sum(), class_names=names)
    table = collect_predictions(setup, batches)
    assert [table.describe_row(i)["target"] for i in range(ROWS)] == said
    assert table.target.tolist() == whole(3).tolist()


def test_a_soft_binary_target_counts_as_the_nearer_class() -> None:
    target = torch.linspace(0, 1, ROWS)
    table = passed(real(), target, BITS)
    assert table.target.tolist() == (target >= 0.5).int().tolist()
    assert "8 targets lie between 0 and 1: the label is the nearer of the two" in table.notes


def test_names_of_the_wrong_length_are_refused() -> None:
    for count in (2, 4):
        with pytest.raises(SetupError, match=f"class_names has {count} names; expected 3"):
            passed(real(3), whole(3), CLASSES, class_names=list("abcd")[:count])
    with pytest.raises(SetupError, match="class_names has 2 names; expected 4"):
        passed(real(4), whole(2, 4).float(), BITS, class_names=["a", "b"])
    with pytest.raises(SetupError, match="class_names has 2 names; expected 3"):
        passed(real(3, 6, 5), whole(3, 6, 5), CLASSES, class_names=["a", "b"])


@pytest.mark.parametrize(
    ("x", "target", "loss", "said"),
    [
        (real(2, 4, 4), whole(2, 2, 4, 4).float(), BITS, r"the model returns shape \(4, 2, 4, 4\) for targets"),
        (real(3), whole(3, 2), nn.MSELoss(), r"the model returns shape \(4, 3\) for targets \(4, 2\)"),
    ],
)
def test_outputs_of_no_table_are_refused(x: Tensor, target: Tensor, loss: Any, said: str) -> None:
    with pytest.raises(SetupError, match=said):
        passed(x, target, loss)


def test_a_target_that_is_missing_or_double_is_refused() -> None:
    loader = DataLoader(TensorDataset(real(3)), 4)
    with pytest.raises(SetupError, match="the target is None; expected one tensor"):
        collect_predictions(Setup(Said(), loader), loader)
    several = [(real(3), (whole(3), whole(3)))]
    with pytest.raises(SetupError, match="the target is tuple; expected one tensor"):
        collect_predictions(Setup(Said(), several, loss_fn=lambda output, target: output.sum()), several)


def test_masks_and_tokens_that_were_not_kept_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("segmentation.MaskAccumulator", "sequences.TokenAccumulator"):
        monkeypatch.setitem(getattr_of(module).__init__.__kwdefaults__, "max_bytes", 100)
    pixels = passed(*CASES["pixels"][:3])
    whole_table = SegmentationTable.from_arrays(CASES["pixels"][0], CASES["pixels"][1])
    assert not pixels.masks
    assert any("recomputes that of an image" in note for note in pixels.notes)
    x, target = CASES["pixels"][:2]
    for row in (0, 7):
        assert pixels.overlay(row)["prediction"].tolist() == x[row].argmax(0).tolist()
        assert pixels.overlay(row)["target"].tolist() == target[row].tolist()
    assert whole_table.masks == ()
    tags = passed(*CASES["tags"][:3])
    assert not tags.lines
    loss = F.cross_entropy(CASES["tags"][0], CASES["tags"][1], reduction="none")
    np.testing.assert_allclose([one for _, one in tags.tokens(7)], loss[7].numpy(), atol=1e-4)
    with pytest.raises(SetupError, match="masks are not stored"):
        whole_table.overlay(0)


def getattr_of(path: str) -> Any:
    from importlib import import_module

    module, name = path.split(".")
    return getattr(import_module(f"nbdebug.predictions.{module}"), name)


def test_a_model_that_cannot_be_run_again_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(getattr_of("segmentation.MaskAccumulator").__init__.__kwdefaults__, "max_bytes", 100)
    table = passed(*CASES["pixels"][:3])
    assert not table.is_at_hand
    table.again.setup.model.change = lambda x: x / [0]
    with pytest.raises(SetupError, match="sample 3 raised TypeError when the model was run on it again"):
        table.overlay(3)
