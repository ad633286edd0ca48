"""Two models on the same samples: matched by place, counted, tested, drawn; and refused where they are not the same."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.exceptions import SetupError
from nbdebug.metrics.comparison import compare_paired
from nbdebug.predictions import ClassificationTable
from nbdebug.tools.errors.result import Errors

NAMES = ("ant", "bee", "cat")


def errors(prediction: np.ndarray, target: np.ndarray, index: np.ndarray | None = None) -> Errors:
    return Errors(ClassificationTable.from_arrays(prediction, target, class_names=NAMES, index=index), "made here")


def drawn(rows: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    target = random.integers(0, 3, rows)
    old = np.where(random.random(rows) < 0.6, target, random.integers(0, 3, rows))
    new = np.where(random.random(rows) < 0.8, target, random.integers(0, 3, rows))
    return old, new, target


def test_samples_are_matched_by_their_place_whatever_their_order() -> None:
    old, new, target = drawn()
    straight = errors(new, target).compare(errors(old, target))
    order = np.random.default_rng(1).permutation(300)
    shuffled = errors(new, target, np.arange(300)).compare(errors(old[order], target[order], order))
    assert (straight.table.columns["change"] == shuffled.table.columns["change"]).all()
    assert straight.gain == shuffled.gain == compare_paired(old == target, new == target)


def test_each_change_is_a_query() -> None:
    old, new, target = drawn()
    places = np.arange(300)
    found = errors(new, target, places).compare(errors(old, target, places))
    was, now = old == target, new == target
    wanted = {"fixed": ~was & now, "broken": was & ~now, "both wrong": ~was & ~now, "both right": was & now}
    for name, rows in wanted.items():
        frame = found.rows(values={"change": [name]}, count=1000)
        assert sorted(frame.index) == np.flatnonzero(rows).tolist()
    asked = found.answer({"kind": "rows", "query": {"values": {"before": ["ant"], "change": ["broken"]}}})
    assert asked["total"] == ((old == 0) & was & ~now).sum()
    assert asked["cards"][0]["values"]["change"] == "broken"


def test_it_is_told_in_text_frame_and_picture() -> None:
    old, new, target = drawn()
    found = errors(new, target).compare(errors(old, target))
    gain = found.gain
    assert f"{gain.fixed} fixed, {gain.broken} broken of 300: +" in str(found)
    assert list(found.to_frame().columns) == ["target", "prediction", "before", "change"]
    ax = found.plot()
    assert sum(bar.get_width() for bar in ax.patches) == gain.fixed - gain.broken
    assert "fixed" in found._repr_mimebundle_()["text/html"]


def test_samples_of_one_side_only_are_left_out_and_told() -> None:
    old, new, target = drawn()
    found = errors(new, target, np.arange(300)).compare(errors(old[50:], target[50:], np.arange(50, 300)))
    assert len(found.table) == 250
    assert "50 samples are in only one of the two tables" in str(found)
    assert found.key(0) == 50


def test_the_same_model_has_no_flips() -> None:
    old, _, target = drawn()
    found = errors(old, target).compare(errors(old, target))
    assert found.headline.startswith("0 fixed, 0 broken")
    assert found.gain.p == 1
    found.plot()


def test_rows_without_a_target_do_not_count() -> None:
    old, new, target = drawn()
    target[:100] = -1
    found = errors(new, target).compare(errors(old, target))
    assert found.gain == compare_paired(old[100:] == target[100:], new[100:] == target[100:])


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (lambda old, target: errors(old[1:], target[1:]), "before has 299 rows; expected 300"),
        (lambda old, target: errors(old, target, np.arange(300)), "only one of the two tables"),
        (lambda old, target: errors(old, (target + 1) % 3), "300 of 300 samples have different targets"),
    ],
)
def test_what_cannot_be_matched_is_refused(other: object, said: str) -> None:
    old, new, target = drawn()
    with pytest.raises(SetupError, match=said):
        errors(new, target).compare(other(old, target))  # type: ignore[operator]


def test_a_sample_twice_and_none_in_common_are_refused() -> None:
    old, new, target = drawn()
    twice = errors(old, target, np.zeros(300, int))
    with pytest.raises(SetupError, match="contains a sample twice"):
        errors(new, target, np.arange(300)).compare(twice)
    far = errors(old, target, np.arange(1000, 1300))
    with pytest.raises(SetupError, match="share no sample"):
        errors(new, target, np.arange(300)).compare(far)
