"""Occlusion: what the score loses when a part of the input is exchanged for that of the background."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from nbdebug.attribution.found import Found
from nbdebug.attribution.parts import Part
from nbdebug.attribution.pieces import is_map, side_of
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.watch import expect
from nbdebug.exceptions import SetupError

ROWS = 16  # background samples that stand in for a feature or a token


@dataclass(frozen=True)
class Patch:
    """The places of one part that are exchanged together."""

    part: int
    where: tuple[slice, ...]


def occlusion(problem: Problem, size: int | None = None, stride: int | None = None) -> Found:
    """The mean fall of the score over all patches that cover a place; features and tokens one at a time.

    Pictures and series are covered by patches with sides of ``size`` (an eighth of the longest side) every ``stride``
    (half of it) with the mean of the background; features and tokens are exchanged for those of up to 16 background
    samples. Needs no gradients. Zeiler and Fergus 2013, arXiv:1311.2901.
    """
    found = [torch.zeros(part.values.shape, dtype=torch.float64) for part in problem.parts]
    covered = [torch.zeros(part.values.shape[1:], dtype=torch.float64) for part in problem.parts]
    every = list(patches(problem.parts, size, stride))
    expect(problem.size * sum(len(stand_ins(problem.parts[patch.part])) for patch in every))
    for patch in every:
        found[patch.part][(slice(None), *patch.where)] += fall(problem, patch)[(..., *[None] * len(patch.where))]
        covered[patch.part][patch.where] += 1
    return Found([one / cover.clamp_min(1) for one, cover in zip(found, covered, strict=True)])


def patches(parts: list[Part], size: int | None, stride: int | None) -> Iterator[Patch]:
    """All patches of all parts."""
    for number, part in enumerate(parts):
        shape = part.values.shape[1:]
        if not is_map(part):
            yield from (Patch(number, tuple(slice(i, i + 1) for i in at)) for at in product(*map(range, shape)))
            continue
        side = size or side_of(shape)
        step = stride or max(1, side // 2)
        if side < 1 or step < 1:
            raise SetupError(f"size is {size} and stride {stride}; expected 1 or more. Leave them out.")
        starts = [sorted({*range(0, max(length - side, 0) + 1, step), max(length - side, 0)}) for length in shape[1:]]
        for at in product(*starts):
            yield Patch(number, (slice(None), *(slice(i, i + side) for i in at)))


def stand_ins(part: Part) -> Tensor:
    """What is put in the place of a patch."""
    assert part.background is not None
    if is_map(part):
        return part.background.mean(0, keepdim=True)
    order = torch.randperm(len(part.background), generator=torch.Generator().manual_seed(0))[:ROWS]
    return part.background[order.sort().values.to(part.background.device)]


def fall(problem: Problem, patch: Patch) -> Tensor:
    """How much the score of each sample falls when a patch is exchanged, on average over what is put there."""
    other = stand_ins(problem.parts[patch.part])
    whole = problem.scores
    fallen = torch.zeros(problem.size, dtype=torch.float64)

    def work(start: int, stop: int) -> None:
        row = torch.arange(start, stop, device=problem.home)
        owners, other_row = row // len(other), row % len(other)
        points = [part.values.index_select(0, owners) for part in problem.parts]
        points[patch.part][(slice(None), *patch.where)] = other[other_row][(slice(None), *patch.where)]
        with torch.no_grad():
            score = problem.values(points, owners).to("cpu", torch.float64)
        fallen.index_add_(0, owners.cpu(), whole[owners.cpu()] - score)

    problem.chunks().over(problem.size * len(other), work)
    return fallen / len(other)
