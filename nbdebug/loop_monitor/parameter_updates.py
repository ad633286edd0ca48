"""Tracks which parameters receive, lose or lack gradients, change, are frozen, or have no optimizer."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from nbdebug.loop_monitor.gradient_accumulation import TrackedOptimizer, nonzero_gradients
from nbdebug.loop_monitor.loss_leaves import LossLeafMonitor
from nbdebug.loop_monitor.registration_lines import RegistrationLines
from nbdebug.setup.losses import own_parameters
from nbdebug.setup.setup import optimized_parameters
from nbdebug.source.location import SourceLine
from nbdebug.tensors.memory import share_memory

_MAX_PARAMETERS = 2000  # tracked parameters
_BYTE_WEIGHT = 0x9E3779B97F4A7C1  # odd and large, so that changes of different bytes do not cancel
_SHORT = 512  # values
_WORD_BYTES = 8  # bytes of an int64
_MIN_COPIED_SHARE = 0.5  # of the parameters of the model
_MIN_FROZEN_STEPS = 10
_MIN_GRADIENTS, _MIN_GRADIENT_SHARE = 5, 0.4  # of the checks of a parameter that never changes


@dataclass(frozen=True)
class UncoveredParameters:
    """Trainable parameters with a gradient that no optimizer of a loop holds.

    ``replaced`` came into the model while the loop ran, in place of others, ``added`` in addition to them. ``unfrozen``
    were frozen when it began, ``never_held`` were trainable all the time and have not changed. ``of_loss`` are those of
    the loss itself, and ``tensors_of_loss`` names of tensors without an owner. ``never_stepped`` had a gradient at the
    given number of checks, which are many, and have not changed; an optimizer holds them that has never stepped, beside
    others that have. ``optimizers`` counts the optimizers of the program. ``registration_line`` stored the first of the
    ``replaced`` or ``added`` ones in the model, if it is known.
    """

    replaced: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    unfrozen: tuple[str, ...] = ()
    never_held: tuple[str, ...] = ()
    of_loss: tuple[str, ...] = ()
    tensors_of_loss: tuple[str, ...] = ()
    optimizers: int = 1
    never_stepped: Mapping[str, int] = field(default_factory=dict)
    registration_line: SourceLine | None = None


def _held_ids(optimizers: Iterable[torch.optim.Optimizer]) -> set[int]:
    """Return the ids of the parameters that some optimizers hold."""
    return set(map(id, optimized_parameters(*optimizers)))


class ParameterTracker:
    """Gradients and changes of each trainable parameter since the construction of this object."""

    def __init__(self, model: nn.Module) -> None:
        named_parameters = [*model.named_parameters()]
        self.initial_ids = {id(p) for _, p in named_parameters}
        self.parameters = dict([(name, p) for name, p in named_parameters if p.requires_grad][:_MAX_PARAMETERS])
        self.frozen = dict([(name, p) for name, p in named_parameters if not p.requires_grad][:_MAX_PARAMETERS])
        self.unfrozen_with_gradient, self.registrations = set[str](), RegistrationLines()
        self.initial_fingerprints = dict(
            zip(self.parameters, _bit_fingerprints([*self.parameters.values()]), strict=True)
        )
        self.nonzero_gradient_counts: Counter[str] = Counter()
        self.changed: set[str] = set()
        self.parameters_with_gradient: set[str] = set()
        self.gradient_checks = 0
        self.with_gradient_now: set[str] = set()

    def check_gradients(self) -> None:
        """Record which parameters have a gradient, and which have a nonzero one."""
        self.gradient_checks += 1
        self.parameters_with_gradient.update(name for name, p in self.parameters.items() if p.grad is not None)
        has_gradient = zip(self.parameters, nonzero_gradients([*self.parameters.values()]), strict=True)
        self.with_gradient_now = {name for name, is_nonzero in has_gradient if is_nonzero}
        self.nonzero_gradient_counts.update(self.with_gradient_now)
        self.unfrozen_with_gradient.update(name for name, p in self.frozen.items() if p.grad is not None)

    def check_values(self) -> None:
        """Record which parameters have changed."""
        unchanged_names = [name for name in self.parameters if name not in self.changed]
        current = _bit_fingerprints([self.parameters[name] for name in unchanged_names])
        self.changed |= {
            name
            for name, fingerprint in zip(unchanged_names, current, strict=True)
            if fingerprint != self.initial_fingerprints[name]
        }

    def never_with_gradient(self, parameter_ids: Container[int]) -> frozenset[str]:
        """Return the parameters with an id in ``parameter_ids`` that had no gradient at any check."""
        return frozenset(
            name
            for name, p in self.parameters.items()
            if id(p) in parameter_ids and name not in self.parameters_with_gradient
        )

    def uncovered_parameters(
        self,
        model: nn.Module,
        loss_fn: object,
        tracked: Iterable[TrackedOptimizer],
        replaced_optimizers: Container[torch.optim.Optimizer],
        loss_leaves: LossLeafMonitor,
    ) -> UncoveredParameters:
        """Return the parameters with a gradient that no optimizer holds, although the ``tracked`` ones step.

        The ``replaced_optimizers`` no longer step.
        """
        tracked = list(tracked)
        if not any(item.steps for item in tracked) or len(self.parameters) == _MAX_PARAMETERS:
            return UncoveredParameters()
        never_stepped = self._never_stepped(tracked, replaced_optimizers)
        loss_parameters = own_parameters(loss_fn)
        held = {id(p) for item in tracked for p in item.parameters}
        of_model, of_loss = (
            {name: p for name, p in parameters if p.requires_grad and id(p) not in held and self.has_gradient(name, p)}
            for parameters in (model.named_parameters(), loss_parameters)
        )
        tensors = {name: tensor for name, tensor in loss_leaves.unchanged().items() if id(tensor) not in held}
        if not of_model and not of_loss and not tensors:
            return UncoveredParameters(never_stepped=never_stepped)
        optimizers = [optimizer for optimizer in _live_optimizers() if optimizer not in replaced_optimizers]
        held = _held_ids(optimizers)
        uncovered = {name: p for name, p in of_model.items() if id(p) not in held}
        new = tuple(name for name, p in uncovered.items() if id(p) not in self.initial_ids)
        has_grown = self.initial_ids <= {id(p) for p in model.parameters()}
        unfrozen = (name for name in uncovered if name not in new and name not in self.parameters)
        never_held = self.nonzero_gradient_counts.keys() & uncovered.keys() - self.changed - {*new}
        return UncoveredParameters(
            () if has_grown else new,
            new if has_grown else (),
            tuple(unfrozen),
            tuple(name for name in uncovered if name in never_held),
            tuple(name for name, p in of_loss.items() if id(p) not in held),
            tuple(name for name, tensor in tensors.items() if id(tensor) not in held),
            len(optimizers),
            never_stepped,
            self.registrations.find_line(uncovered[name] for name in new),
        )

    def _never_stepped(
        self, tracked: Iterable[TrackedOptimizer], replaced_optimizers: Container[torch.optim.Optimizer]
    ) -> dict[str, int]:
        """Return the unchanged parameters with a gradient at many checks, held only by optimizers without a step.

        A parameter may have no gradient in the turns of another optimizer, as that of a generator.
        """
        stepping = [item for item in tracked if item.steps]
        stepped = {id(p) for item in stepping for p in item.parameters}
        least = max(_MIN_GRADIENTS, _MIN_GRADIENT_SHARE * self.gradient_checks)
        counts = {
            name: count
            for name, count in self.nonzero_gradient_counts.items()
            if count >= least and name not in self.changed and id(self.parameters[name]) not in stepped
        }
        if not counts:
            return {}
        others = [
            optimizer
            for optimizer in _live_optimizers()
            if optimizer not in replaced_optimizers and all(optimizer is not item.optimizer for item in stepping)
        ]
        held = _held_ids(others)
        return {name: count for name, count in counts.items() if id(self.parameters[name]) in held}

    def has_gradient(self, name: str, parameter: Tensor) -> bool:
        """Check whether a parameter has a gradient, or had one before it was cleared."""
        return (
            parameter.grad is not None
            or (self.parameters.get(name) is parameter and name in self.nonzero_gradient_counts)
            or (self.frozen.get(name) is parameter and name in self.unfrozen_with_gradient)
        )

    @property
    def always_with_gradient(self) -> frozenset[str]:
        """Parameters with a nonzero gradient at every check."""
        return frozenset(name for name, count in self.nonzero_gradient_counts.items() if count == self.gradient_checks)


@dataclass(frozen=True)
class FrozenSteps:
    """The latest ``count`` of ``steps`` of an optimizer, in which none of its ``parameters`` required a gradient."""

    parameters: tuple[str, ...]
    count: int
    steps: int


@dataclass
class _StepCounts:
    """Steps of one optimizer, and those of its latest steps in which all of its parameters were frozen."""

    tracked: TrackedOptimizer
    steps: int = 0
    frozen: int = 0
    has_trained: bool = False


class FrozenStepMonitor:
    """Counts the steps of each optimizer since its parameters were frozen."""

    def __init__(self) -> None:
        self.counts: dict[int, _StepCounts] = {}

    def on_step_begin(self, tracked: TrackedOptimizer) -> None:
        """Count a step; usually the first parameter already shows that it trains something."""
        counts = self.counts.setdefault(id(tracked), _StepCounts(tracked))
        trains = any(p.requires_grad for p in optimized_parameters(tracked.optimizer))
        counts.steps, counts.frozen = counts.steps + 1, 0 if trains else counts.frozen + 1
        counts.has_trained |= trains

    def summary(self, model: nn.Module) -> FrozenSteps | None:
        """Return the optimizer that trained something, and then stepped on frozen parameters until the end."""
        names = {id(p): name for name, p in model.named_parameters()}
        for counts in self.counts.values():
            if counts.has_trained and counts.frozen >= _MIN_FROZEN_STEPS:
                held = tuple(names[id(p)] for p in counts.tracked.parameters if id(p) in names)
                return FrozenSteps(held, counts.frozen, counts.steps)
        return None


@dataclass(frozen=True)
class ClearedGradients:
    """Parameters that lost the gradient of an earlier backward pass in each of the inspected ``steps``.

    They had a gradient after an earlier pass of the step, none after its last pass, and none when the step began. A
    gradient that is cleared only after the last pass, as to freeze a layer for a while, does not count. ``decay_only``
    are decayed parameters of which it was set to zeros after the last pass of each of the ``decay_steps``.
    """

    names: tuple[str, ...] = ()
    steps: int = 0
    decay_only: tuple[str, ...] = ()
    decay_steps: int = 0


class ClearedGradientMonitor:
    """Compares which parameters have a gradient after each inspected backward pass between two steps."""

    def __init__(self, parameter_tracker: ParameterTracker) -> None:
        self.tracker = parameter_tracker
        self.earlier: set[str] = set()
        self.latest: set[str] = set()
        self.lost, self.used = Counter[str](), set[str]()
        self.zeroed, self.stepped = Counter[str](), set[str]()

    def on_backward_end(self) -> None:
        """Record the parameters with a gradient after an inspected pass; synchronizes the device."""
        self.tracker.check_gradients()
        self.earlier |= self.latest
        self.latest = self.tracker.with_gradient_now

    def on_step_begin(self, tracked: TrackedOptimizer) -> None:
        """Compare the passes before the step of an optimizer."""
        earlier, latest, self.earlier, self.latest = self.earlier, self.latest, set(), set()
        self.used |= latest
        self._count_zeroed(tracked, latest)
        if not (lost := sorted(earlier - latest)):
            return
        held, parameters = {id(p) for p in tracked.parameters}, [self.tracker.parameters[name] for name in lost]
        for name, p, is_restored in zip(lost, parameters, nonzero_gradients(parameters), strict=True):
            if is_restored:
                self.used.add(name)
            elif id(p) in held:
                self.lost[name] += 1

    def _count_zeroed(self, tracked: TrackedOptimizer, latest: set[str]) -> None:
        """Count the steps of decayed parameters whose gradient was set to zeros after the last pass."""
        groups = [group for group in tracked.optimizer.param_groups if group.get("weight_decay")]
        decayed = {id(p) for group in groups for p in group["params"]}
        candidates = {name: self.tracker.parameters[name] for name in latest - self.stepped}
        decayed_candidates = {name: p for name, p in candidates.items() if id(p) in decayed and p.grad is not None}
        are_nonzero = nonzero_gradients([*decayed_candidates.values()])
        for name, is_nonzero in zip(decayed_candidates, are_nonzero, strict=True):
            if is_nonzero:
                self.stepped.add(name)
            else:
                self.zeroed[name] += 1

    def summary(self, min_steps: int = 3) -> ClearedGradients:
        """Return the parameters that no inspected step could update."""
        names = [name for name, count in self.lost.items() if count >= min_steps and name not in self.used]
        ordered = tuple(name for name in self.tracker.parameters if name in names)
        decay_only = tuple(n for n in self.tracker.parameters if self.zeroed[n] >= min_steps and n not in self.stepped)
        return ClearedGradients(
            ordered,
            max((self.lost[name] for name in ordered), default=0),
            decay_only,
            max((self.zeroed[name] for name in decay_only), default=0),
        )


def _live_optimizers() -> list[torch.optim.Optimizer]:
    """Return all optimizers of the program, also those that have not stepped yet."""
    return [item for item in gc.get_objects() if issubclass(type(item), torch.optim.Optimizer)]


@torch.no_grad()
def _bit_fingerprints(parameters: Sequence[Tensor]) -> list[int]:
    """Return a sum of the bits of each parameter, which changes with any value; synchronizes the device once."""
    bit_sums = [_bit_sum(parameter) for parameter in parameters]
    return torch.stack([parameter.to(bit_sums[0].device) for parameter in bit_sums]).tolist() if bit_sums else []


def _bit_sum(parameter: Tensor) -> Tensor:
    """Sum the bits as 64-bit words, which is ten times as fast as a sum in double precision.

    The bytes of a short parameter, and of the last values, which fill no word, are weighted by their place: a plain sum
    of a few numbers is often the same after a change.
    """
    values = parameter.detach()
    values = torch.view_as_real(values) if values.is_complex() else values
    values = values.to_dense() if values.layout is not torch.strided else values
    flat = values.reshape(-1)
    whole_words_end = flat.numel() - flat.numel() % _WORD_BYTES if flat.numel() > _SHORT else 0
    words = flat[:whole_words_end].clone() if flat.data_ptr() % _WORD_BYTES else flat[:whole_words_end]
    rest = flat[whole_words_end:].view(torch.uint8).to(torch.int64)
    places = torch.arange(1, rest.numel() + 1, device=rest.device)
    return words.view(torch.int64).sum() + (rest * (places**3 * _BYTE_WEIGHT + places)).sum()


def tied_parameters(model: nn.Module) -> list[tuple[Tensor, list[str]]]:
    """Return each tensor that a model has under several names, and the names."""
    groups: dict[int, tuple[Tensor, list[str]]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        groups.setdefault(id(parameter), (parameter, []))[1].append(name)
    return [group for group in groups.values() if len(group[1]) > 1]


def untied_parameters(model: nn.Module, tied: Iterable[tuple[Tensor, Sequence[str]]]) -> tuple[tuple[str, str], ...]:
    """Return each name that a tied tensor has lost, and a name that it still has, unless the two share memory."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    pairs: list[tuple[str, str]] = []
    for tensor, names in tied:
        left = next((name for name in names if parameters.get(name) is tensor), "")
        others = (name for name in names if name in parameters and parameters[name] is not tensor)
        pairs += [(name, left) for name in others if left and not share_memory(parameters[name], tensor)]
    return tuple(pairs)
