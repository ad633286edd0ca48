"""What of an explanation stands in its page, where not all has room."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

OF_ATTRIBUTIONS, OF_PANELS = 240_000, 120_000  # bytes, of a page of 0.4 MB

Told = Mapping[str, Any]


def fitting(attributions: Sequence[Sequence[Told]]) -> list[list[dict[str, Any]]]:
    """The attributions of each sample that there is room for, those first that were asked for first."""
    kept: list[list[dict[str, Any]]] = [[] for _ in attributions]
    left = OF_ATTRIBUTIONS
    for turn in range(max(map(len, attributions), default=0)):
        for row, found in enumerate(attributions):
            if turn >= len(found) or len(kept[row]) < turn:
                continue
            one = without_pictures(found[turn], kept[row])
            size = len(json.dumps(one))
            if size <= left or not any(kept):
                left -= size
                kept[row].append(one)
    return kept


def without_pictures(found: Told, before: Sequence[Told]) -> dict[str, Any]:
    """An attribution without the pictures that stand in the first of its sample."""
    if not before:
        return dict(found)
    known = [one.get("src") for one in before[0]["inputs"]]
    inputs = [
        {name: value for name, value in one.items() if name != "src" or at >= len(known) or value != known[at]}
        for at, one in enumerate(found["inputs"])
    ]
    return {**found, "inputs": inputs}
