"""X1036: a parameter of a lazy module is used before the first batch."""

from __future__ import annotations

import ast

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from nbdebug.crashes import Crash
from nbdebug.crashes.edits import insert_before
from nbdebug.crashes.explanation import CrashCause
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup


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
    return CrashCause(message, cause, "" if edits else "model(next(iter(loader))[0])", edits)


def _first_pass(crash: Crash) -> tuple[Edit, ...]:
    """Return the insertion of a forward pass of a tensor that the frame holds."""
    frames = [frame for frame in crash.user_frames() if isinstance(frame.statement, ast.Expr)]
    frame = next((f for f in reversed(frames) if any(isinstance(v, nn.Module) for v in f.variables.values())), None)
    if frame is None or frame.statement is None or isinstance(frame.statement, (ast.For, ast.While)):
        return ()
    models = [k for k, v in frame.variables.items() if isinstance(v, nn.Module) and any(map(is_lazy, v.parameters()))]
    inputs = [k for k, v in frame.variables.items() if type(v) is Tensor and v.is_floating_point() and v.dim() > 1]
    if len(models) != 1 or not inputs:
        return ()
    return (insert_before(frame.file, frame.statement.lineno, f"{models[0]}({inputs[0]}[:2])"),)


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
