"""O505: gradients pile up from step to step."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.graph.source import where_of
from nbdebug.loop import Loop
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier
from nbdebug.setup import Setup


@rule("O505", "error")
def zero_grad_missing(loop: Loop, *, least: int = 3, share: float = 0.5) -> Iterator[Finding]:
    """Gradients pile up from step to step: nothing clears them.

    ## What it does
    Looks whether the gradients of an optimizer are cleared at any time between two of its steps: by ``zero_grad`` of
    the optimizer or of a module, or by whatever leaves them zero or None when a backward pass begins.

    ## Why it matters
    Each step then follows the sum of all gradients so far: a momentum that nothing damps. With plain descent the loss
    may even fall faster at first, which hides it; later it swings, and no learning rate fits.

    ## How it is measured
    In your own loop, at its first eight steps and at powers of two after them. It takes ``least`` = 3 intervals that
    were looked at, of which more than a ``share`` of one half had not been cleared: to accumulate over several backward
    passes and clear after the step is no fault, nor are two optimizers that take turns.

    ## How to fix
    ``optimizer.zero_grad()`` in every round, before ``backward()`` or after ``step()``.

    ## When to ignore
    When gradients are meant to add up over steps.

    ## References
    PyTorch recipe: zeroing out gradients; documentation of torch.optim.Optimizer.zero_grad.
    """
    if loop.known < least:
        raise NotChecked(f"{loop.known} steps of your loop were looked at, which are too few")
    if loop.uncleared <= share * loop.known:
        return
    line = loop.lines.get("backward")
    yield Finding(
        message=f"At {loop.uncleared} of {loop.known} steps that were looked at the gradients of the step before were "
        "still there when backward() added to them; expected 0.",
        where=where_of(line),
        cause="Nothing in the loop calls zero_grad() between one step and the next.",
        fix="optimizer.zero_grad()   # before this line",
        evidence={"looked at": loop.known, "not cleared": loop.uncleared, "steps": loop.steps},
        explains=(
            *("O501", "O508", "O511", "G402", "G404", "G410", "G412", "T601", "T602", "T604", "T605", "T606", "T607"),
            *("T608", "T610", "E709"),
        ),
    )


def bad() -> Setup:
    """Three classes."""
    return classifier()


def bad_loop(setup: Setup) -> None:
    """Forward, backward, step, and never a zero_grad."""
    for x, y in [*setup.train_loader] * 2:
        setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
        setup.optimizers[0].step()


def good() -> Setup:
    """The same."""
    return classifier()


def good_loop(setup: Setup) -> None:
    """Cleared after each step."""
    for x, y in [*setup.train_loader] * 2:
        setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
        setup.optimizers[0].step()
        setup.optimizers[0].zero_grad()
