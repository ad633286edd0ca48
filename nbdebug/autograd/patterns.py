"""Patterns in the graph: producers and consumers, value ranges, handwritten activations, removal of calls."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from nbdebug.autograd.graph import Graph, Node
from nbdebug.source.assignments import covering_statement
from nbdebug.source.location import SourceLine
from nbdebug.source.search import syntax_tree

# Operations that move, copy or drop values without changing any.
VALUE_PRESERVING_NODES = frozenset(
    {
        *("View", "UnsafeView", "Reshape", "ReshapeAlias", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Alias"),
        *("Transpose", "T", "Permute", "Swapaxes", "Clone", "Contiguous", "ToCopy", "AsStrided", "CopySlices"),
        *("Select", "Slice", "Narrow", "Index", "IndexSelect", "Gather", "Take", "MaskedSelect"),
        *("Split", "SplitWithSizes", "UnsafeSplit", "Chunk", "Unbind", "Cat", "Stack", "NativeDropout"),
    }
)
_JOINS = frozenset({"Cat", "Stack"})
_SAVE_RESULTS = frozenset({"LogSoftmax", "Softmax"})
_NON_NEGATIVE = (0.0, math.inf)
_UNIT_INTERVAL = (0.0, 1.0)
_FIXED_RANGES: dict[str, tuple[float, float]] = {
    "Sigmoid": _UNIT_INTERVAL,
    "Softmax": _UNIT_INTERVAL,
    "Hardsigmoid": _UNIT_INTERVAL,
    "Tanh": (-1.0, 1.0),
    "Relu": _NON_NEGATIVE,
    "Softplus": _NON_NEGATIVE,
    "Exp": _NON_NEGATIVE,
    "LogSoftmax": (-math.inf, 0.0),
    "LogSigmoid": (-math.inf, 0.0),
    "LogSigmoidForward": (-math.inf, 0.0),
}
_CLAMP_ATTRIBUTES = {
    "Hardtanh": ("min_val", "max_val"),
    "Clamp": ("min", "max"),
    "ClampMin": ("min", ""),
    "ClampMax": ("", "max"),
}
BOUNDED_NODES = frozenset({*_FIXED_RANGES, *_CLAMP_ATTRIBUTES})
FUNCTION_NAMES = {
    "Sigmoid": "sigmoid",
    "Softmax": "softmax",
    "Hardsigmoid": "hardsigmoid",
    "Tanh": "tanh",
    "Relu": "relu",
    "Softplus": "softplus",
    "Exp": "exp",
    "LogSoftmax": "log_softmax",
    "LogSigmoid": "logsigmoid",
    "LogSigmoidForward": "logsigmoid",
    "Hardtanh": "hardtanh",
    "Clamp": "clamp",
    "ClampMin": "clamp",
    "ClampMax": "clamp",
}
_PIECEWISE_LINEAR_NODES = frozenset({"LeakyRelu", "Hardtanh", "Clamp", "ClampMin", "ClampMax"})
_SCALING_NODES = frozenset({*VALUE_PRESERVING_NODES, "Sub", "Neg", "Div", "Mul"})
_INVERSE_NODES = frozenset({"Reciprocal", "Pow"})


@dataclass(frozen=True)
class Pattern:
    """Finds a ``producer`` whose values reach a ``consumer`` through no other operations than ``through``.

    With ``through_shifts``, constants may be added to the values on the way; with ``through_slopes``, they may pass an
    activation that has one slope.
    """

    producer: frozenset[str]
    consumer: frozenset[str]
    through: frozenset[str] = VALUE_PRESERVING_NODES
    through_shifts: bool = False
    through_slopes: bool = False

    def find_matches(self, graph: Graph) -> Iterator[tuple[Node, Node]]:
        """Yield each producer with its consumer, starting with the consumer nearest to the loss."""
        for consumer in graph.get_nodes_by_name(*self.consumer):
            for producer in self.find_producers(consumer):
                if not _JOINS.isdisjoint(self.through) and not _sends_gradient(consumer, producer):
                    continue  # a join lies between them, and the consumer reads another part of it
                yield producer, consumer

    def find_producers(self, consumer: Node) -> Iterator[Node]:
        """Yield the producers that feed one consumer."""
        return self.search_upstream(consumer.inputs)

    def search_upstream(self, nodes: Iterable[Node]) -> Iterator[Node]:
        """Yield the producers that are among ``nodes`` or reach one of them with unchanged values."""
        visited: set[Node] = set()
        pending = list(nodes)
        while pending:
            node = pending.pop()
            if node in visited:
                continue
            visited.add(node)
            if node.name in self.producer:
                yield node
            elif (
                node.name in self.through
                or is_dropout(node)
                or (self.through_shifts and _is_shift(node))
                or (self.through_slopes and has_one_slope(node))
            ):
                pending += node.inputs


def _sends_gradient(consumer: Node, producer: Node) -> bool:
    """Return whether a gradient at the input of one operation reaches the result of another, also if unknown."""
    values = consumer.get_saved("result" if consumer.name in _SAVE_RESULTS else "self")
    edges = [edge for edge in consumer.function.next_functions if edge[0] is not None]
    if not isinstance(values, Tensor) or len(edges) != 1:
        return True
    # Varied, since a normalization would send nothing on of a constant, and without random numbers.
    varied = torch.arange(1, 1 + values.numel(), device=values.device).cos().view_as(values).to(values.dtype)
    try:
        (gradient,) = torch.autograd.grad(
            [GradientEdge(*edges[0])],
            [GradientEdge(producer.function, 0)],
            [varied],
            retain_graph=True,
            allow_unused=True,
        )
    except RuntimeError:  # torch has freed what an operation between them saved
        return True
    return gradient is not None and bool(gradient.any())


_EXPONENTIAL = Pattern(frozenset({"Exp"}), frozenset(), VALUE_PRESERVING_NODES)
_ADDITION = Pattern(frozenset({"Add"}), frozenset(), VALUE_PRESERVING_NODES)
_SUMMATION = Pattern(frozenset({"Sum"}), frozenset(), VALUE_PRESERVING_NODES)


def _is_shift(node: Node) -> bool:
    """Return whether a node adds values without gradient to its input."""
    return node.name in ("Add", "Sub") and len(node.inputs) == 1


def has_one_slope(node: Node) -> bool:
    """Return whether an activation of straight pieces has the same slope for all its values, of both signs."""
    if node.name not in _PIECEWISE_LINEAR_NODES:
        return False
    values = node.get_saved("self")
    values = node.get_saved("result") if values is None else values  # an activation in place
    if not isinstance(values, Tensor) or not bool((values > 0).any() and (values < 0).any()):
        return False
    with torch.no_grad():
        slopes = node.function(torch.ones_like(values))
    return bool((slopes == slopes.flatten()[0]).all() and slopes.flatten()[0] != 0)


def is_dropout(node: Node) -> bool:
    """Return whether a multiplication is a dropout: by a mask of zeros and one other value, without gradient."""
    mask = node.get_saved("other") if node.name == "Mul" else None
    if not isinstance(mask, Tensor) or mask.requires_grad or not mask.numel():
        return False
    nonzero = mask[mask != 0]
    return 0 < nonzero.numel() < mask.numel() and bool((nonzero == nonzero[0]).all())


@dataclass(frozen=True)
class ValueRange:
    """The interval from ``low`` to ``high``."""

    low: float
    high: float

    def __str__(self) -> str:
        """Format the interval, such as ``[0, 1]`` or ``[0, inf)``."""
        left = f"[{self.low:g}" if math.isfinite(self.low) else "(-inf"
        right = f"{self.high:g}]" if math.isfinite(self.high) else "inf)"
        return f"{left}, {right}"


def get_value_range(node: Node) -> ValueRange:
    """Return the range of values of an operation in ``BOUNDED_NODES``."""
    if node.name in _FIXED_RANGES:
        return ValueRange(*_FIXED_RANGES[node.name])
    low, high = (node.get_saved(name) if name else None for name in _CLAMP_ATTRIBUTES[node.name])
    return ValueRange(
        float(low) if isinstance(low, (int, float)) else -math.inf,
        float(high) if isinstance(high, (int, float)) else math.inf,
    )


def find_handwritten_activation(node: Node, output: Node | None) -> str | None:
    """Return "Sigmoid" or "Softmax" if a node completes a handwritten one; None otherwise.

    A softmax counts only if its exponents are the ``output`` itself, scaled or shifted: other exponents may be bounded,
    as the similarities of contrastive losses are.
    """
    if node.name in _INVERSE_NODES and any(
        any(_EXPONENTIAL.search_upstream(sum_node.inputs)) for sum_node in _ADDITION.search_upstream(node.inputs)
    ):
        return "Sigmoid"
    if node.name != "Div" or len(node.inputs) != 2 or output is None:
        return None
    numerator = list(_EXPONENTIAL.search_upstream(node.inputs[:1]))
    denominator = [
        exponential
        for sum_node in _SUMMATION.search_upstream(node.inputs[1:])
        for exponential in _EXPONENTIAL.search_upstream(sum_node.inputs)
    ]
    if (
        denominator
        and not numerator
        and any(
            any(_EXPONENTIAL.search_upstream(sum_node.inputs))
            for sum_node in _ADDITION.search_upstream(node.inputs[1:])
        )
    ):
        return "Sigmoid"
    source = Pattern(frozenset({output.name}), frozenset(), _SCALING_NODES)
    return "Softmax" if numerator and denominator and output in source.search_upstream(numerator[0].inputs) else None


CONVERSIONS = ("item", "detach", "tolist", "numpy", "cpu", "tensor", "as_tensor", "Tensor", "from_numpy")
_NAMESPACES = {"F", "functional", "nn.functional", "torch.nn.functional"} | {
    *("torch", "torch.special", "copy", "np", "numpy"),
}


class _CallRemover(ast.NodeTransformer):
    """Replaces calls of some names by their first argument or receiver."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names
        self.is_changed = False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Return the call itself, or what it was applied to."""
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name not in self.names:
            return node
        operand = node.args[0] if node.args else None
        if isinstance(node.func, ast.Attribute) and not _is_namespace(node.func.value):
            operand = node.func.value
        if operand is None:
            return node
        self.is_changed = True
        return operand


def suggest_removal(producer: Node, names: Collection[str], advice: str) -> str:
    """Return the user's statement without calls of ``names``; else a comment with the module and ``advice``."""
    if statement := statement_without_calls(producer.line, names):
        return statement
    if producer.module:
        return f"# remove module {producer.module!r} from the model: {advice}"
    return f"# {advice}"


def statement_without_calls(line: SourceLine | None, names: Collection[str]) -> str | None:
    """Return the user's statement on a line without calls of ``names``; None if nothing changes."""
    if line is None:
        return None
    statement = covering_statement(line)
    if statement is None and syntax_tree(line.file):
        return None  # in a decorator, whose lines are a part of no statement
    is_simple = statement is not None and not hasattr(statement, "body")
    return remove_calls(ast.unparse(statement) if statement is not None and is_simple else line.text, names)


def _is_namespace(node: ast.expr) -> bool:
    """Return whether an expression is a module such as ``F``, ``torch`` or ``torch.nn.functional``."""
    return ast.unparse(node) in _NAMESPACES


def remove_calls(source: str, names: Collection[str]) -> str | None:
    """Return a line of code without the calls of ``names``; None if nothing changes or it does not parse."""
    try:
        tree = ast.parse(source.strip())
    except SyntaxError:
        return None
    remover = _CallRemover(names)
    rewritten = remover.visit(tree)
    return ast.unparse(rewritten) if remover.is_changed else None
