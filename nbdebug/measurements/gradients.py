"""Gradients of the first batch, of the first steps, and operations that block them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nbdebug.autograd import Graph
from nbdebug.autograd.graph import Node
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import run_forward
from nbdebug.measurements.parameter_coverage import ParameterEntry
from nbdebug.measurements.registry import measurement, slow_measurement
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup

GradientsByName = dict[str, Tensor | None]  # by parameter name; None if the backward pass does not reach it
EARLY_STEPS = 4
_STEP_SIZE = 0.01
_MAX_ROWS = 64
_RECURRENT_WEIGHT = re.compile(r"weight_hh(_l\d+(_reverse)?)$")  # as torch names them
_DIRECTION = re.compile(r"_l\d+(_reverse)?$")
_SELECTIONS = frozenset(("Select", "Slice", "Index", "Narrow", "Split", "Unbind"))


@dataclass(frozen=True)
class GradientNorm:
    """Largest absolute value and norm of the gradient of one parameter; zeros if backward does not reach it."""

    max_abs: float = 0.0
    norm: float = 0.0
    finite: bool = True


@slow_measurement
def gradient_norms(graph: Graph, loss: Tensor, parameters: list[ParameterEntry]) -> dict[str, GradientNorm]:
    """Gradient norms of the loss of the first batch, for each parameter it reaches; the graph is kept."""
    reached_ids = {id(leaf) for leaf in graph.leaves}
    entries = [entry for entry in parameters if id(entry.parameter) in reached_ids]
    try:
        return compute_norms(compute_gradients(loss, entries, retain_graph=True)) if entries else {}
    except RuntimeError as error:
        raise NotChecked(f"the backward pass raised {error}") from error


def compute_gradients(loss: Tensor, entries: Sequence[ParameterEntry], retain_graph: bool = False) -> GradientsByName:
    """Return the gradients of a loss for some parameters, sparse ones as dense tensors."""
    tensors = [entry.parameter for entry in entries]
    gradients = torch.autograd.grad(loss, tensors, retain_graph=retain_graph, allow_unused=True)
    dense = (gradient.to_dense() if gradient is not None and gradient.is_sparse else gradient for gradient in gradients)
    return {entry.name: gradient for entry, gradient in zip(entries, dense, strict=True)}


def compute_norms(gradients: GradientsByName) -> dict[str, GradientNorm]:
    """Return the norms of some gradients."""
    return {
        name: GradientNorm() if gradient is None else _compute_norm(gradient) for name, gradient in gradients.items()
    }


def _compute_norm(gradient: Tensor) -> GradientNorm:
    largest, norm = torch.linalg.vector_norm(gradient, float("inf")), torch.linalg.vector_norm(gradient)
    return GradientNorm(float(largest), float(norm), bool(largest.isfinite()))


def all_finite(pulls: dict[str, GradientNorm]) -> bool:
    """Return whether no gradient contains NaN or Inf."""
    return all(norm.finite for norm in pulls.values())


@dataclass(frozen=True)
class EarlyGradient:
    """One trainable parameter that the loss reaches, over the first steps.

    ``max_gradient`` is the largest gradient over these steps. If all rows were equal at the start, ``compared_rows`` is
    the number of compared rows, those that have changed if any has, and ``distinct_rows`` the number of distinct rows
    at the end; else both are None.
    ``tied_columns`` is the number of columns of a matrix, or of a stack of matrices, if they all were equal at the
    start and still are at the end, although some of their values have changed; else 0.
    """

    entry: ParameterEntry
    max_gradient: float
    compared_rows: int | None = None
    distinct_rows: int | None = None
    tied_columns: int = 0


@slow_measurement
def early_steps(
    setup: Setup,
    finite_loss: Tensor,
    batches: list[Batch],
    parameters: list[ParameterEntry],
    gradient_norms: dict[str, GradientNorm],
) -> list[EarlyGradient]:
    """Trainable parameters that the loss reaches, with their largest gradient and distinct rows after a few steps."""
    if not gradient_norms:
        raise NotChecked("the loss reaches no parameter of the model")
    entries = [entry for entry in parameters if entry.name in gradient_norms]
    first_rows = {
        entry.name: entry.parameter.detach()[0].clone() for entry in entries if _rows_are_equal(entry.parameter)
    }
    first_columns = {
        entry.name: column for entry in entries if (column := _repeated_column(entry.parameter)) is not None
    }
    needs_steps = bool(first_rows or first_columns)
    max_gradients = {name: entry.max_abs for name, entry in gradient_norms.items()}
    if not needs_steps and all(max_gradients.values()):
        return [EarlyGradient(entry, max_gradients[entry.name]) for entry in entries]
    with Preserve(*setup.mutable_objects):
        _take_descent_step(entries, compute_gradients(finite_loss, entries, retain_graph=True))
        for step in range(1, EARLY_STEPS):
            gradients = _compute_later_gradients(setup.output_and_loss(batches[step % len(batches)])[1], entries)
            max_gradients = {
                name: max(max_gradients[name], entry.max_abs) for name, entry in compute_norms(gradients).items()
            }
            if not needs_steps and all(max_gradients.values()):
                break
            _take_descent_step(entries, gradients)
        return [
            replace(
                _summarize_parameter(entry, max_gradients[entry.name], first_rows.get(entry.name)),
                tied_columns=_count_tied_columns(entry.parameter, first_columns.get(entry.name)),
            )
            for entry in entries
        ]


def _compute_later_gradients(loss: Tensor, entries: list[ParameterEntry]) -> GradientsByName:
    is_usable = loss.requires_grad and bool(torch.isfinite(loss))
    return compute_gradients(loss, entries) if is_usable else dict.fromkeys(entry.name for entry in entries)


def _summarize_parameter(entry: ParameterEntry, max_gradient: float, first_row: Tensor | None) -> EarlyGradient:
    """Count the distinct rows of a parameter whose rows all were ``first_row``."""
    if first_row is None:
        return EarlyGradient(entry, max_gradient)
    rows = _sample_rows(entry.parameter)
    has_changed = (rows - first_row.flatten().double()).abs().amax(1) > _STEP_SIZE / 1000
    rows = rows[has_changed] if bool(has_changed.any()) else rows
    return EarlyGradient(entry, max_gradient, len(rows), _count_distinct_rows(rows))


@torch.no_grad()
def _take_descent_step(entries: list[ParameterEntry], gradients: GradientsByName) -> None:
    """Move each parameter along its own gradient by a step of fixed size, so that no learning rate is needed."""
    for entry in entries:
        gradient = gradients[entry.name]
        max_abs = 0.0 if gradient is None else float(gradient.abs().max())
        if gradient is not None and 0 < max_abs < float("inf"):
            entry.parameter.sub_(_STEP_SIZE * gradient / max_abs)


def _rows_are_equal(parameter: Tensor) -> bool:
    if parameter.dim() < 2 or len(parameter) < 2 or not parameter[0].numel():
        return False
    values = parameter.detach()
    return bool((values == values[:1]).all())


def _repeated_column(parameter: Tensor) -> Tensor | None:
    """Return a copy of the first column if all columns are equal, those of a stack of matrices too; else None."""
    if parameter.dim() < 2 or parameter.shape[-1] < 2 or not parameter.numel():
        return None
    values = parameter.detach().flatten(0, -2)
    if not bool((values[0] == values[0, 0]).all()) or not bool((values == values[:, :1]).all()):
        return None
    return values[:, 0].clone()


def _count_tied_columns(parameter: Tensor, start: Tensor | None) -> int:
    """Count the columns that are still equal in the rows that differ from ``start``, the value of all columns before.

    Returns 0 if no row has changed by more than a thousandth of a step, or some columns differ by more than that.
    """
    if start is None:
        return 0
    values, tolerance = parameter.detach().flatten(0, -2), _STEP_SIZE / 1000
    changed = values[(values - start.unsqueeze(1)).abs().amax(1) > tolerance]
    is_tied = len(changed) > 0 and bool(((changed.amax(1) - changed.amin(1)) < tolerance).all())
    return parameter.shape[-1] if is_tied else 0


def _sample_rows(parameter: Tensor) -> Tensor:
    indices = torch.linspace(0, len(parameter) - 1, min(len(parameter), _MAX_ROWS)).long()
    return parameter.detach()[indices.to(parameter.device)].flatten(1).double()


def _count_distinct_rows(rows: Tensor) -> int:
    """Count the rows that differ from every earlier row by more than a thousandth of a step."""
    is_close = torch.cdist(rows, rows, p=float("inf"), compute_mode="donot_use_mm_for_euclid_dist") < _STEP_SIZE / 1000
    return int((is_close.int().argmax(1) == torch.arange(len(rows), device=rows.device)).sum())


@dataclass(frozen=True)
class BlockedGradient:
    """Parameters whose gradient is zero, and the operation that blocks it; None if there is no single one.

    If ``cancels``, that operation passes on gradients whose sum is zero, as the difference of a tensor and itself does.
    ``biases`` are those of them that are negative in every unit and whose replacement by zero lets a gradient pass.
    ``selection`` is the operation that takes a part of the output of a recurrent layer, if these are the parameters of
    one of its directions, or a recurrent weight, and others of the layer have a gradient.
    """

    entries: list[ParameterEntry]
    node: Node | None
    biases: tuple[ParameterEntry, ...] = ()
    selection: Node | None = None
    cancels: bool = False

    @property
    def is_recurrence(self) -> bool:
        """True if these are recurrent weights alone: those of the inputs of their layers have a gradient."""
        return all(_RECURRENT_WEIGHT.search(entry.name) for entry in self.entries)


@measurement
def blocked_gradients(setup: Setup, batches: list[Batch], early_steps: list[EarlyGradient]) -> list[BlockedGradient]:
    """Modules whose parameters have a gradient of exactly zero in every early step, by the blocking operation.

    Each direction of each recurrent layer, and its recurrent weight, counts as a module.
    """
    zero_entries = _get_parameters_without_gradient(early_steps)
    if not zero_entries:
        return []
    forward_pass = run_forward(setup, batches[0])
    if forward_pass.loss is None:
        return [BlockedGradient(zero_entries, None)]
    graph = forward_pass.trace.get_graph(forward_pass.loss)
    blocking, canceling = _find_blocking_nodes(graph, forward_pass.loss, zero_entries)
    moving = {early.entry.module for early in early_steps if early.max_gradient != 0}
    by_node: dict[Node | None, list[ParameterEntry]] = {}
    by_direction: dict[str, list[ParameterEntry]] = {}
    for entry in zero_entries:
        if entry.module in moving:  # only a part of a recurrent layer
            by_direction.setdefault(_direction_name(entry), []).append(entry)
        else:
            by_node.setdefault(_find_nearest_user(graph, entry, (blocking | canceling).__contains__), []).append(entry)
    return [
        *(
            BlockedGradient(
                entries,
                node,
                _blocking_biases(setup, batches[0], entries) if node else (),
                cancels=node in canceling,
            )
            for node, entries in by_node.items()
        ),
        *(
            BlockedGradient(entries, None, selection=_find_nearest_user(graph, entries[-1], _is_selection))
            for entries in by_direction.values()
        ),
    ]


def _is_selection(node: Node) -> bool:
    return node.name in _SELECTIONS and node.line is not None


def _blocking_biases(setup: Setup, batch: Batch, entries: list[ParameterEntry]) -> tuple[ParameterEntry, ...]:
    """Return the entirely negative biases without which some of the parameters have a gradient."""
    biases = tuple(entry for entry in entries if _is_negative_bias(entry))
    if not biases:
        return ()
    with Preserve(*setup.mutable_objects):
        with torch.no_grad():
            for entry in biases:
                entry.parameter.zero_()
        gradients = _compute_later_gradients(setup.output_and_loss(batch)[1], entries)
    return biases if _has_nonzero(tuple(gradients.values())) else ()


def _is_negative_bias(entry: ParameterEntry) -> bool:
    is_bias = entry.parameter.dim() == 1 and entry.name.rpartition(".")[2].startswith("bias")
    return is_bias and bool((entry.parameter < 0).all())


def _get_parameters_without_gradient(early_steps: list[EarlyGradient]) -> list[ParameterEntry]:
    """Return the parameters without gradient, of modules or directions in which no parameter has one."""
    parts_with_gradient = {
        _part_name(early.entry) for early in early_steps if early.max_gradient != 0
    }  # NaN counts as nonzero
    return [early.entry for early in early_steps if _part_name(early.entry) not in parts_with_gradient]


def _part_name(entry: ParameterEntry) -> str:
    """Return the module of a parameter, with its direction if it is recurrent; a recurrent weight is its own part."""
    return entry.name if _RECURRENT_WEIGHT.search(entry.name) else _direction_name(entry)


def _direction_name(entry: ParameterEntry) -> str:
    """Return the module of a parameter, with the layer and the direction if it is recurrent."""
    direction = _DIRECTION.search(entry.name)
    return entry.module + (direction[0] if direction else "")


def _find_blocking_nodes(graph: Graph, value: Tensor, entries: list[ParameterEntry]) -> tuple[set[Node], set[Node]]:
    """Return the operations that turn a gradient into zeros, and those that pass on gradients whose sum is zero."""
    receiving, passing = dict[Any, bool](), dict[Node, list[Any]]()

    def hook(node: Node) -> Callable[[Any, Any], None]:
        def record(grad_inputs: tuple[Tensor | None, ...], grad_outputs: tuple[Tensor | None, ...]) -> None:
            receiving[node.function] = _has_nonzero(grad_outputs)
            edges = zip(node.function.next_functions, grad_inputs, strict=False)
            if any(gradient is not None for gradient in grad_inputs):
                passing[node] = [function for (function, _), gradient in edges if _has_nonzero((gradient,))]

        return record

    with graph.backward_hooks(hook):
        torch.autograd.grad(value, [entry.parameter for entry in entries], allow_unused=True)
    blocking = {node for node, takers in passing.items() if receiving[node.function] and not takers}
    known = {node: [receiving[taker] for taker in takers if taker in receiving] for node, takers in passing.items()}
    return blocking, {node for node, receive in known.items() if receive and not any(receive)}


def _has_nonzero(gradients: tuple[Tensor | None, ...]) -> bool:
    return any(bool(gradient.any()) for gradient in gradients if gradient is not None)


def _find_nearest_user(graph: Graph, entry: ParameterEntry, is_match: Callable[[Node], bool]) -> Node | None:
    """Return the nearest operation on the way from a parameter to the loss that matches; None if there is none."""
    start = next((node for node in graph.get_nodes_by_name("AccumulateGrad") if node.variable is entry.parameter), None)
    queue, visited = deque([start] if start else []), set[Node]()
    while queue:
        node = queue.popleft()
        if is_match(node):
            return node
        unvisited = [user for user in node.users if user not in visited]
        visited.update(unvisited)
        queue.extend(unvisited)
    return None
