"""Tests of measure_fairness(): rates, gaps and intervals of groups."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from nbdebug.exceptions import SetupError
from nbdebug.metrics.calibration import calibration_curve
from nbdebug.predictions import ClassificationTable
from nbdebug.slices.fairness import measure_fairness

RNG = np.random.default_rng(0)


def make_table(rows: int = 1200, classes: int = 2) -> ClassificationTable:
    """Scores with groups: predictions favor a, and c is rare."""
    groups = RNG.choice(["a", "b", "c"], rows, p=[0.55, 0.44, 0.01])
    target = RNG.integers(0, classes, rows)
    scores = RNG.normal(size=(rows, classes))
    scores[np.arange(rows), target] += 1.5
    scores[:, 1] += 1.0 * (groups == "a")
    age = np.where(RNG.random(rows) < 0.1, np.nan, RNG.integers(18, 80, rows))
    return ClassificationTable.from_arrays(
        scores, target, columns={"group": groups, "age": age, "id": np.arange(rows).astype(str)}
    )


def test_fairness_rates_match_confusion_matrix() -> None:
    table = make_table()
    fairness = measure_fairness(table, "group")
    assert [group.name for group in fairness.groups] == ["a", "b", "c"]
    for group in fairness.groups:
        mask = table.columns["group"] == group.name
        (tn, fp), (fn, tp) = confusion_matrix(table.target[mask], table.prediction[mask], labels=[0, 1])
        rates = {name: rate.value for name, rate in group.rates.items()}
        expected = {
            "selection rate": (tp + fp) / mask.sum(),
            "true-positive rate": tp / (tp + fn),
            "false-positive rate": fp / (fp + tn),
            "accuracy": (tp + tn) / mask.sum(),
        }
        assert rates == pytest.approx(expected)
        assert all(rate.low <= rate.value <= rate.high for rate in group.rates.values())
        assert np.array_equal(table.matching_rows(group.query), np.flatnonzero(mask))


def test_fairness_calibration_of_each_group_matches_its_rows() -> None:
    table = make_table()
    for group in measure_fairness(table, "group").groups[:2]:
        mask = table.columns["group"] == group.name
        confidence, correct = table.columns["confidence"][mask], table.right[mask]
        assert group.overconfidence[0] == pytest.approx(confidence.mean() - correct.mean(), abs=1e-5)
        assert group.overconfidence[1] < group.overconfidence[0] < group.overconfidence[2]
        assert group.calibration_error == pytest.approx(
            calibration_curve(confidence, correct, bins=10).calibration_error, abs=1e-5
        )


def test_fairness_gaps_and_criteria_exclude_small_groups() -> None:
    fairness = measure_fairness(make_table(), "group")
    small = next(group for group in fairness.groups if group.name == "c")
    assert small.is_small
    rates = {group.name: group.rates for group in fairness.groups}
    gap = fairness.gaps["false-positive rate"]
    assert (gap.lowest, gap.highest) == ("b", "a")
    a, b = rates["a"]["false-positive rate"].value, rates["b"]["false-positive rate"].value
    assert gap.difference == pytest.approx(a - b)
    assert gap.ratio == pytest.approx(b / a)
    assert gap.low < gap.difference < gap.high
    assert gap.ratio_low < gap.ratio < gap.ratio_high
    assert gap.is_significant
    odds = max(fairness.gaps[name].difference for name in ("true-positive rate", "false-positive rate"))
    assert fairness.criteria["equalized odds"] == odds
    assert fairness.criteria["demographic parity"] == fairness.gaps["selection rate"].difference
    assert fairness.criteria["equal opportunity"] == fairness.gaps["true-positive rate"].difference
    assert "too few" in str(fairness)


def test_fairness_gap_of_equal_groups_is_rarely_significant() -> None:
    significant_count = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        target = rng.integers(0, 2, 400)
        prediction = np.where(rng.random(400) < 0.7, target, 1 - target)
        table = ClassificationTable.from_arrays(prediction, target, columns={"group": rng.choice(list("abcd"), 400)})
        significant_count += measure_fairness(table, "group").gaps["selection rate"].is_significant
    assert significant_count <= 16


def test_fairness_numeric_column_splits_into_quarters_and_missing() -> None:
    fairness = measure_fairness(make_table(), "age")
    assert len(fairness.groups) == 5
    assert fairness.groups[0].name.startswith("≤ ")
    assert fairness.groups[-1].name == "is missing"
    counts = [group.rows for group in fairness.groups[:4]]
    assert max(counts) < 1.3 * min(counts)


def test_fairness_of_many_classes_requires_positive_class_for_rates() -> None:
    table = make_table(classes=3)
    assert list(measure_fairness(table, "group").gaps) == ["accuracy"]
    fairness = measure_fairness(table, "group", positive="2")
    group = fairness.groups[0]
    mask = table.columns["group"] == "a"
    assert fairness.positive == "2"
    assert group.rates["selection rate"].value == pytest.approx((table.prediction[mask] == 2).mean())


def test_fairness_excludes_rows_without_target() -> None:
    table = make_table()
    target = table.target.copy()
    target[::2] = -1
    fairness = measure_fairness(table.replace(target=target), "group")
    assert sum(group.rows for group in fairness.groups) == 600


@pytest.mark.parametrize(
    ("column", "positive", "message"),
    [("sex", None, "column is 'sex'"), ("group", "yes", "positive is 'yes'"), ("id", None, "too many distinct")],
)
def test_fairness_invalid_column_or_class_raises_setup_error(column: str, positive: str | None, message: str) -> None:
    with pytest.raises(SetupError, match=message):
        measure_fairness(make_table(), column, positive)


def test_fairness_of_single_group_has_no_gaps() -> None:
    table = make_table().with_columns({"constant": np.array(["x"] * 1200)})
    fairness = measure_fairness(table, "constant")
    assert fairness.gaps == {}
    assert "too few" in fairness.headline


def test_fairness_to_frame_and_plot_show_groups() -> None:
    fairness = measure_fairness(make_table(), "group")
    frame = fairness.to_frame()
    assert frame["group"].tolist() == ["a", "b", "c"]
    assert {"selection rate", "accuracy low", "overconfidence"} <= set(frame.columns)
    assert fairness.plot().get_title().replace("\n", " ") == fairness.headline  # a long title is wrapped
