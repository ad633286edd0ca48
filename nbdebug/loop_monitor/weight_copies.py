"""Loaded state dicts, and averaged copies of the model with stale running statistics."""

from __future__ import annotations

import ast
import re
import sys
import weakref
from collections import Counter, deque
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from nbdebug.loop_monitor.network_aliases import find_network_alias
from nbdebug.loop_monitor.write_trace import WriteTrace, is_plain_tensor
from nbdebug.source.assignments import loop_over_variable
from nbdebug.source.location import SourceLine, get_calling_line, is_user_code
from nbdebug.source.references import frame_variables, user_files, user_frames
from nbdebug.source.search import find_unique_line, matches_call, parse_expressions
from nbdebug.source.stored_weights import find_stored_weights

_MAX_STATE_DICTS = 64  # latest calls to ``state_dict()`` whose lines are kept
_MAX_COMPARED_VALUES, _MAX_COMPARED_TENSORS = 64, 16  # values of a tensor, and tensors of a module, to detect a change
_COPIES = re.compile(r"\b(deepcopy|clone|copy)\b")  # in the line of a call to ``state_dict()``
_MAX_DEPTH, _MAX_ITEMS = 2, 64  # of the objects that hold a copy


@dataclass(frozen=True)
class UnmatchedState:
    """A state dict without any of the names of the module that it was loaded into, with ``strict=False``.

    ``names`` are those of the module, and ``stored_names`` those of the state. Without ``prefix``, at least half of the
    stored ones would match; with it, if ``is_missing`` from them.
    """

    names: tuple[str, ...]
    stored_names: tuple[str, ...]
    prefix: str
    is_missing: bool
    line: SourceLine | None


@dataclass(frozen=True)
class StateDictLoads:
    """Counts of state dicts loaded into the model or a part of it; ``live_tensor_loads`` of them held the live tensors.

    ``first_parameter`` is the first such parameter. ``line`` is where the state dict was stored; the loading line if
    that is ambiguous. ``alias_line`` binds a second name to the network or copies it without its parameters, if that is
    why its state was loaded into itself, first on ``load_line``. ``unmatched`` is the first one without a tensor of the
    names that it was loaded into, and ``assign_line`` loaded the last one with ``assign=True``.
    """

    count: int = 0
    live_tensor_loads: int = 0
    first_parameter: str = ""
    line: SourceLine | None = None
    unmatched: UnmatchedState | None = None
    assign_line: SourceLine | None = None
    alias_line: SourceLine | None = None
    load_line: SourceLine | None = None


class StateDictOrigins:
    """The user's lines of the latest calls to ``state_dict()``, by the tensors that these returned."""

    def __init__(self) -> None:
        self.calls: deque[tuple[list[weakref.ref[Tensor]], set[int], SourceLine]] = deque(maxlen=_MAX_STATE_DICTS)

    def record(self, call: tuple[Any, Any, Any, Any]) -> None:
        """Record a call; those that it makes for the parts of its module pass the dictionary to fill."""
        _, args, kwargs, result = call
        if args or kwargs.get("destination") is not None or not isinstance(result, Mapping):
            return
        if line := get_calling_line(sys._getframe(1)):
            tensors = [value for value in result.values() if is_plain_tensor(value)][:_MAX_COMPARED_TENSORS]
            addresses = {tensor.data_ptr() for tensor in tensors if tensor.numel()}
            self.calls.append(([weakref.ref(tensor) for tensor in tensors], addresses, line))

    def find_line(self, tensors: Sequence[Tensor]) -> SourceLine | None:
        """Return the line of the call that returned any of some tensors; None for views of them, which are others."""
        ids = {id(tensor) for tensor in tensors}
        return next((line for references, _, line in self.calls if any(id(ref()) in ids for ref in references)), None)

    def find_only_line(self, tensors: Sequence[Tensor]) -> SourceLine | None:
        """Return the only line that returned tensors in the same memory, which may be views now, and copied none."""
        addresses = {tensor.data_ptr() for tensor in tensors}
        lines = {line for _, returned, line in self.calls if returned & addresses and not _COPIES.search(line.text)}
        return lines.pop() if len(lines) == 1 else None


class StateDictLoadMonitor:
    """Counts loaded state dicts; ``parameter_ids`` are the ids of the model's parameters."""

    def __init__(self, parameter_ids: Container[int]) -> None:
        self.parameter_ids, self.count, self.live_tensor_loads = parameter_ids, 0, 0
        self.first_parameter = ""
        self.line: SourceLine | None = None
        self.assign_line: SourceLine | None = None
        self.alias_line: SourceLine | None = None
        self.load_line: SourceLine | None = None
        self.origins, self.unmatched = StateDictOrigins(), dict[int, UnmatchedState]()

    def on_load(self, call: tuple[Any, Any, Any]) -> None:
        """Record a state dict that is about to be loaded."""
        module, args, kwargs = call
        state_dict = args[0] if args else kwargs.get("state_dict")
        names = {name: p for name, p in module.named_parameters() if id(p) in self.parameter_ids}
        if not names or not isinstance(state_dict, Mapping):
            return
        self.count += 1
        self.compare_names(module, state_dict)
        if kwargs.get("assign") or any(args[2:3]):
            self.assign_line = get_calling_line(sys._getframe(1))
        shared_names = [name for name, p in names.items() if _shares_memory(state_dict.get(name), p)]
        if len(shared_names) == len(names):
            self.live_tensor_loads += 1
            if self.live_tensor_loads == 1:
                self.alias_line = find_network_alias(sys._getframe(1), module)
            self.first_parameter = self.first_parameter or shared_names[0]
            loaded = [value for name in shared_names if isinstance(value := state_dict[name], Tensor)]
            self.line = self.line or self.origins.find_line(loaded)
            load_line = get_calling_line(sys._getframe(1))
            self.load_line = self.load_line or load_line
            self.line = self.line or find_stored_weights(load_line) or _line_storing_state_dict(load_line)
            self.line = self.line or self.origins.find_only_line(loaded) or load_line

    def compare_names(self, module: nn.Module, state_dict: Mapping[str, Any]) -> None:
        """Record a state without any of the names of a module, until one with such names is loaded.

        ``load_state_dict`` raises an exception unless it is called with ``strict=False``.
        """
        tensors = [*module.named_parameters(), *module.named_buffers()]
        names, stored_names = tuple(name for name, _ in tensors), tuple(map(str, state_dict))
        if not stored_names or not set(names).isdisjoint(stored_names):
            self.unmatched.pop(id(module), None)
        else:
            prefix, is_missing = _differing_prefix(names, stored_names)
            line = get_calling_line(sys._getframe(1))
            self.unmatched[id(module)] = UnmatchedState(names, stored_names, prefix, is_missing, line)

    def summary(self) -> StateDictLoads:
        """Return all counts."""
        unmatched = next(iter(self.unmatched.values()), None)
        counts = self.count, self.live_tensor_loads
        return StateDictLoads(
            *counts, self.first_parameter, self.line, unmatched, self.assign_line, self.alias_line, self.load_line
        )


def _differing_prefix(names: Sequence[str], stored_names: Sequence[str]) -> tuple[str, bool]:
    """Return the prefix by which most names differ, and whether it is missing from the stored ones; empty if none."""
    for longer, shorter, is_missing in ((stored_names, set(names), False), (names, set(stored_names), True)):
        prefixes = Counter(
            name[: -len(end)]
            for name in longer
            for end in (name.partition(".")[2], name.partition(".")[2].partition(".")[2])
            if end and end in shorter
        )
        if prefixes and prefixes.most_common(1)[0][1] >= len(longer) / 2:
            return prefixes.most_common(1)[0][0], is_missing
    return "", False


def _shares_memory(value: Any, parameter: Tensor) -> bool:
    """Check whether a tensor of a state dict shares memory with a parameter."""
    return is_plain_tensor(value) and value.numel() > 0 and value.data_ptr() == parameter.data_ptr()


def _line_storing_state_dict(load_line: SourceLine | None) -> SourceLine | None:
    """Return the only assignment of a ``state_dict()`` in the same file or cell; None if there are none or more."""
    if load_line is None:
        return None
    assignments = [node for node in parse_expressions(load_line.file) if isinstance(node, ast.Assign)]
    line_numbers = {
        node.lineno
        for node in assignments
        if any(matches_call("state_dict")(child) for child in ast.walk(node.value))
        and not _COPIES.search(ast.unparse(node.value))
    }
    return SourceLine(load_line.file, line_numbers.pop()) if len(line_numbers) == 1 else None


@dataclass(frozen=True)
class WeightCopy:
    """A copy of the model whose weights change while its running statistics do not, by variable name.

    ``module`` is its path if it is a part of the model. ``line`` is the loop over the tensors that writes to the
    weights, or the line that does, or the only one that pairs its parameters with others.
    """

    name: str
    statistics: tuple[str, ...]
    module: str | None = None
    line: SourceLine | None = None


@dataclass
class CopyHistory:
    """A copy as first observed, and its statistics that were constant while it and its source changed."""

    module: weakref.ref[nn.Module]
    source: weakref.ref[nn.Module]
    weights: list[Tensor]
    statistics: dict[str, Tensor]
    model_statistics: dict[str, Tensor]
    stale_statistics: tuple[str, ...] = ()


class WeightCopyMonitor:
    """Searches for copies of the model in the variables of the functions around the loop, and of parts in the model."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.parameter_shapes = model, {name: p.shape for name, p in model.named_parameters()}
        self.has_running_statistics = any(_is_running_statistic(name) for name, _ in model.named_buffers())
        self.histories: dict[str, CopyHistory] = {}
        self.files: set[str] = set()
        self.write_trace = WriteTrace()

    @torch.no_grad()
    def inspect(self, frame: FrameType | None) -> None:
        """Inspect all copies in the variables of a stack."""
        if not self.has_running_statistics:
            return
        self.files |= user_files(frame)
        for name, module in [*self.model.named_children(), *_modules_in_variables(frame)]:
            history = self.histories.get(name)
            if history is not None and history.module() is module:
                history.stale_statistics = self.stale_statistics(history, module)
            elif self.has_other_name(name, module):
                continue
            elif (source := self.source_of(module)) is not None:
                weights, statistics = list(module.parameters()), self.statistics(module)
                sampled_tensors = (
                    [first_values(weight) for weight in weights[:_MAX_COMPARED_TENSORS]],
                    _first_values_by_name(statistics),
                    _first_values_by_name(self.statistics(source)),
                )
                self.histories[name] = CopyHistory(weakref.ref(module), weakref.ref(source), *sampled_tensors)
                self.write_trace.open(weights)

    def has_other_name(self, name: str, module: nn.Module) -> bool:
        """Return whether a copy is observed under another name, as the attribute of an object and in a variable."""
        return any(other != name and history.module() is module for other, history in self.histories.items())

    def source_of(self, module: nn.Module) -> nn.Module | None:
        """Return what a module is a copy of: the model, or for a part of it another part that has gradients.

        A copy has the same parameters, all without gradient. The model itself and its wrappers are none.
        """
        if isinstance(module, AveragedModel) or any(submodule is self.model for submodule in module.modules()):
            return None
        shapes = {name: p.shape for name, p in module.named_parameters()}
        if any(p.grad is not None for p in module.parameters()):
            return None
        if shapes == self.parameter_shapes:
            return self.model
        parts = [part for part in self.model.children() if part is not module] if shapes else []
        is_part = len(parts) < len([*self.model.children()])
        return next((part for part in parts if is_part and _is_trained_twin(part, shapes)), None)

    def statistics(self, module: nn.Module) -> dict[str, Tensor]:
        """Return some of its running statistics."""
        return dict([pair for pair in module.named_buffers() if _is_running_statistic(pair[0])][:_MAX_COMPARED_TENSORS])

    def stale_statistics(self, history: CopyHistory, module: nn.Module) -> tuple[str, ...]:
        """Return the constant statistics, if all are constant while the weights and the model's statistics changed."""
        current, model_statistics = (
            _first_values_by_name(self.statistics(module)),
            _first_values_by_name(self.statistics(history.source() or self.model)),
        )
        weights_changed = any(
            not torch.equal(initial_values, first_values(p))
            for initial_values, p in zip(history.weights, module.parameters(), strict=False)
        )
        constant_names = [
            name
            for name, initial_values in history.statistics.items()
            if torch.equal(initial_values, current.get(name, initial_values))
        ]
        stale_names = [
            name
            for name in constant_names
            if name in model_statistics and not torch.equal(model_statistics[name], history.model_statistics[name])
        ]
        return (
            tuple(stale_names)
            if weights_changed and stale_names and len(constant_names) == len(history.statistics)
            else ()
        )

    def summary(self, file: str | None) -> tuple[WeightCopy, ...]:
        """Return the copies with stale statistics, unless the same file or cell calls ``update_bn``."""
        if file is not None and any(matches_call("update_bn")(node) for node in parse_expressions(file)):
            return ()
        parts = {id(part): name for name, part in self.model.named_children()}
        write_line = self.write_trace.line
        line = loop_over_variable(write_line) or write_line or find_unique_line(_pairs_parameters, self.files)
        line = line if len(self.histories) == 1 else None
        return tuple(
            WeightCopy(name, history.stale_statistics, parts.get(id(history.module())), line)
            for name, history in self.histories.items()
            if history.stale_statistics
        )


def _pairs_parameters(node: ast.AST) -> bool:
    """Match ``zip`` of the parameters of two modules."""
    calls = [matches_call(name) for name in ("parameters", "named_parameters")]
    return matches_call("zip")(node) and sum(call(child) for child in ast.walk(node) for call in calls) > 1


def _is_trained_twin(part: nn.Module, shapes: dict[str, torch.Size]) -> bool:
    """Check whether a part has parameters of these shapes, and gradients."""
    parameters = dict(part.named_parameters())
    return {name: p.shape for name, p in parameters.items()} == shapes and any(
        p.grad is not None for p in parameters.values()
    )


def _is_running_statistic(name: str) -> bool:
    return name.rpartition(".")[2] in ("running_mean", "running_var")


def first_values(tensor: Tensor) -> Tensor:
    """Return a copy of the first values of a tensor."""
    return tensor.detach().flatten()[:_MAX_COMPARED_VALUES].clone()


def _first_values_by_name(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: first_values(tensor) for name, tensor in tensors.items()}


def _modules_in_variables(frame: FrameType | None) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules in the variables of the user's functions on a stack, and those that their objects hold."""
    for user_frame in user_frames(frame):
        for name, value in frame_variables(user_frame).items():
            yield from _modules_in(name, value, user_frame.f_globals.get("__name__", ""), _MAX_DEPTH)


def _modules_in(name: str, value: object, module_name: str, depth: int) -> Iterator[tuple[str, nn.Module]]:
    """Yield a module, or those in a dictionary or among the attributes of an object of the user's own class.

    ``module_name`` is the Python module of the function that has the variable.
    """
    if _is_module(value):
        yield name, value  # type: ignore[misc]
    elif depth and type(value) is dict:
        for key, item in [*value.items()][:_MAX_ITEMS]:
            yield from _modules_in(f"{name}[{key!r}]", item, module_name, depth - 1)
    elif depth and (type(value).__module__ == module_name or _has_user_class(value)):
        for key, attribute in [*getattr(value, "__dict__", {}).items()][:_MAX_ITEMS]:
            yield from _modules_in(f"{name}.{key}", attribute, module_name, depth - 1)


def _has_user_class(value: object) -> bool:
    module = type(value).__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    return module == "__main__" or (file is not None and is_user_code(file))


def _is_module(value: object) -> bool:
    """Check whether a value is a module by its type, without triggering ``__class__`` of a proxy."""
    return issubclass(type(value), nn.Module)
