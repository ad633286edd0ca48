"""The growth of a loss, and of the terms that it adds up, with the number of samples."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.autograd.loss_terms import record_loss_calls
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.batch_independence import has_batch_axis
from nbdebug.measurements.flow_volume import noise_added
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_map, tree_tensors

_TOLERANCE = 0.01  # of a ratio
_MIN_EFFECT = 1e-5  # of a term on the loss, relative to it; a softmax, for instance, ignores a common shift
_ADDITIONS = {"add", "radd", "iadd", "add_", "sub", "rsub", "isub"}
_Record = tuple[list[TorchCall], Tensor]


@dataclass(frozen=True)
class MixedReductions:
    """Two terms that a loss adds: one is a sum over the samples of a batch, made on ``line``, the other is not.

    The other is a mean over the samples, or one value for each of them if it is ``per_sample``; ``mean`` is then the
    mean of these. If the sum is 0 without noise on the parameters, ``needs_noise`` and both are those with noise.
    """

    mean: float
    sum: float
    line: SourceLine | None
    per_sample: bool = False
    needs_noise: bool = False


@dataclass(frozen=True)
class LossScaling:
    """The loss of the first batch repeated twice, relative to that of the batch, and terms of different reductions."""

    batch_size: int
    ratio: float
    mixed: MixedReductions | None = None


@dataclass(frozen=True)
class _Outputs:
    """An output and that for the batch repeated twice; ``lines`` are those of its scalars that are sums, by id."""

    single: Any
    double: Any
    lines: dict[int, SourceLine | None]


@measurement
def loss_scaling(setup: Setup, first_pass: ForwardPass, output: Any, finite_loss: Tensor) -> LossScaling:
    """The growth of the loss with the number of samples, on the output of the first batch.

    Rows of the output are repeated. Whether a scalar of the output is a sum shows the model, called with each sample
    twice.
    """
    size = first_pass.batch.size
    scalars = [tensor for tensor in tree_tensors(output) if tensor.numel() == 1]
    is_batched = any(_has_samples(tensor, size) for tensor in tree_tensors(output))
    if setup.loss_fn is None or not (is_batched or scalars) or size < 2:
        raise NotChecked("needs a callable loss and an output tensor with a batch axis")
    batch = first_pass.batch
    outputs = _repeat_rows(output, size, _summed_scalars(setup, batch, output) if scalars else {})
    if not is_batched and not outputs.lines:
        raise NotChecked("needs a callable loss and an output tensor with a batch axis")
    before, after = _record_both(setup, outputs, batch)
    value = float(finite_loss.detach())
    ratio = float(after[1]) / value if value else 1.0
    mixed = _find_mixed(before, after, outputs)
    if mixed is None and any(not float(scalar.detach()) for scalar in scalars):
        mixed = _find_mixed_with_noise(setup, batch)
    return LossScaling(size, ratio, mixed)


def _find_mixed_with_noise(setup: Setup, batch: Batch) -> MixedReductions | None:
    """Return terms of different reductions in the output with noise on the parameters: flows begin as the identity."""
    with suppress(Exception):  # a model or a loss that does not take the noise has no terms to compare
        predicted, _ = _predict(setup, batch, with_noise=True)
        outputs = _repeat_rows(predicted, batch.size, _summed_scalars(setup, batch, predicted, with_noise=True))
        mixed = _find_mixed(*_record_both(setup, outputs, batch), outputs) if outputs.lines else None
        return replace(mixed, needs_noise=True) if mixed else None
    return None


def _repeat_rows(output: Any, size: int, lines: Mapping[int, SourceLine | None]) -> _Outputs:
    """Return an output and the same for each sample twice; ``lines`` are those of its summed scalars, by id."""
    rows = [*range(size), *range(size)]

    def repeat(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        return leaf.detach()[rows] if _has_samples(leaf, size) else leaf.detach() * (2 if id(leaf) in lines else 1)

    single = tree_map(output, lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf)
    pairs = zip(tree_tensors(output), tree_tensors(single), strict=True)
    return _Outputs(
        single, tree_map(output, repeat), {id(t): lines[id(leaf)] for leaf, t in pairs if id(leaf) in lines}
    )


def _summed_scalars(
    setup: Setup, batch: Batch, output: Any, *, with_noise: bool = False
) -> dict[int, SourceLine | None]:
    """Return the lines of the scalars of an output that double if each sample is passed twice, by their ids."""
    rows = [*range(batch.size), *range(batch.size)]
    try:
        single, makers = _predict(setup, batch, with_noise=with_noise)
        double, _ = _predict(setup, batch.take_samples(rows), with_noise=with_noise)
    except Exception:  # such as that of a model which takes batches of one size only
        return {}
    leaves = [tree_tensors(tree) for tree in (output, single, double)]
    if len({len(tensors) for tensors in leaves}) > 1:
        return {}
    return {
        id(leaf): _reducing_line(before, makers)
        for leaf, before, after in zip(*leaves, strict=True)
        if leaf.numel() == before.numel() == after.numel() == 1 and _reduction(before, after) == "sum"
    }


def _predict(setup: Setup, batch: Batch, *, with_noise: bool) -> tuple[Any, dict[int, TorchCall]]:
    """Return the output in eval mode, and the calls that made each scalar, by its id."""
    model, makers = setup.eager_model, dict[int, TorchCall]()

    def record(call: TorchCall) -> None:
        makers.update((id(tensor), call) for tensor in call.outputs if tensor.numel() == 1)

    noise = noise_added(model) if with_noise else nullcontext()
    with Preserve(model), noise, in_mode(model, False), torch.no_grad(), record_calls(model, record):
        seed_all(0)
        return setup.predict(batch), makers


def _record_both(setup: Setup, outputs: _Outputs, batch: Batch) -> tuple[_Record, _Record]:
    """Return the calls and the value of the loss, for the batch and for the batch repeated twice."""
    rows = [*range(batch.size), *range(batch.size)]
    before = _record_loss(setup, outputs.single, batch)
    return before, _record_loss(setup, outputs.double, batch.take_samples(rows))


def _record_loss(setup: Setup, output: Any, batch: Batch) -> _Record:
    """Return the calls of a loss and its value; raise NotChecked if the loss rejects the output or the batch."""
    values: list[Tensor] = []
    calls, error = record_loss_calls(lambda: values.append(setup.loss(output, batch)))
    if error:
        raise NotChecked(f"the loss does not accept a repeated batch: {type(error).__name__}: {error}")
    return calls, values[0]


def _has_samples(leaf: Any, size: int) -> bool:
    return isinstance(leaf, Tensor) and has_batch_axis(leaf, size)


def _find_mixed(before: _Record, after: _Record, outputs: _Outputs) -> MixedReductions | None:
    """Return the first two terms of different reductions that are added up, if both depend on the output."""
    if [call.name for call in before[0]] != [call.name for call in after[0]]:
        return None
    has_effect = abs(_ratio(before[1], after[1]) - 1) > _MIN_EFFECT
    dependent = {id(tensor) for tensor in tree_tensors(outputs.single)}
    makers: dict[int, TorchCall] = {}
    for call, later in zip(before[0], after[0], strict=True):
        is_sum = call.name in _ADDITIONS and len(call.inputs) == len(later.inputs) == 2
        if is_sum and all(id(term) in dependent for term in call.inputs):
            kinds = [_reduction(*pair) for pair in zip(call.inputs, later.inputs, strict=True)]
            terms = dict(zip(kinds, call.inputs, strict=True))
            other = terms.get("mean", terms.get("rows"))
            if "sum" in terms and other is not None and ("mean" in terms or has_effect):
                line = _reducing_line(terms["sum"], makers, outputs.lines)
                return MixedReductions(float(other.double().mean()), float(terms["sum"]), line, "rows" in terms)
        if any(id(tensor) in dependent for tensor in call.inputs):
            dependent |= {id(tensor) for tensor in call.outputs}
            makers |= {id(tensor): call for tensor in call.outputs}
    return None


def _ratio(before: Tensor, after: Tensor) -> float:
    value = float(before)
    return float(after) / value if value else 0.0


def _reduction(before: Tensor, after: Tensor) -> str:
    """Return how a term changes if the batch is repeated.

    A "mean" stays the same, a "sum" doubles, and "rows" have one value or more for each sample, which are repeated.
    """
    if before.numel() == after.numel() == 1:
        ratio = _ratio(before, after)
        return next((name for name, exact in (("mean", 1), ("sum", 2)) if abs(ratio - exact) <= _TOLERANCE), "")
    is_repeated = before.dim() and after.shape == (2 * len(before), *before.shape[1:])
    return "rows" if is_repeated and torch.equal(after, torch.cat([before, before])) else ""


def _reducing_line(
    term: Tensor, makers: Mapping[int, TorchCall], lines: Mapping[int, SourceLine | None] | None = None
) -> SourceLine | None:
    """Return the line of the call that reduces many values to a term; ``lines`` are those of some terms, by id."""
    known = lines or {}
    while id(term) not in known and (call := makers.get(id(term))) is not None:
        scalars = [t for t in call.inputs if (id(t) in makers or id(t) in known) and t.numel() == 1]
        if not scalars:
            return call.line
        term = scalars[0]
    return known.get(id(term))
