"""Samples of gradients, weights and updates around optimizer steps, and the selection of parameters."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.records import RecordedModule
from nbdebug.replay.ring_buffer import MAX_SMALL_PARAMETER
from nbdebug.setup.setup import optimized_parameters
from nbdebug.tensors.sampling import MAX_SAMPLES_PER_TENSOR, TensorSampler, max_absolute, sample_values, squared_norm
from nbdebug.tensors.unit_activity import live_units
from nbdebug.watching.step_recorder import Number, defer_scalar

_MAX_VALUES_PER_SNAPSHOT = 1 << 21  # about half a millisecond
_MAX_PARAMETERS = 2000
Match = str | re.Pattern[str] | type | Iterable[Any] | None
ALWAYS_COMPARED_STEPS, COMPARISON_INTERVAL = 32, 16  # the first steps are all compared, later ones at this interval


@dataclass
class LayerSnapshot:
    """Samples of one step, still on the device.

    ``has_gradient`` says which parameters had a gradient, ``is_stepped`` which were stepped. At most ``max_values``
    values of each output are kept, and with ``check_units`` which of its units are active. ``largest`` holds the
    largest absolute values of single large parameters or gradients, by family and parameter index.
    """

    step: int
    max_values: int = MAX_SAMPLES_PER_TENSOR
    check_units: bool = True

    gradients: Tensor | None = None
    weights_before: Tensor | None = None
    weights_after: Tensor | None = None
    has_gradient: list[bool] = field(default_factory=list)
    is_stepped: list[bool] = field(default_factory=list)
    outputs: dict[str, tuple[type[nn.Module], Tensor, int]] = field(default_factory=dict)
    largest: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    live_units: dict[str, Tensor] = field(default_factory=dict)

    def add_output(self, output_name: str, module: nn.Module, output: Tensor) -> None:
        """Keep samples of an output."""
        values, length = sample_values(output, self.max_values)
        self.outputs[output_name] = type(module), values, length
        if self.check_units and output.dim() > 1 and not any(True for _ in module.parameters(recurse=False)):
            self.live_units[output_name] = live_units(output)

    @property
    def layout(self) -> tuple[tuple[str, int], ...]:
        """The outputs by name, with the true number of values of each."""
        return tuple((output_name, length) for output_name, (_, _, length) in self.outputs.items())


class _LargestValueRotation:
    """Picks one large parameter per snapshot: scanning all of them would cost a small network 10% of its step."""

    def __init__(self, lengths: Sequence[int], sampled: int) -> None:
        large = [i for i, length in enumerate(lengths) if sampled < length <= _MAX_VALUES_PER_SNAPSHOT]
        self.rotation = cycle(large or [None])
        self.parameter_index: int | None = None

    def advance(self, needed: bool = True) -> None:
        """Advance to the next parameter of the rotation if ``needed``; otherwise select none."""
        self.parameter_index = next(self.rotation) if needed else None


class WatchedModules:
    """The trainable parameters and the submodules of a model that ``match`` selects.

    ``match`` is a glob over paths (``"encoder.*"``), a compiled regular expression, a module type, or several of them;
    a parameter is selected with its submodule. Raises SetupError if nothing matches.
    """

    def __init__(self, model: nn.Module, match: Match = None) -> None:
        self.model, self.match = model, match
        self.modules = dict(model.named_modules())
        trainable = {name: p for name, p in model.named_parameters() if p.requires_grad and p.numel()}
        self.parameters: dict[str, Tensor] = {name: p for name, p in trainable.items() if self.selects_parameter(name)}
        self.skipped_parameters = max(0, len(self.parameters) - _MAX_PARAMETERS)
        self.parameters = dict(list(self.parameters.items())[:_MAX_PARAMETERS])
        if match is not None and not self.parameters and not any(map(self.selects, self.modules)):
            raise SetupError(
                f"match is {match!r}; expected a part of the model: {self.example_paths}. Pass a path or a module type."
            )

    @property
    def example_paths(self) -> str:
        """Some paths of the model."""
        names = [name for name in self.modules if name]
        return ", ".join(names[:6]) + (", …" if len(names) > 6 else "")

    def selects_parameter(self, name: str) -> bool:
        """Return whether a parameter is watched, by its own name or by its submodule's."""
        return self.selects(name.rpartition(".")[0]) or (
            self.match is not None and _matches_module(name, None, self.match)
        )

    def selects(self, name: str) -> bool:
        """Return whether a submodule is watched."""
        return self.match is None or _matches_module(name, self.modules.get(name), self.match)

    def layers(self, called: set[str]) -> list[RecordedModule]:
        """Return a Layer for each watched submodule; ``called`` names those that produced an output."""
        result = []
        for name, module in self.modules.items():
            parameter_names = [f"{name}.{key}".lstrip(".") for key, _ in module.named_parameters(recurse=False)]
            if self.selects(name) and (parameter_names or not any(module.children())):
                parameter_names.sort(key=lambda parameter: not parameter.endswith("weight"))
                trains = any(p.requires_grad for p in module.parameters(recurse=False))
                result.append(
                    RecordedModule(name, type(module).__name__, tuple(parameter_names), name in called, trains)
                )
        return result


def _matches_module(name: str, module: nn.Module | None, pattern_or_type: Match) -> bool:
    if isinstance(pattern_or_type, str):
        return fnmatchcase(name, pattern_or_type)
    if isinstance(pattern_or_type, re.Pattern):
        return pattern_or_type.search(name) is not None
    if isinstance(pattern_or_type, type):
        return isinstance(module, pattern_or_type)
    if isinstance(pattern_or_type, Iterable):
        return any(_matches_module(name, module, pattern) for pattern in pattern_or_type)
    raise SetupError(
        f"match is {pattern_or_type!r}; expected a glob, a compiled pattern, a module type, or a list of these."
    )


def square_root(square: Number) -> Number:
    """The square root of a number that may lie on a device."""
    return square.sqrt() if isinstance(square, Tensor) else math.sqrt(square)


def _elementwise_or(first: list[bool], second: list[bool]) -> list[bool]:
    """Return the elementwise "or" of two lists; numpy would be slower here, as it is not in the CPU caches."""
    return [a or b for a, b in zip(first, second, strict=True)] if first else second


class StepSampler:
    """Samples gradients and weights of each optimizer before and after its steps.

    ``snapshot`` is the snapshot of this step, or None; other steps keep only the squared gradient norm, as
    ``squared_norm``. ``pending`` is a snapshot whose step is done but whose weights are not sampled yet,
    ``last_weights`` the weights after the last snapshot; each with the version counters of the parameters at that time.
    ``weights_change_between_steps`` says whether weights were observed to change between steps, ``watches_all`` whether
    the whole model is watched.
    """

    def __init__(self, modules: WatchedModules, sampler: TensorSampler) -> None:
        self.sampler, self.parameters = sampler, list(modules.parameters.values())
        self.membership_cache: dict[tuple[int, ...], list[bool]] = {}
        self.largest_values = _LargestValueRotation(sampler.lengths.tolist(), int(sampler.sizes.max(initial=0)))
        smallest_length = next((length for length in sampler.lengths if length <= MAX_SMALL_PARAMETER), math.inf)
        self.detects_non_finite = sampler.device.type == "cpu" and smallest_length <= sampler.sizes.max(initial=0)
        self.watches_all = modules.match is None and not modules.skipped_parameters
        self.snapshot: LayerSnapshot | None = None
        self.squared_norm: Number | None = None
        self.pending: tuple[LayerSnapshot, list[int]] | None = None
        self.last_weights: tuple[int, list[int], Tensor] | None = None
        self.weights_change_between_steps = False

    def stepped_parameters(self, optimizer: torch.optim.Optimizer | None) -> list[bool]:
        """Return which parameters an optimizer updates; all of them without an optimizer."""
        if optimizer is None:
            return [True] * len(self.parameters)
        key = (id(optimizer), *[len(group["params"]) for group in optimizer.param_groups])
        if key not in self.membership_cache:
            parameter_ids = set(map(id, optimized_parameters(optimizer)))
            self.membership_cache[key] = [id(p) in parameter_ids for p in self.parameters]
        return self.membership_cache[key]

    def current_gradients(self, optimizer: torch.optim.Optimizer | None) -> tuple[list[Tensor | None], Any]:
        """Return the gradients that an optimizer is about to use, and the loss scale still contained in them."""
        pairs = zip(self.parameters, self.stepped_parameters(optimizer), strict=True)
        return [p.grad if is_stepped else None for p, is_stepped in pairs], getattr(optimizer, "grad_scale", None)

    def add_norm(self, optimizer: torch.optim.Optimizer | None) -> None:
        """Add the gradient norm of this optimizer to that of other optimizers."""
        gradients, scale = self.current_gradients(optimizer)
        present = [gradient for gradient in gradients if gradient is not None]
        if not present:
            return
        square = squared_norm(present, self.sampler.device)
        if isinstance(scale, Tensor):
            square = square / (scale.to(square) if isinstance(square, Tensor) else float(scale)) ** 2
        number = defer_scalar(square) if isinstance(square, Tensor) else square
        self.squared_norm = number if self.squared_norm is None else self.squared_norm + number

    def sample_gradients(self, optimizer: torch.optim.Optimizer | None) -> None:
        """Sample the available gradients, and add them to those of other optimizers."""
        snapshot, (current, scale) = self.snapshot, self.current_gradients(optimizer)
        has_gradient = [gradient is not None for gradient in current]
        if snapshot is None or True not in has_gradient:
            return
        values, parameter_index = self.sampler.gather(current), self.largest_values.parameter_index
        factor = scale.to(values) if isinstance(scale, Tensor) else None
        if factor is not None:
            values = values / factor
        if parameter_index is not None and (gradient := current[parameter_index]) is not None:
            max_value = max_absolute(gradient)
            snapshot.largest["gradient", parameter_index] = (
                max_value if factor is None else max_value / factor.to(max_value)
            )
        snapshot.gradients = values if snapshot.gradients is None else snapshot.gradients + values
        snapshot.has_gradient = _elementwise_or(snapshot.has_gradient, has_gradient)

    @property
    def is_finite(self) -> bool | None:
        """True if the gradients are known to be finite; None if they are not, or are on a device.

        Samples decide this if they hold all of a gradient that ``Pulse`` may inspect. If only a part of the model is
        watched, nothing is known: a backward pass that breaks leaves the gradients of the layers behind the break
        unchanged.
        """
        if not self.watches_all:
            return None
        total, snapshot = self.squared_norm, self.snapshot
        if total is None and self.detects_non_finite and snapshot is not None and snapshot.gradients is not None:
            total = snapshot.gradients.sum().item()
        return True if isinstance(total, float) and math.isfinite(total) else None

    def sample_weights_before(self) -> None:
        """Sample the weights, unless another optimizer has begun the same step.

        The samples from after the previous step are reused if the loop does not write to ``.data`` between steps (torch
        does not count such writes). A comparison checks this, in every step at first and occasionally later.
        """
        self.complete_pending()
        snapshot = self.snapshot
        if snapshot is None or snapshot.weights_before is not None:
            return
        last_step, writes, last_weights = self.last_weights or (0, [], None)
        if last_weights is None or last_step != snapshot.step - 1:
            snapshot.weights_before = self.sampler.gather(self.parameters)
        elif self.weights_change_between_steps or writes != self.write_counts or _is_compared(snapshot.step):
            snapshot.weights_before = self.sampler.gather(self.parameters)
            self.weights_change_between_steps |= not torch.equal(snapshot.weights_before, last_weights)
        else:
            snapshot.weights_before = last_weights

    @property
    def write_counts(self) -> list[int]:
        """The version counter of each parameter."""
        return [parameter._version for parameter in self.parameters]

    def sample_weights_after(self, optimizer: torch.optim.Optimizer | None, next_is_sampled: bool = False) -> None:
        """Sample the weights after a step, or defer it to the start of the next step if that is sampled too.

        Next to the sampling of the gradients it takes half the time that it takes right after a step.
        """
        if (snapshot := self.snapshot) is None:
            return
        if (parameter_index := self.largest_values.parameter_index) is not None:
            snapshot.largest["weight", parameter_index] = max_absolute(self.parameters[parameter_index])
        snapshot.is_stepped = _elementwise_or(snapshot.is_stepped, self.stepped_parameters(optimizer))
        self.pending = snapshot, self.write_counts
        if not next_is_sampled or self.weights_change_between_steps or _is_compared(snapshot.step + 1):
            self.complete_pending()

    def complete_pending(self) -> None:
        """Sample the weights of the pending snapshot; discard it if they were written to since its step."""
        if self.pending is None:
            return
        (snapshot, writes), self.pending = self.pending, None
        if writes != self.write_counts:
            self.weights_change_between_steps, snapshot.weights_before = True, None
            return
        snapshot.weights_after = self.sampler.gather(self.parameters)
        self.last_weights = snapshot.step, writes, snapshot.weights_after


def _is_compared(step: int) -> bool:
    """Return whether the weights at the start of a step are compared to those after the previous step."""
    return step <= ALWAYS_COMPARED_STEPS or step % COMPARISON_INTERVAL == 0
