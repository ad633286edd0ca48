"""X1045: a function that vmap maps asks for the value of a tensor."""

from __future__ import annotations

import ast
import linecache

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.explanation import CrashCause
from nbdebug.finding import Edit
from nbdebug.formatting import truncate
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import node_text, replace_node
from nbdebug.source.search import covers_line, enclosing_scope


@crash_rule("X1045")
def mapped_control_flow(crash: Crash) -> CrashCause | None:
    """A function that ``vmap`` maps decides by the value of a tensor, or makes a Python number of it.

    ## What it does
    Names the expression that needs a value, and writes a choice between two results as ``torch.where``.

    ## Why it matters
    ``vmap`` runs the function once for all samples, so that there is no single value to decide by.

    ## How it is measured
    Exactly: the exception is raised inside ``vmap``, in a condition or a conversion to a number.

    ## How to fix
    Compute both results and choose with ``torch.where(condition, first, second)``; keep numbers as tensors.

    ## When to ignore
    Never: the function cannot be mapped.

    ## References
    Documentation of torch.func, section UX limitations: data-dependent Python control flow.
    """
    is_mapped = any(frame.is_in("_functorch/") for frame in crash.frames)
    if crash.own is None or not is_mapped or not crash.message.startswith("vmap:"):
        return None
    choice = _choice(crash)
    node = choice.test if choice is not None else crash.node
    text = truncate(crash.text(node), 60) if node is not None else "An expression"
    message = f"{text} needs the value of a tensor, inside a function that vmap maps over its samples."
    cause = "vmap runs the function once for all samples, each with a value of its own"
    if choice is None:
        cause += ": keep it a tensor, without item(), float() or bool()."
        return CrashCause(message, cause, "Leave the conversion out, or choose with torch.where(condition, a, b).")
    cause += ", so that an if cannot choose between them: torch.where computes both and chooses for each."
    edit = _where(crash, choice)
    return CrashCause(message, cause, "" if edit else "torch.where(condition, a, b)", (edit,) if edit else ())


def _choice(crash: Crash) -> ast.If | None:
    """Return the ``if`` whose condition raised."""
    scope = enclosing_scope(crash.own.line) if crash.own is not None else None
    choices = [node for node in (ast.walk(scope) if scope is not None else ()) if isinstance(node, ast.If)]
    return next((node for node in choices if crash.own and covers_line(node.test, crash.own.number)), None)


def _where(crash: Crash, choice: ast.If) -> Edit | None:
    """Return the edit of a choice between two results, or between two values of a variable, as ``torch.where``."""
    assert crash.own is not None
    file, scope = crash.own.file, enclosing_scope(crash.own.line)
    first, last = choice.body[0], choice.orelse[0] if choice.orelse else _next_statement(scope, choice)
    if len(choice.body) != 1 or len(choice.orelse) > 1 or last is None:
        return None
    values = [getattr(statement, "value", None) for statement in (first, last)]
    if not all(isinstance(value, ast.expr) for value in values) or type(first) is not type(last):
        return None
    texts = [node_text(file, value) for value in values if value is not None]
    chosen = f"torch.where({node_text(file, choice.test)}, {', '.join(texts)})"
    if isinstance(first, ast.Return):
        text = f"return {chosen}"
    elif isinstance(first, ast.Assign) and isinstance(last, ast.Assign) and choice.orelse:
        targets = [node_text(file, statement.targets[0]) for statement in (first, last)]
        if targets[0] != targets[1]:
            return None
        text = f"{targets[0]} = {chosen}"
    else:
        return None
    end = last.end_lineno or last.lineno
    column = len(linecache.getline(file, choice.lineno)) - len(linecache.getline(file, choice.lineno).lstrip())
    return Edit(file, choice.lineno, column, end, replace_node(file, last, "").end_column, text)


def _next_statement(scope: ast.AST | None, statement: ast.stmt) -> ast.stmt | None:
    for node in ast.walk(scope) if scope is not None else ():
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(body, list) and statement in body and statement is not body[-1]:
                following = body[body.index(statement) + 1]
                return following if isinstance(following, ast.stmt) else None
    return None


def bad() -> Setup:
    """A loss of each sample that decides by its value."""
    return _stepping()


def good() -> Setup:
    """A step without vmap."""
    return classifier()


def _sample_loss(score: Tensor) -> Tensor:
    if score.sum() > 1:
        return score.sum()
    return score.square().sum()


def _stepping() -> Setup:
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        losses: Tensor = torch.func.vmap(_sample_loss)(setup.model(batch[0]))
        return losses.mean()

    setup.step_fn = step
    return setup
