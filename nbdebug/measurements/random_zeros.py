"""Values that a model sets to zero at random in train mode, however the dropout is written."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import in_mode


@dataclass(frozen=True)
class RandomZeros:
    """A call that keeps only a share of the values of its input, at random."""

    call: str
    where: Location
    kept_share: float

    @property
    def noise_to_signal(self) -> float:
        """The variance of the noise relative to the power of the signal: p / (1 - p) for a dropout rate p."""
        return (1 - self.kept_share) / self.kept_share


@measurement
def random_zeros(setup: Setup, batches: list[Batch]) -> list[RandomZeros]:
    """Calls that set values of the first batch to zero in train mode, other ones with other random numbers.

    Two passes are compared. A call counts if an input of the same shape is equal in both, is not zero where the output
    is, and the output differs.
    """
    if isinstance(setup.eager_model, torch.jit.ScriptModule):
        raise NotChecked("the calls of a TorchScript model cannot be recorded")
    try:
        with Preserve(setup.model), torch.no_grad(), in_mode(setup.eager_model, True):
            first, second = (_record_pass(setup, batches[0], seed) for seed in (1, 2))
    except Exception as error:
        raise NotChecked(f"in train mode the model raised {type(error).__name__}: {error}") from error
    pairs = zip(first, second, strict=False)
    return [zeros for before, after in pairs if (zeros := _compare(before, after)) is not None]


@dataclass(frozen=True)
class _CopiedCall:
    call: TorchCall
    inputs: tuple[Tensor, ...]
    output: Tensor


def _record_pass(setup: Setup, batch: Batch, seed: int) -> list[_CopiedCall]:
    """Return copies of the calls that may be elementwise, since later calls may work in place."""
    copied: list[_CopiedCall] = []

    def on_call(call: TorchCall) -> None:
        output = call.outputs[0]
        inputs = tuple(t.clone() for t in call.inputs if t.shape == output.shape and t.is_floating_point())
        if inputs and output.is_floating_point():
            copied.append(_CopiedCall(call, inputs, output.clone()))

    with record_calls(setup.eager_model, on_call):
        seed_all(seed)
        setup.predict(batch)
    return copied


def _compare(before: _CopiedCall, after: _CopiedCall) -> RandomZeros | None:
    """Return the share that a call keeps at random; None if it sets nothing to zero at random."""
    if before.call.name != after.call.name or before.output.shape != after.output.shape:
        return None
    for signal, repeated in zip(before.inputs, after.inputs, strict=False):
        if signal.shape == repeated.shape and torch.equal(signal, repeated) and bool(signal.any()):
            kept = [(output[signal != 0] != 0).float().mean() for output in (before.output, after.output)]
            is_random = bool(((before.output == 0) != (after.output == 0)).any())
            share = float(sum(kept, torch.zeros(())) / 2)
            return RandomZeros(before.call.name, before.call.where, share) if is_random and 0 < share < 1 else None
    return None
