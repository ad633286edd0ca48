"""P803: the loop synchronizes with the device several times per step."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from nbdebug.source.location import get_location

DEVICE = "cuda"
_MIN_CALLS_PER_STEP = 0.75  # calls per step, if about every step makes one


@rule("P803", "warning", affects_learning=False)
def sync_every_step(
    setup: Setup, loop: LoopSummary, *, least: int = 5, most: float = 1.5, device: str = DEVICE
) -> Iterator[Finding]:
    """The loop synchronizes with the device several times per step.

    ## What it does
    Records each ``item()``, ``tolist()``, ``cpu()``, ``numpy()``, ``float()``, ``int()`` and ``if`` of a tensor on an
    accelerator that your own code calls, and its duration. Calls after a validation batch are left out.

    ## Why it matters
    Such a call returns when the device has finished all queued operations. Then the device is idle until Python has
    queued the next operations.

    ## How it is measured
    At the first steps and at powers of two: at least ``least`` = 5. More than ``most`` = 1.5 calls per step are a
    warning, one at almost every step is a note: it costs little if the steps are long. Only if the model is on an
    accelerator (``device``).

    ## How to fix
    Store tensors, ``losses.append(loss.detach())``, and transfer them together every 100 steps.

    ## When to ignore
    When a step takes much longer on the device than Python needs to queue it.

    ## References
    PyTorch performance tuning guide: avoid unnecessary CPU-GPU synchronization.
    """
    if setup.model_device.type != device:
        raise NotChecked(f"the model is on {setup.model_device.type}, where no synchronization is needed")
    syncs = loop.device_syncs
    if syncs.checked_steps < least:
        raise NotChecked(f"only {syncs.checked_steps} steps of your loop were inspected; at least {least} are needed")
    calls = sum(syncs.lines.values()) / syncs.checked_steps
    if calls < _MIN_CALLS_PER_STEP:
        return
    line = max(syncs.lines, key=lambda code_line: syncs.lines[code_line])
    milliseconds = 1e3 * syncs.seconds / syncs.checked_steps
    yield Finding(
        message=f"Each step waits {calls:.1f} times for a value from the device, at {len(syncs.lines)} lines, which "
        f"takes {milliseconds:.2f} ms per step.",
        where=get_location(line),
        cause="item(), float(), cpu(), an if or a print of a tensor on the device wait until its queue is empty.",
        fix="losses.append(loss.detach())   # and torch.stack(losses).tolist() every 100 steps",
        evidence={
            "calls per step": calls,
            "wait in ms": milliseconds,
            "lines": [code_line.text.strip() for code_line in syncs.lines][:8],
        },
        severity=None if calls > most else "note",
    )


def _setup_on_device() -> Setup:
    """Three classes, on the accelerator if there is one."""
    setup = classifier()
    setup.model.to(DEVICE if torch.cuda.is_available() else "cpu")
    return setup


def bad() -> Setup:
    """A model on the accelerator."""
    return _setup_on_device()


def bad_loop(setup: Setup) -> None:
    """Transfers loss and accuracy at each step."""
    for batch in [*setup.batches(4)] * 3:
        setup.optimizers[0].zero_grad()
        output, loss = setup.output_and_loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        setup.optimizers[0].step()
        print(loss.item(), float((output.argmax(1) == batch.targets[0]).float().mean()))


def good() -> Setup:
    """The same model."""
    return _setup_on_device()


def good_loop(setup: Setup) -> None:
    """Transfers the losses together."""
    losses = []
    for batch in [*setup.batches(4)] * 3:
        setup.optimizers[0].zero_grad()
        _, loss = setup.output_and_loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        setup.optimizers[0].step()
        losses.append(loss.detach())
    torch.stack(losses).tolist()
