"""Terms of a loss that are computed from gradients without a graph, so that they are constants for backward()."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from nbdebug.autograd import Graph
from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.graph import Node, build_graph
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_tensors

_SUMS = frozenset({"add", "radd", "iadd", "sub", "subtract", "rsub", "isub", "stack", "cat", "concat", "hstack"})
_LINEAR_NODES = frozenset(
    {
        *("Add", "Sub", "Rsub", "Neg", "Sum", "Mean", "Stack", "Cat", "Unbind", "Select", "Slice", "Squeeze"),
        *("Unsqueeze", "View", "UnsafeView", "ReshapeAlias", "Expand", "Alias", "Clone", "ToCopy", "T", "Transpose"),
        *("Permute", "AsStrided", "AccumulateGrad"),
    }
)


@dataclass(frozen=True)
class ConstantGradientTerm:
    """A term that the loss of the first step adds, its mean value, and the line that computes its gradient."""

    value: float
    loss: float
    line: SourceLine | None


def find_constant_gradient_term(graph: Graph, calls: Sequence[TorchCall], loss: Tensor) -> ConstantGradientTerm | None:
    """Return the first term of a loss that depends on the parameters, but only through gradients without a graph.

    ``graph`` is that of the loss, and ``calls`` are those of torch before the backward pass. A gradient that is a
    factor, an input, a target or a step of weights is no term, and neither is one that the loss is not linear in.
    """
    functions: set[object] | None = None
    origins: dict[int, TorchCall] = {}
    for call in calls:
        if call.name == "grad":
            if not any(tensor.requires_grad for tensor in call.outputs) and _depends_on_parameters(call, graph):
                origins.update((id(tensor), call) for tensor in call.outputs)
            continue
        terms = [tensor for tensor in call.inputs if id(tensor) in origins]
        if not terms or call.name == "detach":
            continue
        origin = origins[id(terms[0])]
        origins.update((id(tensor), origin) for tensor in call.real_outputs if not tensor.requires_grad)
        if call.name not in _SUMS or not any(tensor.requires_grad for tensor in call.real_outputs):
            continue
        functions = functions or {node.function for node in _linear_nodes(graph.root)}
        if all(tensor.grad_fn in functions for tensor in call.real_outputs):
            return ConstantGradientTerm(float(terms[0].mean()), float(loss.detach()), origin.line)
    return None


def _linear_nodes(root: Node | None) -> Iterator[Node]:
    """Yield the operations that add up a loss: it is linear in their results."""
    pending, visited = [root] if root else [], set[Node]()
    while pending:
        node = pending.pop()
        if node not in visited and _is_linear(node):
            visited.add(node)
            yield node
            pending += node.inputs


def _is_linear(node: Node) -> bool:
    """Return whether an operation is a sum, a view, or a product with a constant."""
    has_one_operand = node.name in ("Mul", "Div") and len(node.inputs) == 1
    is_scaled = has_one_operand and (node.name == "Mul" or node.function.next_functions[0][0] is not None)
    return node.name in _LINEAR_NODES or is_scaled


def _depends_on_parameters(call: TorchCall, graph: Graph) -> bool:
    """Check whether a gradient is a function of leaves of the loss, by the graph of the tensors that it is taken of.

    It is if an operation between these and the inputs is not linear, and itself depends on such a leaf.
    """
    arguments = dict(zip(("outputs", "inputs"), call.args, strict=False)) | call.kwargs
    outputs, inputs = (tree_tensors(arguments.get(name)) for name in ("outputs", "inputs"))
    trained = {id(leaf) for leaf in graph.leaves if isinstance(leaf, nn.Parameter)}
    sources = {id(tensor) for tensor in inputs if tensor.grad_fn is None}
    functions = {tensor.grad_fn for tensor in inputs if tensor.grad_fn is not None}
    for output in outputs:
        nodes = build_graph(output.grad_fn, []).nodes
        on_path = _downstream(n for n in nodes if n.function in functions or id(n.variable) in sources)
        trainable = _downstream(node for node in nodes if id(node.variable) in trained)
        if any(not _is_linear(node) for node in on_path & trainable):
            return True
    return False


def _downstream(nodes: Iterable[Node]) -> set[Node]:
    """Return some nodes, and all that are computed from them."""
    pending, visited = [*nodes], set[Node]()
    while pending:
        node = pending.pop()
        if node not in visited:
            visited.add(node)
            pending += node.users
    return visited
