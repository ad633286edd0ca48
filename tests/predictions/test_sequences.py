"""The tables of tokens and of outputs that are not kept: each number by its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.exceptions import SetupError
from nbdebug.predictions.regression import ReconstructionTable
from nbdebug.predictions.sequences import SequenceTable
from nbdebug.predictions.table import Query

TAGS = ["O", "PER", "LOC"]


def drawn(classes: int = 3, rows: int = 30, steps: int = 8) -> tuple[Tensor, Tensor]:
    """Scores, and tags of sequences of different lengths."""
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(0, classes, (rows, steps), generator=generator)
    scores = torch.randn(rows, steps, classes, generator=generator) + 2 * F.one_hot(target, classes)
    lengths = torch.randint(1, steps + 1, (rows, 1), generator=generator)
    return scores, target.where(torch.arange(steps) < lengths, -100)


def test_columns_are_what_torch_computes() -> None:
    scores, target = drawn()
    table = SequenceTable.from_arrays(scores, target, class_names=TAGS)
    for i, (row, true) in enumerate(zip(scores, target, strict=True)):
        known = true >= 0
        loss = F.cross_entropy(row[known], true[known], reduction="none")
        assert table.columns["loss"][i] == pytest.approx(float(loss.mean()), rel=1e-5)
        assert table.columns["perplexity"][i] == pytest.approx(float(loss.mean().exp()), rel=1e-5)
        assert table.columns["worst loss"][i] == pytest.approx(float(loss.max()), rel=1e-5)
        assert table.columns["worst at"][i] == int(loss.argmax())
        assert table.columns["accuracy"][i] == pytest.approx(float((row.argmax(1) == true)[known].float().mean()))
        assert table.columns["tokens"][i] == int(known.sum())
        assert table.right[i] == bool((row.argmax(1) == true)[known].all())
    flat = F.cross_entropy(scores.flatten(0, 1), target.flatten())
    assert table.metrics["loss"].value == pytest.approx(float(flat), rel=1e-5)
    assert table.metrics["perplexity"].value == pytest.approx(float(flat.exp()), rel=1e-5)
    assert all(one.low < one.value < one.high for one in table.metrics.values())
    assert "tokens correct" in table.headline()


def test_tags_have_a_grid_that_leads_to_sequences() -> None:
    scores, target = drawn()
    table = SequenceTable.from_arrays(scores, target, class_names=TAGS)
    off = (target == 1) & (scores.argmax(2) == 0)
    assert table.grid.counts[1, 0] == int(off.sum())
    assert table.grid.counts.sum() == int((target >= 0).sum())
    assert table.grid.unit == "tokens"
    rows = table.page(Query(cells=((1, 0),), count=99)).rows
    assert sorted(rows.tolist()) == off.any(1).nonzero().flatten().tolist()
    assert (np.diff(off.sum(1).numpy()[rows]) <= 0).all()


def test_the_tokens_of_a_sequence_have_words_and_losses() -> None:
    scores, target = drawn()
    table = SequenceTable.from_arrays(scores, target, class_names=TAGS)
    loss = F.cross_entropy(scores.transpose(1, 2), target, reduction="none")
    tokens = table.tokens(4)
    assert [text for text, _ in tokens] == [TAGS[i] if i >= 0 else "" for i in target[4].tolist()]
    for at, (_, found) in enumerate(tokens):
        assert found is None if target[4, at] < 0 else found == pytest.approx(float(loss[4, at]), abs=1e-4)
    worst = int(table.columns["worst at"][4])
    assert table.describe_row(4)["said"].endswith(f" at token {worst} {TAGS[int(target[4, worst])]!r}")
    assert table.take([9, 4]).tokens(1) == tokens


@pytest.mark.parametrize("decode", [lambda number: f"w{number}", [f"w{i}" for i in range(300)]])
def test_a_large_vocabulary_has_a_frame_in_place_of_a_grid(decode: Any) -> None:
    scores, target = drawn(300)
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
    worst = int(frame.index[0][1:])
    assert frame["total loss"].iloc[0] == pytest.approx(float(loss[target.flatten() == worst].sum()), rel=1e-5)
    with pytest.raises(SetupError, match="expected a table with a grid"):
        table.page(Query(cells=((0, 1),)))


def test_a_class_of_your_own_may_be_ignored_and_a_broken_score_counts_nowhere() -> None:
    scores, target = drawn()
    table = SequenceTable.from_arrays(scores, target.where(target >= 0, 2), ignore_index=2)
    assert table.matrix[2].sum() == 0
    scores[0, 0, 0] = torch.nan
    broken = SequenceTable.from_arrays(scores, target)
    assert broken.columns["tokens"][0] == int((target[0] >= 0).sum()) - 1
    assert np.isfinite(broken.metrics["loss"].value)
    target[3] = -100
    empty = SequenceTable.from_arrays(scores, target)
    assert np.isnan(empty.columns["loss"][3])
    assert empty.columns["worst at"][3] == -1
    assert empty.describe_row(3) == {"said": "no valid token"}


@pytest.mark.parametrize(
    ("given", "named", "said"),
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
def test_what_does_not_fit_is_refused(given: Any, named: Any, said: str) -> None:
    with pytest.raises(SetupError) as error:
        SequenceTable.from_arrays(*given, **named)
    assert said in str(error.value)


def test_reconstructions_are_measured_by_sample() -> None:
    generator = torch.Generator().manual_seed(0)
    target = torch.randn(20, 1, 5, 5, generator=generator)
    output = target + 0.1 * torch.randn(target.shape, generator=generator)
    output[4, 0, 2, 2] += 3
    table = ReconstructionTable.from_arrays(output, target, index=range(20))
    square = (output - target).square().flatten(1).mean(1)
    np.testing.assert_allclose(table.columns["loss"], square.numpy(), rtol=1e-5)
    np.testing.assert_allclose(table.columns["unexplained"], (square / target.flatten(1).var(1, correction=0)).numpy())
    assert table.page(Query(count=1)).rows.tolist() == [4]
    assert table.columns["largest"][4] > 2.5
    assert table.metrics["rmse"].value == pytest.approx(float((output - target).square().mean().sqrt()), rel=1e-5)
    assert table.grid is None
    assert table.right is None
    assert table.describe_row(0)["said"].startswith(f"rmse {float(square[0].sqrt()):.4g}, largest ")
    output[1] = torch.nan
    broken = ReconstructionTable.from_arrays(output, target)
    assert "1 samples have a non-finite value and are left out of the metrics" in broken.notes
    assert "RMSE 0." in broken.headline()
    with pytest.raises(SetupError, match=r"the target is \(20, 1, 5, 5\); expected \(20, 1, 25\)"):
        ReconstructionTable.from_arrays(output.flatten(2), target)
