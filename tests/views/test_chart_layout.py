"""Tests of the layout of matplotlib charts: no value flattens the others, and every label can be read."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from nbdebug.tools.lr_range.result import LrRange
from nbdebug.views.chart_layout import fit_chart
from nbdebug.views.images import named_bars
from tests.views.lr_range_views import make_sweep

NOISE = np.random.default_rng(0).normal(size=200)


def chart(values: Any, **settings: Any) -> Any:
    ax = Figure(figsize=(7, 4), layout="constrained").subplots()
    ax.plot(range(len(values)), values)
    ax.set(**settings)
    fit_chart(ax, 6.0, 3.0)
    return ax


def test_spike_of_positive_curve_gives_logarithmic_axis() -> None:
    losses = 1 + 0.02 * NOISE
    losses[50] = 55.7
    assert chart(losses).get_yscale() == "log"


def test_spike_of_curve_with_negative_values_is_cut_off_and_marked() -> None:
    losses = 0.02 * NOISE
    losses[50] = 55.7
    ax = chart(losses)
    assert ax.get_yscale() == "linear"
    assert ax.get_ylim()[1] < 1
    assert [text.get_text() for text in ax.texts] == ["▲ 55.7"]


def test_plain_curve_short_curve_and_chosen_range_stay() -> None:
    assert chart(2 - np.arange(200) / 200).get_yscale() == "linear"
    assert chart([1.0, 1.0, 55.7]).get_yscale() == "linear"
    assert chart(np.where(np.arange(200) == 50, 55.7, 1 + 0.02 * NOISE), ylim=(0, 60)).get_ylim() == (0, 60)


def test_long_title_and_many_names_fit() -> None:
    ax = Figure(figsize=(7, 4), layout="constrained").subplots()
    named_bars(ax, [f"rows {i}-{i + 4}, columns 9-13" for i in range(40)], np.ones(40))
    ax.set_title("79 fixed, 18 broken of 1,500: +4.1 points of accuracy (+2.8 to +5.3), McNemar p = 2.721e-10 " * 2)
    fit_chart(ax, 5.4, 3.1)
    figure: Any = ax.figure
    figure.draw_without_rendering()
    title = ax.title.get_window_extent()
    assert title.x0 >= 0
    assert title.x1 <= figure.bbox.width
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert all(below.y1 <= above.y0 + 1 for above, below in pairwise(boxes))


def test_range_test_is_cut_off_where_it_diverges() -> None:
    sweeps = tuple(replace(sweep, smooth=(*sweep.smooth[:-1], 40.0)) for sweep in map(make_sweep, range(3)))
    ax = LrRange("lr", "exp", sweeps, (), None, "clear", "").plot()
    assert sweeps[0].smooth[0] < ax.get_ylim()[1] < 20
    assert "cut off" in ax.get_ylabel()
