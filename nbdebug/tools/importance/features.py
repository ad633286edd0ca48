"""What importance is asked of: columns, steps, channels, patches of pictures, tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.attribution.given import inputs_of
from nbdebug.attribution.parts import Listener, column_of, is_integer
from nbdebug.attribution.problem import cut
from nbdebug.attribution.rows import per_sample
from nbdebug.exceptions import SetupError
from nbdebug.samples.parts import NOT_SEEN
from nbdebug.setup import Batch, Setup
from nbdebug.setup.unpack import TARGET_KEYS

Array = NDArray[Any]
REPLACED = (
    "a token is permuted by what stands at its places in other samples: what that brings in costs too, so that tokens "
    "which say nothing seem needed beside some that say much"
)
PATCHES, STEPS, TOKENS, CHANNELS, LOOK = 6, 16, 40, 64, 64


@dataclass(frozen=True)
class Feature:
    """A part of one input: ``cut`` of each sample, or wherever a ``token`` stands.

    ``kind`` is "column", "step", "channel", "patch", "token" or "input"; ``leaf`` the number of the input.
    """

    name: str
    input: str
    kind: str
    leaf: int
    cut: tuple[slice, ...] = ()
    token: int | None = None

    def permuted(self, leaf: Tensor, donors: Tensor) -> Tensor:
        """The input with this part taken from other samples."""
        if self.token is not None:
            return torch.where(leaf == self.token, leaf[donors], leaf)
        changed, at = leaf.clone(), (slice(None), *self.cut)
        changed[at] = leaf[at][donors]
        return changed

    def total(self, values: Array, leaf: Array) -> Array:
        """The sum of attributions to this part, a number a sample."""
        if self.token is not None:
            return np.asarray((values * (leaf == self.token)).sum(1))
        return np.asarray(values[(slice(None), *self.cut)].reshape(len(values), -1).sum(1))

    def value(self, leaf: Tensor) -> Array:
        """What stands there, a number a sample: the value, the mean of several, how often a token occurs."""
        found = leaf == self.token if self.token is not None else leaf[(slice(None), *self.cut)]
        wide = found.reshape(len(leaf), -1).double()
        return (wide.sum(1) if self.token is not None else wide.mean(1)).cpu().numpy()


def features_of(
    setup: Setup, batch: Batch, decode: Callable[[int], str] | None = None
) -> tuple[list[Feature], list[str]]:
    """The parts of all inputs, and notes on them; raises SetupError where no input has a row for each sample."""
    size, found = batch.size, list[Feature]()
    fits = [
        (number, name, leaf)
        for number, (name, leaf) in enumerate(inputs_of(batch))
        if per_sample(leaf, size) and seen(name) and not leaf.is_complex()
    ]
    for number, name, leaf in fits:
        found += of_input(setup, batch, number, name, leaf, decode)
    if not found:
        raise SetupError(
            "the inputs have no tensor with a row for each sample; expected numbers or tokens. Pass forward= and "
            "unpack= so that the model is given tensors."
        )
    if len(fits) > 1:
        found = [replace(one, name=f"{one.input}: {one.name}") for one in found]
    notes = unnamed(setup, [leaf.shape[1] for _, _, leaf in fits if leaf.dim() == 2])
    return found, [*notes, *([REPLACED] if any(one.token is not None for one in found) else [])]


def seen(name: str) -> bool:
    """Whether an input holds samples, and no mask and no target."""
    last = name.rsplit(".")[-1]
    return last not in NOT_SEEN and last not in TARGET_KEYS


def unnamed(setup: Setup, widths: list[int]) -> list[str]:
    """A note on names that fit no input."""
    names = setup.feature_names
    if not names or len(names) in widths:
        return []
    wanted = " or ".join(map(str, widths)) or "none, since no input is a table"
    return [f"feature_names has {len(names)} names; expected {wanted}. Columns are numbered instead"]


def of_input(
    setup: Setup, batch: Batch, number: int, name: str, leaf: Tensor, decode: Callable[[int], str] | None
) -> Iterator[Feature]:
    """The parts of one input by its shape."""
    if leaf.dim() == 2 and is_integer(leaf) and is_tokens(setup, batch, leaf):
        yield from tokens(name, number, leaf, decode)
    elif leaf.dim() == 2:
        names = setup.feature_names or []
        named = names if len(names) == leaf.shape[1] else [f"column {j}" for j in range(leaf.shape[1])]
        yield from (Feature(one, name, "column", number, (slice(j, j + 1),)) for j, one in enumerate(named))
    elif leaf.dim() == 3:
        yield from series(name, number, leaf.shape[1:])
    elif leaf.dim() == 4:
        yield from picture(name, number, leaf.shape[1:])
    else:
        yield Feature(name, name, "column" if leaf.dim() == 1 else "input", number)


def is_tokens(setup: Setup, batch: Batch, leaf: Tensor) -> bool:
    """Whether one embedding takes all of an input; where each column has one of its own they are categories."""
    rows = torch.arange(min(LOOK, len(leaf)))
    few, listener = cut(batch, rows), Listener(setup.eager)
    with torch.no_grad(), listener.listening():
        setup.predict(few)
    return any(column_of(ids, leaf[: len(rows)]) == -1 for _, _, ids, _ in listener.seen)


def tokens(name: str, number: int, leaf: Tensor, decode: Callable[[int], str] | None) -> Iterator[Feature]:
    """The tokens that are in most samples."""
    found, counts = torch.unique(
        torch.cat([one.unique() for one in leaf]) if len(leaf) else leaf.reshape(-1), return_counts=True
    )
    for at in torch.argsort(counts, descending=True, stable=True)[:TOKENS].tolist():
        token = int(found[at])
        yield Feature(decode(token) if decode else f"token {token}", name, "token", number, (), token)


def series(name: str, number: int, shape: Sequence[int]) -> Iterator[Feature]:
    """Stretches of time along the longer axis, and the channels of the other one."""
    time = 0 if shape[0] >= shape[1] else 1
    every = slice(None)
    for start, stop in parts_of(shape[time], STEPS):
        said = span("step", start, stop)
        yield Feature(said, name, "step", number, (slice(start, stop),) if time == 0 else (every, slice(start, stop)))
    if 1 < shape[1 - time] <= CHANNELS:
        for c in range(shape[1 - time]):
            one = slice(c, c + 1)
            yield Feature(f"channel {c}", name, "channel", number, (every, one) if time == 0 else (one,))


def picture(name: str, number: int, shape: Sequence[int]) -> Iterator[Feature]:
    """Patches of a grid, and the channels, which come first or last."""
    last, every = is_last(shape), slice(None)
    channels, height, width = (shape[2], shape[0], shape[1]) if last else tuple(shape)
    for top, bottom in parts_of(height, PATCHES):
        for left, right in parts_of(width, PATCHES):
            said = f"{span('row', top, bottom)}, {span('column', left, right)}"
            box = (slice(top, bottom), slice(left, right))
            yield Feature(said, name, "patch", number, box if last else (every, *box))
    if 1 < channels <= CHANNELS:
        for c in range(channels):
            one = slice(c, c + 1)
            yield Feature(f"channel {c}", name, "channel", number, (every, every, one) if last else (one,))


def span(what: str, start: int, stop: int) -> str:
    """A stretch of an axis in words."""
    return f"{what} {start}" if stop == start + 1 else f"{what}s {start}–{stop - 1}"


def is_last(shape: Sequence[int]) -> bool:
    """Whether the channels of a picture come last."""
    return shape[2] <= 4 < shape[0]


def parts_of(length: int, most: int) -> list[tuple[int, int]]:
    """An axis in at most so many parts of nearly equal length."""
    ends = np.linspace(0, length, min(length, most) + 1).round().astype(int).tolist()
    return list(pairwise(ends))


def values_of(batch: Batch, features: Sequence[Feature]) -> Array:
    """What stands at each feature, samples × features."""
    leaves = inputs_of(batch)
    return np.stack([one.value(leaves[one.leaf][1]) for one in features], 1)
