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
from nbdebug.tensors.pytree import as_leaf, tree_map

_TOLERANCE = 1e-3  # a small number is often added before the logarithm
_MAX_CALLS, _MAX_VALUES = 256, 2**22


@measurement
def loss_calls(setup: Setup, first_pass: ForwardPass, output: Any, loss: Tensor) -> list[TorchCall]:
    """The torch calls of the loss for the output of the first batch."""
    calls: list[TorchCall] = []

    def record(call: TorchCall) -> None:
        if len(calls) < _MAX_CALLS:
            calls.append(call)

    detached = tree_map(output, as_leaf)
    try:
        with torch.enable_grad(), CallRecorder(ModuleStack(), record):
            setup.raw_loss(detached, first_pass.batch)
    except Exception as error:
        raise NotChecked(f"the loss raised {type(error).__name__}: {error}") from error
    return calls


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
    if _may_be_shares(scores, shape) and (_is_over_batch(scores) or _is_over_batch(scores.float().exp())):
        root = first_pass.trace.get_graph(scores).root
        return BatchDistribution(shape, root.where if root else Location(), is_output=True)
    calls = loss_calls if isinstance(loss_calls, list) else []
    results = ((call, call.outputs[0]) for call in calls if _may_be_shares(call.outputs[0], shape))
    call = next((call for call, result in results if _is_over_batch(result.float().exp())), None)
    return BatchDistribution(shape, call.where, is_output=False) if call else None


def _may_be_shares(result: Tensor, shape: tuple[int, ...]) -> bool:
    return result.shape == shape and result.requires_grad and result.is_floating_point()


def _is_over_batch(shares: Tensor) -> bool:
    """Return whether shares are not negative and sum to one over the first axis, but not over the second."""
    shares = shares.detach().float()
    is_one = [bool(((shares.sum(axis) - 1).abs() < _TOLERANCE).all()) for axis in (0, 1)]
    return is_one == [True, False] and bool((shares >= 0).all())
