"""O506: backward runs and no optimizer step follows, or one that finds no gradient."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.graph.source import Line, where_of
from nbdebug.loop import Loop
from nbdebug.registry import rule
from nbdebug.rules.loops import train
from nbdebug.rules.programs import classifier
from nbdebug.setup import Setup

CONSEQUENCES = ("G409", "G414", "G416", "O502", "T601", "T606", "T607", "T608", "T610", "E706", "E709", "L208", "M301")


@rule("O506", "error")
def step_missing(setup: Setup, loop: Loop, *, least: int = 5, share: float = 0.5) -> Iterator[Finding]:
    """Backward passes run, and no step follows them; or the gradients are cleared before the step.

    ## What it does
    Counts backward passes and steps, and the steps that found all gradients cleared since the last backward pass.

    ## Why it matters
    The weights stay what they were. The loss wanders with the batches and the batch statistics, which looks like slow
    learning.

    ## How it is measured
    In your own loop, exactly: from ``least`` = 5 backward passes on without a step that changed any parameter, or when
    more than a ``share`` of one half of the steps found nothing to follow.

    ## How to fix
    The order is ``zero_grad()``, ``backward()``, ``step()``.

    ## When to ignore
    When gradients are only measured, and nothing is to be trained.

    ## References
    PyTorch tutorial, Optimizing Model Parameters: zero_grad, backward and step in a training loop.
    """
    if loop.backwards < least:
        raise NotChecked(f"{loop.backwards} backward passes of your loop were seen, which are too few")
    evidence = {"backward passes": loop.backwards, "steps": loop.steps, "steps without gradient": loop.emptied}
    if loop.steps and loop.emptied > share * loop.followed:
        yield finding(
            f"{loop.emptied} of {loop.followed} steps found no gradient: it had been cleared after backward()",
            "zero_grad() runs between backward() and step().",
            "optimizer.zero_grad()\nloss.backward()\noptimizer.step()",
            loop.lines.get("zero_grad"),
            evidence,
        )
    elif setup.optimizers and not loop.steps and not loop.changed and not loop.scaling.skipped:
        yield finding(
            f"{loop.backwards} backward passes ran, and the optimizer never stepped",
            "The loop does not call step() of the optimizer that was given.",
            "loss.backward()\noptimizer.step()",
            loop.lines.get("backward"),
            evidence,
        )


def finding(said: str, cause: str, fix: str, line: Line | None, evidence: dict[str, int]) -> Finding:
    """One way to lose every step."""
    return Finding(f"{said}.", where_of(line), cause=cause, fix=fix, evidence=evidence, explains=CONSEQUENCES)


def bad() -> Setup:
    """Three classes."""
    return classifier()


def bad_loop(setup: Setup) -> None:
    """Cleared in the wrong place."""
    for x, y in [*setup.train_loader] * 2:
        setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
        setup.optimizers[0].zero_grad()
        setup.optimizers[0].step()


def good() -> Setup:
    """The same."""
    return classifier()


def good_loop(setup: Setup) -> None:
    """Cleared before the backward pass."""
    train(setup, 2)
