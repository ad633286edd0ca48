"""The view of a range test, while it runs and when it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbdebug.tools.lr_range.result import NAMES

if TYPE_CHECKING:
    from nbdebug.tools.lr_range.result import LrRange
    from nbdebug.views.base import View


def view(result: LrRange, live: bool = False) -> View:
    """The picture of a result; ``live`` for one that rows will be added to."""
    from nbdebug.views.curves import Curves

    name = NAMES[result.quantity]
    series: dict[str, Any] = {}
    for one in result.sweeps:
        series[f"seed {one.seed}"] = list(zip(one.values, one.smooth, strict=True))
    marks = [(one.value, f"{one.name} {one.value:.2g}") for one in result.suggestions if one.value is not None]
    if result.current is not None:
        marks.append((result.current, f"yours {result.current:.2g}"))
    return Curves(
        title=f"{name.capitalize()} range test",
        x_label=name,
        y_label="loss",
        series=series,
        marks=marks,
        log_x=result.mode == "exp",
        status="" if live else f"{result.verdict}: {result.headline}",
        stoppable=live,
    )


def row(quantity: str, seed: int, value: float, smooth: float) -> dict[str, Any]:
    """One step as the view takes it."""
    return {NAMES[quantity]: value, f"seed {seed}": smooth}
