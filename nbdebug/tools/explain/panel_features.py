"""The panel of feature maps: what any layer gives for the sample, beside what it gives for others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from nbdebug.inside import Features, Layers, features, layers
from nbdebug.inside.features import usual_choice
from nbdebug.tools.explain.inside import beside, has_layers, packed, predicted, steps, tokens
from nbdebug.tools.explain.told import class_name
from nbdebug.tools.panel import Panel
from nbdebug.views.markup import listed, paragraph, table
from nbdebug.views.plain import rounded, short

if TYPE_CHECKING:
    from nbdebug.tools.explain.result import Explanation

MAPS = 64  # channels that are drawn
SIDE = 32  # places of a map along each side
UNITS = 96  # of a strip, or rows of a sequence
POSITIONS = 128


def state(
    explanation: Explanation, row: int, at: int | None = None, side: str = "output", order: str = "strongest"
) -> dict[str, Any]:
    """The activations of one call, ``at`` its place among those listed; ``order`` "first" takes the first channels."""
    every = kept_layers(explanation)
    own = every.own
    place = own.index(usual_choice(every)) if at is None or not 0 <= at < len(own) else at
    found = features(
        explanation.given, explanation.case(row), own[place].name, side="input" if side == "input" else "output",
        call=own[place].call, background=beside(explanation),
    )  # fmt: skip
    return {
        "layers": [{"title": one.title, "kind": one.kind, "shape": size(one.shape or ())} for one in own],
        "at": place,
        "side": found.side,
        "order": order,
        "shape": size(found.values.shape[1:]),
        "channels": found.maps.shape[1],
        **drawn(explanation, row, found, order),
        "said": found.said(0),
        "notes": [*every.notes, *found.notes],
    }


def kept_layers(explanation: Explanation) -> Layers:
    """The layers of the model, listed once."""
    if "layers" not in explanation.known:
        explanation.known["layers"] = layers(explanation.given, explanation.case(0))
    found: Layers = explanation.known["layers"]
    return found


def size(shape: tuple[int, ...]) -> str:
    """A shape in a few signs."""
    return "×".join(map(str, shape)) or "1"


def drawn(explanation: Explanation, row: int, found: Features, order: str) -> dict[str, Any]:
    """Channels as maps, as rows of a sequence, or as bars."""
    maps = np.asarray(found.maps[0], np.float64)
    while maps.ndim > 3:  # of volumes the middle slice
        maps = maps[:, maps.shape[1] // 2]
    most = UNITS if maps.ndim < 3 else MAPS
    strength = np.abs(maps).reshape(len(maps), -1).mean(1)
    kept = np.sort(np.argsort(-strength, kind="stable")[:most]) if order != "first" else np.arange(min(most, len(maps)))
    if maps.ndim == 3:
        kept = kept if order == "first" else kept[np.argsort(-strength[kept], kind="stable")]
        return {"kind": "maps", **squares(found, maps[kept], kept)}
    if maps.ndim == 2 and maps.shape[1] > 1:
        return {"kind": "sequence", **rows(explanation, row, found, maps[kept], kept)}
    return {"kind": "units", **strip(explanation, row, found, maps.reshape(len(maps), -1)[:, 0], kept)}


def squares(found: Features, maps: NDArray[Any], kept: NDArray[Any]) -> dict[str, Any]:
    """Each channel as bytes between its own ends."""
    height, width = maps.shape[1:]
    if max(height, width) > SIDE:
        share = SIDE / max(height, width)
        shape = max(1, round(height * share)), max(1, round(width * share))
        maps = F.adaptive_avg_pool2d(torch.from_numpy(maps)[None], shape)[0].numpy()
    data = packed(steps(one, float(one.min()), float(one.max())) for one in maps)
    cells = [[int(at), found.marks[0][at], rounded(float(one.min())), rounded(float(one.max()))]
             for at, one in zip(kept, maps, strict=True)]  # fmt: skip
    return {
        "cells": cells, "data": data, "rows": maps.shape[1], "columns": maps.shape[2],
        "pooled": f"{width}×{height}" if max(height, width) > SIDE else "",
        "slice": found.values.ndim - 2 if found.layout in ("volumes", "other") else 0,
    }  # fmt: skip


def rows(explanation: Explanation, row: int, found: Features, maps: NDArray[Any], kept: NDArray[Any]) -> dict[str, Any]:
    """Units × positions as bytes on one scale; of long sequences the means of neighbors."""
    length = maps.shape[1]
    if length > POSITIONS:
        maps = F.adaptive_avg_pool1d(torch.from_numpy(maps)[None], POSITIONS)[0].numpy()
    low, high = float(maps.min()), float(maps.max())
    return {
        "cells": [[int(at), found.marks[0][at]] for at in kept],
        "data": packed([steps(maps, low, high)]), "rows": maps.shape[0], "columns": maps.shape[1],
        "low": rounded(low), "high": rounded(high), "pooled": str(length) if length > POSITIONS else "",
        "tokens": tokens(explanation, row, length) if length <= POSITIONS else [],
    }  # fmt: skip


def strip(
    explanation: Explanation, row: int, found: Features, values: NDArray[Any], kept: NDArray[Any]
) -> dict[str, Any]:
    """Each unit with its value, what it is on other samples, and on those of the class that the sample is said to be.

    A unit is [number, name, mark, value, mean of others, their standard deviation, mean of the class].
    """
    said = predicted(explanation, row)
    blank = np.full(len(values), np.nan)
    mean, spread, count = (blank, blank, 0) if found.usual is None else found.usual.of()
    labeled = found.usual is not None and found.usual.labels is not None and said is not None
    of_class, _, members = found.usual.of(said) if labeled and found.usual is not None else (blank, blank, 0)
    last = found.layer == kept_layers(explanation).own[-1].name and len(values) == explanation.outputs.shape[1]
    names = [class_name(explanation, at) if last and len(values) > 1 else str(at) for at in range(len(values))]
    units = [
        [int(at), names[at], found.marks[0][at], *(rounded(float(one[at])) for one in (values, mean, spread, of_class))]
        for at in kept
    ]
    return {
        "units": units,
        "beside": count,
        "class": class_name(explanation, said) if members else "",
        "members": members,
    }


def html(state: dict[str, Any]) -> str:
    """The layers as a table, and what is said of the one that is shown."""
    shown = state["layers"][state["at"]]
    head = f"{state['side']} of {shown['title']} ({shown['kind']}), {state['shape']}"
    listing = table([[one["title"], one["kind"], one["shape"]] for one in state["layers"]], ("layer", "kind", "shape"))
    units = [[one[1], short(one[3]), short(one[4])] for one in state.get("units", [])[:12]]
    return paragraph(head) + listed([*state["said"], *state["notes"]]) + table(units) + listing


PANEL = Panel("features", "Feature maps", has_layers, state, html, quick=False)
