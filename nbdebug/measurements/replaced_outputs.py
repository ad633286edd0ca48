"""Losses that stay the same whatever the model returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import CallRecorder, TorchCall
from nbdebug.autograd.tracing import ModuleStack
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.gradients import EarlyGradient
from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import seed_all
from nbdebug.setup import Setup
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_map, tree_tensors

_SCALES = (0.1, 1.0, 10.0, 1e2, 1e4, 1e7)  # of the random outputs; some masks and margins are large
_DRAWS_PER_SCALE, _MIN_DRAWS = 3, 9


@dataclass(frozen=True)
class UnchangedLoss:
    """The ``value`` that a loss keeps for a number of random outputs, and the line that gives infinite values."""

    value: float
    draws: int
    infinite_line: SourceLine


@slow_measurement
def unchanged_loss(
    setup: Setup, first_pass: ForwardPass, output: Any, loss: Tensor, early_steps: list[EarlyGradient]
) -> UnchangedLoss | None:
    """The value of a loss with infinite values and no gradient that stays the same for random outputs of the model.

    A loss without infinite values may be constant on some batches only, as one without a pair of equal labels.
    """
    outputs = [tensor for tensor in tree_tensors(output) if tensor.is_floating_point()]
    if setup.loss_fn is None or not outputs or any(early.max_gradient != 0 for early in early_steps):
        return None
    infinite_line = _find_first_infinity(setup, first_pass, output)
    if infinite_line is None:
        return None
    base, draws = float(loss.detach()), 0
    for seed in range(_DRAWS_PER_SCALE):
        for scale in _SCALES:
            try:
                value = _compute_loss_of_random_outputs(setup, first_pass, output, seed, scale)
            except Exception:  # a loss that rejects these values
                continue
            if value != base:
                return None
            draws += 1
    return UnchangedLoss(base, draws, infinite_line) if draws >= _MIN_DRAWS else None


def _compute_loss_of_random_outputs(
    setup: Setup, first_pass: ForwardPass, output: Any, seed: int, scale: float
) -> float:
    generator = torch.Generator().manual_seed(seed)

    def draw(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if not leaf.is_floating_point():
            return leaf.detach().clone()
        return (scale * torch.randn(leaf.shape, generator=generator)).to(leaf)

    seed_all(0)
    with torch.no_grad():
        return float(setup.loss(tree_map(output, draw), first_pass.batch))


def _find_first_infinity(setup: Setup, first_pass: ForwardPass, output: Any) -> SourceLine | None:
    """Return the line of the first call of the loss whose result contains infinite values."""
    lines: list[SourceLine] = []

    def on_call(call: TorchCall) -> None:
        is_infinite = any(t.is_floating_point() and t.dim() and bool(t.isinf().any()) for t in call.outputs)
        if not lines and call.line is not None and is_infinite:
            lines.append(call.line)

    copies = tree_map(output, lambda leaf: leaf.detach().clone() if isinstance(leaf, Tensor) else leaf)
    with torch.no_grad(), CallRecorder(ModuleStack(), on_call):
        setup.loss(copies, first_pass.batch)
    return lines[0] if lines else None
