"""The form of a batch or of a sample: its structure, dtypes and shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from nbdebug.setup.trees import leaves


@dataclass(frozen=True)
class Schema:
    """Kind, dtype, number of axes and sizes of every leaf of a tree, by its path."""

    parts: tuple[tuple[str, str, int, tuple[int, ...]], ...]

    def differs(self, other: Schema) -> str | None:
        """What is not the same in another tree, in order of weight; None where only sizes differ."""
        mine, theirs = ({part[0]: part for part in one.parts} for one in (self, other))
        if set(mine) != set(theirs):
            odd = sorted(set(mine) ^ set(theirs))
            return f"{odd[0] or 'the whole'} stands in one and not in the other"
        for path, (_, kind, axes, _) in mine.items():
            _, kind_there, axes_there, _ = theirs[path]
            if kind != kind_there:
                return f"{path or 'the tensor'} is {kind} in one and {kind_there} in the other"
            if axes != axes_there:
                return f"{path or 'the tensor'} has {axes} axes in one and {axes_there} in the other"
        return None

    def __str__(self) -> str:
        """One phrase, such as ``0: float32 (16, 4), 1: int64 (16,)``."""
        return ", ".join(f"{path}: {kind} {size}" if size else f"{path}: {kind}" for path, kind, _, size in self.parts)


def schema(tree: Any) -> Schema:
    """The form of a tree."""
    return Schema(tuple(part(".".join(map(str, path)), leaf) for path, leaf in leaves(tree)))


def part(path: str, leaf: Any) -> tuple[str, str, int, tuple[int, ...]]:
    """The form of one leaf."""
    if isinstance(leaf, PackedSequence):
        return path, f"packed {dtype(leaf.data)}", leaf.data.dim(), ()
    if isinstance(leaf, Tensor):
        return path, dtype(leaf), leaf.dim(), tuple(leaf.shape)
    return path, type(leaf).__name__, 0, ()


def dtype(tensor: Tensor) -> str:
    """The dtype as a user writes it."""
    return str(tensor.dtype).removeprefix("torch.")


def commonest(schemas: Mapping[int, Schema] | Sequence[Schema]) -> Schema:
    """The form that most have, counted without sizes."""
    several = list(schemas.values() if isinstance(schemas, Mapping) else schemas)
    counts = Counter(tuple(one[:3] for one in schema.parts) for schema in several)
    form = counts.most_common(1)[0][0]
    return next(one for one in several if tuple(piece[:3] for piece in one.parts) == form)
