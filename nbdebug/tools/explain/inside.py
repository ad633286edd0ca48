"""What the panels that look inside the model have in common: whom a sample is beside, and what is on an axis."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nbdebug.attribution.given import inputs_of
from nbdebug.inside.look import look_into
from nbdebug.inside.others import Others, classes_of, others
from nbdebug.samples.text import MOST

if TYPE_CHECKING:
    from nbdebug.tools.explain.result import Explanation

LONGEST = 24  # letters of a token on an axis


def has_layers(explanation: Explanation) -> bool:
    """Whether there are layers to look into."""
    model = explanation.model
    return isinstance(model, nn.Module) and not isinstance(model, torch.jit.ScriptModule)


def beside(explanation: Explanation) -> Others | None:
    """The training samples, or else the background, that a sample is compared with; None without either."""
    if "beside inside" not in explanation.known:
        explanation.known["beside inside"] = found(explanation)
    kept: Others | None = explanation.known["beside inside"]
    return kept


def found(explanation: Explanation) -> Others | None:
    """The same, drawn anew."""
    setup = explanation.setup
    if setup is not None and setup.has_data:
        return others(setup, look_into(setup), None, None)
    if explanation.background is None:
        return None
    return others(explanation.model, look_into(explanation.model), explanation.background, None)


def predicted(explanation: Explanation, row: int) -> int | None:
    """The class that a sample is said to be."""
    scores = explanation.outputs[row]
    return int(scores.argmax()) if len(scores) > 1 else None


def truth(explanation: Explanation, row: int) -> int | None:
    """The true class of a sample, where it is known and a class."""
    found = explanation.truth
    true = None if found is None else classes_of(found, len(found))
    return None if true is None else int(true[row if len(true) > 1 else 0])


def tokens(explanation: Explanation, row: int, length: int) -> list[str]:
    """What stands at each place of a sequence: tokens, patches of a picture, or numbers."""
    for name, leaf in inputs_of(explanation.case(row)):
        if not isinstance(leaf, Tensor) or leaf.dim() < 2:
            continue
        known = words(explanation, name, leaf[0]) if leaf.dim() == 2 else []
        if known and leaf.shape[1] in (length, length - 1):
            rest = ["(padding)"] * (leaf.shape[1] - len(known))
            return [*(["(first)"] * (length - leaf.shape[1])), *known, *rest]
        if leaf.dim() == 4 and (squares := patches(length)):
            return squares
    return [str(place) for place in range(length)]


def words(explanation: Explanation, name: str, ids: Tensor) -> list[str]:
    """The tokens of one text, without padding; nothing for what is none."""
    if explanation.samples is None or ids.is_floating_point() or len(ids) > MOST[True]:
        return []
    alone = len([leaf for _, leaf in inputs_of(explanation.batch) if isinstance(leaf, Tensor)]) == 1
    shown = explanation.samples.part("" if alone else name, ids.cpu(), True)
    return [str(token).strip()[:LONGEST] or "␣" for token, _ in shown.get("tokens", [])][: len(ids)]


def patches(length: int) -> list[str]:
    """Places of a square of patches, with or without a token before them."""
    for before in (0, 1):
        side = isqrt(length - before)
        if side > 1 and side * side == length - before:
            places = [f"{row + 1}, {column + 1}" for row in range(side) for column in range(side)]
            return [*(["(first)"] * before), *places]
    return []


def steps(values: NDArray[Any], low: float, high: float) -> bytes:
    """Numbers as bytes, 0 at the lower end and 255 at the upper one."""
    span = high - low if high > low else 1.0
    found = np.rint(255 * (np.asarray(values, np.float64) - low) / span)
    return np.nan_to_num(found).clip(0, 255).astype(np.uint8).tobytes()


def packed(parts: Iterable[bytes]) -> str:
    """Bytes as text."""
    return b64encode(b"".join(parts)).decode()
