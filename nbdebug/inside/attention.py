"""Where each head of each layer looks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.attribution.given import count
from nbdebug.inside.layers import titled
from nbdebug.inside.look import look_into
from nbdebug.inside.overheard import Heard, Kind, overhearing
from nbdebug.result import Told
from nbdebug.views.plain import some

Array = NDArray[Any]
WARNING = (
    "Attention says where a head read from, not why the model decided: quite different weights can give the same "
    "output (Jain & Wallace 2019, arXiv:1902.10186)."
)


@dataclass(frozen=True)
class Head:
    """The attention of one call of one layer: ``weights`` are samples × heads × queries × keys, rows sum to 1.

    ``kind`` "softmax" is a softmax that something was multiplied by, which looks like attention. ``windows`` is into
    how many windows the layer cuts a sample; its heads stand window by window.
    """

    layer: str
    kind: Kind
    weights: Array = field(repr=False)
    call: int = 0
    windows: int = 1
    itself: bool | None = None

    @property
    def title(self) -> str:
        """The layer, with the number of the call where it is not the first."""
        return titled(self.layer, self.call)

    @property
    def heads(self) -> int:
        """How many maps a sample has."""
        return int(self.weights.shape[1])

    @property
    def square(self) -> bool:
        """Whether a layer may look at its own queries: as many keys as queries, and nothing else known."""
        same = self.weights.shape[2] == self.weights.shape[3]
        named = any(word in self.layer.lower() for word in ("cross", "encoder_attn", "multihead_attn"))
        return same and self.windows == 1 and (self.itself if self.itself is not None else not named)

    @property
    def padding(self) -> Array:
        """The keys of each sample that no query of any head looks at, samples × keys."""
        return np.asarray((self.weights == 0).all((1, 2)))

    @property
    def entropy(self) -> Array:
        """How widely each head looks, samples × heads: 0 at one key, 1 evenly at all that it may look at.

        The mean over the queries that may look at more than one key; NaN without any.
        """
        weights = self.weights.astype(np.float64)
        seen = (weights > 0).sum(-1)
        bits = -np.sum(weights * np.log(np.where(weights > 0, weights, 1.0)), -1)
        counted = seen > 1
        if self.weights.shape[2] == self.weights.shape[3]:
            counted &= ~self.padding[:, None, :]
        share = np.where(counted, bits / np.log(np.maximum(seen, 2)), 0.0)
        total = counted.sum(-1)
        return np.where(total > 0, share.sum(-1) / np.maximum(total, 1), np.nan)


@dataclass(frozen=True)
class Attention(Told):
    """The attention of all layers in the order of their calls, and what could not be seen."""

    layers: tuple[Head, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.layers)

    def groups(self) -> list[list[Head]]:
        """The self-attention of layers that follow each other in one stack, told by their names but for numbers."""
        found: dict[tuple[str, int], list[Head]] = {}
        for one in self.layers:
            if one.square:
                found.setdefault((re.sub(r"\d+", "*", one.layer), one.weights.shape[2]), []).append(one)
        groups = list(found.values())
        same = len({one[0].weights.shape[2] for one in groups}) == 1
        return [[one[0] for one in groups]] if same and all(len(one) == 1 for one in groups) else groups

    def rollout(self, group: int | None = None) -> tuple[Array, list[str]] | None:
        """Attention from the last layer down to the tokens, samples × queries × tokens, and its layers; None without.

        The means over heads, each half mixed with the identity for the way around it, multiplied through the layers of
        one of the ``groups()``, by default of the longest (Abnar & Zuidema 2020, arXiv:2005.00928).
        """
        groups = self.groups()
        if not groups:
            return None
        chosen = max(groups, key=len) if group is None else groups[group]
        size = chosen[0].weights.shape[2]
        found = np.eye(size)
        for one in chosen:
            mixed = one.weights.astype(np.float64).mean(1) / 2 + np.eye(size) / 2
            found = (mixed / mixed.sum(-1, keepdims=True)) @ found
        return found, [one.title for one in chosen]

    def __str__(self) -> str:
        """One line a layer."""
        lines = [
            f"  {one.title}: {one.heads} heads, {one.weights.shape[2]} queries × {one.weights.shape[3]} keys, entropy "
            f"{', '.join(f'{value:.2f}' for value in one.entropy[0][:12])}"
            for one in self.layers
        ]
        return "\n".join(["nbdebug attention", *lines, *(f"  {one}" for one in (*self.notes, WARNING))])


def attention(setup_or_model: Any, inputs: Any) -> Attention:
    """The attention of every head of every layer for the samples; the model gives what it gives without being watched.

    Heard are ``nn.MultiheadAttention``, also in Transformer layers, ``F.scaled_dot_product_attention`` from any module,
    and softmaxes that are multiplied as matrices, so models of transformers with either implementation. Empty where
    nothing of the kind is called. Raises SetupError for a model without Python layers.
    """
    look = look_into(setup_or_model)
    batch = look.batch(inputs)
    with look.open(), overhearing(look.model) as heard:
        look.run(batch)
    known = [one for one in heard.found if one is not None]
    found = [one for one in (head(each, count(batch)) for each in known) if one is not None]
    return Attention(numbered(found), (*look.notes, *told(found, heard.missed)))


def head(heard: Heard, size: int) -> Head | None:
    """Weights as samples × heads × queries × keys; None where samples cannot be told apart."""
    weights, windows = heard.weights, 1
    if weights.dim() == 2 and len(weights) == size:
        weights = weights[:, None, None]
    elif weights.dim() == 3:
        weights = weights[:, None] if len(weights) == size else unfolded(weights, size)
    elif weights.dim() == 4 and len(weights) != size and len(weights) % size == 0:
        windows = len(weights) // size
        weights = weights.reshape(size, windows * weights.shape[1], *weights.shape[2:])
    elif weights.dim() > 4:
        weights = weights.flatten(1, -3)
    if weights.dim() != 4 or len(weights) != size:
        return None
    array = weights.float().nan_to_num(0.0).cpu().numpy()
    return Head(heard.layer, heard.kind, array, 0, windows, heard.itself)


def unfolded(weights: Tensor, size: int) -> Tensor:
    """Heads that were folded into the samples, apart again."""
    return weights.reshape(size, len(weights) // size, *weights.shape[1:]) if len(weights) % size == 0 else weights


def numbered(found: Sequence[Head]) -> tuple[Head, ...]:
    """The calls of each layer, counted."""
    seen: Counter[str] = Counter()
    counted = []
    for one in found:
        counted.append(replace(one, call=seen[one.layer]))
        seen[one.layer] += 1
    return tuple(counted)


def told(found: list[Head], missed: list[str]) -> list[str]:
    """What there is to know about how the attention was found."""
    notes = []
    if alike := [one.title for one in found if one.kind == "softmax"]:
        notes.append(f"Looks like attention, as a softmax by which something is multiplied: {some(alike, 5)}.")
    if windowed := [one.title for one in found if one.windows > 1]:
        notes.append(f"Looks inside windows only, each with heads of its own: {', '.join(windowed[:5])}.")
    if missed:
        notes.append(f"Could not be heard: {'; '.join(missed[:3])}.")
    return notes
