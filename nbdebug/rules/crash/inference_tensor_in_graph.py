"""X1044: a tensor of inference mode meets an operation that records a graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.creations import crash_files
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.repairs import wrap_operand
from nbdebug.finding import Edit
from nbdebug.formatting import join_names
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import node_text, replace_node
from nbdebug.source.search import syntax_tree
from nbdebug.tensors.pytree import tree_tensors

_MODE = "inference_mode"


@crash_rule("X1044")
def inference_tensor_in_graph(crash: Crash) -> CrashCause | None:
    """A tensor that was made in inference mode is used where gradients are recorded.

    ## What it does
    Looks for tensors of inference mode among the operands, and for the function or block of yours that runs in it.

    ## Why it matters
    Such a tensor has no version counter, so autograd cannot save it for the backward pass.

    ## How it is measured
    Exactly, by ``Tensor.is_inference``.

    ## How to fix
    Use ``torch.no_grad()`` where the results are trained on, or ``clone()`` the tensor outside of inference mode.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.autograd.grad_mode.inference_mode.
    """
    if "nference tensor" not in crash.message:
        return None
    operands = [(node, value) for node, value in crash.tensors if value.is_inference()]
    met = [*(value for _, value in operands), *tree_tensors(crash.layer_arguments)]
    tensor = next((value for value in met if value.is_inference()), None)
    shown = f", {describe_tensor(tensor)}," if tensor is not None else ""
    message = f"A tensor that was made in inference mode{shown} meets an operation that records a graph."
    contexts = [*_contexts(crash)]
    names_called = _called_names(crash)
    called = [context for context in contexts if context[2] in names_called]
    contexts = called or contexts
    if not contexts:
        node = operands[0][0] if operands else crash.input_node
        edits = wrap_operand(crash, node, "{}.clone()") if node is not None else ()
        return CrashCause(message, "It has no version counter; a clone has one.", edits=edits)
    names = [*dict.fromkeys(name for _, _, name, _ in contexts)]
    cause = (
        f"{join_names(names)} {'runs' if len(names) == 1 else 'run'} in inference mode. With no_grad(), results are "
        "ordinary tensors without a graph, on which further layers can be trained."
    )
    edit = contexts[0][3]
    return CrashCause(
        message, cause, edits=(edit,) if len(contexts) == 1 else (), fix="" if len(contexts) == 1 else _FIX
    )


_FIX = "Use torch.no_grad() instead of torch.inference_mode() where the results are trained on."


def _contexts(crash: Crash) -> Iterator[tuple[str, ast.expr, str, Edit]]:
    """Yield the uses of inference mode: the file, the expression, the function that runs in it, and its edit."""
    for file in sorted(crash_files(crash)):
        for node in ast.walk(syntax_tree(file) or ast.Module([], [])):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                own = [part for part in _walk_own(node) if isinstance(part, ast.With)]
                expressions = [*node.decorator_list, *(item.context_expr for part in own for item in part.items)]
                for expression in expressions:
                    if _MODE in ast.unparse(expression):
                        text = "torch.no_grad()" if isinstance(expression, ast.Call) else "torch.no_grad"
                        yield file, expression, _shown_name(file, node), replace_node(file, expression, text)
            elif isinstance(node, ast.Module):
                blocks = [part for part in node.body if isinstance(part, ast.With)]
                for expression in (item.context_expr for part in blocks for item in part.items):
                    if _MODE in ast.unparse(expression):
                        name = f"The block in line {expression.lineno} ({node_text(file, expression)})"
                        yield file, expression, name, replace_node(file, expression, "torch.no_grad()")


def _walk_own(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function that are not inside a function or class that it defines."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node
            yield from _walk_own(node)


def _shown_name(file: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    tree = syntax_tree(file) or ast.Module([], [])
    owners = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and function in node.body]
    return f"{owners[0]}.{function.name}" if owners else function.name


def _called_names(crash: Crash) -> set[str]:
    """Return the functions that the user's innermost statement may run: those that it names, and methods of objects."""
    names: set[str] = set()
    for node in ast.walk(crash.node) if crash.node is not None else ():
        if isinstance(node, ast.Call):
            value = crash.value(node.func)
            names |= {f"{kind.__name__}.__call__" for kind in type(value).__mro__}
            names.add(str(getattr(value, "__qualname__", "")))
    return names


def bad() -> Setup:
    """Features of inference mode that a layer is trained on."""
    return _stepping(is_inference=True)


def good() -> Setup:
    """Features without a graph that a layer is trained on."""
    return classifier()


def _stepping(is_inference: bool) -> Setup:
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        with torch.inference_mode(is_inference):
            features = batch[0] * 2
        return nn.functional.cross_entropy(setup.model(features), batch[1])

    setup.step_fn = step
    return setup
