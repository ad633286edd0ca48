"""P802: the device is idle between small operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import nn

from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import mlp, rings, training_setup
from nbdebug.setup import Setup
from nbdebug.source.location import get_location

if TYPE_CHECKING:
    from nbdebug.tools.profile import Profile

_KINDS = ("batch size", "module", "loss")


@rule("P802", "warning", affects_learning=False)
def idle_device(profile: Profile) -> Iterator[Finding]:
    """The device is idle between small operations.

    ## What it does
    Runs the training step on larger batches, counts the operations of Python loops in the model and the loss, and
    compares their time with the least time that so many operations and bytes take on this device.

    ## Why it matters
    Each operation has a fixed cost: Python, the dispatcher and the launch. On small tensors the device waits for that,
    and a larger batch takes hardly more time.

    ## How it is measured
    ``profile()`` finds a larger batch with at least twice the throughput, or a loop whose operations on whole tensors
    would gain at least 1.3 times. The steps run on copies of the state, interleaved with the present one.

    ## How to fix
    Increase ``batch_size`` and choose the learning rate again, or replace the Python loop by operations on whole
    tensors.

    ## When to ignore
    When the batch size is chosen for generalization, or memory allows no larger one.

    ## References
    Williams, Waterman and Patterson 2009, Roofline, doi:10.1145/1498765.1498785. PyTorch performance tuning guide.
    """
    for advice in profile.advice:
        if advice.kind in _KINDS:
            verb = "was measured" if advice.is_measured else "is predicted"
            yield Finding(
                message=f"{advice.headline} The change {verb} to gain {advice.gain:.1f} times the throughput.",
                where=get_location(advice.line),
                cause=advice.cause,
                fix=advice.code,
                evidence={"gain": advice.gain, "batch size": profile.batch_size, "device": profile.device},
            )


def _setup(batch_size: int, width: int) -> Setup:
    """A classifier in memory."""
    model, data = mlp(8, width, width, 2), rings(2048)
    return training_setup(model, data, rings(64, seed=1), nn.CrossEntropyLoss(), lr=1e-3, batch_size=batch_size)


def bad() -> Setup:
    """Batches of two samples."""
    return _setup(2, 64)


def good() -> Setup:
    """Batches that keep the processor busy."""
    return _setup(256, 512)
