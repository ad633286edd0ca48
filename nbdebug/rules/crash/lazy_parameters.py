"""X1036: a parameter of a lazy module is used before the first batch."""

from __future__ import annotations

import ast

from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils.data import DataLoader

from nbdebug.crashes import Crash
from nbdebug.crashes.creations import crash_files
from nbdebug.crashes.evaluation import UNKNOWN, Evaluator
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.frames import CrashFrame
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import insert_before
from nbdebug.source.search import call_name, syntax_tree

_CREATING = {"randn", "rand", "zeros", "ones", "normal"}


@crash_rule("X1036")
def lazy_parameters(crash: Crash) -> CrashCause | None:
    """A lazy module is used before a batch has given its parameters their shape.

    ## What it does
    Looks for lazy modules in the models of the user's frames.

    ## Why it matters
    The parameter has no values yet.

    ## How it is measured
    Exactly, by the type of the parameters.

    ## How to fix
    Run one batch through the model first.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.nn.LazyLinear.
    """
    if "uninitialized" not in crash.message.lower() and "lazy" not in crash.message.lower():
        return None
    candidates = [*crash.modules, *crash.models]
    names = [
        f"{type(m).__name__}"
        for c in candidates
        for m in c.modules()
        if any(is_lazy(p) for p in m._parameters.values() if p is not None)
    ]
    if not names:
        return None
    message = f"The lazy layer {names[0]} has uninitialized parameters: no batch has given them their shape yet."
    cause = "Its input size is read from the first batch: run one batch through the model before this line."
    edits = _first_pass(crash)
    fix = "" if edits else "model(next(iter(loader))[0])"
    return CrashCause(message, cause, fix, edits, line=crash.line)


def _first_pass(crash: Crash) -> tuple[Edit, ...]:
    """Return the insertion of a forward pass before the statement of the function that holds the model."""
    for frame in reversed(list(crash.user_frames())):
        modules = {k: v for k, v in frame.variables.items() if isinstance(v, nn.Module)}
        models = {k: v for k, v in modules.items() if k != "self" and any(map(is_lazy, v.parameters()))}
        statement = frame.statement
        if not models or statement is None or isinstance(statement, (ast.For, ast.While)):
            continue
        name = max(models, key=lambda name: sum(1 for _ in models[name].modules()))
        source = _input(crash, frame, name)
        if source:
            return (insert_before(frame.file, statement.lineno, f"{name}({source})"),)
    return ()


def _input(crash: Crash, frame: CrashFrame, name: str) -> str:
    """Return the source of an input of the model: a tensor or a loader of the frame, or zeros of a known shape."""
    for key, value in frame.variables.items():
        if type(value) is Tensor and value.is_floating_point() and value.dim() > 1 and not key.startswith("_"):
            return f"{key}[:2]"
        if isinstance(value, DataLoader):
            return f"next(iter({key}))[0]"
    for file in sorted(crash_files(crash)):
        calls = [node for node in ast.walk(syntax_tree(file) or ast.Module([], [])) if isinstance(node, ast.Call)]
        for call in calls:
            if _last_name(call.func) in (name, "model", "net") and len(call.args) == 1:
                for made in _sources(file, call.args[0], calls):
                    shape = _shape(crash, made)
                    if shape:
                        return f"torch.zeros({', '.join(map(str, (2, *shape[1:])))})"
    return ""


def _last_name(node: ast.expr) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _sources(file: str, argument: ast.expr, calls: list[ast.Call]) -> list[ast.Call]:
    """Return the calls that may create what is passed to the model, those in the argument first."""
    own = [node for node in ast.walk(argument) if isinstance(node, ast.Call) and call_name(node) in _CREATING]
    return [*own, *(call for call in calls if call_name(call) in _CREATING)]


def _shape(crash: Crash, call: ast.Call) -> list[int]:
    """Return the sizes in a call that creates a tensor of floating-point numbers; empty if they are unknown."""
    arguments: list[ast.expr] = list(call.args)
    if len(arguments) == 1 and isinstance(arguments[0], (ast.Tuple, ast.List)):
        arguments = list(arguments[0].elts)
    values: list[object] = []
    for argument in arguments:
        known = [Evaluator(frame).value(argument) for frame in crash.user_frames()]
        values.append(next((value for value in known if isinstance(value, int)), 2 if not values else UNKNOWN))
    sizes = [value for value in values if isinstance(value, int)]
    return sizes if len(sizes) == len(values) > 1 else []


def bad() -> Setup:
    """A lazy layer whose weight is read."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        layer = nn.LazyLinear(3)
        layer.weight.mean()
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step that runs."""
    return classifier()
