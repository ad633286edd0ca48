"""Parameters of a random sample that the output depends on, and that get no gradient from the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import ModeDependentCall, TorchCall, record_calls
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.parameter_coverage import ParameterEntry
from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.tensors.pytree import tree_leaves, tree_tensors

_RELATIVE_CHANGE = 0.3  # of the root mean square of a parameter
_MIN_SCALE = 0.1  # of parameters that are near zero


@dataclass(frozen=True)
class SampledGradients:
    """A call that draws a sample from values of some parameters and returns no gradient for them.

    ``parameters`` are those that change an output only through the sample. ``output`` names this output if another one
    of the model has a gradient for them, such as the mean of the distribution; "" otherwise.
    """

    call: TorchCall
    parameters: tuple[ParameterEntry, ...]
    output: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(entry.name for entry in self.parameters)


@slow_measurement
def sampled_gradients(
    setup: Setup,
    first_pass: ForwardPass,
    output: Any,
    parameters: list[ParameterEntry],
    train_calls: list[ModeDependentCall],
) -> SampledGradients | None:
    """The call that cuts parameters from an output that depends on them, if it draws random numbers.

    Three passes are compared: one with other values of the parameters that get no gradient from the output, and one
    with other random numbers. None if no call takes values that the parameters change, returns other values for other
    random numbers, and passes no gradient on. A sample whose likelihood the model computes is not reported, since the
    score function may train the parameters.
    """
    draws = any(call.kind == "draw" for call in train_calls)
    for index, tensor in enumerate(tree_tensors(output) if draws else ()):
        unreached = _find_unreached(tensor, parameters)
        if not unreached:
            continue
        try:
            probe = _Probe(setup, first_pass.batch, index)
            call = probe.find_sampling_call(unreached)
            if call is not None:
                influential = tuple(probe.get_influential(call, unreached))
                return SampledGradients(call, influential, _name_partial_output(output, index, influential))
        except Exception as error:
            raise NotChecked(f"a further pass raised {type(error).__name__}: {error}") from error
    return None


def _find_unreached(output: Tensor, parameters: list[ParameterEntry]) -> list[ParameterEntry]:
    """Return the trainable parameters that get no gradient from an output; none if all or no others do."""
    entries = [entry for entry in parameters if entry.parameter.requires_grad]
    if not output.requires_grad or not output.is_floating_point() or output.is_leaf:
        return []
    gradients = _compute_gradients(output, [entry.parameter for entry in entries])
    unreached = [entry for entry, gradient in zip(entries, gradients, strict=True) if not _is_nonzero(gradient)]
    return unreached if len(unreached) < len(entries) else []


def _name_partial_output(output: Any, index: int, entries: Sequence[ParameterEntry]) -> str:
    """Return the name of one of several tensors of an output, if the gradient of another one reaches parameters."""
    leaves = [(path, leaf) for path, leaf in tree_leaves(output) if isinstance(leaf, Tensor)]
    others = tuple(leaf for number, (_, leaf) in enumerate(leaves) if number != index)
    if not _reaches(others, [entry.parameter for entry in entries]):
        return ""
    return "output " + ".".join(repr(key) if isinstance(key, str) else str(key) for key in leaves[index][0])


def _compute_gradients(tensor: Tensor, parameters: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """Return the gradients of a random combination of the values of a tensor."""
    weights = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0)).to(tensor)
    value = (tensor * weights).sum()
    gradients: tuple[Tensor | None, ...] = torch.autograd.grad(value, parameters, retain_graph=True, allow_unused=True)
    return gradients


def _is_nonzero(gradient: Tensor | None) -> bool:
    return gradient is not None and bool(gradient.any())


@dataclass(frozen=True)
class _Probe:
    """Passes of one batch, and one of the tensors that the model returns for it."""

    setup: Setup
    batch: Batch
    index: int

    def record(self, seed: int, changed: Sequence[ParameterEntry] = ()) -> tuple[list[TorchCall], Tensor]:
        """Return the calls and the tensor of a pass with a seed and with other values of some parameters."""
        calls: list[TorchCall] = []
        with Preserve(*self.setup.mutable_objects), torch.set_grad_enabled(not changed):
            _change_values(changed)
            seed_all(seed)
            with record_calls(self.setup.eager_model, calls.append):
                output = tree_tensors(self.setup.predict(self.batch))[self.index]
            return calls, output.detach().clone()

    def find_sampling_call(self, entries: list[ParameterEntry]) -> TorchCall | None:
        """Return the call that samples from values of some parameters, if the tensor depends on the sample."""
        calls, output = self.record(0)
        changed_calls, changed_output = self.record(0, entries)
        if torch.equal(output, changed_output):
            return None
        tensors = [entry.parameter for entry in entries]
        for index, triple in enumerate(zip(calls, changed_calls, self.record(1)[0], strict=False)):
            if len({call.name for call in triple}) > 1:
                return None
            first, with_changes, with_other_seed = triple
            if (
                _agree(first.inputs, with_other_seed.inputs)
                and not _agree(first.outputs, with_other_seed.outputs)
                and not _agree(first.inputs, with_changes.inputs)
                and not _agree(first.outputs, with_changes.outputs)
                and not _reaches(first.outputs, tensors)
            ):
                return None if _is_scored(first.outputs, calls[index + 1 :], tensors) else first
        return None

    def get_influential(self, call: TorchCall, entries: list[ParameterEntry]) -> list[ParameterEntry]:
        """Return the parameters of the submodules that change what a call receives."""
        calls = self.record(0)[0]
        index = next(i for i, other in enumerate(calls) if (other.name, other.line) == (call.name, call.line))
        by_module: dict[str, list[ParameterEntry]] = {}
        for entry in entries:
            by_module.setdefault(entry.module, []).append(entry)
        parts = (
            part
            for part in by_module.values()
            if not _agree(calls[index].inputs, self.record(0, part)[0][index].inputs)
        )
        return [entry for part in parts for entry in part]


@torch.no_grad()
def _change_values(entries: Sequence[ParameterEntry]) -> None:
    generator = torch.Generator().manual_seed(0)
    for entry in entries:
        noise = torch.randn(entry.parameter.shape, generator=generator).to(entry.parameter)
        scale = entry.parameter.square().mean().sqrt().clamp_min(_MIN_SCALE)
        entry.parameter.add_(_RELATIVE_CHANGE * scale * noise)


def _agree(first: tuple[Tensor, ...], second: tuple[Tensor, ...]) -> bool:
    """Return whether two passes gave a call the same values."""
    return len(first) == len(second) and all(
        a.shape == b.shape and torch.equal(a, b) for a, b in zip(first, second, strict=True)
    )


def _reaches(tensors: tuple[Tensor, ...], parameters: Sequence[Tensor]) -> bool:
    """Return whether the gradient of some tensors reaches parameters."""
    with_graph = [t for t in tensors if t.requires_grad and t.is_floating_point() and not t.is_leaf]
    return any(_is_nonzero(gradient) for t in with_graph for gradient in _compute_gradients(t, parameters))


def _is_scored(sample: tuple[Tensor, ...], calls: list[TorchCall], parameters: Sequence[Tensor]) -> bool:
    """Return whether a later call combines a sample with values that have a gradient for the parameters."""
    storages = {tensor.untyped_storage().data_ptr() for tensor in sample}
    for call in calls:
        others = tuple(t for t in call.inputs if t.untyped_storage().data_ptr() not in storages)
        if len(others) < len(call.inputs) and _reaches(others, parameters):
            return True
    return False
