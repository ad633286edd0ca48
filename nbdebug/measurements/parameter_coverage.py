"""Parameters by optimizer and loss, unregistered tensors, and conditional routing."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from itertools import islice, takewhile
from types import FunctionType, MethodType
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from nbdebug.autograd import VALUE_PRESERVING_NODES, Graph, Node, Pattern
from nbdebug.autograd.graph import build_graph
from nbdebug.finding import Location
from nbdebug.measurements.forward_pass import ForwardPass, run_forward
from nbdebug.measurements.registry import MAX_BATCHES, measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.setup import optimized_parameters
from nbdebug.source.location import SourceLine, get_line_from_frame
from nbdebug.tensors.pytree import tree_tensors

MODULE_ATTRIBUTES = frozenset(vars(nn.Module()))
_MAX_DEPTH = 4
_RegistrationLines = dict[int, tuple[Tensor, SourceLine | None]]
_SELECTION_NODES = frozenset({"Index", "IndexSelect", "Gather"})
_SELECTION_PATTERN = Pattern(_SELECTION_NODES, frozenset(), VALUE_PRESERVING_NODES - _SELECTION_NODES)


@dataclass(frozen=True)
class ParameterEntry:
    """One parameter of the model (tied ones once), with all its names and the optimizer groups that hold it."""

    names: tuple[str, ...]
    parameter: nn.Parameter
    groups: tuple[tuple[int, int], ...]

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]

    @property
    def module(self) -> str:
        """The path of the submodule that holds it."""
        return self.name.rpartition(".")[0]


def common_parent(paths: Iterable[str]) -> str:
    """Return the path of the innermost module that contains all of some modules; "" for the model itself."""
    levels = zip(*(path.split(".") for path in paths), strict=False)
    return ".".join(level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels))


def largest_part(entry: ParameterEntry, group: list[ParameterEntry], parameters: list[ParameterEntry]) -> str:
    """Return the path of the largest submodule that contains a parameter, and only others of its group."""
    group_names = {item.name for item in group}
    other_names = [item.name for item in parameters if item.name not in group_names]
    path = entry.module
    while "." in path:
        parent = path.rpartition(".")[0]
        if any(name.startswith(f"{parent}.") for name in other_names):
            break
        path = parent
    return path


def format_names(entries: list[ParameterEntry], limit: int = 4) -> str:
    """Return the names of some parameters as a short list."""
    return ", ".join(entry.name for entry in entries[:limit]) + (", …" if len(entries) > limit else "")


@measurement
def parameters(setup: Setup, model: nn.Module) -> list[ParameterEntry]:
    """Every parameter of the model, each once, with its names and its optimizer groups."""
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    groups: dict[torch.Tensor, list[tuple[int, int]]] = {}
    for i, optimizer in enumerate(setup.optimizers):
        for j, group in enumerate(optimizer.param_groups):
            for group_parameter in group["params"]:
                groups.setdefault(group_parameter, []).append((i, j))
    return [ParameterEntry(tuple(parameter_names), p, tuple(groups.get(p, ()))) for p, parameter_names in names.items()]


def depends_on_parameters(setup: Setup, batch: Batch, entries: list[ParameterEntry]) -> bool:
    """Return whether the loss of a batch changes with the trainable parameters; they are restored."""

    def compute_loss() -> Tensor:
        seed_all(0)
        return setup.output_and_loss(batch)[1].detach().clone()

    with Preserve(*setup.mutable_objects), torch.no_grad():
        before = compute_loss()
        for entry in entries:
            if entry.parameter.requires_grad:
                entry.parameter.mul_(1.5).add_(0.1)
        return not torch.equal(before, compute_loss())


@measurement
def unreached_parameters(
    setup: Setup, graph: Graph, batches: list[Batch], parameters: list[ParameterEntry]
) -> list[ParameterEntry]:
    """Trainable parameters that the losses of none of the first batches depend on."""
    remaining = _get_entries_outside_graph(parameters, graph)
    if not remaining:
        return []
    for batch in batches[1:] or islice(setup.batches(MAX_BATCHES), 1, None):  # a quick checkup read only one
        if not remaining:
            break
        forward_pass: ForwardPass = run_forward(setup, batch)
        if forward_pass.loss is not None:
            remaining = _get_entries_outside_graph(remaining, forward_pass.trace.get_graph(forward_pass.loss))
    if remaining and _recomputes_in_backward(graph):
        return _get_entries_without_gradient(setup, batches[0], remaining)
    return remaining


def _recomputes_in_backward(graph: Graph) -> bool:
    """Return whether a graph has reentrant checkpoints, which hide the parameters of the pass that they repeat."""
    return any(graph.get_nodes_by_name("CheckpointFunction"))


def _get_entries_without_gradient(setup: Setup, batch: Batch, entries: list[ParameterEntry]) -> list[ParameterEntry]:
    """Return the entries that get no gradient in a backward pass."""
    with Preserve(*setup.mutable_objects), torch.enable_grad():
        for entry in entries:
            entry.parameter.grad = None
        setup.output_and_loss(batch)[1].backward()  # type: ignore[no-untyped-call]
        return [entry for entry in entries if entry.parameter.grad is None]


def _get_entries_outside_graph(entries: list[ParameterEntry], graph: Graph) -> list[ParameterEntry]:
    """Return the trainable entries that are not leaves of ``graph``."""
    reached = {id(leaf) for leaf in graph.leaves}
    return [entry for entry in entries if entry.parameter.requires_grad and id(entry.parameter) not in reached]


@dataclass(frozen=True)
class UnregisteredAttribute:
    """One attribute of a module that contains trained tensors the module has not registered.

    ``path`` and ``owner`` are that module; ``value`` is the attribute; ``members`` are the modules and tensors in it.
    """

    path: str
    owner: nn.Module
    attribute: str
    value: Any
    members: tuple[nn.Module | Tensor, ...]

    @property
    def tensors(self) -> list[Tensor]:
        """The unregistered tensors, each once."""
        all_tensors = [
            t for member in self.members for t in (member.parameters() if isinstance(member, nn.Module) else (member,))
        ]
        return list({id(t): t for t in all_tensors}.values())


@measurement
def unregistered_attributes(model: nn.Module, first_pass: ForwardPass, graph: Graph) -> list[UnregisteredAttribute]:
    """Attributes with modules or tensors that the loss trains and `model.parameters()` does not include."""
    registered_ids = {id(p) for p in model.parameters()}
    batch_ids = {
        id(t) for t in tree_tensors((first_pass.batch.args, first_pass.batch.kwargs, first_pass.batch.targets))
    }
    trained_ids = (
        {id(leaf) for leaf in graph.leaves} - registered_ids - batch_ids - set(first_pass.trace.created_leaves)
    )
    result: list[UnregisteredAttribute] = []
    for path, owner in model.named_modules():
        for attribute, value in vars(owner).items():
            members = (
                () if attribute in MODULE_ATTRIBUTES or not trained_ids else _find_trained_members(value, trained_ids)
            )
            if members:
                result.append(UnregisteredAttribute(path, owner, attribute, value, members))
    return result


def _find_trained_members(value: Any, trained: set[int]) -> tuple[nn.Module | Tensor, ...]:
    """Return the outermost modules and tensors in a value that contain one of the ``trained`` tensors."""
    members = {id(member): member for member in iterate_members(value, set())}
    return tuple(member for member in members.values() if trained & _get_tensor_ids(member))


def _get_tensor_ids(member: nn.Module | Tensor) -> set[int]:
    return {id(p) for p in member.parameters()} if isinstance(member, nn.Module) else {id(member)}


def iterate_members(value: Any, visited_ids: set[int], depth: int = 0) -> Iterator[nn.Module | Tensor]:
    """Yield the modules and tensors reachable from a value without passing through another module."""
    if id(value) in visited_ids or depth > _MAX_DEPTH:
        return
    visited_ids.add(id(value))
    if isinstance(value, (nn.Module, Tensor)):
        yield value
        return
    for content in _get_contents(value):
        yield from iterate_members(content, visited_ids, depth + 1)


def _get_contents(value: Any) -> list[Any]:
    """Return the contents of a container, a function or an object of a user-defined class."""
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, MethodType):
        return [value.__self__]
    if isinstance(value, FunctionType):
        return [*(value.__defaults__ or ()), *_get_closure_values(value)]
    if is_dataclass(value) and not isinstance(value, type):
        return _get_field_values(value)
    return list(vars(value).values()) if _is_plain_object(value) else []


def _get_field_values(value: Any) -> list[Any]:
    """Return the stored values of a dataclass; reading them as attributes can run code, and so raise."""
    names = [field.name for field in fields(value)]
    if hasattr(value, "__dict__"):
        stored = vars(value)
        return [stored[name] for name in names if name in stored]
    return [getattr(value, name) for name in names if hasattr(value, name)]


def _get_closure_values(function: FunctionType) -> Iterator[Any]:
    """Yield the closure variables of a function that have a value."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue


def _is_plain_object(value: Any) -> bool:
    """Return whether a value is an instance of a Python class outside torch and NumPy, with attributes."""
    package = type(value).__module__.partition(".")[0]
    return hasattr(value, "__dict__") and not isinstance(value, type) and package not in ("torch", "builtins", "numpy")


@dataclass(frozen=True)
class UnregisteredTensors:
    """Some trained tensors and their location.

    They are "recreated" if each pass creates others, "outside" if an object outside the model keeps them, and
    "derived" if an attribute of the model (``attribute`` of ``owner``) keeps a value computed from them.
    """

    kind: Literal["recreated", "derived", "outside"]
    tensors: tuple[Tensor, ...]
    where: Location
    owner: nn.Module | None = None
    attribute: str = ""


@measurement
def unregistered_tensors(
    setup: Setup,
    model: nn.Module,
    first_pass: ForwardPass,
    batches: list[Batch],
    unregistered_attributes: list[UnregisteredAttribute],
) -> list[UnregisteredTensors]:
    """Parameters that the output depends on and that belong to neither the model, an optimizer nor the loss."""
    graphs = [first_pass.trace.get_graph(t) for t in tree_tensors(first_pass.output) if t.requires_grad]
    remaining = _get_leaves_without_owner(setup, model, first_pass.batch, graphs, unregistered_attributes)
    if not remaining:
        return []
    result = list(_find_derived_tensors(model, remaining))
    for group in result:
        remaining = {key: t for key, t in remaining.items() if all(t is not other for other in group.tensors)}
    remaining = {key: t for key, t in remaining.items() if isinstance(t, nn.Parameter)}
    return [*result, *_group_remaining_tensors(setup, batches[0], graphs, remaining)] if remaining else result


def _get_leaves_without_owner(
    setup: Setup, model: nn.Module, batch: Batch, graphs: list[Graph], unregistered: list[UnregisteredAttribute]
) -> dict[int, Tensor]:
    """Return the leaf tensors that belong to neither the model, the loss nor an optimizer, keyed by `id`."""
    optimizer_parameters = optimized_parameters(*setup.optimizers)
    loss = list(setup.loss_fn.parameters()) if isinstance(setup.loss_fn, nn.Module) else []
    owned = [
        *model.parameters(),
        *optimizer_parameters,
        *loss,
        *(t for attribute in unregistered for t in attribute.tensors),
    ]
    owned += tree_tensors((batch.args, batch.kwargs, batch.targets))
    owned_ids = {id(t) for t in owned}
    return {id(leaf): leaf for graph in graphs for leaf in graph.leaves if id(leaf) not in owned_ids}


def _find_derived_tensors(model: nn.Module, remaining: dict[int, Tensor]) -> Iterator[UnregisteredTensors]:
    """Yield the module attributes that hold a value computed from some of the tensors before the pass."""
    for path, owner in model.named_modules():
        for attribute, value in vars(owner).items():
            if attribute in MODULE_ATTRIBUTES:
                continue
            derived_tensors = [
                t for t in iterate_members(value, set()) if isinstance(t, Tensor) and t.grad_fn is not None
            ]
            source_leaves = {id(leaf): leaf for t in derived_tensors for leaf in build_graph(t.grad_fn, []).leaves}
            if source_leaves and source_leaves.keys() <= remaining.keys():
                yield UnregisteredTensors(
                    "derived", tuple(source_leaves.values()), Location(path or None), owner, attribute
                )


def _group_remaining_tensors(
    setup: Setup, batch: Batch, graphs: list[Graph], remaining: dict[int, Tensor]
) -> Iterator[UnregisteredTensors]:
    """Yield the other tensors by the line that creates or uses them; a second pass shows which are recreated.

    A recreated tensor may be an attribute that is set in each pass.
    """
    known_leaves = [*setup.eager_model.parameters(), *(leaf for graph in graphs for leaf in graph.leaves)]
    with _record_registrations() as lines:
        second_pass = run_forward(setup, batch)
    second_graphs = [second_pass.trace.get_graph(t) for t in tree_tensors(second_pass.output) if t.requires_grad]
    persistent_ids = {id(leaf) for graph in second_graphs for leaf in graph.leaves}
    outside = {key: t for key, t in remaining.items() if key in persistent_ids}
    leaves = [leaf for graph in second_graphs for leaf in graph.leaves if isinstance(leaf, nn.Parameter)]
    recreated = {id(leaf): leaf for leaf in leaves if all(leaf is not known_leaf for known_leaf in known_leaves)}
    yield from _group_by_line("outside", graphs, outside, {})
    yield from _group_by_line("recreated", second_graphs, recreated, lines)


def _group_by_line(
    kind: Literal["recreated", "outside"], graphs: list[Graph], tensors: Mapping[int, Tensor], lines: _RegistrationLines
) -> Iterator[UnregisteredTensors]:
    """Return tensors grouped by the line where a module registers them, else where they are used."""
    groups: dict[Location, list[Tensor]] = {}
    for node in {
        accumulate_node.function: accumulate_node
        for graph in graphs
        for accumulate_node in graph.get_nodes_by_name("AccumulateGrad")
    }.values():
        if id(node.variable) in tensors:
            line = lines.get(id(node.variable), (None, None))[1]
            user = next(iter(node.users), node)
            where = line.where(user.module) if line else user.where
            groups.setdefault(where, []).append(tensors[id(node.variable)])
    return (UnregisteredTensors(kind, tuple(group), where) for where, group in groups.items())


@contextmanager
def _record_registrations() -> Iterator[_RegistrationLines]:
    """Record the user's line of each parameter that a module registers in a block."""
    lines: _RegistrationLines = {}

    def record(_: nn.Module, __: str, parameter: Any) -> None:
        if isinstance(parameter, Tensor):
            lines[id(parameter)] = (parameter, get_line_from_frame(sys._getframe(1)))

    handle = register_module_parameter_registration_hook(record)
    try:
        yield lines
    finally:
        handle.remove()


@dataclass(frozen=True)
class ConditionalRouting:
    """Paths of the module lists with conditional routing."""

    list_paths: frozenset[str]

    def may_reach(self, module: str) -> bool:
        """Return whether a submodule is a member of such a list, or inside one."""
        return any(module.startswith(f"{list_path}.") for list_path in self.list_paths)


@measurement
def conditional_routing(
    model: nn.Module, graph: Graph, first_pass: ForwardPass, unreached_parameters: list[ParameterEntry]
) -> ConditionalRouting:
    """Module lists with an unreached member whose other members get selected rows, or alternate over batches."""
    unreached_modules = {module.module for module in unreached_parameters}
    paths = [path for path, module in model.named_modules() if isinstance(module, (nn.ModuleList, nn.ModuleDict))]
    candidates = [path for path in paths if any(module.startswith(f"{path}.") for module in unreached_modules)]
    lists = {path: model.get_submodule(path) for path in candidates}
    return ConditionalRouting(
        frozenset(
            path
            for path, module in lists.items()
            if _do_members_alternate(path, module, unreached_modules, first_pass)
            or _receives_selected_rows(path, graph)
        )
    )


def _do_members_alternate(path: str, members: nn.Module, unreached_modules: set[str], first_pass: ForwardPass) -> bool:
    """Return whether a member was not called for the first batch but reached by a later one."""
    called = first_pass.trace.call_counts
    uncalled = [f"{path}.{name}" for name, _ in members.named_children() if f"{path}.{name}" not in called]
    return any(
        not any(f"{unreached_module}.".startswith(f"{member}.") for unreached_module in unreached_modules)
        for member in uncalled
    )


def _receives_selected_rows(path: str, graph: Graph) -> bool:
    """Return whether a list member gets rows selected by indices or a mask outside the list."""
    member_nodes = (node for node in graph.nodes if (node.module or "").startswith(f"{path}."))
    return any(
        not (selection.module or "").startswith(f"{path}.")
        for node in member_nodes
        for selection in _find_row_selections(node)
    )


def _find_row_selections(node: Node) -> Iterator[Node]:
    """Return the operations that select the input rows of a node, excluding column selections."""
    return (
        selection for selection in _SELECTION_PATTERN.search_upstream(node.inputs) if not _selects_columns(selection)
    )


def _selects_columns(selection: Node) -> bool:
    """Return whether values are selected along the last axis, the feature axis."""
    sizes = selection.get_saved("self_sym_sizes") or getattr(selection.get_saved("self"), "shape", ())
    if selection.name != "Index":
        return int(selection.get_saved("dim")) in (len(sizes) - 1, -1)
    masked = sum(
        index.dim() - 1 for index in selection.get_saved("indices") if index is not None and index.dtype == torch.bool
    )
    return bool(len(selection.get_saved("indices")) + masked == len(sizes))
