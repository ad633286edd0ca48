"""The panel of attention: where each head of each layer looks, for one sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from nbdebug.exceptions import SetupError
from nbdebug.inside import Attention, attention
from nbdebug.inside.attention import WARNING, Head
from nbdebug.tools.explain.inside import has_layers, packed, steps, tokens
from nbdebug.tools.panel import Panel
from nbdebug.views.markup import listed, paragraph, table
from nbdebug.views.plain import rounded, rounded_all

if TYPE_CHECKING:
    from nbdebug.tools.explain.result import Explanation

BUDGET = 120_000  # bytes of all small maps together
SMALL = 64  # places of a small map along each side
LARGE = 160  # of the large one
LAYERS, HEADS = 48, 32


def fits(explanation: Explanation) -> bool:
    """Whether the model attends to anything, which one run of the first sample tells."""
    try:
        return has_layers(explanation) and len(heard(explanation, 0)) > 0
    except SetupError:
        return False


def heard(explanation: Explanation, row: int) -> Attention:
    """The attention of a sample, heard once; that of one sample is kept, since it may be large."""
    kept: dict[int, Attention] = explanation.known.setdefault("attention", {})
    if row not in kept:
        kept.clear()
        kept[row] = attention(explanation.given, explanation.case(row))
    return kept[row]


def state(
    explanation: Explanation, row: int, layer: int | None = None, head: int | str | None = None
) -> dict[str, Any]:
    """All heads as small maps; with a ``layer`` one of them alone in full, ``head`` "mean" for the mean over heads."""
    found = heard(explanation, row)
    if layer is not None:
        return {"large": one_map(found, layer, head)}
    shown = found.layers[:LAYERS]
    side = small(shown)
    return {
        "layers": [described(one) for one in shown],
        "side": side,
        "maps": [[mapped(one.weights[0, head], side) for head in range(min(one.heads, HEADS))] for one in shown],
        "axes": axes(explanation, row, shown),
        "rollout": rolled(found),
        "warning": WARNING,
        "notes": [*found.notes, *([f"The first {LAYERS} of {len(found)} layers are shown."] * (len(found) > LAYERS))],
    }


def small(shown: tuple[Head, ...]) -> int:
    """How many places a small map has along each side at most."""
    count = sum(min(one.heads, HEADS) for one in shown)
    longest = max((max(one.weights.shape[2:]) for one in shown), default=1)
    return max(4, min(SMALL, longest, int((BUDGET / max(count, 1)) ** 0.5)))


def described(one: Head) -> dict[str, Any]:
    """A layer without its maps."""
    return {
        "title": one.title, "kind": one.kind, "heads": one.heads, "queries": one.weights.shape[2],
        "keys": one.weights.shape[3], "windows": one.windows,
        "entropy": rounded_all(one.entropy[0, :HEADS]),
    }  # fmt: skip


def mapped(weights: NDArray[Any], side: int) -> dict[str, Any]:
    """A map as bytes up to its own greatest weight; of a large one the greatest of neighbors."""
    shape = min(side, weights.shape[0]), min(side, weights.shape[1])
    pooled = weights
    if shape != weights.shape:
        pooled = F.adaptive_max_pool2d(torch.from_numpy(np.ascontiguousarray(weights))[None], shape)[0].numpy()
    top = float(pooled.max())
    return {"data": packed([steps(pooled, 0.0, top)]), "rows": shape[0], "columns": shape[1], "top": rounded(top)}


def axes(explanation: Explanation, row: int, shown: tuple[Head, ...]) -> dict[str, list[str]]:
    """What stands at each place, by the length of an axis."""
    lengths = {length for one in shown for length in one.weights.shape[2:]}
    return {str(length): tokens(explanation, row, length) for length in lengths if length <= LARGE}


def one_map(found: Attention, layer: int, head: int | str | None) -> dict[str, Any]:
    """One map as large as it is drawn."""
    chosen = found.layers[max(0, min(layer, len(found) - 1))].weights[0]
    weights = chosen.mean(0) if not isinstance(head, int) else chosen[max(0, min(head, len(chosen) - 1))]
    return mapped(weights, LARGE)


def rolled(found: Attention) -> dict[str, Any] | None:
    """Attention rolled out from the last layer to the tokens."""
    answer = found.rollout()
    if answer is None:
        return None
    weights, names = answer
    return {**mapped(weights[0], SMALL), "layers": names, "length": weights.shape[1]}


def html(state: dict[str, Any]) -> str:
    """Each layer with the entropy of its heads, and what attention is not."""
    rows = [
        [one["title"], str(one["heads"]), f"{one['queries']} × {one['keys']}",
         ", ".join("–" if value is None else f"{value:.2f}" for value in one["entropy"][:12])]
        for one in state["layers"]
    ]  # fmt: skip
    listing = table(rows, ("layer", "heads", "queries × keys", "entropy of each head"))
    return listing + listed(state["notes"]) + paragraph(state["warning"])


PANEL = Panel("attention", "Attention", fits, state, html, quick=False)
