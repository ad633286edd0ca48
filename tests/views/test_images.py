"""Tests of matplotlib bars with names."""

from __future__ import annotations

from matplotlib.figure import Figure

from nbdebug.views.images import named_bars


def test_named_bars_with_equal_names_are_separate_and_first_is_on_top() -> None:
    ax = Figure().subplots()
    named_bars(ax, ["relu", "relu", "fc"], [1.0, 2.0, 3.0], label="after")
    named_bars(ax, ["relu", "relu", "fc"], [-1.0, -2.0, -3.0], label="before")
    assert [bar.get_width() for bar in ax.patches] == [1, 2, 3, -1, -2, -3]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["relu", "relu", "fc"]
    heights = [ax.transData.transform((0, bar.get_y()))[1] for bar in ax.patches[:3]]
    assert heights == sorted(heights, reverse=True)
