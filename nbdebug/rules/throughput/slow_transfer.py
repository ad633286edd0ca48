"""P805: batches are copied to the device from memory that is not pinned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import mlp, rings, training_setup
from nbdebug.setup import Setup
from nbdebug.source.location import get_location

if TYPE_CHECKING:
    from nbdebug.tools.profile import Profile

DEVICE = "cuda"
_REPEATS = 500  # of eight features, so that copies take long


@rule("P805", "note", affects_learning=False)
def slow_transfer(
    setup: Setup, profile: Profile, *, least: float = 0.05, pinned: float = 0.5, device: str = DEVICE
) -> Iterator[Finding]:
    """Batches are copied to the device from memory that is not pinned.

    ## What it does
    Times each ``to()`` and ``cuda()`` of a tensor of the CPU, and reads whether its memory is pinned.

    ## Why it matters
    A copy from pinned memory runs during the computation. From other memory it is staged first, and the host waits.

    ## How it is measured
    ``profile()`` times the copies with events of the device: at least a share of ``least`` = 0.05 of the step, of which
    less than ``pinned`` = 0.5 of the bytes come from pinned memory. Only if the model is on an accelerator
    (``device``).

    ## How to fix
    ``DataLoader(..., pin_memory=True)`` and ``x.to(device, non_blocking=True)``.

    ## When to ignore
    When the host has little memory, which pinned batches occupy.

    ## References
    PyTorch tutorial: a guide on good usage of non_blocking and pin_memory().
    """
    if setup.model_device.type != device:
        raise NotChecked(f"the model is on {setup.model_device.type}, to which nothing is copied")
    if profile.share("transfer") < least or profile.pinned_share >= pinned:
        return
    seconds, copied = profile.phases["transfer"], profile.transferred_bytes / 2**20
    yield Finding(
        message=f"Each step copies {copied:.1f} MiB to the device in {1e3 * seconds:.2f} ms, "
        f"{profile.share('transfer'):.0%} of its time; {profile.pinned_share:.0%} of the bytes are pinned.",
        where=get_location(line.line if (line := profile.slowest_line("transfer")) else None),
        cause="A copy from memory that is not pinned is staged first, and the host waits for it.",
        fix="Create the loader with pin_memory=True, and copy with x.to(device, non_blocking=True).",
        evidence={
            "copy in ms": 1e3 * seconds,
            "share": profile.share("transfer"),
            "bytes": profile.transferred_bytes,
            "pinned": profile.pinned_share,
        },
    )


def _wide(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points whose features are repeated with noise."""
    x, y = rings(512, seed=seed)
    noise = torch.randn(512, 8 * _REPEATS, generator=torch.Generator().manual_seed(seed))
    return x.repeat(1, _REPEATS) + noise, y


def _setup(pin_memory: bool) -> Setup:
    """A small model on the accelerator, if there is one, with wide samples."""
    data, other = _wide(0), _wide(1)
    setup = training_setup(mlp(8 * _REPEATS, 256, 2), data, other, torch.nn.CrossEntropyLoss(), batch_size=128)
    setup.model.to(DEVICE if torch.cuda.is_available() else "cpu")
    setup.train_loader = torch.utils.data.DataLoader(
        setup.train_loader.dataset, batch_size=128, shuffle=True, pin_memory=pin_memory
    )
    return setup


def bad() -> Setup:
    """The loader does not pin its batches."""
    return _setup(False)


def good() -> Setup:
    """The loader pins its batches."""
    return _setup(True)
