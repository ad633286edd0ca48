"""P803: the loop fetches values from the device at every step."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.graph.source import where_of
from nbdebug.loop import Loop
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier
from nbdebug.setup import Setup

DEVICE = "cuda"
USUAL = 0.75  # calls a step, where each step makes one


@rule("P803", "warning")
def sync_every_step(
    setup: Setup, loop: Loop, *, least: int = 5, most: float = 1.5, device: str = DEVICE
) -> Iterator[Finding]:
    """The loop waits for the device several times in each step.

    ## What it does
    Hears each ``item()``, ``tolist()``, ``cpu()``, ``numpy()``, ``float()``, ``int()`` and ``if`` of a tensor on an
    accelerator that your own lines call, with what it took.

    ## Why it matters
    Such a call returns when the device has done all that it was asked for. Then it stands idle until Python has queued
    the next operations.

    ## How it is measured
    At the first steps and at powers of two: at least ``least`` = 5. More than ``most`` = 1.5 calls a step are a
    warning, one at nearly every step is a note: it costs little where the steps are long. Only where the model is on an
    accelerator (``device``).

    ## How to fix
    Keep tensors, ``losses.append(loss.detach())``, and fetch them together every 100 steps.

    ## When to ignore
    When a step takes much longer than Python needs to queue it.

    ## References
    PyTorch performance tuning guide: avoid unnecessary CPU-GPU synchronization.
    """
    if setup.home.type != device:
        raise NotChecked(f"the model is on {setup.home.type}, where nothing has to be waited for")
    waits = loop.waits
    if waits.known < least:
        raise NotChecked(f"{waits.known} steps of your loop were looked at, which are too few")
    calls = sum(waits.lines.values()) / waits.known
    if calls < USUAL:
        return
    line = max(waits.lines, key=lambda one: waits.lines[one])
    yield Finding(
        message=f"Each step waits {calls:.1f} times for a value from the device, at {len(waits.lines)} lines; it took "
        f"{waits.seconds / waits.known * 1e3:.2f} ms a step.",
        where=where_of(line),
        cause="item(), float(), cpu(), an if or a print of a tensor on the device ends the queue of its work.",
        fix="losses.append(loss.detach())   # and torch.stack(losses).tolist() every 100 steps",
        evidence={"calls a step": calls, "lines": [one.text.strip() for one in waits.lines][:8]},
        severity=None if calls > most else "note",
    )


def on_the_device() -> Setup:
    """Three classes, on the accelerator if there is one."""
    setup = classifier()
    setup.model.to(DEVICE if torch.cuda.is_available() else "cpu")
    return setup


def bad() -> Setup:
    """A model on the accelerator."""
    return on_the_device()


def bad_loop(setup: Setup) -> None:
    """Loss and accuracy fetched at each step."""
    for batch in [*setup.batches(4)] * 3:
        setup.optimizers[0].zero_grad()
        output, loss = setup.run(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        setup.optimizers[0].step()
        print(loss.item(), float((output.argmax(1) == batch.targets[0]).float().mean()))


def good() -> Setup:
    """The same."""
    return on_the_device()


def good_loop(setup: Setup) -> None:
    """Losses fetched together."""
    losses = []
    for batch in [*setup.batches(4)] * 3:
        setup.optimizers[0].zero_grad()
        _, loss = setup.run(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        setup.optimizers[0].step()
        losses.append(loss.detach())
    torch.stack(losses).tolist()
