"""Tensors outside the model that share memory with all of its weights, and what a loop does with them."""

from __future__ import annotations

import ast
import gc
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.loop_monitor.graph_holders import COPYING_CALLS, STORING_METHODS, binding_line, storing_line
from nbdebug.loop_monitor.self_differences import SelfDifferences, is_difference, is_same_memory, operand_pairs
from nbdebug.loop_monitor.weight_copies import first_values
from nbdebug.loop_monitor.write_trace import CallTrace, is_plain_tensor, writes_to_first_argument
from nbdebug.source.location import SourceLine
from nbdebug.source.references import find_references, frame_variables, user_files, user_frames
from nbdebug.source.search import parse_expressions, search_files, syntax_tree
from nbdebug.tensors.pytree import tree_tensors

MIN_AVERAGED_STEPS, MIN_COLLECTED_SETS = 2, 3
_MAX_PARAMETERS, _MAX_SEARCHES, _MAX_TRACES = 512, 4, 12
_MAX_COMPARED, _DIRECTION_TOLERANCE = 4, 1e-6  # aliases whose values are compared
_OWN_REFERENCES = 2  # references to the storage of a parameter that nothing shares
_ALIASING_CALLS = {"detach", "cpu", "to", "state_dict", "dict"}


@dataclass(frozen=True)
class WeightAlias:
    """Tensors that share memory with all parameters: the variable or attribute that holds them, and the line.

    ``averaged_steps`` of those traced averaged them with the parameters in place.
    ``restored`` counts copies of a parameter's own values into the parameter. ``collected`` is the largest number of
    such tensors for each parameter that came to exist at once while the loop ran. ``subtracted`` counts the parameters
    whose difference from such a tensor, or from themselves, was computed.
    """

    name: str = ""
    line: SourceLine | None = None
    first_parameter: str = ""
    averaged_steps: int = 0
    restored: int = 0
    collected: int = 0
    subtracted: int = 0


class WeightAliasMonitor:
    """Searches for aliases when references to the memory of all parameters exist, and traces their use."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.parameters = dict([(name, p) for name, p in model.named_parameters() if p.numel()][:_MAX_PARAMETERS])
        self.aliases: list[weakref.ref[Tensor]] = []
        self.searches = self.averaged_steps = self.restored = 0
        self.name = ""
        self.line: SourceLine | None = None
        self.subtracted = 0
        self.trace = _AliasTrace(SelfDifferences(model))
        self.initial_sets, self.collected, self.set_searches = self.reference_sets(), 0, 0

    def on_step_end(self, frame: FrameType | None) -> None:
        """Search for aliases after an inspected step, and trace what the loop does with them before the next step."""
        if self.parameters and self.searches < _MAX_SEARCHES and not self.live_aliases() and self.is_shared():
            self.search(frame)
        self.count_sets(frame)
        if (aliases := self.live_aliases()) and self.averaged_steps < MIN_AVERAGED_STEPS:
            self.trace.start(aliases, self.parameters.values())

    def on_step_begin(self) -> None:
        """Stop to trace, and count a step that averaged the weights with themselves."""
        self.averaged_steps += self.trace.stop()
        self.record_differences(self.trace.differences, sys._getframe(1))

    def on_loss(self, calls: Iterable[TorchCall], frame: FrameType | None) -> None:
        """Search the traced calls of a step for differences of parameters from themselves."""
        differences = SelfDifferences(self.model)
        differences.add_calls(calls)
        self.record_differences(differences, frame)

    def record_differences(self, differences: SelfDifferences, frame: FrameType | None) -> None:
        """Record the parameters that were subtracted from themselves, and the line that made the alias."""
        pairs, line = differences.pairs, differences.line
        differences.end()
        if not pairs or self.subtracted:
            return
        self.subtracted, self.name, self.line = len(pairs), "", None
        if aliases := [tensor for tensor in pairs.values() if not isinstance(tensor, nn.Parameter)]:
            self.locate(aliases, frame)
        self.line = self.line or line

    def on_load(self, _: tuple[Any, Any, Any]) -> None:
        """Count the aliases before a state dict is loaded, which may be made of them."""
        self.count_sets(sys._getframe(1))

    def on_copy(self, call: tuple[Any, Any, Any]) -> None:
        """Record a copy of one tensor into another that is about to run."""
        target, args, _ = call
        source = args[0] if args else None
        if target is next(iter(self.parameters.values()), None):
            self.count_sets(sys._getframe(1))
        if not is_plain_tensor(source) or not is_plain_tensor(target) or not source.numel():
            return
        if source is not target and is_same_memory(source, target):
            names = [name for name, p in self.parameters.items() if is_same_memory(p, target)]
            if names and not self.restored:
                self.locate([source], sys._getframe(1))
            self.restored += bool(names)

    def is_shared(self) -> bool:
        """Check whether there are references to the memory of each parameter."""
        return self.reference_sets() > 0

    def reference_sets(self) -> int:
        """Return the smallest number of references to the memory of a parameter besides its own."""
        use_count: Callable[[int], int] | None = getattr(torch._C, "_storage_Use_Count", None)
        if use_count is None:
            return 0
        storages = (p.untyped_storage() for p in self.parameters.values())
        return min((use_count(storage._cdata) for storage in storages), default=0) - _OWN_REFERENCES

    def count_sets(self, frame: FrameType | None) -> None:
        """Count the aliases of each parameter, if many references have been added since the loop began."""
        sets = self.reference_sets() - self.initial_sets
        if sets < MIN_COLLECTED_SETS or sets <= self.collected or self.set_searches >= _MAX_SEARCHES:
            return
        self.set_searches += 1
        aliases = self.find_aliases()
        counts = Counter(alias.data_ptr() for alias in aliases)
        self.collected = max(self.collected, min((counts[p.data_ptr()] for p in self.parameters.values()), default=0))
        if self.collected >= MIN_COLLECTED_SETS and not self.name:
            self.locate(aliases, frame)

    def search(self, frame: FrameType | None) -> None:
        """Search all tensors for the aliases of all parameters."""
        self.searches += 1
        aliases = self.find_aliases()
        if {alias.data_ptr() for alias in aliases} == {p.data_ptr() for p in self.parameters.values()}:
            self.aliases = [weakref.ref(alias) for alias in aliases]
            self.locate(aliases, frame)

    def find_aliases(self) -> list[Tensor]:
        """Return all tensors besides the parameters that have their memory and shape."""
        own_ids = {id(p) for p in self.parameters.values()}
        addresses = {p.data_ptr(): p.shape for p in self.parameters.values()}
        tensors = (value for value in gc.get_objects() if is_plain_tensor(value))
        return [t for t in tensors if id(t) not in own_ids and addresses.get(t.data_ptr()) == t.shape]

    def locate(self, aliases: list[Tensor], frame: FrameType | None) -> None:
        """Set the name of what holds some aliases, and the line that makes them."""
        files = search_files(user_files(frame))
        references = find_references(aliases, frame)
        stored = [(item.name, binding_line(item, files) or storing_line(item, files)) for item in references]
        name, holder_line = next((item for item in stored if item[1]), stored[0] if stored else ("", None))
        variables = {name for user_frame in user_frames(frame) for name in frame_variables(user_frame)}
        holders = {name for name, _ in stored}
        attributes = {item.name for item in references if item.owner}
        self.name, self.line = name, _aliasing_line(files, variables - holders, attributes) or holder_line

    def live_aliases(self) -> list[Tensor]:
        """Return the aliases, if all of them are still alive."""
        aliases = [alias for reference in self.aliases if (alias := reference()) is not None]
        return aliases if len(aliases) == len(self.aliases) else []

    def summary(self) -> WeightAlias:
        """Return what was observed."""
        self.count_sets(None)
        first_parameter = next(iter(self.parameters), "")
        counts = self.averaged_steps, self.restored, self.collected, self.subtracted
        return WeightAlias(self.name, self.line, first_parameter, *counts)


class _AliasTrace(CallTrace):
    """Observes whether a loop reads the parameters and their aliases, and writes to their memory."""

    max_uses = _MAX_TRACES

    def __init__(self, differences: SelfDifferences) -> None:
        super().__init__()
        self.differences = differences
        self.alias_ids: set[int] = set()
        self.parameter_ids: set[int] = set()
        self.values: list[tuple[Tensor, Tensor]] = []
        self.uses_alias = self.uses_parameter = self.writes = False

    def start(self, aliases: list[Tensor], parameters: Iterable[Tensor]) -> None:
        """Start to observe."""
        self.alias_ids, self.parameter_ids = {id(alias) for alias in aliases}, {id(p) for p in parameters}
        self.uses_alias = self.uses_parameter = self.writes = False
        self.values = [(alias, first_values(alias)) for alias in aliases[:_MAX_COMPARED]]
        self.differences.begin()
        self.open(aliases)

    def stop(self) -> bool:
        """Stop to observe; return whether the loop has averaged the parameters with their aliases in place.

        An average of values with themselves has their direction.
        """
        self.close()
        values, self.values = self.values, []
        self.alias_ids, self.parameter_ids = set(), set()
        has_combined = self.uses_alias and self.uses_parameter and self.writes
        self.uses_alias = self.uses_parameter = self.writes = False
        return has_combined and all(
            _have_one_direction(first_values(alias).double(), before.double()) for alias, before in values
        )

    def discard(self) -> None:
        """Forget what the loop has read and written."""
        self.uses_alias = self.uses_parameter = self.writes = False
        self.differences.end()

    def record(self, function: Any, args: tuple[Any, ...], line: SourceLine) -> None:
        """Record which tensors a call reads, and whether it writes to their memory; skips forward passes."""
        writes = writes_to_first_argument(function)
        if not writes and is_difference(str(getattr(function, "__name__", "")).strip("_")):
            for first, second in operand_pairs(args):
                if first is not second and not self.alias_ids.isdisjoint((id(first), id(second))):
                    origins = [item for item in (first, second) if id(item) in self.alias_ids]
                    self.differences.add(line, first, second, origins)
        attribute = _accessed_attribute(function)
        if attribute not in ("", "data") or (torch.is_grad_enabled() and not writes and not attribute):
            return
        tensors = tree_tensors(args)
        ids = {id(tensor) for tensor in tensors}
        self.uses_alias |= not ids.isdisjoint(self.alias_ids)
        self.uses_parameter |= not ids.isdisjoint(self.parameter_ids)
        if writes and self.shares_memory(args[0]):
            self.writes = True
            # A parameter may also be read through a tensor that was made in the same line, as by p.detach().
            self.uses_parameter |= any(is_same_memory(args[0], tensor) for tensor in tensors if tensor is not args[0])


def _accessed_attribute(function: Any) -> str:
    """Return the attribute of a tensor that a torch function reads or sets; empty for other functions."""
    is_access = getattr(function, "__name__", "") in ("__get__", "__set__")
    return str(getattr(getattr(function, "__self__", None), "__name__", "")) if is_access else ""


def _have_one_direction(first: Tensor, second: Tensor) -> bool:
    """Check whether two vectors are proportional, up to rounding."""
    norms = float(first.double().norm() * second.double().norm())
    return norms == 0 or float(first.double() @ second.double()) > (1 - _DIRECTION_TOLERANCE) * norms


def _aliasing_line(files: set[str], others: set[str], attributes: set[str]) -> SourceLine | None:
    """Return the only line that stores tensors of a model without a copy; None if there is none, or more than one.

    Lines that add to the variables ``others`` do not count: these hold other tensors, such as detached losses. If
    ``attributes`` hold the tensors, lines that add to another attribute do not count either.
    """
    values = [(file, value) for file in files for value in _stored_tensors(file, others, attributes)]
    lines = {SourceLine(file, value.lineno) for file, value in values if _is_alias(value)}
    return lines.pop() if len(lines) == 1 else None


def _stored_tensors(file: str, others: set[str], attributes: set[str]) -> Iterable[ast.expr]:
    """Yield the values that comprehensions, calls such as ``append`` and assignments to ``data`` or an item store."""
    for node in [*parse_expressions(file), *ast.walk(syntax_tree(file) or ast.Module([], []))]:
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            yield node.elt
        elif isinstance(node, ast.DictComp):
            yield node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in STORING_METHODS:
            owner = node.func.value
            is_other = getattr(owner, "id", "") in others
            is_other |= bool(attributes) and isinstance(owner, ast.Attribute) and owner.attr not in attributes
            yield from () if is_other else node.args
        elif isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Subscript) or getattr(target, "attr", "") == "data" for target in node.targets
        ):
            yield node.value


def _is_alias(value: ast.expr) -> bool:
    """Check whether an expression is the data of a tensor, or detaches it, without a copy."""
    calls = {
        getattr(node.func, "attr", getattr(node.func, "id", ""))
        for node in ast.walk(value)
        if isinstance(node, ast.Call)
    }
    is_data = isinstance(value, ast.Attribute) and value.attr == "data"
    return (is_data or (bool(calls) and calls <= _ALIASING_CALLS)) and not calls & COPYING_CALLS
