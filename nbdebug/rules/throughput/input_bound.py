"""P801: the step waits for data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import mlp, rings, training_setup
from nbdebug.setup import Setup
from nbdebug.source.location import get_location

if TYPE_CHECKING:
    from nbdebug.tools.profile import Profile


@rule("P801", "warning", affects_learning=False)
def input_bound(profile: Profile, *, least: float = 1.3) -> Iterator[Finding]:
    """The training step waits for data.

    ## What it does
    Measures how long each step waits for its batch, and how long the same step takes on cached batches.

    ## Why it matters
    The device is idle while the loader reads, decodes and augments. Cached batches show the ceiling: what the best
    loader could gain.

    ## How it is measured
    ``profile()`` times the wait for each batch of the loop. Without that wait the throughput would be at least
    ``least`` = 1.3 times as high. If the loader reads its dataset by index, the same steps run with 2, 4 and 8
    workers.

    ## How to fix
    Read in worker processes, ``DataLoader(..., num_workers=4, persistent_workers=True)``, or make the line faster that
    takes most of the time: cache its result, vectorize it, or run it once before training.

    ## When to ignore
    When the data cannot arrive faster, as from a simulator.

    ## References
    PyTorch performance tuning guide: enable asynchronous data loading and augmentation.
    """
    advice = next((item for item in profile.advice if item.kind == "data"), None)
    wait = profile.phases["data"]
    if advice is None or profile.step_seconds < least * (profile.step_seconds - wait):
        return
    yield Finding(
        message=f"Each step waits {1e3 * wait:.1f} ms for data, {profile.share('data'):.0%} of its time.",
        where=get_location(advice.line),
        cause=advice.cause,
        fix=advice.code,
        evidence={
            "wait in ms": 1e3 * wait,
            "step in ms": 1e3 * profile.step_seconds,
            "share": profile.share("data"),
            "gain": advice.gain,
            "gain of cached batches": profile.loader_gain,
        },
    )


class _Samples(Dataset[tuple[Tensor, Tensor]]):
    """Points that are read with a delay, as from a slow disk."""

    def __init__(self, seconds: float) -> None:
        self.seconds, (self.x, self.y) = seconds, rings()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if self.seconds:
            time.sleep(self.seconds)
        return self.x[index], self.y[index]


def _setup(seconds: float) -> Setup:
    """A classifier on batches of 128 whose step takes much longer than collating them."""
    setup = training_setup(mlp(8, 768, 768, 2), rings(), rings(64, seed=1), nn.CrossEntropyLoss(), lr=1e-3)
    setup.train_loader = DataLoader(_Samples(seconds), batch_size=128, shuffle=True)
    return setup


def bad() -> Setup:
    """Each sample takes a millisecond to read."""
    return _setup(1e-3)


def good() -> Setup:
    """The samples are in memory."""
    return _setup(0.0)
