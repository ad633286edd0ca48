"""Tests of SequenceTable: losses of tokens, grid and classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.exceptions import SetupError
from nbdebug.predictions.sequences import SequenceTable
from nbdebug.predictions.table import Query

TAGS = ["O", "PER", "LOC"]


def make_scores(classes: int = 3, rows: int = 30, steps: int = 8) -> tuple[Tensor, Tensor]:
    """Return scores, and tags of sequences of different lengths."""
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(0, classes, (rows, steps), generator=generator)
    scores = torch.randn(rows, steps, classes, generator=generator) + 2 * F.one_hot(target, classes)
    lengths = torch.randint(1, steps + 1, (rows, 1), generator=generator)
    return scores, target.where(torch.arange(steps) < lengths, -100)


def test_sequence_columns_equal_torch() -> None:
    scores, target = make_scores()
    table = SequenceTable.from_arrays(scores, target, class_names=TAGS)
    for i, (row, labels) in enumerate(zip(scores, target, strict=True)):
        is_valid = labels >= 0
        loss = F.cross_entropy(row[is_valid], labels[is_valid], reduction="none")
        assert table.columns["loss"][i] == pytest.approx(float(loss.mean()), rel=1e-5)
        assert table.columns["perplexity"][i] == pytest.approx(float(loss.mean().exp()), rel=1e-5)
        assert table.columns["worst loss"][i] == pytest.approx(float(loss.max()), rel=1e-5)
        assert table.columns["worst at"][i] == int(loss.argmax())
        assert table.columns["accuracy"][i] == pytest.approx(float((row.argmax(1) == labels)[is_valid].float().mean()))
        assert table.columns["tokens"][i] == int(is_valid.sum())
        assert table.right[i] == bool((row.argmax(1) == labels)[is_valid].all())
    mean_loss = F.cross_entropy(scores.flatten(0, 1), target.flatten())
    assert table.metrics["loss"].value == pytest.approx(float(mean_loss), rel=1e-5)
    assert table.metrics["perplexity"].value == pytest.approx(float(mean_loss.exp()), rel=1e-5)
    assert all(estimate.low < estimate.value < estimate.high for estimate in table.metrics.values())
    assert "tokens correct" in table.headline()


def test_sequence_grid_cell_selects_its_sequences() -> None:
    scores, target = make_scores()
    table = SequenceTable.from_arrays(scores, target, class_names=TAGS)
    is_in_cell = (target == 1) & (scores.argmax(2) == 0)
    assert table.grid.counts[1, 0] == int(is_in_cell.sum())
    assert table.grid.counts.sum() == int((target >= 0).sum())
    assert table.grid.unit == "tokens"
    rows = table.page(Query(cells=((1, 0),), count=99)).rows
    assert sorted(rows.tolist()) == is_in_cell.any(1).nonzero().flatten().tolist()
    assert (np.diff(is_in_cell.sum(1).numpy()[rows]) <= 0).all()


def test_sequence_tokens_have_class_names_and_losses() -> None:
    scores, target = make_scores()
    table = SequenceTable.from_arrays(scores, target, class_names=TAGS)
    loss = F.cross_entropy(scores.transpose(1, 2), target, reduction="none")
    tokens = table.tokens(4)
    assert [text for text, _ in tokens] == [TAGS[i] if i >= 0 else "" for i in target[4].tolist()]
    for position, (_, token_loss) in enumerate(tokens):
        assert (
            token_loss is None
            if target[4, position] < 0
            else token_loss == pytest.approx(float(loss[4, position]), abs=1e-4)
        )
    worst_position = int(table.columns["worst at"][4])
    assert table.describe_row(4)["said"].endswith(
        f" at token {worst_position} {TAGS[int(target[4, worst_position])]!r}"
    )
    assert table.take([9, 4]).tokens(1) == tokens


@pytest.mark.parametrize("decode", [lambda number: f"w{number}", [f"w{i}" for i in range(300)]])
def test_sequence_with_large_vocabulary_has_class_frame_and_no_grid(decode: Any) -> None:
    scores, target = make_scores(300)
    table = SequenceTable.from_arrays(scores, target, decode=decode)
    assert table.grid is None
    assert table.right is None
    assert table.headline().startswith("perplexity ")
    loss = F.cross_entropy(scores.flatten(0, 1), target.flatten(), reduction="none")
    frame = table.by_class()
    with pytest.raises(SetupError, match="table is a part of another"):
        table.take([1]).by_class()
    assert frame["tokens"].sum() == int((target >= 0).sum())
    assert frame["total loss"].sum() == pytest.approx(float(loss.sum()), rel=1e-5)
    assert (np.diff(frame["total loss"]) <= 0).all()
    worst_class = int(frame.index[0][1:])
    assert frame["total loss"].iloc[0] == pytest.approx(float(loss[target.flatten() == worst_class].sum()), rel=1e-5)
    with pytest.raises(SetupError, match="expected a table with a grid"):
        table.page(Query(cells=((0, 1),)))


def test_sequence_leaves_out_ignored_class_and_nan_scores() -> None:
    scores, target = make_scores()
    table = SequenceTable.from_arrays(scores, target.where(target >= 0, 2), ignore_index=2)
    assert table.matrix[2].sum() == 0
    scores[0, 0, 0] = torch.nan
    nan_table = SequenceTable.from_arrays(scores, target)
    assert nan_table.columns["tokens"][0] == int((target[0] >= 0).sum()) - 1
    assert np.isfinite(nan_table.metrics["loss"].value)
    target[3] = -100
    unlabeled_table = SequenceTable.from_arrays(scores, target)
    assert np.isnan(unlabeled_table.columns["loss"][3])
    assert unlabeled_table.columns["worst at"][3] == -1
    assert unlabeled_table.describe_row(3) == {"said": "no valid token"}


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ((torch.zeros(2, 3, 4), torch.zeros(2, 4).long()), {}, "predictions has shape (2, 3, 4); expected sequences ×"),
        ((torch.zeros(2, 3, 4), torch.full((2, 3), 4)), {}, "targets go up to 4; expected less than 4"),
        ((torch.zeros(2, 3, 4), torch.zeros(3, 3).long()), {}, "predictions has 2 rows; expected 3"),
        (
            (torch.zeros(2, 3, 4), torch.zeros(2, 3).long()),
            {"class_names": ["a"]},
            "class_names has 1 names; expected 4",
        ),
    ],
)
def test_sequence_from_arrays_with_mismatched_data_raises(arrays: Any, options: Any, message: str) -> None:
    with pytest.raises(SetupError) as error:
        SequenceTable.from_arrays(*arrays, **options)
    assert message in str(error.value)
