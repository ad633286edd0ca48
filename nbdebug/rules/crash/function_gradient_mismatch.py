"""X1043: the backward of a custom autograd function returns gradients that do not fit its inputs."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.evaluation import UNKNOWN, Evaluator
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.loss_graphs import walk_graph
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.crash.backward_of_many_values import loss_tensor
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.assignments import find_function
from nbdebug.source.edits import node_text, replace_node, wrap_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, call_subject

_REDUCTIONS = ("sum", "mean")


@crash_rule("X1043")
def function_gradient_mismatch(crash: Crash) -> CrashCause | None:
    """The ``backward`` of a custom autograd function returns too few gradients, or one of the wrong shape.

    ## What it does
    Finds the function in the graph behind the loss, and compares what its ``backward`` returns with the inputs of its
    ``forward``.

    ## Why it matters
    The backward pass cannot run.

    ## How it is measured
    Exactly: the number of gradients by the inputs of ``forward``, and their shapes by those of the inputs. The shape of
    the returned expression is computed again from the gradient of the output, on the meta device.

    ## How to fix
    Return one gradient per input, in its shape; ``None`` for an input that is no tensor. The gradient of an input that
    was broadcast is the sum over the axes that were added.

    ## When to ignore
    Never: the gradient cannot be assigned.

    ## References
    Documentation of torch.autograd.Function, Extending PyTorch.
    """
    loss, match = loss_tensor(crash), re.search(r"(\w+)Backward returned an", crash.message)
    if not isinstance(loss, Tensor) or match is None:
        return None
    nodes = [node for node in walk_graph(loss) if type(node).__name__ == f"{match[1]}Backward"]
    kind = getattr(nodes[0], "_forward_cls", None) if nodes else None
    if kind is None:
        return None
    names = [*inspect.signature(kind.forward).parameters]
    names = names[1:] if "setup_context" not in vars(kind) else names
    backward = _Backward(kind)
    index = re.search(r"invalid gradient at index (\d+)", crash.message)
    if index is None:
        return _explain_number(crash, nodes[0], backward, names)
    position = int(index[1])
    sizes = [[int(n) for n in re.findall(r"\d+", part)] for part in re.findall(r"\[([\d, ]*)\]", crash.message)]
    if len(sizes) != 2 or position >= len(names):
        return None
    fitting = [node for node in nodes if _has_input_of(node, position, sizes[1])] or nodes
    return _explain_shape(backward, fitting[0], names[position], position, sizes[0], sizes[1])


class _Backward:
    """The source of the ``backward`` of an autograd function."""

    def __init__(self, kind: type) -> None:
        self.name = kind.__name__.removesuffix("Backward")
        code = inspect.unwrap(kind.backward).__code__  # type: ignore[attr-defined]
        definition = find_function(code)
        self.file, self.frame_code = code.co_filename, code
        self.function = definition if isinstance(definition, ast.FunctionDef) else None
        returns = [n for n in (ast.walk(self.function) if self.function else ()) if isinstance(n, ast.Return)]
        self.returned = returns[-1].value if returns else None
        self.line = SourceLine(self.file, returns[-1].lineno if returns else code.co_firstlineno)

    @property
    def elements(self) -> list[ast.expr]:
        """The returned expressions."""
        if isinstance(self.returned, ast.Tuple):
            return self.returned.elts
        return [self.returned] if self.returned is not None else []


def _explain_number(crash: Crash, node: Any, backward: _Backward, names: list[str]) -> CrashCause:
    returned = backward.elements
    gradients = f"{len(returned)} gradient{'s' * (len(returned) != 1)}"
    message = f"{backward.name}.backward returns {gradients}; forward has {len(names)} input{'s' * (len(names) != 1)}."
    missing = names[len(returned) :]
    cause = f"backward returns one value per input ({', '.join(names)})."
    if not missing or backward.returned is None:
        return CrashCause(message, cause, f"Return {len(names)} values from backward.", line=backward.line)
    parents = [parent for parent, _ in node.next_functions]
    needed = [n for n, parent in zip(names, parents, strict=False) if n in missing and parent is not None]
    cause += f" The one of {', '.join(missing)} is missing"
    cause += f"; {', '.join(needed)} requires a gradient." if needed else ": None, since it needs no gradient."
    if needed:
        return CrashCause(message, cause, f"Compute the gradient of {', '.join(needed)}, too.", line=backward.line)
    edit = wrap_node(backward.file, backward.returned, "{}" + ", None" * len(missing))
    return CrashCause(message, cause, edits=(edit,))


def _explain_shape(
    backward: _Backward, node: Any, name: str, position: int, actual: list[int], expected: list[int]
) -> CrashCause:
    message = f"{backward.name}.backward returns a gradient of {actual} for {name}, which has the shape {expected}."
    cause = f"The gradient of {name} (value {position + 1} of the return) has the shape of {name}"
    element = backward.elements[position] if position < len(backward.elements) else None
    output = _output_shape(node)
    if element is None or output is None:
        return CrashCause(message, f"{cause}.", f"Return a gradient of {expected}.", line=backward.line)
    for text, change in _changes(backward, element, node, output, expected):
        return CrashCause(message, f"{cause}: {text}.", edits=(change,), line=backward.line)
    return CrashCause(message, f"{cause}.", f"Return a gradient of {expected}.", line=backward.line)


def _changes(
    backward: _Backward, element: ast.expr, node: Any, output: list[int], expected: list[int]
) -> Iterator[tuple[str, Edit]]:
    """Yield the change of a returned expression with which its shape is the expected one, described."""
    evaluator = _evaluator(backward, node, output)
    subject = element
    if isinstance(element, ast.Call) and call_name(element) in _REDUCTIONS:
        subject = call_subject(element) or element
    value = evaluator.value(subject)
    shape = [*value.shape] if isinstance(value, Tensor) else None
    source = node_text(backward.file, subject)
    source = f"({source})" if isinstance(subject, ast.BinOp) else source
    if shape is None:
        return
    if shape == expected[::-1] and len(shape) == 2 and shape != expected:
        yield "it is transposed", replace_node(backward.file, element, f"{source}.t()")
    added = len(shape) - len(expected)
    axes = [*range(added)] + [a + added for a, n in enumerate(expected) if n == 1 and shape[a + added] > 1]
    if added >= 0 and axes and list(torch.empty(shape, device="meta").sum(axes[:added]).shape) == expected:
        axis = axes[0] if len(axes) == 1 else tuple(axes)
        yield (
            f"sum over axis {axis}, along which {source} was broadcast",
            replace_node(backward.file, element, f"{source}.sum(dim={axis})"),
        )


def _evaluator(backward: _Backward, node: Any, output: list[int]) -> Evaluator:
    """Return an evaluator that knows the gradient of the output, the saved tensors and what is computed from them."""
    names: dict[str, Any] = {}
    function = backward.function
    parameters = [argument.arg for argument in function.args.args] if function is not None else []
    names.update(dict.fromkeys(parameters[1:], torch.empty(output, device="meta")))
    evaluator = Evaluator(_NoFrame(), names)  # type: ignore[arg-type]
    for statement in function.body if function is not None else ():
        if not isinstance(statement, ast.Assign):
            continue
        is_saved = ast.unparse(statement.value).endswith(("saved_tensors", "saved_variables"))
        value = _saved_tensors(node) if is_saved else evaluator.value(statement.value)
        _bind(names, statement.targets[0], value)
    return evaluator


def _bind(names: dict[str, Any], target: ast.expr, value: Any) -> None:
    if isinstance(target, ast.Name):
        names[target.id] = value
    elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (tuple, list)):
        for part, item in zip(target.elts, value, strict=False):
            _bind(names, part, item)


class _NoFrame:
    """The frame of a function that has returned: it holds no variable."""

    def lookup(self, name: str) -> Any:
        return UNKNOWN


def _saved_tensors(node: Any) -> Any:
    try:
        return node.saved_tensors
    except RuntimeError:  # freed
        return UNKNOWN


def _output_shape(node: Any) -> list[int] | None:
    metadata = getattr(node, "_input_metadata", None)
    return [int(size) for size in metadata[0].shape] if metadata else None


def _has_input_of(node: Any, position: int, shape: list[int]) -> bool:
    parent = node.next_functions[position][0] if position < len(node.next_functions) else None
    variable = getattr(parent, "variable", None)
    metadata = getattr(parent, "_input_metadata", None)
    known = [*variable.shape] if isinstance(variable, Tensor) else [*metadata[0].shape] if metadata else None
    return known == shape


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        return x * factor

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient


def bad() -> Setup:
    """A function of two inputs whose backward returns one gradient."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        scores = _Scaled.apply(setup.model(batch[0]), 2.0)  # type: ignore[no-untyped-call]
        loss = nn.functional.cross_entropy(scores, batch[1])
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step without such a function."""
    return classifier()
