"""Probabilities that sum to one over the samples of a batch, in the output or the loss, however they are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import CallRecorder, TorchCall
from nbdebug.autograd.tracing import ModuleStack
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Setup
from nbdebug.setup.losses import score_tensor
from nbdebug.tensors.pytree import tree_map

_TOLERANCE = 1e-3  # a small number is often added before the logarithm
_MAX_CALLS, _MAX_VALUES = 256, 2**22


@measurement
def loss_calls(setup: Setup, first_pass: ForwardPass, output: Any, loss: Tensor) -> list[TorchCall]:
    """The torch calls of the loss for the output of the first batch."""
    calls: list[TorchCall] = []

    def record(call: TorchCall) -> None:
        if len(calls) < _MAX_CALLS:
            calls.append(call)

    detached = tree_map(output, lambda leaf: _as_leaf(leaf) if isinstance(leaf, Tensor) else leaf)
    try:
        with torch.enable_grad(), CallRecorder(ModuleStack(), record):
            setup.raw_loss(detached, first_pass.batch)
    except Exception as error:
        raise NotChecked(f"the loss raised {type(error).__name__}: {error}") from error
    return calls


def _as_leaf(tensor: Tensor) -> Tensor:
    detached = tensor.detach()
    return detached.requires_grad_() if detached.is_floating_point() else detached


@dataclass(frozen=True)
class BatchDistribution:
    """Probabilities or their logarithms, samples × columns, that sum to one over the samples."""

    shape: tuple[int, ...]
    where: Location
    is_output: bool


@measurement
def batch_distribution(
    first_pass: ForwardPass, output: Any, loss_calls: list[TorchCall] | NotChecked
) -> BatchDistribution | None:
    """Where the output, or a result of the loss, holds probabilities of the samples for each column.

    An output of one column, or as wide as the batch, has none.
    """
    scores, size = score_tensor(output), first_pass.batch.size
    if not isinstance(scores, Tensor) or scores.dim() != 2 or scores.numel() > _MAX_VALUES:
        return None
    if len(scores) != size or size < 2 or scores.shape[1] in (1, size):
        return None
    shape = tuple(scores.shape)
    if _is_over_batch(scores, shape, scores) or _is_over_batch(scores, shape, scores.exp()):
        root = first_pass.trace.get_graph(scores).root
        return BatchDistribution(shape, root.where if root else Location(), is_output=True)
    calls = loss_calls if isinstance(loss_calls, list) else []
    call = next((c for c in calls if _is_over_batch(c.outputs[0], shape, c.outputs[0].float().exp())), None)
    return BatchDistribution(shape, call.where, is_output=False) if call else None


def _is_over_batch(result: Tensor, shape: tuple[int, ...], shares: Tensor) -> bool:
    """Return whether the shares of a result are positive and sum to one over the first axis, not over the second."""
    if result.shape != shape or not result.requires_grad or not result.is_floating_point():
        return False
    sums, other_sums = shares.detach().float().sum(0), shares.detach().float().sum(1)
    is_one = bool(((sums - 1).abs() < _TOLERANCE).all()) and bool((shares >= 0).all())
    return is_one and not bool(((other_sums - 1).abs() < _TOLERANCE).all())
