"""M312: batch normalization with so few samples that its statistics are noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import BatchSampler, DataLoader

from nbdebug.evidence.batch_statistics import Statistics
from nbdebug.finding import Finding, Severity, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import points, program
from nbdebug.setup import Setup

NOISE = ("G404", "G410", "G416", "E701", "T601", "T604", "T605", "T606", "T607", "T610", "T611")


@rule("M312", "warning")
def tiny_batch_batchnorm(
    setup: Setup, batch_statistics: list[Statistics], *, few: int = 4, last: float = 0.9
) -> Iterator[Finding]:
    """Batch normalization takes its statistics from so few samples that they are noise.

    ## What it does
    Counts the samples that each training batch normalization sees, and the values behind each channel. One value is an
    error (torch refuses it, or the output is its bias), and so is a last batch of one sample, where a channel has one
    value for each sample. Fewer than ``few`` samples are a warning; so is a momentum of ``last`` and more, which keeps
    next to nothing but the last batch, and one of zero, if the running statistics are as they were made.

    ## Why it matters
    The noise of the statistics is fed into every layer, other samples decide what one sample becomes, and the running
    statistics of evaluation are far from those of any training batch.

    ## How it is measured
    Exactly, by the shapes of the first batch, and by the length of the loader's data for the last. Layers in eval mode
    are left alone. Running statistics are judged by their momentum: at 0.9, nine tenths of them are the last batch.
    Wu and He give the error of a ResNet-50 on ImageNet, in percent, by the samples that each normalization sees. It is
    a warning under ``few`` = 4, between what 4 samples cost and what 2 do:

    | samples | 32 | 16 | 8 | 4 | 2 |
    |---|---|---|---|---|---|
    | batch normalization | 23.6 | 23.7 | 24.8 | 27.3 | 34.7 |
    | group normalization | 24.1 | 24.2 | 24.0 | 24.2 | 24.1 |

    ## How to fix
    Larger batches, ``drop_last=True``, or ``nn.GroupNorm``, which does not look at the batch.

    ## When to ignore
    When the statistics are synchronized over several processes.

    ## References
    Ioffe and Szegedy 2015, arXiv:1502.03167. Wu and He 2018, arXiv:1803.08494, figure 1 and table 2.
    """
    norms = [one for one in batch_statistics if not synchronized(setup.eager.get_submodule(one.path))]
    tiny = [one for one in norms if one.values == 1 or one.samples < few]
    if tiny:
        least = min(tiny, key=lambda one: one.values)
        yield finding(least, len(tiny), few, "error" if least.values == 1 else "warning")
    single = [one for one in norms if one.samples == one.values > 1]
    if single and last_batch(setup.train_loader) == 1:
        yield last_of_one(single[0])
    for path in (one.path for one in norms):
        norm = setup.eager.get_submodule(path)
        if isinstance(norm, _BatchNorm) and never_learns(norm):
            yield odd_momentum(path, 0.0, "never move, so that evaluation normalizes by the mean 0 and the variance 1")
        elif isinstance(norm, _BatchNorm) and norm.running_mean is not None and (norm.momentum or 0.0) >= last:
            yield odd_momentum(path, norm.momentum, "are all but those of the last batch alone")


def finding(one: Statistics, count: int, few: int, severity: Severity) -> Finding:
    """The normalization with the fewest values."""
    more = f" (and {count - 1} more)" if count > 1 else ""
    return Finding(
        message=f"{one.path}{more} takes its statistics from {one.samples} samples, {one.values} values a channel; "
        f"expected at least {few} samples.",
        where=Where(module=one.path),
        cause="The batches are too small for batch normalization.",
        fix="nn.GroupNorm(groups, channels)  # does not depend on the batch; or a larger batch_size",
        evidence={"samples": one.samples, "values": one.values, "normalizations": count},
        explains=NOISE if severity == "warning" else ("G416", "M307", "T607", "T611"),
        severity=severity,
    )


def last_of_one(one: Statistics) -> Finding:
    """An epoch that ends in a single sample."""
    return Finding(
        message=f"The last batch of each epoch has 1 sample; {one.path} needs 2 values a channel and will raise.",
        where=Where(module=one.path),
        cause="The number of samples is one more than a multiple of the batch size.",
        fix="DataLoader(…, drop_last=True)",
        evidence={"samples of the last batch": 1},
        severity="error",
    )


def never_learns(norm: _BatchNorm) -> bool:
    """Whether running statistics are as they were made and stay so."""
    if norm.running_mean is None or norm.running_var is None or norm.momentum != 0:
        return False
    return not bool(norm.running_mean.any()) and bool((norm.running_var == 1).all())


def odd_momentum(path: str, momentum: float | None, what: str) -> Finding:
    """Running statistics that say little of the data."""
    return Finding(
        message=f"The momentum of {path} is {momentum:g}; expected about 0.1. Its running statistics {what}.",
        where=Where(module=path),
        cause="In torch the momentum is the share of the new batch, not that of the old statistics.",
        fix="momentum=0.1  # what other libraries call 0.9",
        evidence={"momentum": momentum},
        explains=("E701", "E703", "T604"),
        severity="warning",
    )


def synchronized(module: nn.Module) -> bool:
    """Whether a normalization takes its statistics over several processes."""
    return isinstance(module, nn.SyncBatchNorm) and torch.distributed.is_initialized()


def last_batch(loader: Any) -> int | None:
    """The number of samples in the last batch of an epoch; None where that is not known beforehand."""
    if type(loader) is not DataLoader or type(loader.batch_sampler) is not BatchSampler or loader.drop_last:
        return None
    try:
        samples, size = len(loader.sampler), loader.batch_sampler.batch_size  # type: ignore[arg-type]
    except TypeError:
        return None
    return samples % size or size


def bad() -> Setup:
    """Batches of two."""
    return normalized(2)


def good() -> Setup:
    """Batches of sixteen."""
    return normalized(16)


def normalized(size: int) -> Setup:
    """A network with batch normalization, on batches of one size."""
    x, y = points()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    setup = program(model, x, y, nn.CrossEntropyLoss())
    setup.train_loader = DataLoader(setup.train_loader.dataset, batch_size=size)
    return setup
