"""Validation samples that are training samples moved by some steps: windows of one series, cut before the split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.sameness import met
from nbdebug.evidence.tables import Table, keys

LEAST_STEPS, FEW = 4, 4
MOST = 16


@dataclass(frozen=True)
class Windows:
    """The pairs (train, val) of windows that share all but ``steps`` steps or fewer, of ``length`` each."""

    pairs: list[tuple[int, int]]
    val: int
    length: int = 0
    steps: int = 0


@measurement
def shared_windows(tables: dict[str, Table]) -> Windows:
    """The validation windows that share three quarters of their steps or more with one of training."""
    train, val = tables.get("train"), tables.get("val")
    if train is None or val is None or len(train.inputs) != 1 or len(val.inputs) != 1:
        return Windows([], 0)
    here, there = train.inputs[0], val.inputs[0]
    if not is_series(here) or here.shape[1:] != there.shape[1:] or here.dtype != there.dtype:
        return Windows([], 0)
    length, found, steps = here.shape[1], dict[int, int](), 0
    for step in range(1, min(length // 4, MOST) + 1):
        before = len(found)
        for first, second in ((here[:, step:], there[:, :-step]), (here[:, :-step], there[:, step:])):
            found = {place: row for row, place in met(codes(first), codes(second))} | found
        steps = step if len(found) > before else steps
    return Windows([(train.indices[i], val.indices[j]) for j, i in found.items()], len(val), length, steps)


def codes(part: Tensor) -> list[Any]:
    """A number for each row by its values; something of its own for rows of hardly any different values."""
    ordered = part.flatten(1).sort(1).values
    several = (ordered.diff(dim=1) != 0).sum(1) >= FEW - 1
    return [code if rich else object() for code, rich in zip(keys([part]), several.tolist(), strict=True)]


def is_series(part: Tensor) -> bool:
    """Whether samples are steps of real numbers that hardly repeat."""
    if part.dim() not in (2, 3) or part.shape[1] < LEAST_STEPS or not part.is_floating_point():
        return False
    first = part[:, 0].reshape(len(part), -1)
    return any(len(column.unique()) > len(column) / 2 for column in first.t())
