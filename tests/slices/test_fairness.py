"""Rates of groups, against confusion matrices of scikit-learn; gaps, and the level that their intervals hold."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from nbdebug.exceptions import SetupError
from nbdebug.metrics.calibration import calibration_curve
from nbdebug.predictions import ClassificationTable
from nbdebug.slices.fairness import measure_fairness

RNG = np.random.default_rng(0)


def table(rows: int = 1200, classes: int = 2) -> ClassificationTable:
    """Scores with groups: a is favored, c is rare."""
    groups = RNG.choice(["a", "b", "c"], rows, p=[0.55, 0.44, 0.01])
    target = RNG.integers(0, classes, rows)
    scores = RNG.normal(size=(rows, classes))
    scores[np.arange(rows), target] += 1.5
    scores[:, 1] += 1.0 * (groups == "a")
    age = np.where(RNG.random(rows) < 0.1, np.nan, RNG.integers(18, 80, rows))
    return ClassificationTable.from_arrays(
        scores, target, columns={"group": groups, "age": age, "id": np.arange(rows).astype(str)}
    )


def test_rates_are_those_of_a_confusion_matrix_by_hand() -> None:
    given = table()
    found = measure_fairness(given, "group")
    assert [one.name for one in found.groups] == ["a", "b", "c"]
    for one in found.groups:
        mask = given.columns["group"] == one.name
        (tn, fp), (fn, tp) = confusion_matrix(given.target[mask], given.prediction[mask], labels=[0, 1])
        rates = {name: rate.value for name, rate in one.rates.items()}
        wanted = {
            "selection rate": (tp + fp) / mask.sum(),
            "true-positive rate": tp / (tp + fn),
            "false-positive rate": fp / (fp + tn),
            "accuracy": (tp + tn) / mask.sum(),
        }
        assert rates == pytest.approx(wanted)
        assert all(rate.low <= rate.value <= rate.high for rate in one.rates.values())
        assert np.array_equal(given.matching_rows(one.query), np.flatnonzero(mask))


def test_calibration_of_each_group() -> None:
    given = table()
    for one in measure_fairness(given, "group").groups[:2]:
        mask = given.columns["group"] == one.name
        sure, right = given.columns["confidence"][mask], given.right[mask]
        assert one.overconfidence[0] == pytest.approx(sure.mean() - right.mean(), abs=1e-5)
        assert one.overconfidence[1] < one.overconfidence[0] < one.overconfidence[2]
        assert one.calibration_error == pytest.approx(
            calibration_curve(sure, right, bins=10).calibration_error, abs=1e-5
        )


def test_gaps_and_criteria_leave_out_groups_that_are_too_small() -> None:
    found = measure_fairness(table(), "group")
    small = next(one for one in found.groups if one.name == "c")
    assert small.is_small
    rates = {one.name: one.rates for one in found.groups}
    gap = found.gaps["false-positive rate"]
    assert (gap.lowest, gap.highest) == ("b", "a")
    a, b = rates["a"]["false-positive rate"].value, rates["b"]["false-positive rate"].value
    assert gap.difference == pytest.approx(a - b)
    assert gap.ratio == pytest.approx(b / a)
    assert gap.low < gap.difference < gap.high
    assert gap.ratio_low < gap.ratio < gap.ratio_high
    assert gap.is_significant
    odds = max(found.gaps[one].difference for one in ("true-positive rate", "false-positive rate"))
    assert found.criteria["equalized odds"] == odds
    assert found.criteria["demographic parity"] == found.gaps["selection rate"].difference
    assert found.criteria["equal opportunity"] == found.gaps["true-positive rate"].difference
    assert "too few" in str(found)


def test_groups_that_are_alike_differ_in_one_of_twenty_runs_at_most() -> None:
    real = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        target = rng.integers(0, 2, 400)
        said = np.where(rng.random(400) < 0.7, target, 1 - target)
        given = ClassificationTable.from_arrays(said, target, columns={"group": rng.choice(list("abcd"), 400)})
        real += measure_fairness(given, "group").gaps["selection rate"].is_significant
    assert real <= 16


def test_numbers_are_cut_into_quarters_and_missing_ones_are_a_group() -> None:
    found = measure_fairness(table(), "age")
    assert len(found.groups) == 5
    assert found.groups[0].name.startswith("≤ ")
    assert found.groups[-1].name == "is missing"
    counts = [one.rows for one in found.groups[:4]]
    assert max(counts) < 1.3 * min(counts)


def test_of_many_classes_the_wanted_one_is_named() -> None:
    given = table(classes=3)
    assert list(measure_fairness(given, "group").gaps) == ["accuracy"]
    found = measure_fairness(given, "group", positive="2")
    one = found.groups[0]
    mask = given.columns["group"] == "a"
    assert found.positive == "2"
    assert one.rates["selection rate"].value == pytest.approx((given.prediction[mask] == 2).mean())


def test_rows_without_a_target_count_nowhere() -> None:
    given = table()
    target = given.target.copy()
    target[::2] = -1
    found = measure_fairness(given.replace(target=target), "group")
    assert sum(one.rows for one in found.groups) == 600


@pytest.mark.parametrize(
    ("by", "positive", "says"),
    [("sex", None, "column is 'sex'"), ("group", "yes", "positive is 'yes'"), ("id", None, "too many distinct")],
)
def test_what_cannot_be_compared_is_refused(by: str, positive: str | None, says: str) -> None:
    with pytest.raises(SetupError, match=says):
        measure_fairness(table(), by, positive)


def test_a_single_group_has_no_gaps() -> None:
    given = table().with_columns({"one": np.array(["x"] * 1200)})
    found = measure_fairness(given, "one")
    assert found.gaps == {}
    assert "too few" in found.headline


def test_the_result_can_be_tabulated_and_drawn() -> None:
    found = measure_fairness(table(), "group")
    frame = found.to_frame()
    assert frame["group"].tolist() == ["a", "b", "c"]
    assert {"selection rate", "accuracy low", "overconfidence"} <= set(frame.columns)
    assert found.plot().get_title() == found.headline
