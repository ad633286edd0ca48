"""Page state, plots and text of feature importance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.formatting import join_names, round_number, round_numbers
from nbdebug.tools.importance.features import has_channels_last
from nbdebug.tools.importance.interactions import interaction_partner
from nbdebug.tools.importance.permutation import metric_with_interval
from nbdebug.tools.importance.view import ImportanceView
from nbdebug.views.images import named_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nbdebug.statistics.estimates import Estimates
    from nbdebug.tools.importance.data import CorrelatedFeatures, ImportanceData
    from nbdebug.tools.importance.features import InputFeature
    from nbdebug.tools.importance.permutation import Scorer

_MAX_MAP_SIDE = 64
_MAX_ROWS, _MAX_SWARMS, _MAX_DOTS, MAX_BARS = 60, 20, 300, 15
SIGNIFICANT_DIGITS = 3


def _importance_maps(importance: ImportanceData) -> list[dict[str, Any]]:
    """Return every map as rows × columns of numbers."""
    states = [
        _map_state(f"{_input_prefix(name)}{importance.size_name} by position", _to_two_axes(feature))
        for name, feature in importance.maps.items()
    ]
    for name in dict.fromkeys(feature.input for feature in importance.features if feature.kind == "patch"):
        grid = _patch_grid(importance, name)
        if np.isfinite(grid).any():
            states.append(_map_state(f"{_input_prefix(name)}{importance.metric}: drop when a patch is permuted", grid))
    return states


def _input_prefix(name: str) -> str:
    """Return the input name as a prefix if there are several inputs."""
    return "" if name == "input" else f"{name}: "


def _to_two_axes(values: NDArray[Any]) -> NDArray[Any]:
    """Reduce a map to two axes of limited length; image channels are summed."""
    if values.ndim == 3:
        values = values.sum(2 if has_channels_last(values.shape) else 0)
    if values.ndim == 2 and values.shape[0] > 4 * values.shape[1]:
        values = values.T
    for axis in (0, 1):
        parts = min(values.shape[axis], _MAX_MAP_SIDE)
        starts = np.linspace(0, values.shape[axis], parts + 1).astype(int)[:-1]
        values = np.add.reduceat(values, starts, axis)
    return values


def _patch_grid(importance: ImportanceData, name: str) -> NDArray[Any]:
    """Return the permutation importance of the patches of an input, as a grid."""
    patch_slices = [
        (j, feature.slices[-2:])
        for j, feature in enumerate(importance.features)
        if feature.kind == "patch" and feature.input == name
    ]
    tops = sorted({slices[0].start for _, slices in patch_slices})
    lefts = sorted({slices[1].start for _, slices in patch_slices})
    grid = np.full((len(tops), len(lefts)), np.nan)
    for j, slices in patch_slices:
        grid[tops.index(slices[0].start), lefts.index(slices[1].start)] = importance.drop[j]
    return grid


def _map_state(title: str, grid: NDArray[Any]) -> dict[str, Any]:
    """Convert a map to JSON-compatible data."""
    return {"title": title, "rows": round_numbers(grid, 3)}


def headline(importance: ImportanceData) -> str:
    """Return the first feature by both measures, and the number of significant features."""
    top_feature = int(importance.order[0])
    parts = []
    if importance.attributions is not None and np.isfinite(importance.share[top_feature]):
        parts.append(f"{importance.names[top_feature]} gets {importance.share[top_feature]:.0%} of all attribution")
    is_permuted = np.isfinite(importance.drop)
    if is_permuted.any() and importance.score is not None:
        largest = int(np.nanargmax(importance.drop))
        feature_text = "it" if parts and largest == top_feature else importance.names[largest]
        verb = "raises" if importance.metric == "loss" else "lowers"
        parts.append(
            f"permuting {feature_text} {verb} {importance.metric} by {_format_number(importance.drop[largest])}, from "
            f"{_format_number(importance.score.value)}"
        )
        parts.append(f"{int(importance.significant.sum())} of {int(is_permuted.sum())} features are significant")
    return "; ".join(parts) or "no importance could be measured"


def importance_text(importance: ImportanceData, max_rows: int) -> str:
    """Return the headline, one line per feature, and the notes."""
    lines = [f"nbdebug importance: {headline(importance)}", *_feature_table(importance, max_rows)]
    hidden = len(importance.features) - max_rows
    if hidden > 0:
        lines.append(f"  … {hidden} more in .to_frame()")
    lines += [f"  note: {note}" for note in importance.notes]
    by = f" by {importance.method}, {importance.background} background samples" if importance.method else ""
    return "\n".join([*lines, f"  {len(importance)} samples{by}; {importance.seconds:.1f} s; the model is unchanged"])


def _feature_table(importance: ImportanceData, max_rows: int) -> list[str]:
    """Return the first features with 95% intervals."""
    order = importance.order[:max_rows].tolist()
    width = min(max((len(importance.names[j]) for j in order), default=0), 32)
    noun = "increase" if importance.metric == "loss" else "drop"
    size_title = f"{importance.size_name} ({importance.space or 'none'})"
    lines = [f"  {'':{width}}  {size_title:28} {noun} of {importance.metric or 'a metric'}"]
    for j in order:
        sizes, drops = importance.size, importance.metric_drop
        size_text = _format_interval(sizes.value[j], sizes.low[j], sizes.high[j])
        drop_text = _format_interval(drops.value[j], drops.low[j], drops.high[j])
        lines.append(
            f"  {importance.names[j][:width]:{width}}  {size_text:28} "
            f"{drop_text}{' *' if importance.significant[j] else ''}"
        )
    return [*lines, "  * significant"] if importance.significant[order].any() else lines


def _format_interval(value: float, low: float, high: float) -> str:
    if not np.isfinite(value):
        return "–"
    return (
        f"{_format_number(value)} ({_format_number(low)} to {_format_number(high)})"
        if np.isfinite(low)
        else _format_number(value)
    )


def _format_number(value: float) -> str:
    return f"{value:.3g}" if abs(value) >= 1e-12 else "0"


def result_notes(scorer: Scorer | None, size: int) -> list[str]:
    """Return notes on limits of the results."""
    if size == 1:
        return ["a single sample has no interval"]
    if scorer is not None and scorer.name == "accuracy" and scorer.chance == 1:
        return ["all samples have the same class, so accuracy cannot show what separates classes"]
    if scorer is not None and scorer.name == "R²" and not np.isfinite(metric_with_interval(scorer).low):
        return ["a few samples dominate the variance of the target, so R² has no interval; use more, or metric='loss'"]
    return []


def correlation_note(group: CorrelatedFeatures, features: Sequence[InputFeature]) -> str:
    """Return a note on correlated features."""
    names = join_names([features[j].name for j in group.features])
    return (
        f"{names} are correlated (rank correlation 0.9 or more): permuting one leaves the same information in the "
        f"others and creates unrealistic combinations; permuted together, the drop is {group.drop}"
    )


def importance_view(importance: ImportanceData) -> ImportanceView:
    """Return the page of an importance."""
    order = importance.order[:_MAX_ROWS].tolist()
    return ImportanceView(
        title=importance.title,
        headline=headline(importance),
        notes=importance.notes,
        said=_measurement_summary(importance),
        metric=importance.metric,
        words=importance.size_name,
        attributed=importance.attributions is not None,
        permuted=bool(np.isfinite(importance.drop).any()),
        features=len(importance.features),
        rows=[_feature_row(importance, j) for j in order],
        **_swarm_state(importance, order[:_MAX_SWARMS]),
        maps=_importance_maps(importance),
    )


def _measurement_summary(importance: ImportanceData) -> str:
    """Describe what was measured, and on what."""
    parts = [f"{len(importance):,} samples"]
    if importance.attributions is not None:
        done = len(importance.attributions)
        subset_text = f" of {done:,}" if done < len(importance) else ""
        method = importance.method.replace("_", " ")
        parts.append(
            f"{importance.space} of {importance.target}{subset_text} by {method}, {importance.background} background "
            "samples"
        )
    if importance.score is not None:
        parts.append(f"{importance.metric} {importance.score}, {importance.repeats} permutations")
    return " · ".join(parts)


def _feature_row(importance: ImportanceData, j: int) -> dict[str, Any]:
    """Return the table row of a feature."""
    return {
        "name": importance.names[j],
        "kind": importance.features[j].kind,
        "size": _value_with_interval(importance.size, j),
        "signed": _value_with_interval(importance.signed, j),
        "share": round_number(float(importance.share[j]), SIGNIFICANT_DIGITS),
        "drop": _value_with_interval(importance.metric_drop, j),
        "told": bool(importance.significant[j]),
    }


def _value_with_interval(estimates: Estimates, j: int) -> list[float | None]:
    return round_numbers((estimates.value[j], estimates.low[j], estimates.high[j]), SIGNIFICANT_DIGITS)


def _swarm_state(importance: ImportanceData, order: list[int]) -> dict[str, Any]:
    """Return values and attributions of some samples for the first features, with their interaction partners."""
    if importance.attributions is None:
        return {"swarms": [], "samples": []}
    done = len(importance.attributions)
    shown_rows = np.unique(np.linspace(0, done - 1, min(_MAX_DOTS, done)).round().astype(int))
    values = importance.inputs[:done]
    swarms = []
    for j in order:
        partner_index = interaction_partner(importance.attributions, values, j, order)
        swarms.append(
            {
                "attributions": round_numbers(importance.attributions[shown_rows, j], SIGNIFICANT_DIGITS),
                "values": round_numbers(values[shown_rows, j], SIGNIFICANT_DIGITS),
                "partner": None if partner_index is None else order.index(partner_index),
            }
        )
    samples = shown_rows if importance.keys is None else importance.keys[shown_rows]
    return {"swarms": swarms, "samples": [int(sample) for sample in samples]}


def draw_importance(importance: ImportanceData, ax: Axes) -> None:
    """Draw the first features as bars: attributions if available, else permutation importance."""
    order = importance.order[:MAX_BARS]
    estimates, words = (
        (importance.metric_drop, importance.metric)
        if importance.attributions is None
        else (importance.size, f"{importance.size_name}, {importance.space}")
    )
    value, low, high = (np.nan_to_num(array[order]) for array in (estimates.value, estimates.low, estimates.high))
    errors = np.maximum([value - low, high - value], 0) if len(importance) > 1 else None
    named_bars(ax, [importance.names[j] for j in order], value, xerr=errors, color="tab:blue", ecolor="0.3", capsize=2)
    ax.set(xlabel=words, title=headline(importance).split(";")[0])
