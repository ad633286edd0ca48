"""The panel of neighbors: whether training data reaches the samples, and whether it is labeled like them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.intervals import wilson
from nbdebug.tools.errors.neighbors import DISAGREE, DISTANCE, Neighborhood, neighborhood
from nbdebug.tools.panel import Panel
from nbdebug.views.markup import paragraph, table
from nbdebug.views.plain import plain

if TYPE_CHECKING:
    from nbdebug.tools.errors.result import Errors

K = 8
FAR = ((0.0, 0.5), (0.5, 0.8), (0.8, 0.95), (0.95, 0.98), (0.98, 1.0))  # shares of the training samples


def fits(errors: Errors) -> bool:
    """Whether there is a model, training data, and a sample for each row."""
    return errors.setup is not None and errors.table.index is not None and errors.dataset is not None


def state(errors: Errors, row: int | None = None, k: int = K) -> dict[str, Any]:
    """What the page draws: how far the rows are from training data, how many of their neighbors are labeled otherwise.

    With ``row`` it is the nearest training samples of that one.
    """
    found = neighborhood(errors, k)
    return whole(errors, found) if row is None else of_row(errors, found, int(row))


def whole(errors: Errors, found: Neighborhood) -> dict[str, Any]:
    """Bands of distance and of disagreement, with the rows in each and how many of these are wrong."""
    near, right = found.near, errors.table.right
    k, ends = found.reference.k, np.array([low for low, _ in FAR[1:]])
    parts = np.searchsorted(ends, near.farther, side="right")
    far = [
        {
            "name": band(low, high),
            "query": {"ranges": {DISTANCE: [*reach(near.farther[parts == at])]}, "sort": DISTANCE},
        }
        | counts(parts == at, right)
        for at, (low, high) in enumerate(FAR)
    ]
    labeled = []
    if near.others is not None:
        for other in range(k, -1, -1):
            among = np.isclose(near.others, other / k)
            query = {
                "ranges": {DISAGREE: [*reach(near.others[among])]},
                "sort": "loss" if has_loss(errors) else DISAGREE,
            }
            labeled.append({"name": f"{other} of {k}", "query": query, **counts(among, right)})
    return {
        "layer": found.layer,
        "metric": found.reference.metric,
        "k": k,
        "train": len(found.train),
        "far": [one for one in far if one["count"]],
        "labeled": [one for one in labeled if one["count"]],
    }


def has_loss(errors: Errors) -> bool:
    """Whether rows can be sorted by their loss."""
    return "loss" in errors.table.columns


def band(low: float, high: float) -> str:
    """A band of distance in words."""
    return f"{low:.0%} to {high:.0%}"


def reach(values: NDArray[Any]) -> tuple[float, float]:
    """The lowest and the highest of some values, exactly, so that a query finds them all again."""
    return (float(values.min()), float(values.max())) if len(values) else (2.0, 2.0)


def counts(among: NDArray[np.bool_], right: NDArray[np.bool_] | None) -> dict[str, Any]:
    """How many rows there are, and the share of them that is wrong, with its interval."""
    count = int(among.sum())
    if right is None or not count:
        return {"count": count, "wrong": None}
    wrong = int((among & ~right).sum())
    return {"count": count, "wrong": plain([wrong / count, *wilson(wrong, count)])}


def of_row(errors: Errors, found: Neighborhood, row: int) -> dict[str, Any]:
    """The nearest training samples of one row."""
    near = found.near
    places = [int(at) for at in near.places[row]]
    keys = [found.key(at) for at in places]
    shown = found.samples.many(keys) if found.samples is not None else [None] * len(keys)
    target = errors.table.said(row).get("target", "")
    names = [found.label(at) for at in places]
    others = None if near.others is None else plain(float(near.others[row]))
    listed = zip(keys, names, near.distances[row], shown, strict=True)
    return {
        "row": row,
        "target": plain(target),
        "layer": found.layer,
        "k": len(keys),
        "farther": plain(float(near.farther[row])),
        "others": others,
        "samples": [
            {"key": key, "label": plain(name), "same": name == target, "distance": plain(float(distance)), "shown": one}
            for key, name, distance, one in listed
        ],
    }


def html(state: dict[str, Any]) -> str:
    """The bands as plain tables."""
    said = f"Distance to the {state['k']} nearest of {state['train']} training samples, by {state['layer']}."
    head = ("samples", "share wrong")
    return (
        paragraph(said)
        + table([[one["name"], str(one["count"]), share(one)] for one in state["far"]], ("distance", *head))
        + table([[one["name"], str(one["count"]), share(one)] for one in state["labeled"]], ("other label", *head))
    )


def share(one: dict[str, Any]) -> str:
    """The share that is wrong."""
    return "" if one["wrong"] is None else f"{one['wrong'][0]:.1%}"


PANEL = Panel("neighbors", "Neighbors", fits, state, html, quick=False)
