"""Tests of comparing the errors of two models on the same samples."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nbdebug.exceptions import SetupError
from nbdebug.metrics.comparison import compare_paired
from nbdebug.tools.errors.result import Errors
from tests.tools.errors.random_errors import CLASS_NAMES, make_errors

INDICES = np.arange(300)


def named_errors(prediction: np.ndarray, target: np.ndarray, index: np.ndarray | None = None) -> Errors:
    return make_errors(prediction, target, class_names=CLASS_NAMES, index=index)


def random_predictions(rows: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions of a worse and a better model, and targets."""
    random = np.random.default_rng(0)
    target = random.integers(0, 3, rows)
    old = np.where(random.random(rows) < 0.6, target, random.integers(0, 3, rows))
    new = np.where(random.random(rows) < 0.8, target, random.integers(0, 3, rows))
    return old, new, target


def test_compare_of_shuffled_table_matches_samples_by_index() -> None:
    old, new, target = random_predictions()
    ordered = named_errors(new, target).compare(named_errors(old, target))
    order = np.random.default_rng(1).permutation(300)
    shuffled = named_errors(new, target, INDICES).compare(named_errors(old[order], target[order], order))
    assert (ordered.table.columns["change"] == shuffled.table.columns["change"]).all()
    assert ordered.gain == shuffled.gain == compare_paired(old == target, new == target)


def test_comparison_rows_of_each_change_can_be_queried() -> None:
    old, new, target = random_predictions()
    comparison = named_errors(new, target, INDICES).compare(named_errors(old, target, INDICES))
    right_before, right_after = old == target, new == target
    expected = {
        "fixed": ~right_before & right_after,
        "broken": right_before & ~right_after,
        "both wrong": ~right_before & ~right_after,
        "both right": right_before & right_after,
    }
    for name, rows in expected.items():
        frame = comparison.rows(values={"change": [name]}, count=1000)
        assert sorted(frame.index) == np.flatnonzero(rows).tolist()
    answer = comparison.answer({"kind": "rows", "query": {"values": {"before": ["ant"], "change": ["broken"]}}})
    assert answer["total"] == ((old == 0) & right_before & ~right_after).sum()
    assert answer["cards"][0]["values"]["change"] == "broken"


def test_comparison_has_text_frame_plot_and_html() -> None:
    old, new, target = random_predictions()
    comparison = named_errors(new, target).compare(named_errors(old, target))
    gain = comparison.gain
    assert f"{gain.fixed} fixed, {gain.broken} broken of 300: +" in str(comparison)
    assert list(comparison.to_frame().columns) == ["target", "prediction", "before", "change"]
    ax = comparison.plot()
    assert sum(bar.get_width() for bar in ax.patches) == gain.fixed - gain.broken
    assert "fixed" in comparison._repr_mimebundle_()["text/html"]


def test_compare_leaves_out_unmatched_samples_and_counts_them() -> None:
    old, new, target = random_predictions()
    comparison = named_errors(new, target, INDICES).compare(named_errors(old[50:], target[50:], INDICES[50:]))
    assert len(comparison.table) == 250
    assert "50 samples are in only one of the two tables" in str(comparison)
    assert comparison.key(0) == 50


def test_compare_with_same_predictions_has_no_flips() -> None:
    old, _, target = random_predictions()
    comparison = named_errors(old, target).compare(named_errors(old, target))
    assert comparison.headline.startswith("0 fixed, 0 broken")
    assert comparison.gain.p == 1
    comparison.plot()


def test_compare_ignores_rows_without_target() -> None:
    old, new, target = random_predictions()
    target[:100] = -1
    comparison = named_errors(new, target).compare(named_errors(old, target))
    assert comparison.gain == compare_paired(old[100:] == target[100:], new[100:] == target[100:])


@pytest.mark.parametrize(
    ("index", "make_before", "message"),
    [
        (None, lambda old, target: named_errors(old[1:], target[1:]), "before has 299 rows; expected 300"),
        (None, lambda old, target: named_errors(old, target, INDICES), "only one of the two tables"),
        (None, lambda old, target: named_errors(old, (target + 1) % 3), "300 of 300 samples have different targets"),
        (INDICES, lambda old, target: named_errors(old, target, 0 * INDICES), "contains a sample twice"),
        (INDICES, lambda old, target: named_errors(old, target, INDICES + 1000), "share no sample"),
    ],
    ids=["other length", "index in one table", "other targets", "repeated index", "no common index"],
)
def test_compare_of_unmatchable_tables_raises_setup_error(
    index: np.ndarray | None, make_before: Callable[[np.ndarray, np.ndarray], Errors], message: str
) -> None:
    old, new, target = random_predictions()
    before = make_before(old, target)
    with pytest.raises(SetupError, match=message):
        named_errors(new, target, index).compare(before)
