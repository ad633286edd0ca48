"""The growth of a loss, and of the terms that it adds up, with the number of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.loss_terms import record_loss_calls
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.batch_independence import has_batch_axis
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Batch, Setup
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_map, tree_tensors

_TOLERANCE = 0.01  # of a ratio
_ADDITIONS = {"add", "radd", "iadd", "add_", "sub", "rsub", "isub"}


@dataclass(frozen=True)
class MixedReductions:
    """Two terms that a loss adds: one is a mean over the samples of a batch, the other a sum made on ``line``."""

    mean: float
    sum: float
    line: SourceLine | None


@dataclass(frozen=True)
class LossScaling:
    """The loss of the first batch repeated twice, relative to that of the batch, and terms of different reductions."""

    batch_size: int
    ratio: float
    mixed: MixedReductions | None = None


@measurement
def loss_scaling(setup: Setup, first_pass: ForwardPass, output: Any, finite_loss: Tensor) -> LossScaling:
    """The growth of the loss with the number of samples, on the output of the first batch."""
    size = first_pass.batch.size
    is_batched = any(_has_samples(tensor, size) for tensor in tree_tensors(output))
    if setup.loss_fn is None or not is_batched or size < 2:
        raise NotChecked("needs a callable loss and an output tensor with a batch axis")
    rows = [*range(size), *range(size)]
    single = tree_map(output, lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf)
    double = tree_map(single, lambda leaf: leaf[rows] if _has_samples(leaf, size) else leaf)
    before = _record_loss(setup, single, first_pass.batch)
    after = _record_loss(setup, double, first_pass.batch.take_samples(rows))
    value = float(finite_loss.detach())
    ratio = float(after[1]) / value if value else 1.0
    return LossScaling(size, ratio, _find_mixed(before[0], after[0], tree_tensors(single)))


def _record_loss(setup: Setup, output: Any, batch: Batch) -> tuple[list[TorchCall], Tensor]:
    """Return the calls of a loss and its value; raise NotChecked if the loss rejects the output or the batch."""
    values: list[Tensor] = []
    calls, error = record_loss_calls(lambda: values.append(setup.loss(output, batch)))
    if error:
        raise NotChecked(f"the loss does not accept a repeated batch: {type(error).__name__}: {error}")
    return calls, values[0]


def _has_samples(leaf: Any, size: int) -> bool:
    return isinstance(leaf, Tensor) and has_batch_axis(leaf, size)


def _find_mixed(
    before: Sequence[TorchCall], after: Sequence[TorchCall], outputs: list[Tensor]
) -> MixedReductions | None:
    """Return the first two terms of different reductions that are added up, if both depend on the output."""
    if [call.name for call in before] != [call.name for call in after]:
        return None
    dependent = {id(tensor) for tensor in outputs}
    makers: dict[int, TorchCall] = {}
    for call, later in zip(before, after, strict=True):
        is_sum = call.name in _ADDITIONS and len(call.inputs) == len(later.inputs) == 2
        if is_sum and all(id(term) in dependent and term.numel() == 1 for term in call.inputs):
            ratios = [_ratio(*pair) for pair in zip(call.inputs, later.inputs, strict=True)]
            terms = dict(zip(map(_reduction, ratios), call.inputs, strict=True))
            if terms.keys() == {"mean", "sum"}:
                line = _reducing_line(terms["sum"], makers)
                return MixedReductions(float(terms["mean"]), float(terms["sum"]), line)
        if any(id(tensor) in dependent for tensor in call.inputs):
            dependent |= {id(tensor) for tensor in call.outputs}
            makers |= {id(tensor): call for tensor in call.outputs}
    return None


def _ratio(before: Tensor, after: Tensor) -> float:
    value = float(before)
    return float(after) / value if value else 0.0


def _reduction(ratio: float) -> str:
    """Return "mean" for a term that stays the same if the batch is repeated, "sum" for one that doubles."""
    return next((name for name, exact in (("mean", 1), ("sum", 2)) if abs(ratio - exact) <= _TOLERANCE), "")


def _reducing_line(term: Tensor, makers: Mapping[int, TorchCall]) -> SourceLine | None:
    """Return the line of the call that reduces many values to a term."""
    while (call := makers.get(id(term))) is not None:
        scalars = [tensor for tensor in call.inputs if id(tensor) in makers and tensor.numel() == 1]
        if not scalars:
            return call.line
        term = scalars[0]
    return None
