"""The panel of the path: what the sample is at each layer, and which class it looks like there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.inside import Path, path
from nbdebug.inside.path import MEASURES
from nbdebug.tools.explain.inside import beside, has_layers, predicted, truth
from nbdebug.tools.explain.told import class_name
from nbdebug.tools.panel import Panel
from nbdebug.views.markup import listed, paragraph, table
from nbdebug.views.plain import rounded_all, short

if TYPE_CHECKING:
    from nbdebug.tools.explain.result import Explanation


def fits(explanation: Explanation) -> bool:
    """Whether there are layers, and samples to compare with."""
    has_data = explanation.setup is not None and explanation.setup.has_data
    return has_layers(explanation) and (has_data or explanation.background is not None)


def walked(explanation: Explanation, row: int) -> Path:
    """The path of a sample, walked once."""
    kept: dict[int, Path] = explanation.known.setdefault("paths", {})
    if row not in kept:
        case, true = explanation.case(row), truth(explanation, row)
        kept[row] = path(explanation.given, case, true, beside(explanation))
    return kept[row]


def state(explanation: Explanation, row: int) -> dict[str, Any]:
    """The sizes of the sample beside those of others, the cosines to means of classes, and what is said of them."""
    found = walked(explanation, row)
    said, true = predicted(explanation, row), truth(explanation, row)
    roles = {said: "predicted", true: "true, predicted" if said == true else "true"}
    return {
        "layers": [{"title": one.title, "kind": one.kind} for one in found.layers],
        "measures": list(MEASURES),
        "mine": rounded_all(found.sizes),
        "beside": groups(explanation, row, found),
        "classes": [
            {"name": class_name(explanation, one), "count": count, "role": roles.get(one, "")}
            for one, count in zip(found.classes, found.counts, strict=True)
        ],
        "cosines": rounded_all(found.cosines),
        "apart": rounded_all(found.apart),
        "readable": found.readable.tolist(),
        "who": who(explanation, len(found.usual)),
        "said": found.said,
        "notes": list(found.notes),
    }


def who(explanation: Explanation, count: int) -> str:
    """Who the others are."""
    setup = explanation.setup
    return f"first {count} training samples" if setup is not None and setup.has_data else f"{count} given samples"


def groups(explanation: Explanation, row: int, found: Path) -> list[dict[str, Any]]:
    """Those whom the sample is beside, with the mean and spread of their sizes; classes with two of them at least."""
    true, said = truth(explanation, row), predicted(explanation, row)
    wanted: list[tuple[str, int | None]] = [("all samples", None)]
    for number, how in {said: "predicted", true: "true class"}.items():
        if found.labels is not None and number is not None:
            wanted.append((f"{class_name(explanation, number)} ({how})", number))
    kept = []
    for name, number in wanted:
        mean, spread, count = found.beside(number)
        if count > 1:
            kept.append({"name": name, "count": count, "mean": rounded_all(mean), "spread": rounded_all(spread)})
    return kept


def html(state: dict[str, Any]) -> str:
    """What is said, and a row for each layer."""
    names = [one["name"] for one in state["classes"]]
    rows = []
    for at, layer in enumerate(state["layers"]):
        cosines = [-2.0 if one is None else one for one in state["cosines"][at]]
        near = names[int(np.argmax(cosines))] if cosines and state["readable"][at] else "–"
        rows.append([layer["title"], *(short(one) for one in state["mine"][at]), near])
    return (
        paragraph(state["said"])
        + paragraph(f"Beside the {state['who']}.")
        + listed(state["notes"])
        + table(rows, ("layer", *state["measures"], "looks like"))
    )


PANEL = Panel("path", "Path through the layers", fits, state, html, quick=False)
