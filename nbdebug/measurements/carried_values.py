"""Values that a model keeps outside of its modules from one call for the next, such as a state in a global variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import slow_measurement
from nbdebug.setup import Setup

_MIN_RELATIVE_DIFFERENCE = 1e-6  # rounding of float32; before training, a state fades within a long sequence
_MIN_REPLACED_SHARE = 0.5
_MIN_VALUES = 4  # a single number may be equal by chance, or count the calls


@dataclass(frozen=True)
class CarriedValue:
    """The first ``call`` that reads a tensor which another call returned in the pass before.

    ``relative_difference`` is the difference of two outputs for the same batch, relative to the largest value.
    """

    call: TorchCall
    relative_difference: float


@slow_measurement
def carried_value(setup: Setup, first_pass: ForwardPass) -> CarriedValue | None:
    """The first value of a pass in eval mode that the pass before has made; None if it changes no output.

    A batch is evaluated after its first sample alone, repeated, and after itself, with the same random numbers. The
    value is read from outside: no call of its own pass has made it, and it is no parameter, buffer or input.
    """
    answers = EvalOutputs(setup, first_pass.batch)
    other = replace(answers, batch=first_pass.batch.take_samples([0] * first_pass.batch.size))
    try:
        other.predict(other.batch)
        after_other, after_itself = (score.float() for score in (answers.predict(answers.batch)[0] for _ in range(2)))
    except NotChecked:
        raise
    except Exception as error:
        raise NotChecked(f"in eval mode the model raised {type(error).__name__}: {error}") from error
    if after_other.shape != after_itself.shape:
        return None
    scale = after_other.abs().max().clamp_min(1e-12)
    difference = float((after_itself - after_other).abs().max() / scale)
    if not difference > _MIN_RELATIVE_DIFFERENCE:
        return None
    earlier, calls = other.recorded_calls(other.batch), answers.recorded_calls(answers.batch)
    call = _find_reader(setup, earlier, calls, list(answers.inputs.values()))
    return CarriedValue(call, difference) if call is not None else None


def _find_reader(
    setup: Setup, earlier: Sequence[TorchCall], calls: Sequence[TorchCall], inputs: list[Tensor]
) -> TorchCall | None:
    """Return the first call that reads a value which the earlier pass has made and its own has not."""
    model = setup.eager_model
    own = {id(tensor) for tensor in (*inputs, *model.parameters(), *model.buffers())}
    for number, call in enumerate(calls):
        partner = earlier[number].inputs if number < len(earlier) and earlier[number].name == call.name else ()
        for position, tensor in enumerate(call.inputs):
            is_external = id(tensor) not in own and not isinstance(tensor, nn.Parameter)
            if is_external and _is_made_by(earlier, tensor) and _is_mostly_replaced(partner[position:], tensor):
                return call
        own |= {id(tensor) for tensor in call.outputs}
    return None


def _is_made_by(calls: Sequence[TorchCall], tensor: Tensor) -> bool:
    """Return whether a call has returned the values of a tensor, which are no constant."""
    if not tensor.is_floating_point() or tensor.numel() < _MIN_VALUES or bool((tensor == tensor.flatten()[0]).all()):
        return False
    return any(
        output.shape == tensor.shape and output.dtype == tensor.dtype and torch.equal(output, tensor)
        for call in calls
        for output in call.outputs
    )


def _is_mostly_replaced(before: Sequence[Tensor], tensor: Tensor) -> bool:
    """Return whether most rows along each axis differ from those that the earlier pass read.

    A queue replaces a part of its rows, and may move the others, which keep their sums.
    """
    if not before or before[0].shape != tensor.shape:
        return True
    axes = [axis for axis in range(tensor.dim()) if tensor.shape[axis] >= _MIN_VALUES]
    shares = [torch.isin(*(_sum_rows(values, axis) for values in (tensor, before[0]))).float().mean() for axis in axes]
    return all(float(share) < 1 - _MIN_REPLACED_SHARE for share in shares)


def _sum_rows(values: Tensor, axis: int) -> Tensor:
    """Return the sum of each row along an axis."""
    return values.double().movedim(axis, 0).reshape(values.shape[axis], -1).sum(1)
