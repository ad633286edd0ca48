"""O512: losses are scaled and gradients not unscaled, or the other way round, or the scaler is stepped past."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.graph.source import where_of
from nbdebug.loop import Loop
from nbdebug.loop.scaling import Scaling
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier
from nbdebug.setup import Setup

ORDER = "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()"


@rule("O512", "error")
def grad_scaler_misused(loop: Loop, *, least: int = 3, share: float = 0.5) -> Iterator[Finding]:
    """A GradScaler scales the loss and the step does not undo it, or undoes what was never done.

    ## What it does
    Follows each step in your own loop: whether the losses behind its gradients were scaled, whether the gradients were
    unscaled, and whether the step was made by the scaler or by the optimizer itself.

    ## Why it matters
    Gradients that are 65,536 times too large make steps that are as much too large; those divided by a scale that they
    were never multiplied by make steps that move nothing. A step past the scaler takes infinite gradients too.

    ## How it is measured
    In order, exactly, at the steps that are looked at: at least ``least`` = 3, and more than a ``share`` of one half of
    them. Steps that the scaler leaves out at the start, while it finds its scale, are as they should be.

    ## How to fix
    ``scaler.scale(loss).backward()``, then ``scaler.step(optimizer)``, then ``scaler.update()``.

    ## When to ignore
    When you unscale the gradients yourself; steps that take unscaled gradients past the scaler are a warning.

    ## References
    PyTorch notes: automatic mixed precision examples. Micikevicius et al. 2017, arXiv:1710.03740.
    """
    seen = loop.scaling
    if seen.known < least:
        raise NotChecked(f"{seen.known} steps of a loop with a GradScaler were looked at, which are too few")
    kinds = {"raw": seen.raw, "plain": seen.plain, "past": seen.past}
    worst = max(kinds, key=lambda kind: kinds[kind])
    if kinds[worst] > share * seen.known:
        yield finding(worst, kinds[worst], loop)


def finding(kind: str, count: int, loop: Loop) -> Finding:
    """One way to misuse it."""
    seen: Scaling = loop.scaling
    of = f"{count} of {seen.known} steps that were looked at"
    message, cause, line = {
        "raw": (
            f"{of} used gradients of a scaled loss as they were: up to {seen.scale:,.0f} times too large.",
            "optimizer.step() is called where scaler.step(optimizer) is meant.",
            loop.lines.get("optimizer"),
        ),
        "plain": (
            f"{of} divided by the scale, {seen.scale:,.0f}, gradients of a loss that was not scaled.",
            "backward() is called on the loss itself, and the step is made by the scaler.",
            loop.lines.get("backward"),
        ),
        "past": (
            f"{of} used gradients that were unscaled, and did not ask the scaler whether they are finite.",
            "optimizer.step() is called where scaler.step(optimizer) is meant.",
            loop.lines.get("optimizer"),
        ),
    }[kind]
    return Finding(
        message=message,
        where=where_of(line),
        cause=cause,
        fix=ORDER,
        evidence={"looked at": seen.known, "scaled": seen.raw, "not scaled": seen.plain, "past the scaler": seen.past},
        explains=("O501", "O502", "O508", "G402", "G404", "G409", "G410", "T601", "T602", "T603", "T604", "T607"),
        severity="warning" if kind == "past" else None,
    )


def bad() -> Setup:
    """Three classes."""
    return classifier()


def bad_loop(setup: Setup) -> None:
    """Stepped past the scaler."""
    scaler = torch.amp.GradScaler("cpu")
    for x, y in [*setup.train_loader] * 2:
        setup.optimizers[0].zero_grad()
        scaler.scale(setup.loss_fn(setup.model(x), y)).backward()  # type: ignore[misc, no-untyped-call]
        setup.optimizers[0].step()


def good() -> Setup:
    """The same."""
    return classifier()


def good_loop(setup: Setup) -> None:
    """Stepped by the scaler."""
    scaler = torch.amp.GradScaler("cpu")
    for x, y in [*setup.train_loader] * 2:
        setup.optimizers[0].zero_grad()
        scaler.scale(setup.loss_fn(setup.model(x), y)).backward()  # type: ignore[misc, no-untyped-call]
        scaler.step(setup.optimizers[0])
        scaler.update()
