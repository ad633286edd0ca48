"""An explanation in plain text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from nbdebug.samples.layout import arranged
from nbdebug.tools.explain.told import case_state
from nbdebug.tools.importance.features import parts_of
from nbdebug.views.plain import short

if TYPE_CHECKING:
    from nbdebug.tools.explain.result import Explanation

LARGEST, PATCHES = 5, 6


def words(explanation: Explanation) -> str:
    """What was said of each sample, what speaks most for it, and how it was found."""
    lines = [str(explanation.attribution).splitlines()[0]]
    for row in range(min(len(explanation), 8)):
        lines += [f"  {headline(explanation, row)}", f"    {largest(explanation, row)}"]
    return "\n".join([*lines, *str(explanation.attribution).splitlines()[1:]])


def headline(explanation: Explanation, row: int) -> str:
    """What the model says of a sample, beside the truth."""
    state = case_state(explanation, row)
    first = state["outputs"][0]
    said = first["name"] if state["predicted"] is not None else short(first["score"])
    sure = f" ({first['chance']:.0%})" if first["chance"] is not None else ""
    truth = "" if state["truthName"] is None else "" if state["right"] else f", and is {state['truthName']}"
    return f"{state['name']} is said to be {said}{sure}{', rightly' if state['right'] else truth}"


def largest(explanation: Explanation, row: int) -> str:
    """The largest attributions with their signs: of a picture those of its patches."""
    found = explanation.attribution
    listed = [
        (value, prefix(found.values, name) + said)
        for name, values in found.values.items()
        for value, said in (patches if values.ndim > 3 else numbers)(explanation, name, row)
    ]
    largest = sorted(listed, key=lambda one: -abs(one[0]))[:LARGEST]
    return "; ".join(f"{said} {value:+.3g}" for value, said in largest)


def numbers(explanation: Explanation, name: str, row: int) -> Iterator[tuple[float, str]]:
    """The largest numbers of an input."""
    values = explanation.attribution.values[name][row].reshape(-1)
    for at in np.argsort(-np.abs(values))[:LARGEST].tolist():
        yield float(values[at]), called(explanation, name, row, at)


def patches(explanation: Explanation, name: str, row: int) -> Iterator[tuple[float, str]]:
    """The sums over patches of a picture, up to six each way."""
    flat = arranged(explanation.attribution.values[name][row]).sum(-1)
    for top, bottom in parts_of(flat.shape[0], PATCHES):
        for left, right in parts_of(flat.shape[1], PATCHES):
            value = float(flat[top:bottom, left:right].sum())
            yield value, f"{ends('row', top, bottom)}, {ends('column', left, right)}:"


def called(explanation: Explanation, name: str, row: int, place: int) -> str:
    """What a number of an input is called: its token, its feature, or its place."""
    found = explanation.attribution
    given = found.inputs[name][row]
    if given.ndim != 1 or given.dtype.kind != "i" or explanation.samples is None:
        return found.feature(name, place)
    tokens = explanation.samples.part("" if len(found.values) == 1 else name, given, True).get("tokens", [])
    return f"{tokens[place][0].strip()!r} ({place})" if place < len(tokens) else str(place)


def prefix(values: object, name: str) -> str:
    """The name of the input before the place, where there are several."""
    return f"{name}: " if isinstance(values, dict) and len(values) > 1 else ""


def ends(axis: str, first: int, end: int) -> str:
    """Some rows or columns in words."""
    return f"{axis} {first}" if end - first == 1 else f"{axis}s {first}–{end - 1}"
