"""The values that a loss reads beside the predictions: parts of the output, and parameters of its own."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from nbdebug.autograd import VALUE_PRESERVING_NODES
from nbdebug.autograd.graph import build_graph
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.setup import Setup
from nbdebug.setup.setup import optimized_parameters
from nbdebug.tensors.pytree import tree_leaves, tree_map

_MAX_COLUMNS, _MAX_PARAMETER_VALUES = 8, 64
_SELECTIONS = {"Split", "SplitWithSizes", "Slice", "Select", "Unbind", "Index", "IndexSelect", "Narrow", "Chunk"}
_AFFINE = {"Addmm", "Mm", "Bmm", "Baddbmm", "Addbmm", "Addmv", "Mv", "Linear", "Convolution", "Embedding"}
_SUMS, _PRODUCTS = {"Add", "Sub", "Mean", "Sum", "Neg"}, {"Mul", "Div"}
_POSITIVE = {"Exp", "Softplus"}
_JOINS = {"Cat", "Stack"}
_BACKWARD_SUFFIX = re.compile(r"Backward\d*$")
Domain = Literal["real", "positive"]
Edge = tuple[Any, int]
_Replacement = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class LossInput:
    """A part of the output, by the position of its tensor and its column, or a ``parameter`` that only the loss reads.

    ``scale`` is the size of its values, at least 1 for real values. The model gives it any value of its ``domain``.
    """

    name: str
    domain: Domain
    scale: float
    leaf: int | None = None
    column: int | None = None
    parameter: Tensor | None = None

    def at(self, size: float) -> float:
        """Return the value that is ``size`` scales from zero, or a factor of ``exp(size / 2)`` from positive values."""
        return self.scale * (size if self.domain == "real" else math.exp(size / 2))

    @contextmanager
    def set_to(self, output: Any, value: float | None) -> Iterator[Any]:
        """Yield a copy of an output with this part set to a value; set a parameter for the duration of the block.

        A parameter changes through ``data``, so that the graph of an earlier pass can still run backward.
        """
        if value is not None and self.parameter is not None:
            earlier = self.parameter.detach().clone()
            self.parameter.data.fill_(value)
            try:
                yield copy_output(output)
            finally:
                self.parameter.data.copy_(earlier)
            return
        yield copy_output(output, {} if value is None or self.leaf is None else {self.leaf: self._fill(value)})

    def _fill(self, value: float) -> _Replacement:
        def fill(copy: Tensor) -> Tensor:
            (copy if self.column is None else copy[..., self.column]).fill_(value)
            return copy

        return fill


def copy_output(output: Any, replacements: dict[int, _Replacement] | None = None) -> Any:
    """Return a copy of an output without a graph, with some of its tensors replaced, by position."""
    positions = iter(range(len(output_tensors(output))))

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        replace, clone = (replacements or {}).get(next(positions)), leaf.detach().clone()
        return clone if replace is None else replace(clone)

    return tree_map(output, copy)


def output_tensors(output: Any) -> list[Tensor]:
    """Return the tensors of an output that are leaves of it, in order."""
    return [leaf for _, leaf in tree_leaves(output) if isinstance(leaf, Tensor)]


def get_loss_inputs(
    setup: Setup, first_pass: ForwardPass, predicted: dict[int, frozenset[int]], *, with_columns: bool
) -> Iterator[LossInput]:
    """Yield the parts of the output that may have any value of their domain whatever the others are, and parameters.

    ``predicted`` are the positions of the tensors that predict a target, each with the columns that do; it has none for
    a whole tensor. A part that another one is computed from, such as the mean of a sample that is returned too, cannot
    change alone; nor can one within bounds, such as a probability. A prediction may well follow from the part.
    """
    tensors = output_tensors(first_pass.output)
    for position, tensor in enumerate(tensors):
        if not tensor.is_floating_point() or not tensor.numel():
            continue
        if position in predicted or with_columns:
            yield from _get_columns(tensor, position, predicted.get(position, frozenset()))
            continue
        others = [other for index, other in enumerate(tensors) if index not in (position, *predicted)]
        domain = _get_domain(tensor)
        if domain is not None and not _is_coupled(tensor, others):
            name = f"output {position}" if len(tensors) > 1 else "the output"
            yield LossInput(name, domain, _get_scale(tensor, domain), leaf=position)
    yield from _get_parameters(setup, first_pass, tensors)


def _get_columns(tensor: Tensor, position: int, predicted: frozenset[int]) -> Iterator[LossInput]:
    """Yield the columns of the last axis that do not predict a target, beside some that do."""
    others = [] if not predicted else [k for k in range(tensor.shape[-1]) if k not in predicted]
    domain = _get_domain(tensor) if 0 < len(others) <= _MAX_COLUMNS else None
    if domain is None:
        return
    is_mixed = len(_get_domains(_get_edge(tensor))) > 1
    for column in others:
        values = tensor[..., column]
        own = _get_domain_of_values(values) if is_mixed else domain
        yield LossInput(f"column {column} of the output", own, _get_scale(values, own), leaf=position, column=column)


def _get_parameters(setup: Setup, first_pass: ForwardPass, tensors: list[Tensor]) -> Iterator[LossInput]:
    """Yield the small trained parameters that the loss reads and the output does not depend on."""
    if first_pass.loss is None:
        return
    of_output = {id(leaf) for tensor in tensors for leaf in build_graph(tensor.grad_fn, []).leaves}
    of_output |= {id(tensor) for tensor in tensors}
    trained = set(map(id, optimized_parameters(*setup.optimizers)))
    modules = [module for module in (setup.eager_model, setup.loss_fn) if isinstance(module, nn.Module)]
    names = {id(parameter): name for module in modules for name, parameter in module.named_parameters()}
    for leaf in first_pass.trace.get_graph(first_pass.loss).leaves:
        if id(leaf) in of_output or id(leaf) not in trained or not 0 < leaf.numel() <= _MAX_PARAMETER_VALUES:
            continue
        domain: Domain = _get_domain_of_values(leaf)
        name = f"the parameter {names[id(leaf)]}" if id(leaf) in names else "a parameter that only the loss reads"
        yield LossInput(name, domain, _get_scale(leaf, domain), parameter=leaf)


def _get_scale(values: Tensor, domain: Domain) -> float:
    values = values.detach().float()
    if domain == "positive":
        return float(values.clamp_min(1e-30).log().mean().exp())
    return max(float(values.square().mean().sqrt().nan_to_num(posinf=1.0)), 1.0)


def _get_domain_of_values(values: Tensor) -> Domain:
    return "positive" if bool((values > 0).all()) else "real"


def _get_domain(tensor: Tensor) -> Domain | None:
    """Return the values that the model can give a tensor; None if they are bounded, unknown, or not trained.

    A tensor that joins parts of both domains counts as real.
    """
    if not tensor.requires_grad:
        return None
    if tensor.grad_fn is None:
        return _get_domain_of_values(tensor)
    domains = _get_domains(_get_edge(tensor))
    return None if None in domains else "real" if "real" in domains else "positive"


def _get_domains(edge: Edge) -> set[Domain | None]:
    function = edge[0]
    if _name(function) in VALUE_PRESERVING_NODES:
        return set().union(*map(_get_domains, _inputs(function))) or {None}
    return {_get_domain_of_function(function)}


def _get_domain_of_function(function: Any) -> Domain | None:
    """Return the domain of what an operation returns, by those of its inputs down to products with weights."""
    name, inputs = _name(function), _inputs(function)
    if name in _AFFINE or name == "AccumulateGrad":
        return "real"
    if name in _POSITIVE:
        return "positive"
    domains = {domain for edge in inputs for domain in _get_domains(edge)}
    if domains == {"real"} and name in _SUMS | _PRODUCTS:
        return "real"
    return "positive" if domains == {"positive"} and name in _PRODUCTS and len(inputs) == 1 else None


def _is_coupled(tensor: Tensor, others: list[Tensor]) -> bool:
    """Check whether other tensors are computed from a tensor, or from values that determine it one by one."""
    upstream = {edge for other in others if other.requires_grad for edge in _upstream(_get_edge(other))}
    edge = _get_edge(tensor)
    while edge not in upstream:
        name, inputs = _name(edge[0]), _inputs(edge[0])
        if name in _SELECTIONS | _AFFINE | _JOINS or len(inputs) != 1:
            return False
        (edge,) = inputs
    return True


def _upstream(edge: Edge) -> set[Edge]:
    visited, pending = {edge}, [edge]
    while pending:
        unvisited = [source for source in _inputs(pending.pop()[0]) if source not in visited]
        visited.update(unvisited)
        pending += unvisited
    return visited


def _get_edge(tensor: Tensor) -> Edge:
    edge: GradientEdge = get_gradient_edge(tensor)
    return edge.node, edge.output_nr


def _inputs(function: Any) -> list[Edge]:
    return [(source, number) for source, number in function.next_functions if source is not None]


def _name(function: Any) -> str:
    return _BACKWARD_SUFFIX.sub("", function.name().rpartition("::")[2])
