"""Targets that the loss compares with the outputs of other samples, found by changing one target at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd import Graph
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.heads import HeadSetup
from nbdebug.measurements.known_positions import name_target
from nbdebug.measurements.loss_gradient import LossCall
from nbdebug.measurements.loss_places import producing_line
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Setup
from nbdebug.source.location import SourceLine, get_location
from nbdebug.tensors.pytree import tree_leaves, tree_map, tree_tensors

_MIN_SAMPLES, _TRIED_SAMPLES, _MIN_CROSSED = 4, 6, 3


@dataclass(frozen=True)
class CrossedTargets:
    """A part of the target, and for some samples the other one whose output alone gets another gradient with it.

    ``pairs`` are rows of the target and of the output in the first batch; ``where`` is the line of the loss.
    """

    target: str
    pairs: tuple[tuple[int, int], ...]
    where: Location


@slow_measurement
def crossed_targets(
    setup: Setup, eval_outputs: EvalOutputs, loss_call: LossCall, graph: Graph | NotChecked
) -> CrossedTargets | None:
    """The part of the target that the loss compares with outputs of other samples, in an order that it sets itself.

    Other outputs must lead to the same pairs, since a loss may match predictions and targets by their values. The model
    must return the samples in the order of its inputs.
    """
    size = eval_outputs.batch.size
    if size < _MIN_SAMPLES:
        raise NotChecked("the batch has too few samples")
    scores = [t for t in tree_tensors(loss_call.output) if t.requires_grad and t.dim() and len(t) == size]
    rolled = {id(t): t.detach().roll(1, 0) for t in scores}
    for path, target in tree_leaves(loss_call.targets):
        if not isinstance(target, Tensor) or not target.dim() or len(target) != size:
            continue
        pairs = _find_pairs(loss_call, scores, target, {})
        crossed = [(row, other) for row, other in pairs if row != other]
        if not _are_permuted(pairs) or not _keeps_order(eval_outputs, crossed):
            continue
        if _find_pairs(loss_call, scores, target, rolled) == pairs:
            name = name_target(path) if len(loss_call.targets) > 1 else "the target"
            return CrossedTargets(name, tuple(crossed), get_location(_loss_line(setup, graph)))
    return None


def _loss_line(setup: Setup, graph: Graph | NotChecked) -> SourceLine | None:
    """Return the line where the loss meets the output of a head, or else makes the values that it averages."""
    if isinstance(setup, HeadSetup):
        return setup.line
    return producing_line(graph)


def _are_permuted(pairs: Sequence[tuple[int, int]]) -> bool:
    """Return whether each row has another partner; one may be its own, as the middle of a reversed batch is."""
    others = {other for _, other in pairs}
    crossed = sum(row != other for row, other in pairs)
    return len(others) == len(pairs) and crossed >= max(_MIN_CROSSED, len(pairs) - 1)


def _find_pairs(
    call: LossCall, scores: Sequence[Tensor], target: Tensor, replaced: dict[int, Tensor]
) -> list[tuple[int, int]]:
    """Return some rows of a target with the only row of the output that gets another gradient; none if several do."""
    before = _gradients(call, scores, replaced, call.targets)
    pairs: list[tuple[int, int]] = []
    for row, changed in _changed_targets(target):
        targets = tree_map(call.targets, partial(_replace, target, changed))
        after = _gradients(call, scores, replaced, targets)
        rows = (before != after).any(1).nonzero().flatten().tolist()
        if len(rows) > 1:
            return []
        pairs += [(row, other) for other in rows]
    return pairs


def _changed_targets(target: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yield some rows, each with a copy of the target in which that row has the value of another one."""
    size, flat = len(target), target.reshape(len(target), -1)
    for row in range(0, size, max(1, size // _TRIED_SAMPLES)):
        others = (flat != flat[row]).any(1).nonzero().flatten()
        if len(others):
            changed = target.clone()
            changed[row] = target[others[0]]
            yield row, changed


def _gradients(
    call: LossCall, scores: Sequence[Tensor], replaced: dict[int, Tensor], targets: tuple[Any, ...]
) -> Tensor:
    """Return the gradients of the loss at the outputs, one row for each sample."""
    leaves = {id(t): replaced.get(id(t), t).detach().clone().requires_grad_() for t in scores}
    output = tree_map(call.output, lambda leaf: leaves.get(id(leaf), leaf.detach() if _is_tensor(leaf) else leaf))
    with Preserve(call.function if isinstance(call.function, nn.Module) else None), torch.enable_grad():
        seed_all(0)
        loss = call.function(*call.form(output, targets))
        if not isinstance(loss, Tensor) or not loss.requires_grad:
            raise NotChecked("the loss has no gradient at the output")
        gradients = torch.autograd.grad(loss.sum(), list(leaves.values()), allow_unused=True)
    rows = [g.reshape(len(g), -1) for g in gradients if g is not None]
    if not rows:
        raise NotChecked("the loss has no gradient at the output")
    return torch.cat(rows, 1)


def _replace(old: Tensor, new: Tensor, leaf: Any) -> Any:
    return new if leaf is old else leaf


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, Tensor)


def _keeps_order(answers: EvalOutputs, pairs: Sequence[tuple[int, int]]) -> bool:
    """Return whether the input of a sample changes its own row of the output, and not that of the crossed pair."""
    before = answers.predict(answers.batch)[0]
    for row, other in pairs[:2]:
        positions = list(range(answers.batch.size))
        positions[row] = other
        after = answers.predict(answers.batch.take_samples(positions))[0]
        changed = (before - after).abs().reshape(len(before), -1).amax(1) > answers.noise
        if not bool(changed[row]) or bool(changed[other]):
            return False
    return True
