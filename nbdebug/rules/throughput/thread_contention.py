"""P808: more threads compute than cores are free."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import mlp, rings, training_setup
from nbdebug.setup import Setup
from nbdebug.source.location import get_location

if TYPE_CHECKING:
    from nbdebug.tools.profile import Profile


@rule("P808", "warning", affects_learning=False)
def thread_contention(setup: Setup, profile: Profile) -> Iterator[Finding]:
    """More threads compute than cores are free.

    ## What it does
    Runs the training step with other numbers of threads, interleaved with the present number.

    ## Why it matters
    Threads of one operation wait for the slowest. If some of them have no core, all wait until the scheduler lets them
    run, which takes longer than the operation.

    ## How it is measured
    ``profile()`` tries one thread, half of the cores and all cores. Fewer threads are at least 1.3 times as fast, in
    each round at least 1.1 times. If there are no more threads than cores, other programs must be the reason, and the
    step must be at least 1.5 times as fast.

    ## How to fix
    ``torch.set_num_threads(n)`` with the fastest number; in loader workers torch uses one thread.

    ## When to ignore
    When the cores are shared only for the moment.

    ## References
    PyTorch documentation: CPU threading and TorchScript inference, tuning the number of threads.
    """
    if setup.model_device.type != "cpu":
        raise NotChecked(f"the model is on {setup.model_device.type}, which uses no threads")
    advice = next((item for item in profile.advice if item.kind == "threads"), None)
    best = profile.best("threads")
    if advice is None or best is None or int(best.name) >= profile.threads:
        return
    yield Finding(
        message=f"Each step is {advice.gain:.1f} times as fast with {best.name} thread{'s' * (best.name != '1')} as "
        f"with {profile.threads}; this process may use {profile.cores} core{'s' * (profile.cores != 1)}.",
        where=get_location(advice.line),
        cause="The threads of an operation wait for those that have no core.",
        fix=advice.code,
        evidence={"threads": profile.threads, "cores": profile.cores, "gain": advice.gain},
    )


def bad() -> Setup:
    """Large activations, which several threads share."""
    data = rings(1024)
    return training_setup(mlp(8, 512, 512, 2), data, rings(64, seed=1), nn.CrossEntropyLoss(), lr=1e-3, batch_size=256)


def bad_threads() -> int:
    """Eight times as many threads as there are cores."""
    return 8 * (os.cpu_count() or 1)


def good() -> Setup:
    """The same classifier."""
    return bad()


def good_threads() -> int:
    """One thread."""
    return 1
