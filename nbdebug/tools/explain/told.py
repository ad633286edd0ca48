"""What a page is told of a sample and of an attribution, ready for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nbdebug.attribution import ENGINES, Attribution
from nbdebug.attribution.scores import unit
from nbdebug.setup.names import class_name as named
from nbdebug.tools.explain.asked import NAMES, Asked
from nbdebug.tools.explain.pictured import pictured
from nbdebug.views.plain import rounded, short

if TYPE_CHECKING:
    from nbdebug.tools.explain.result import Explanation

MOST_CLASSES = 1_000
MOST = 10  # outputs that are shown of a sample
UNITS = {"gradcam": "", "saliency": "{} per unit"}  # of engines whose numbers are no parts of the score


def case_state(explanation: Explanation, row: int) -> dict[str, Any]:
    """What the model says of a sample: its likeliest outputs, the truth, whether they are the same."""
    outputs = explanation.outputs[row]
    said, true = int(outputs.argmax()), truth_of(explanation, row)
    classes = len(outputs) > 1
    order = torch.argsort(-outputs, stable=True)[:MOST].tolist()
    if classes and isinstance(true, int) and true not in order:
        order.append(true)
    shares = chances(explanation.outputs)
    return {
        "row": row,
        "key": explanation.keys[row],
        "name": explanation.named(row),
        "outputs": [
            {
                "class": at,
                "name": class_name(explanation, at),
                "score": rounded(float(outputs[at])),
                "chance": None if shares is None else rounded(float(shares[row, at])),
            }
            for at in order
        ],
        "unit": explanation.attribution.space,
        "predicted": said if classes else None,
        "truth": rounded(true) if isinstance(true, float) else true,
        "right": said == true if classes and isinstance(true, int) else None,
        "truthName": None if true is None else class_name(explanation, true) if classes else short(true),
    }


def truth_of(explanation: Explanation, row: int) -> int | float | None:
    """The true class of a sample as a number, or its true value; None where it is not known."""
    explanation.case(row)  # refuses a row that there is not
    if explanation.truth is None:
        return None
    value = explanation.truth[row].item()
    if explanation.outputs.shape[1] == 1:
        return float(value)
    return int(value) if value >= 0 else None  # a loss ignores classes below zero


def chances(outputs: torch.Tensor) -> torch.Tensor | None:
    """Probabilities of the outputs; None for a single output, which may be of a regression."""
    if outputs.shape[1] == 1:
        return None
    space = unit(outputs)
    return outputs if space == "probability" else outputs.exp() if space == "log-probability" else outputs.softmax(1)


def class_name(explanation: Explanation, at: Any) -> str:
    """A class in words."""
    if explanation.outputs.shape[1] == 1:
        return "output"
    return named(explanation.attribution.class_names, at)


def class_names(explanation: Explanation) -> list[str]:
    """The classes in words, as many as can be chosen on the page; none for a single output."""
    count = explanation.outputs.shape[1]
    return [class_name(explanation, at) for at in range(min(count, MOST_CLASSES))] if count > 1 else []


def attribution_state(explanation: Explanation, asked: Asked, found: Attribution, row: int) -> dict[str, Any]:
    """One attribution of one sample: what is explained, how, how exact that is, and each input with its numbers."""
    said = ENGINES[found.method].says
    sample = str(explanation.keys[row]) if explanation.keys[row] is not None else "sample"
    return {
        "method": found.method,
        "says": said,
        "against": NAMES[asked.background] if ENGINES[found.method].background else None,
        "lines": found.lines,
        "background": asked.background,
        "target": int(found.classes[row]),
        "targetName": class_name(explanation, int(found.classes[row])),
        "space": found.space,
        "unit": UNITS.get(found.method, "{}").format(found.space),
        "score": rounded(float(found.scores[row])),
        "base": None if found.base is None else rounded(float(found.base[row])),
        "sum": rounded(float(found.flat[row].sum())),
        "completeness": at(found.completeness, row),
        "error": at(found.error, row),
        "converged": found.converged,
        "notes": list(found.notes),
        "seconds": rounded(found.seconds),
        "shares": shares(found, row),
        "inputs": pictured(found, row, explanation.samples),
        "code": asked.code(sample),
        "asked": {
            "target": asked.target if isinstance(asked.target, (int, str)) else int(found.classes[row]),
            "space": asked.space,
            "layer": asked.options.get("layer") if isinstance(asked.options.get("layer"), str) else None,
        },
    }


def at(values: Any, row: int) -> float | None:
    """A number of a sample, where there is one."""
    return None if values is None else rounded(float(values[row]))


def shares(found: Attribution, row: int) -> list[list[Any]]:
    """What each of several inputs adds up to, and its share of all sizes."""
    if len(found.values) < 2:
        return []
    sizes = {name: float(np.abs(one[row]).sum()) for name, one in found.values.items()}
    whole = sum(sizes.values()) or 1.0
    return [[name, rounded(float(one[row].sum())), rounded(sizes[name] / whole)] for name, one in found.values.items()]
