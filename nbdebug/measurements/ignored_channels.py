"""Channels of the output that the loss does not read, of a model whose output holds the answers to several tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.loss_terms import is_loss_call
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.loss_gradient import compute_output_gradients
from nbdebug.measurements.registry import measurement
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_tensors

_MIN_ROWS = 8
_LOOKUPS = frozenset({"nll_loss", "gather", "take_along_dim", "index_select"})


@dataclass(frozen=True)
class IgnoredChannels:
    """Channels of an output without a gradient in any of ``rows`` samples; ``line`` is the loss that reads only them.

    There is no such loss if another one reads the channels of two tasks, or if the loss of a task is left out.
    """

    channels: tuple[int, ...]
    count: int
    rows: int
    targets: int
    line: SourceLine | None


@measurement
def ignored_channels(
    first_pass: ForwardPass, output: Any, loss: Tensor, loss_calls: list[TorchCall]
) -> IgnoredChannels | None:
    """Channels of an output without a gradient in any sample or position, if there are several targets.

    Some sample must have a gradient at all other channels: within a margin, or without an object, there is none.
    """
    inputs, targets = first_pass.batch.inputs, tree_tensors(first_pass.batch.targets)
    if len(targets) < 2:
        raise NotChecked("needs several targets")
    if any(call.name in _LOOKUPS for call in loss_calls):
        raise NotChecked("the loss looks up the channels of a batch, such as its classes or its actions")
    outputs = [tensor for tensor in tree_tensors(output) if tensor.is_floating_point() and len(tensor.shape) > 1]
    for scores, gradient in zip(outputs, compute_output_gradients(loss, outputs), strict=True):
        axis = _find_channel_axis(scores, tree_tensors(inputs))
        if gradient is None or axis is None or len(scores) < _MIN_ROWS:
            continue
        is_used_by_sample = _uses_channels(gradient, axis)
        is_used = is_used_by_sample.any(0)
        if 0 < int(is_used.sum()) < len(is_used) and bool((is_used_by_sample == is_used).all(1).any()):
            channels = tuple((~is_used).nonzero().flatten().tolist())
            line = _find_loss_of_channels(loss_calls, scores, axis, ~is_used)
            return IgnoredChannels(channels, len(is_used), len(scores), len(targets), line)
    return None


def _find_channel_axis(scores: Tensor, inputs: list[Tensor]) -> int | None:
    """Return the axis of an output whose length is that of no axis of an input; None if it is not certain."""
    if scores.dim() == 2:
        return 1
    lengths = {length for tensor in inputs for length in tensor.shape[1:]}
    axes = [axis for axis in range(1, scores.dim()) if scores.shape[axis] not in lengths]
    return axes[0] if len(axes) == 1 else None


def _uses_channels(gradient: Tensor, axis: int) -> Tensor:
    """Return where a gradient is not zero, as samples × channels."""
    used: Tensor = (gradient != 0).movedim(axis, 1).flatten(2).any(2) if gradient.dim() > 2 else gradient != 0
    return used


def _find_loss_of_channels(
    loss_calls: list[TorchCall], scores: Tensor, axis: int, is_ignored: Tensor
) -> SourceLine | None:
    """Return the line of the loss whose value depends on ignored channels alone."""
    for call in loss_calls:
        if not is_loss_call(call) or not call.outputs or not call.outputs[0].requires_grad:
            continue
        roots = [t for each in loss_calls for t in each.inputs if t is scores or (t.is_leaf and t.requires_grad)]
        roots = list({id(tensor): tensor for tensor in roots if tensor.shape == scores.shape}.values())
        gradients = torch.autograd.grad(call.outputs[0].sum(), roots, retain_graph=True, allow_unused=True)
        used = [_uses_channels(gradient, axis).any(0) for gradient in gradients if gradient is not None]
        if any(bool(channels.any()) and not bool((channels & ~is_ignored).any()) for channels in used):
            return call.line
    return None
