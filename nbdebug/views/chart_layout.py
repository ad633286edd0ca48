"""Matplotlib charts that read like those of the pages: no spike flattens a curve, and no label is cut or covered."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from matplotlib.ticker import FixedLocator

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_Values = npt.NDArray[np.float64]
# Those of `views/axes.js`.
_MIN_VALUES_FOR_BULK, _MAX_FLAT_SHARE, _MAX_FLAT_START = 20, 0.1, 0.02
_CHARACTER_WIDTH, _LINE_HEIGHT = 0.6, 1.25  # relative to the font size
_MIN_FONT_SIZE, _MIN_CHARACTERS = 4.0, 20  # points; of a line of the title
_POINTS_PER_INCH = 72


def fit_chart(ax: Axes, width: float, height: float) -> None:
    """Fit a finished chart into so many inches.

    ``width`` includes the names of bars, ``height`` neither the title nor the labels of the axes. The value axis
    becomes logarithmic, or is cut off with marks, where a few values would flatten a curve. The title is wrapped, and
    names of bars become small enough to stand below each other.
    """
    _fit_value_axis(ax)
    points = width * _POINTS_PER_INCH
    if isinstance(ax.yaxis.get_major_locator(), FixedLocator) and (labels := ax.get_yticklabels()):
        room = height * _POINTS_PER_INCH / len(labels) / _LINE_HEIGHT
        size = max(min(float(labels[0].get_fontsize()), room), _MIN_FONT_SIZE)
        ax.tick_params(axis="y", labelsize=size)
        points -= size * _CHARACTER_WIDTH * max(len(label.get_text()) for label in labels)
    characters = int(points / (_CHARACTER_WIDTH * float(ax.title.get_fontsize())))
    ax.title.set_text("\n".join(textwrap.wrap(ax.title.get_text(), max(characters, _MIN_CHARACTERS))))


def _fit_value_axis(ax: Axes) -> None:
    """Choose scale and range of the value axis as the pages do, unless the chart has chosen them."""
    curves = [line for line in ax.lines if len(_finite_values(line)) >= _MIN_VALUES_FOR_BULK]
    if not curves or ax.get_yscale() != "linear" or not ax.get_autoscaley_on():
        return
    values = np.concatenate([_finite_values(line) for line in ax.lines])
    bulk = _bulk_range(np.concatenate([_finite_values(line) for line in curves]))
    if bool((values > 0).all()) and (bulk or any(_is_flat_at_first(_finite_values(line)) for line in curves)):
        ax.set_yscale("log")
    elif bulk:
        span = bulk[1] - bulk[0]
        low, high = max(values.min(), bulk[0] - span), min(values.max(), bulk[1] + span)
        ax.set_ylim(low - 0.06 * (high - low), high + 0.06 * (high - low))
        for line in curves:
            _mark_highest_beyond(ax, line, high)


def _mark_highest_beyond(ax: Axes, line: Line2D, high: float) -> None:
    """Write the highest value of a line at the upper edge, if it lies beyond it."""
    x, y = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
    index = int(np.nanargmax(np.where(np.isfinite(y), y, np.nan)))
    if y[index] > high:
        place, units = (float(x[index]), 1.0), ("data", "axes fraction")
        ax.annotate(f"▲ {y[index]:.3g}", place, xycoords=units, va="top", color=line.get_color(), fontsize=8)


def _finite_values(line: Line2D) -> _Values:
    values: _Values = np.asarray(line.get_ydata(), np.float64)
    finite: _Values = values[np.isfinite(values)]
    return finite


def _bulk_range(values: _Values) -> tuple[float, float] | None:
    """Return the range of nine tenths of the values, if it would take less than a tenth of an axis with all of them."""
    ordered, count = np.sort(values), len(values)
    low, high = ordered[int(0.05 * count)], ordered[int(np.ceil(0.95 * count)) - 1]
    is_flat = low < high and high - low < _MAX_FLAT_SHARE * (ordered[-1] - ordered[0])
    return (float(low), float(high)) if is_flat else None


def _is_flat_at_first(values: _Values) -> bool:
    """Return whether the first half of a curve would take less than a fiftieth of the axis, as before a divergence."""
    return bool(np.ptp(values[: len(values) // 2]) < _MAX_FLAT_START * np.ptp(values))
