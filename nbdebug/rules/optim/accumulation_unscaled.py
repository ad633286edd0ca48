"""O511: the losses of several batches are summed up for a step and not divided by their number."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.graph.source import where_of
from nbdebug.loop import Loop
from nbdebug.registry import rule
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Setup


@rule("O511", "warning")
def accumulation_unscaled(loop: Loop, *, least: int = 3, share: float = 0.5) -> Iterator[Finding]:
    """Gradients of several batches are summed up for each step, and no loss is divided by their number.

    ## What it does
    Counts the backward passes that reach an optimizer's parameters between two of its steps, and reads off the graph
    whether the loss was divided or multiplied before each.

    ## Why it matters
    The sum over k batches is k times the gradient of one large batch: the rate is k times what was set, a limit on the
    norm bites k times as hard, and a run that was tuned without accumulation diverges with it.

    ## How it is measured
    Exactly, at the steps that are looked at: at least ``least`` = 3, of which more than a ``share`` of one half took
    two or more backward passes of one line, each with a batch of its own from the training loader, of losses that
    nothing divided and that are no sums over samples. Optimizers to which a constant factor means nothing, as to Adam,
    draw a note, unless the norm is clipped.

    ## How to fix
    ``(loss / k).backward()``.

    ## When to ignore
    When the rate was chosen for the sum.

    ## References
    Goyal et al. 2017, arXiv:1706.02677, section 3: the loss of a batch in parts, and its normalization.
    """
    sums = loop.sums
    if sums.known < least:
        raise NotChecked(f"{sums.known} steps of your loop were looked at, which are too few")
    if sums.plain < least or sums.plain <= share * sums.known:
        return
    minds = not sums.adaptive or loop.clips.calls > 0
    yield Finding(
        message=f"{sums.plain} of {sums.known} steps that were looked at sum up the gradients of {sums.passes} "
        f"batches, and no loss is divided: each step is {sums.passes} times that of one large batch.",
        where=where_of(sums.line),
        cause="backward() adds to the gradients; it does not average.",
        fix=f"(loss / {sums.passes}).backward()",
        evidence={"looked at": sums.known, "summed up": sums.plain, "batches": sums.passes},
        explains=("O501", "O508", "G402", "G410", "T602", "T604", "T605"),
        severity=None if minds else "note",
    )


def bad() -> Setup:
    """Three classes and plain descent."""
    model = network(3)
    optimizers = (torch.optim.SGD(model.parameters(), lr=0.1),)
    return program(model, *points(), torch.nn.CrossEntropyLoss(), optimizers=optimizers)


def bad_loop(setup: Setup, parts: int = 1) -> None:
    """A step after two batches."""
    for _ in range(4):
        for number, (x, y) in enumerate(setup.train_loader):
            loss = setup.loss_fn(setup.model(x), y)  # type: ignore[misc]
            (loss / parts if parts > 1 else loss).backward()
            if number % 2:
                setup.optimizers[0].step()
                setup.optimizers[0].zero_grad()


def good() -> Setup:
    """The same."""
    return bad()


def good_loop(setup: Setup) -> None:
    """Half of each loss."""
    bad_loop(setup, parts=2)
