"""Group fairness of a classifier: rates of each group and the gaps between groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.formatting import html_paragraph, round_number, round_numbers
from nbdebug.formatting import html_table as html_table
from nbdebug.metrics.calibration import calibration_curve
from nbdebug.predictions.classification import ClassificationTable
from nbdebug.predictions.table import PredictionTable, Query, get_column
from nbdebug.result import Result
from nbdebug.slices.row_scores import SliceFeature, bin_by_quantiles, levels_by_value
from nbdebug.slices.slice import Condition, build_query, query_request
from nbdebug.statistics.intervals import CONFIDENCE_LEVEL, newcombe_interval, ratio_interval, wilson_interval

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.panel import PanelView

_QUARTILES = (0.25, 0.5, 0.75)
_MIN_ROWS_PER_BIN = 20  # minimum rows per bin of the calibration error
_MAX_BINS = 10
_MIN_GROUP_ROWS = 20
_CRITERIA: Mapping[str, tuple[str, ...]] = {
    "demographic parity": ("selection rate",),
    "equal opportunity": ("true-positive rate",),
    "equalized odds": ("true-positive rate", "false-positive rate"),
    "equal accuracy": ("accuracy",),
}


@dataclass(frozen=True)
class _GroupRate:
    """A proportion with its interval: ``hits`` of ``rows``; NaN if there are none."""

    hits: float
    rows: int
    low: float
    high: float

    @classmethod
    def from_mask(cls, hits: NDArray[np.bool_], selected: NDArray[np.bool_] | None = None) -> _GroupRate:
        """Return the share of ``hits`` among the selected rows."""
        selected_hits = hits if selected is None else hits[selected]
        low, high = wilson_interval(selected_hits.sum(), len(selected_hits))
        return cls(float(selected_hits.sum()), len(selected_hits), float(low), float(high))

    @property
    def value(self) -> float:
        """Return the proportion."""
        return self.hits / self.rows if self.rows else float("nan")


@dataclass(frozen=True)
class _FairnessGroup:
    """One group: its rates by name, and its calibration.

    ``overconfidence`` is mean confidence minus accuracy with its interval; ``calibration_error`` is the expected
    calibration error and ``chance_error`` its upper limit by chance; NaN without confidences. Groups with ``is_small``
    count in no gap.
    """

    condition: Condition
    rows: int
    rates: dict[str, _GroupRate]
    overconfidence: tuple[float, float, float]
    calibration_error: float
    chance_error: float
    is_small: bool

    @property
    def name(self) -> str:
        """Return text such as ``female`` or ``20 to 28``."""
        return self.condition.description.removeprefix(f"{self.condition.column} ").removeprefix("= ")

    @property
    def query(self) -> Query:
        """Return the query for its rows."""
        return build_query((self.condition,))


def _group_feature(table: ClassificationTable, by: str) -> SliceFeature:
    """Return a column as groups: numbers in quarters, or by value if at most four; other columns by value.

    Raises SetupError for an unknown column, or one with more than fifty distinct texts.
    """
    values = get_column(table.columns, by)
    if values.dtype.kind in "fiu":
        return bin_by_quantiles(by, values, _QUARTILES)
    feature = levels_by_value(by, values, 1)
    if any(level is None for level in feature.levels):
        raise SetupError(f"column {by!r} has too many distinct values; expected groups. Merge them into fewer.")
    return feature


def _measure_groups(
    table: ClassificationTable, feature: SliceFeature, positive: int | None, min_rows: int
) -> tuple[_FairnessGroup, ...]:
    """Return the groups that have rows with a target and a prediction."""
    is_known = (table.target >= 0) & (table.prediction >= 0)
    masks = [is_known & (feature.codes == level) for level in range(len(feature.levels))]
    pairs = zip(feature.levels, masks, strict=True)
    groups = [
        _measure_group(table, item, mask, positive, min_rows) for item, mask in pairs if item is not None and mask.any()
    ]
    return tuple(groups if feature.ordered else sorted(groups, key=lambda item: item.name))


def _measure_group(
    table: ClassificationTable, condition: Condition, mask: NDArray[np.bool_], positive: int | None, min_rows: int
) -> _FairnessGroup:
    correct = table.right[mask]
    rates = {"accuracy": _GroupRate.from_mask(correct)}
    if positive is not None:
        is_positive, predicted = table.target[mask] == positive, table.prediction[mask] == positive
        rates = {
            "selection rate": _GroupRate.from_mask(predicted),
            "true-positive rate": _GroupRate.from_mask(predicted, is_positive),
            "false-positive rate": _GroupRate.from_mask(predicted, ~is_positive),
            **rates,
        }
    confidence = table.columns["confidence"][mask].astype(np.float64) if "confidence" in table.columns else None
    rows = int(mask.sum())
    return _FairnessGroup(condition, rows, rates, *_group_calibration(confidence, correct), is_small=rows < min_rows)


def _group_calibration(
    confidence: NDArray[np.float64] | None, correct: NDArray[np.bool_]
) -> tuple[tuple[float, float, float], float, float]:
    """Return mean confidence minus accuracy with its interval, the calibration error, and its limit by chance."""
    from nbdebug.statistics.intervals import normal_quantile

    if confidence is None or len(confidence) < 2:
        return (float("nan"),) * 3, float("nan"), float("nan")
    gaps = confidence - correct
    mean_gap, half = (
        float(gaps.mean()),
        normal_quantile(CONFIDENCE_LEVEL) * float(gaps.std(ddof=1) / np.sqrt(len(gaps))),
    )
    calibration = calibration_curve(
        confidence, correct, bins=int(np.clip(len(confidence) // _MIN_ROWS_PER_BIN, 1, _MAX_BINS))
    )
    return (mean_gap, mean_gap - half, mean_gap + half), calibration.calibration_error, calibration.chance_error


@dataclass(frozen=True)
class _Gap:
    """The groups with the ``lowest`` and the ``highest`` rate, their difference and ratio, with intervals.

    The intervals hold for all pairs of groups at once (Bonferroni), and so for the largest gap. The groups differ
    significantly if the interval of the difference lies above 0, or that of the ratio below 1.
    """

    rate: str
    lowest: str
    highest: str
    difference: float
    low: float
    high: float
    ratio: float
    ratio_low: float
    ratio_high: float

    @property
    def is_significant(self) -> bool:
        """Return whether the groups differ significantly."""
        return self.low > 0

    @property
    def points(self) -> str:
        """The difference with its interval, in percentage points."""
        return f"{100 * self.difference:.1f} points ({100 * self.low:.1f} to {100 * self.high:.1f})"


def _largest_gap(name: str, groups: Sequence[_FairnessGroup], min_rows: int) -> _Gap | None:
    """Return the gap of one rate between groups of at least ``min_rows`` rows; None if there are fewer than two."""
    rates = [(item.name, item.rates[name]) for item in groups if item.rates[name].rows >= min_rows]
    if len(rates) < 2:
        return None
    ordered = sorted(rates, key=lambda item: item[1].value)
    (lowest, lowest_rate), (highest, highest_rate) = ordered[0], ordered[-1]
    pairs = list(combinations([item for _, item in ordered], 2))
    level = 1 - (1 - CONFIDENCE_LEVEL) / len(pairs)
    ends = [newcombe_interval(*_hits_and_rows(high, low), level) for low, high in pairs]
    ratios = [ratio_interval(*_hits_and_rows(low, high), level) for low, high in pairs]
    return _Gap(
        rate=name,
        lowest=lowest,
        highest=highest,
        difference=highest_rate.value - lowest_rate.value,
        low=max(0.0, *(float(low) for low, _ in ends)),
        high=max(float(high) for _, high in ends),
        ratio=lowest_rate.value / highest_rate.value if highest_rate.value else 1.0,
        ratio_low=min(float(low) for low, _ in ratios),
        ratio_high=min(1.0, *(float(high) for _, high in ratios)),
    )


def _hits_and_rows(rate: _GroupRate, other_rate: _GroupRate) -> tuple[float, int, float, int]:
    return rate.hits, rate.rows, other_rate.hits, other_rate.rows


@dataclass(frozen=True)
class Fairness(Result):
    """The rates of each group of a column, and the gaps between groups.

    ``positive`` is the wanted class, "" if none was named. ``gaps`` maps the name of a rate to its gap, without groups
    that have fewer than ``min_rows`` rows for it.
    """

    by: str
    positive: str
    groups: tuple[_FairnessGroup, ...]
    gaps: dict[str, _Gap]
    min_rows: int = _MIN_GROUP_ROWS

    @property
    def criteria(self) -> dict[str, float]:
        """Return the largest difference for each fairness criterion; criteria without two large groups are left out.

        Demographic parity: Dwork et al. 2012, arXiv:1104.3913. Equal opportunity and equalized odds (the larger gap of
        both rates): Hardt, Price and Srebro 2016, arXiv:1610.02413.
        """
        criterion_gaps = {
            name: [self.gaps[gap] for gap in rates if gap in self.gaps] for name, rates in _CRITERIA.items()
        }
        return {
            name: max(gap.difference for gap in gaps)
            for name, gaps in criterion_gaps.items()
            if len(gaps) == len(_CRITERIA[name])
        }

    @property
    def headline(self) -> str:
        """Return the result in one line."""
        significant = [gap for gap in self.gaps.values() if gap.is_significant]
        if not self.gaps:
            return f"The groups of {self.by} are too few or too small to compare."
        if not significant:
            return f"No rate differs significantly between the groups of {self.by}."
        worst = max(significant, key=lambda gap: gap.difference)
        return f"The {worst.rate} differs by {worst.points} between {self.by} {worst.lowest} and {worst.highest}."

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per group: each rate with its interval, and its calibration."""
        import pandas as pd

        rows = []
        for group in self.groups:
            row = {self.by: group.name, "rows": group.rows, "small": group.is_small}
            for name, rate in group.rates.items():
                row |= {name: rate.value, f"{name} low": rate.low, f"{name} high": rate.high}
            row |= dict(
                zip(("overconfidence", "overconfidence low", "overconfidence high"), group.overconfidence, strict=True)
            )
            rows.append(
                {**row, "calibration error": group.calibration_error, "calibration error by chance": group.chance_error}
            )
        return pd.DataFrame(rows)

    def draw(self, ax: Axes) -> None:
        """Draw the rates of the groups with their intervals."""
        for i, name in enumerate(self.groups[0].rates if self.groups else ()):
            rates = [item.rates[name] for item in self.groups]
            positions = [position + 0.15 * i for position in range(len(rates))]
            ax.hlines(positions, [item.low for item in rates], [item.high for item in rates], color=f"C{i}")
            ax.plot([item.value for item in rates], positions, "o", color=f"C{i}", label=name)
        ax.set_yticks(range(len(self.groups)), [item.name for item in self.groups])
        ax.invert_yaxis()
        ax.legend()
        ax.set(xlim=(0, 1), ylabel=self.by, title=self.headline)

    def view(self) -> PanelView:
        """The rates as a dot plot, and the gaps."""
        return _fairness_page(self)

    def to_text(self) -> str:
        """Return the result as plain text."""
        lines = [f"nbdebug fairness: {self.headline}"]
        for group in self.groups:
            rates = ", ".join(f"{name} {rate.value:.1%}" for name, rate in group.rates.items())
            lines.append(f"  {self.by} {group.name}: {rates}, {group.rows} rows{', too few' * group.is_small}")
        for gap in self.gaps.values():
            lines.append(f"  {gap.rate}: difference {gap.points}")
        return "\n".join(lines)


def measure_fairness(
    table: PredictionTable, by: str, positive: str | int | None = None, *, min_rows: int = _MIN_GROUP_ROWS
) -> Fairness:
    """Return the rates of each group of a column and the gaps between groups, with intervals.

    Numbers are cut at quartiles. ``positive`` is the wanted class, by name or index; with two classes the default is
    the second. With more classes and no ``positive``, only accuracy and calibration are compared. Raises SetupError for
    a table that is not of a classifier, and for an unknown column or class.
    """
    if not isinstance(table, ClassificationTable):
        raise SetupError(
            f"the task of the table is {table.task or 'unknown'}; expected classification. Pass predicted labels."
        )
    positive_index = _get_positive_class(table.classes, positive)
    groups = _measure_groups(table, _group_feature(table, by), positive_index, min_rows)
    names = groups[0].rates if groups else {}
    gaps = {name: gap for name in names if (gap := _largest_gap(name, groups, min_rows)) is not None}
    return Fairness(by, "" if positive_index is None else table.classes[positive_index], groups, gaps, min_rows)


def _get_positive_class(classes: tuple[str, ...], positive: str | int | None) -> int | None:
    """Return the index of the wanted class."""
    if positive is None:
        return 1 if len(classes) == 2 else None
    if str(positive) in classes:
        return classes.index(str(positive))
    if isinstance(positive, int) and 0 <= positive < len(classes):
        return positive
    raise SetupError(f"positive is {positive!r}; expected one of {', '.join(classes[:20])}. Name the wanted class.")


_SIGNIFICANT_DIGITS = 6  # more than the page shows, so that a share is rounded only once
_PageNumbers = list[float | int | None]


def fairness_state(found: Fairness) -> dict[str, Any]:
    """The page state of the groups: their rates and the gaps."""
    gaps = {name: {**asdict(gap), "real": gap.is_significant} for name, gap in found.gaps.items()}
    return {
        "by": found.by,
        "positive": found.positive,
        "headline": found.headline,
        "fewest": found.min_rows,
        "groups": [_group_state(group) for group in found.groups],
        "gaps": {name: {key: _rounded_if_float(value) for key, value in gap.items()} for name, gap in gaps.items()},
        "criteria": {name: round_number(value, _SIGNIFICANT_DIGITS) for name, value in found.criteria.items()},
    }


def _group_state(group: _FairnessGroup) -> dict[str, Any]:
    rates = {
        name: [*round_numbers((rate.value, rate.low, rate.high), _SIGNIFICANT_DIGITS), rate.rows]
        for name, rate in group.rates.items()
    }
    return {
        "name": group.name,
        "rows": group.rows,
        "small": group.is_small,
        "query": query_request([group.condition]),
        "rates": rates,
        "confidence": round_numbers(group.overconfidence, _SIGNIFICANT_DIGITS),
        "error": round_number(group.calibration_error, _SIGNIFICANT_DIGITS),
        "chance": round_number(group.chance_error, _SIGNIFICANT_DIGITS),
    }


def _rounded_if_float(value: Any) -> Any:
    return round_number(value, _SIGNIFICANT_DIGITS) if isinstance(value, float) else value


def fairness_html(state: dict[str, Any]) -> str:
    """The page state of groups as an HTML table; empty without a column."""
    if not state["by"]:
        return ""
    names = list(state["groups"][0]["rates"]) if state["groups"] else []
    rows = [
        [group["name"], str(group["rows"]), *(_rate_text(group["rates"][name]) for name in names)]
        for group in state["groups"]
    ]
    return html_paragraph(f"Fairness: {state['headline']}") + html_table(rows, (state["by"], "samples", *names))


def _rate_text(rate: _PageNumbers) -> str:
    value, low, high, _ = rate
    return "–" if value is None or low is None or high is None else f"{value:.1%} ({low:.1%} to {high:.1%})"


def _fairness_page(found: Fairness) -> PanelView:
    """The groups on their own page."""
    from nbdebug.views.panel import PanelView

    state = {"columns": [], "classes": [], **fairness_state(found)}
    return PanelView("fairness", f"Groups of {found.by}", state, fairness_html(state))
