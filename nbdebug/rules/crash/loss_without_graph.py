"""X1019: backward() is called on a tensor that no gradient can reach."""

from __future__ import annotations

import ast

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.edits import node_text, replace_node
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.frames import CrashFrame
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.crash.backward_of_many_values import loss_node, loss_tensor
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.location import SourceLine, is_user_code
from nbdebug.source.search import call_name, enclosing_scope, function_node, read_names, syntax_tree

_CUTTING = {
    "detach": "detach() cuts it off from the model",
    "item": "item() makes a number of it, without a graph",
    "argmax": "argmax has no gradient: it gives an index",
    "numpy": "numpy() leaves torch and its graph",
    "tolist": "tolist() leaves torch and its graph",
    "round": "round has the gradient zero",
    "float": "float() makes a number of it, without a graph",
    "sign": "sign has the gradient zero",
    "tensor": "torch.tensor() copies values, without their graph",
    "Tensor": "torch.Tensor() copies values, without their graph",
    "as_tensor": "it is made of numbers, without a graph",
    "long": "integers have no gradient",
    "int": "integers have no gradient",
    "bool": "truth values have no gradient",
}


@crash_rule("X1019", explains=("L216", "M305", "L213"))
def loss_without_graph(crash: Crash) -> CrashCause | None:
    """The loss does not depend on any tensor that requires a gradient, as far as torch knows.

    ## What it does
    Reads the loss, the parameters of the models in the user's frames, and the code that computes the loss, and names
    what cuts the graph: ``detach``, ``item``, ``argmax``, a copy as a new tensor, ``no_grad``, or frozen parameters.

    ## Why it matters
    The backward pass cannot run, and nothing would be trained.

    ## How it is measured
    The loss has no ``grad_fn``. If no parameter requires a gradient, that is the cause; otherwise the expressions that
    the loss is computed from are followed from assignment to assignment, up to the first that cuts the graph.

    ## How to fix
    Compute the loss from the output of the model itself.

    ## When to ignore
    Never: a backward pass without a graph cannot run.

    ## References
    Documentation of torch.autograd, sections on locally disabling gradient computation.
    """
    tensor, node = loss_tensor(crash), loss_node(crash)
    if not isinstance(tensor, Tensor) or tensor.requires_grad or tensor.grad_fn is not None or crash.own is None:
        return None
    if crash.phase != "backward pass" or "grad" not in crash.message:
        return None
    text = crash.text(node) if node is not None else "the loss"
    message = f"{text} has no grad_fn: it is {describe_tensor(tensor)}, and no operation with a gradient made it."
    for cause, line, edits, fix in (_frozen(crash), _cut(crash, node), _no_grad(crash)):
        if cause:
            return CrashCause(message, cause, "" if edits else fix, edits, line=line)
    cause = "The graph is cut before the loss: by detach(), no_grad(), numbers or indices made of the output."
    return CrashCause(message, cause, "# compute the loss from the output of the model itself")


_Found = tuple[str, "SourceLine | None", tuple[Edit, ...], str]


def _frozen(crash: Crash) -> _Found:
    parameters = [p for model in crash.models for p in model.parameters()]
    if not parameters or any(p.requires_grad for p in parameters):
        return "", None, (), ""
    cause = f"All {len(parameters)} parameters of the model have requires_grad=False: everything is frozen."
    for file in {frame.file for frame in crash.user_frames()}:
        for node in ast.walk(syntax_tree(file) or ast.Module([], [])):
            if isinstance(node, ast.Call) and call_name(node) == "requires_grad_" and node.args:
                return f"{cause} requires_grad_(False) freezes them.", SourceLine(file, node.lineno), (), _unfreeze()
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "attr", "") == "requires_grad":
                return cause, SourceLine(file, node.lineno), (), _unfreeze()
    return cause, None, (), _unfreeze()


def _unfreeze() -> str:
    return "for parameter in model.head.parameters():\n    parameter.requires_grad = True  # of the part to train"


def _cut(crash: Crash, node: ast.expr | None) -> _Found:
    """Return the first expression, from the loss backwards, that cuts the graph."""
    frames = list(crash.user_frames())
    if node is None or not frames:
        return "", None, (), ""
    pending: list[tuple[CrashFrame, ast.AST]] = [(frames[0], node)]
    visited: set[int] = set()
    while pending:
        frame, current = pending.pop(0)
        if id(current) in visited:
            continue
        visited.add(id(current))
        for part in ast.walk(current):
            name = call_name(part)
            if isinstance(part, ast.Call) and name in _CUTTING and _is_about_output(part):
                text, number = node_text(frame.file, part), part.lineno
                cause = f"{_CUTTING[name]}: {text}."
                return cause, SourceLine(frame.file, number), _uncut(frame.file, part, name), f"# without {name}()"
        scope = enclosing_scope(frame.line)
        names = read_names(current)
        for statement in ast.walk(scope) if scope is not None else ():
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            value = getattr(statement, "value", None)
            if isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and value is not None:
                assigned = {n.id for t in targets if t is not None for n in ast.walk(t) if isinstance(n, ast.Name)}
                if assigned & names and statement.lineno <= frame.number:
                    pending.append((frame, value))
        for part in ast.walk(current):
            pending += _body(frame, part)
    return "", None, (), ""


def _body(frame: CrashFrame, part: ast.AST) -> list[tuple[CrashFrame, ast.AST]]:
    """Return the code of a function of the user that an expression calls."""
    from nbdebug.crashes.evaluation import Evaluator

    if not isinstance(part, ast.Call):
        return []
    function = Evaluator(frame).value(part.func)
    if isinstance(function, nn.Module):
        function = type(function).forward
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    definition = function_node(function) if code is not None and is_user_code(code.co_filename) else None
    return [(frame, definition)] if definition is not None else []


def _is_about_output(call: ast.Call) -> bool:
    """Exclude conversions of constants and of labels, which no gradient needs to pass."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if call_name(call) in ("float", "int", "bool", "long") and (owner is None or not read_names(owner)):
        return False
    texts = {name.lower() for name in read_names(call)}
    return not texts & {"y", "labels", "label", "targets", "target", "yb", "np"}


def _uncut(file: str, call: ast.Call, name: str) -> tuple[Edit, ...]:
    """Return the edit that leaves a cutting call out, where its operand can stand for it."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if name in ("detach", "item", "round", "float") and owner is not None and read_names(owner) != {"torch"}:
        return (replace_node(file, call, node_text(file, owner)),)
    if name in ("tensor", "Tensor", "as_tensor") and call.args:
        argument = call.args[0]
        if isinstance(argument, (ast.List, ast.Tuple)):
            return (replace_node(file, call, f"torch.stack({node_text(file, argument)})"),)
        return (replace_node(file, call, node_text(file, argument)),)
    return ()


def _no_grad(crash: Crash) -> _Found:
    for file in {frame.file for frame in crash.user_frames()}:
        for node in ast.walk(syntax_tree(file) or ast.Module([], [])):
            items = node.items if isinstance(node, ast.With) else []
            decorators = getattr(node, "decorator_list", [])
            expressions = [item.context_expr for item in items] + list(decorators)
            for expression in expressions:
                if any(word in ast.unparse(expression) for word in ("no_grad", "inference_mode", "set_grad_enabled")):
                    line = SourceLine(file, expression.lineno)
                    cause = f"The output is computed under {ast.unparse(expression)}, which records no graph."
                    return cause, line, (), "# call the model outside of no_grad() in training"
    return "", None, (), ""


def bad() -> Setup:
    """A step whose loss is made of a number."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        loss = nn.functional.cross_entropy(setup.model(batch[0]).detach(), batch[1])
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step with a graph."""
    return classifier()
