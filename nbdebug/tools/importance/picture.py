"""What the pages of importance and of its drift hold, and their pictures in matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.tools.importance.maps import maps
from nbdebug.tools.importance.related import partner
from nbdebug.views.bars import bars
from nbdebug.views.importance.drift import DriftView
from nbdebug.views.importance.page import ImportanceView
from nbdebug.views.plain import rounded, rounded_all

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nbdebug.tools.importance.drift import Drift
    from nbdebug.tools.importance.points import Measure
    from nbdebug.tools.importance.result import Importance
    from nbdebug.tools.importance.statistics import Estimates

ROWS, SWARMS, DOTS, BARS = 60, 20, 300, 15
DIGITS = 3


def view(found: Importance) -> ImportanceView:
    """The page of an importance."""
    order = found.order[:ROWS].tolist()
    return ImportanceView(
        title=found.title,
        headline=found.headline,
        notes=found.notes,
        said=said(found),
        metric=found.metric,
        words=found.words,
        attributed=found.attributions is not None,
        permuted=bool(np.isfinite(found.drop).any()),
        features=len(found.features),
        rows=[row(found, j) for j in order],
        **dots(found, order[:SWARMS]),
        maps=maps(found),
    )


def said(found: Importance) -> str:
    """What was measured on what."""
    parts = [f"{len(found):,} samples"]
    if found.attributions is not None:
        done = len(found.attributions)
        few = f" of {done:,}" if done < len(found) else ""
        method = found.method.replace("_", " ")
        parts.append(f"{found.space} of {found.target}{few} by {method}, {found.background} background samples")
    if found.score is not None:
        parts.append(f"{found.metric} {found.score}, {found.repeats} permutations")
    return " · ".join(parts)


def row(found: Importance, j: int) -> dict[str, Any]:
    """One feature in the table."""
    return {
        "name": found.names[j],
        "kind": found.features[j].kind,
        "size": ends(found.size, j),
        "signed": ends(found.signed, j),
        "share": rounded(float(found.share[j]), DIGITS),
        "drop": ends(found.lost, j),
        "told": bool(found.told[j]),
    }


def ends(one: Estimates, j: int) -> list[float | None]:
    """A number with the ends of its interval."""
    return rounded_all((one.value[j], one.low[j], one.high[j]), DIGITS)


def dots(found: Importance, order: list[int]) -> dict[str, Any]:
    """Values and attributions of some samples for the first features, with the one that each interacts most with."""
    if found.attributions is None:
        return {"swarms": [], "samples": []}
    done = len(found.attributions)
    some = np.unique(np.linspace(0, done - 1, min(DOTS, done)).round().astype(int))
    values = found.inputs[:done]
    swarms = []
    for j in order:
        other = partner(found.attributions, values, j, order)
        swarms.append(
            {
                "attributions": rounded_all(found.attributions[some, j], DIGITS),
                "values": rounded_all(values[some, j], DIGITS),
                "partner": None if other is None else order.index(other),
            }
        )
    samples = some if found.keys is None else found.keys[some]
    return {"swarms": swarms, "samples": [int(one) for one in samples]}


def draw(found: Importance, ax: Axes) -> None:
    """The first features as bars, of attribution where there is any, else of what the metric loses."""
    order = found.order[:BARS]
    one, words = (
        (found.lost, found.metric) if found.attributions is None else (found.size, f"{found.words}, {found.space}")
    )
    value, low, high = (np.nan_to_num(each[order]) for each in (one.value, one.low, one.high))
    sides = np.maximum([value - low, high - value], 0) if len(found) > 1 else None
    bars(ax, [found.names[j] for j in order], value, xerr=sides, color="tab:blue", ecolor="0.3", capsize=2)
    ax.set(xlabel=words, title=found.headline.split(";")[0])


def drift_view(found: Drift) -> DriftView:
    """The page of a drift."""
    return DriftView(
        title=found.title,
        headline=found.headline,
        notes=found.notes,
        names=found.names,
        by=found.by,
        features=found.features,
        measures={name: points(one) for name, one in found.measures.items()},
    )


def points(one: Measure) -> dict[str, Any]:
    """One measure, feature by feature."""
    change = np.stack([one.change.value, one.change.low, one.change.high], 1)
    every = np.stack([one.value, one.low, one.high], 2)
    return {
        "points": rounded_all(every.swapaxes(0, 1), DIGITS),
        "change": rounded_all(change, DIGITS),
        "told": one.told.tolist(),
        "ranks": rounded(one.ranks, DIGITS),
    }


def draw_drift(found: Drift, ax: Axes) -> None:
    """A line a feature, those that changed beyond chance in color."""
    one, x = found.measure, range(len(found.names))
    for j in found.order[:BARS][::-1].tolist():
        look = {"color": None, "label": found.features[j]} if one.told[j] else {"color": "0.75"}
        sides = np.nan_to_num(np.maximum([one.value[:, j] - one.low[:, j], one.high[:, j] - one.value[:, j]], 0))
        ax.errorbar(x, one.value[:, j], yerr=sides, marker="o", capsize=2, **look)
    ax.set_xticks(list(x), found.names)
    ax.set(ylabel=found.by, title=found.headline.split(" (")[0])
    if one.told.any():
        ax.legend()
