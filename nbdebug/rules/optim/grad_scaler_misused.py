"""O512: scaled losses without unscaled gradients, the reverse, or steps that bypass the scaler."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.grad_scaler import ScalerSteps
from nbdebug.rule_engine.loop_edits import owner_of_call
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import insert_after_statement, replace_node
from nbdebug.source.location import SourceLine, get_location
from nbdebug.source.search import enclosing_scope

_CORRECT_ORDER = "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()"
_CONSEQUENCES = (
    *("O501", "O502", "O508:limit", "O508:scaled", "G402", "G404", "G409", "G410"),
    *("T601", "T602", "T603", "T604", "T607", "T610", "G401", "G415", "M306", "M307"),
)


@rule("O512", "error")
def grad_scaler_misused(loop: LoopSummary, *, least: int = 3, share: float = 0.5) -> Iterator[Finding]:
    """A GradScaler scales the loss but the step does not unscale it, or unscales what was not scaled.

    ## What it does
    Follows each step in your own loop: whether the losses behind its gradients were scaled, whether the gradients were
    unscaled, and whether the scaler or the optimizer itself made the step.

    ## Why it matters
    Gradients that are 65,536 times too large cause steps that are too large by the same factor; gradients divided by a
    scale that was never applied cause steps that change nothing. A step that bypasses the scaler also uses infinite
    gradients.

    ## How it is measured
    Exactly, by the order of calls in the inspected steps of each optimizer: at least ``least`` = 3, and more than a
    ``share`` of one half of them. Steps that the scaler skips at the start, while it searches its scale, are correct.

    ## How to fix
    ``scaler.scale(loss).backward()``, then ``scaler.step(optimizer)``, then ``scaler.update()``.

    ## When to ignore
    When you unscale the gradients yourself; steps with unscaled gradients that bypass the scaler are a warning.

    ## References
    PyTorch notes: automatic mixed precision examples. Micikevicius et al. 2017, arXiv:1710.03740.
    """
    usage = loop.grad_scaler
    checked = [steps for steps in usage.steps if steps.checked_steps >= least]
    if not checked:
        count = max((steps.checked_steps for steps in usage.steps), default=0)
        raise NotChecked(f"only {count} steps with a GradScaler were inspected; at least {least} are needed")
    findings: dict[tuple[str, SourceLine | None], Finding] = {}
    for steps in checked:
        kinds = {"raw": steps.scaled_steps, "plain": steps.unscaled_loss_steps, "past": steps.unchecked_steps}
        worst = max(kinds, key=lambda kind: kinds[kind])
        if kinds[worst] > share * steps.checked_steps:
            findings.setdefault((worst, steps.line), _finding(worst, kinds[worst], steps, loop))
    yield from findings.values()


def _finding(kind: str, count: int, steps: ScalerSteps, loop: LoopSummary) -> Finding:
    scale = loop.grad_scaler.scale
    is_single = len(loop.grad_scaler.steps) == 1
    inspected = f"{count} of {steps.checked_steps} inspected steps{'' if is_single else ' of one optimizer'}"
    message, cause, line = {
        "raw": (
            f"{inspected} used gradients of a scaled loss without unscaling them: "
            f"they are up to {scale:,.0f} times too large.",
            "optimizer.step() is called instead of scaler.step(optimizer).",
            steps.line,
        ),
        "plain": (
            f"{inspected} divided gradients by the scale, {scale:,.0f}, although the loss was not scaled.",
            "backward() is called on the unscaled loss, but scaler.step(optimizer) makes the step.",
            loop.lines.get("backward"),
        ),
        "past": (
            f"{inspected} used unscaled gradients without the scaler's check that they are finite.",
            "optimizer.step() is called instead of scaler.step(optimizer).",
            steps.line,
        ),
    }[kind]
    return Finding(
        message=message,
        where=get_location(line),
        cause=cause,
        fix=_CORRECT_ORDER,
        edits=_scaler_edits(steps.line, loop.lines.get("backward")) if kind == "raw" else (),
        evidence={
            "looked at": steps.checked_steps,
            "scaled": steps.scaled_steps,
            "not scaled": steps.unscaled_loss_steps,
            "past the scaler": steps.unchecked_steps,
            "scale": scale,
        },
        explains=_CONSEQUENCES,
        severity="warning" if kind == "past" else None,
    )


def _scaler_edits(step: SourceLine | None, backward: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change by which the scaler of the loss makes the step; () if they are in different functions."""
    if step is None or backward is None or (step.file, step.function) != (backward.file, backward.function):
        return ()
    scaler, optimizer = owner_of_call(backward, "scale"), owner_of_call(step, "step")
    statement, scope = covering_statement(step), enclosing_scope(step)
    if scaler is None or optimizer is None or not isinstance(statement, ast.Expr) or scope is None:
        return ()
    text = f"{scaler}.step({optimizer})"
    if any(isinstance(node, ast.Call) and ast.unparse(node.func) == f"{scaler}.update" for node in ast.walk(scope)):
        return (replace_node(step.file, statement.value, text),)
    return replace_node(step.file, statement.value, text), insert_after_statement(
        step.file, statement, f"{scaler}.update()"
    )


def bad() -> Setup:
    """A classifier for three classes."""
    return classifier()


def bad_loop(setup: Setup) -> None:
    """Steps that bypass the scaler."""
    scaler = torch.amp.GradScaler("cpu")
    for x, y in [*setup.train_loader] * 2:
        setup.optimizers[0].zero_grad()
        scaler.scale(setup.loss_fn(setup.model(x), y)).backward()  # type: ignore[misc, no-untyped-call]
        setup.optimizers[0].step()


def good() -> Setup:
    """The same setup."""
    return classifier()


def good_loop(setup: Setup) -> None:
    """Steps by the scaler."""
    scaler = torch.amp.GradScaler("cpu")
    for x, y in [*setup.train_loader] * 2:
        setup.optimizers[0].zero_grad()
        scaler.scale(setup.loss_fn(setup.model(x), y)).backward()  # type: ignore[misc, no-untyped-call]
        scaler.step(setup.optimizers[0])
        scaler.update()
