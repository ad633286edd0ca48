"""P804: graphs of steps that are over are kept alive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.graph.source import where_of
from nbdebug.loop import Loop
from nbdebug.loop.keepers import keeper
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier
from nbdebug.setup import Setup


@rule("P804", "error")
def growing_memory(loop: Loop, *, least: int = 12, share: float = 0.75) -> Iterator[Finding]:
    """Memory grows from step to step, since graphs of steps that are over are kept alive.

    ## What it does
    Hangs an object on the graph behind each output, which lives exactly as long as that graph, and counts how many of
    the last steps' are still alive.

    ## Why it matters
    A loss that is added to a total, or put into a list, takes along all that it was computed from. The run slows down,
    and ends for lack of memory after hours.

    ## How it is measured
    Exactly, over up to 64 passes, at the steps that are looked at and at the end. It takes ``least`` = 12 graphs that
    are alive though two more steps were made, and a ``share`` of three quarters of all: the last loss, those of one
    accumulation and those of an episode that is still to be learned from do not count. A graph whose backward pass has
    run has given up its activations; it is a warning then. Where no optimizer steps, backward passes count as steps.

    ## How to fix
    ``total += loss.item()``, ``losses.append(loss.detach())``.

    ## When to ignore
    When a later backward pass is to go through all those steps.

    ## References
    PyTorch FAQ: my model reports "cuda runtime error(2): out of memory": don't accumulate history across your training
    loop.
    """
    if (steps := loop.steps or loop.backwards) < least:
        raise NotChecked(f"{steps} steps of your loop were seen, which are too few")
    held = loop.held
    if held.alive < least or held.alive < share * held.among:
        return
    found = keeper(loop)
    name, line = found if found else ("", None)
    yield Finding(
        message=f"The graphs of {held.alive} of {held.among} passes are still alive though their steps are over; "
        "expected 1 at most.",
        where=where_of(line),
        cause=f"{name} keeps a tensor of each step together with all that it was computed from."
        if found
        else "Something keeps a tensor of each step with its graph: a total, a list, or a state that is carried on.",
        fix=f"{name}: keep loss.item() or loss.detach(), not the loss itself"
        if found
        else "loss.detach()   # where losses are kept\nstate = state.detach()   # before the next step",
        evidence={"alive": held.alive, "passes": held.among, "activations kept": held.full},
        severity=None if held.full else "warning",
    )


def bad() -> Setup:
    """Three classes."""
    return classifier()


def bad_loop(setup: Setup) -> None:
    """A total with the history of each loss."""
    total: Any = 0.0
    for x, y in [*setup.train_loader] * 5:
        setup.optimizers[0].zero_grad()
        loss = setup.loss_fn(setup.model(x), y)  # type: ignore[misc]
        loss.backward()
        setup.optimizers[0].step()
        total += loss


def good() -> Setup:
    """The same."""
    return classifier()


def good_loop(setup: Setup) -> None:
    """A total of numbers."""
    total = 0.0
    for x, y in [*setup.train_loader] * 5:
        setup.optimizers[0].zero_grad()
        loss = setup.loss_fn(setup.model(x), y)  # type: ignore[misc]
        loss.backward()
        setup.optimizers[0].step()
        total += loss.item()
