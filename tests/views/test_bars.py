"""Bars with names in matplotlib."""

from __future__ import annotations

from matplotlib.figure import Figure

from nbdebug.views.images import named_bars


def test_bars_of_one_name_stay_apart_the_first_on_top() -> None:
    ax = Figure().subplots()
    named_bars(ax, ["relu", "relu", "fc"], [1.0, 2.0, 3.0], label="after")
    named_bars(ax, ["relu", "relu", "fc"], [-1.0, -2.0, -3.0], label="before")
    assert [one.get_width() for one in ax.patches] == [1, 2, 3, -1, -2, -3]
    assert [one.get_text() for one in ax.get_yticklabels()] == ["relu", "relu", "fc"]
    high = [ax.transData.transform((0, one.get_y()))[1] for one in ax.patches[:3]]
    assert high == sorted(high, reverse=True)
