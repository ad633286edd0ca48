"""Attributions to one input of one sample as its kind is shown: a heat map, bars, tokens, or lines."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.attribution import Attribution
from nbdebug.samples import Samples
from nbdebug.samples.arrays import as_array
from nbdebug.samples.image import Images, raised
from nbdebug.samples.layout import arranged, sheet, side_by_side
from nbdebug.samples.recognize import form
from nbdebug.samples.series import Series
from nbdebug.views.plain import rounded, rounded_all, short

Floats = NDArray[np.float64]
LONGEST = 224  # places of a heat map on its longer side
POINTS = 200  # of a series
BARS = 100
STRONG = 0.99  # quantile of sizes at which a heat map is of full color, so that one pixel does not pale the rest


def pictured(found: Attribution, row: int, samples: Samples | None) -> list[dict[str, Any]]:
    """Each input of a sample with its attributions, ready for JSON."""
    alone = len(found.values) == 1
    return [{"name": "" if alone else name, **one_input(found, name, row, samples, alone)} for name in found.values]


def one_input(found: Attribution, name: str, row: int, samples: Samples | None, alone: bool) -> dict[str, Any]:
    """One input, by its kind; as bars where that cannot be shown."""
    values, given = found.values[name][row], found.inputs[name][row]
    shown: dict[str, Any] = {"kind": "table"}
    if samples is not None:
        shown = samples.part("" if alone else name, given, True)
    drawer = samples.drawers.get(("" if alone else name, form(given))) if samples is not None else None
    if shown["kind"] == "image" and isinstance(drawer, Images) and np.shape(given) == values.shape:
        return {**shown, **heat(values, given, drawer)}
    if shown["kind"] == "text" and "tokens" in shown and values.ndim == 1:
        return {**shown, "tokens": weighed(shown["tokens"], values)}
    if shown["kind"] == "series" and isinstance(drawer, Series) and np.shape(given) == values.shape:
        return {**shown, **courses(values, drawer)}
    return bars(found, name, row)


def heat(values: Floats, given: Any, drawer: Images) -> dict[str, Any]:
    """The sum over colors at each place, as bytes from -127 to 127, and how much 127 stands for."""
    array = as_array(given)
    assert array is not None
    picture, found = (arranged(raised(one, drawer.side)) for one in (array, values))
    colors = picture.shape[-1] in (1, 3) or (picture.shape[-1] == 4 and not side_by_side(picture))
    flat = found.sum(-1) if colors else sheet(found, 16)[..., 0]
    flat = smaller(np.asarray(flat, np.float64))
    top = float(np.abs(flat).max()) or 1.0
    strong = float(np.quantile(np.abs(flat), STRONG)) or top
    steps = np.rint(127 * flat / top).astype(np.int8)
    return {
        "heat": b64encode(steps.tobytes()).decode(), "rows": flat.shape[0], "columns": flat.shape[1],
        "top": top, "strong": strong, "sum": float(flat.sum()),
    }  # fmt: skip


def smaller(flat: Floats) -> Floats:
    """A large map as the sums of squares of 2 × 2, 3 × 3 … places."""
    times = -(-max(flat.shape) // LONGEST)
    if times < 2:
        return flat
    padded = np.pad(flat, [(0, -side % times) for side in flat.shape])
    height, width = padded.shape
    found: Floats = padded.reshape(height // times, times, width // times, times).sum((1, 3))
    return found


def weighed(tokens: list[list[Any]], values: Floats) -> list[list[Any]]:
    """Each token with its attribution; what goes to padding, which is not shown, stands at the end."""
    shown = [[token, rounded(float(values[at])) if at < len(values) else None] for at, (token, _) in enumerate(tokens)]
    rest = values[len(tokens) :]
    return [*shown, [f" ⟨{len(rest)} × padding⟩", rounded(float(rest.sum()))]] if np.any(rest) else shown


def courses(values: Floats, drawer: Series) -> dict[str, Any]:
    """The attributions along time, summed over stretches, a row for each line that is shown."""
    rows = values[None] if values.ndim == 1 else values if drawer.axis == 1 else values.T
    edges = np.linspace(0, rows.shape[1], min(POINTS, rows.shape[1]) + 1).astype(int)[:-1]
    summed = np.add.reduceat(rows, edges, axis=1)[:32]
    return {
        "weights": rounded_all(summed),
        "top": float(np.abs(summed).max()) or 1.0,
        "length": rows.shape[1],
    }


def bars(found: Attribution, name: str, row: int) -> dict[str, Any]:
    """The largest attributions with names, values and errors, and what all others add up to."""
    values = found.values[name][row].reshape(-1)
    given = found.inputs[name][row].reshape(-1)
    errors = None if found.standard_errors is None else found.standard_errors[name][row].reshape(-1)
    order = np.argsort(-np.abs(values), kind="stable")[:BARS]
    rows = [
        [
            found.feature(name, int(at)),
            short(float(given[at])) if len(given) == len(values) else "",
            rounded(float(values[at])),
            None if errors is None else rounded(float(errors[at])),
        ]
        for at in order
    ]
    return {
        "kind": "bars",
        "bars": rows,
        "more": len(values) - len(rows),
        "rest": float(np.delete(values, order).sum()),
    }
