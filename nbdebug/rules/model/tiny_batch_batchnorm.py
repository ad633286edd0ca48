"""M312: batch normalization over so few samples that its statistics are noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import BatchSampler, DataLoader

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location, Severity, format_module
from nbdebug.loss_curves import RunSummary
from nbdebug.loss_curves.run_summary import settled_run_summary
from nbdebug.measurements.forward_pass import BatchStatistics
from nbdebug.measurements.running_statistics import compare_running_statistics
from nbdebug.records import Record
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Batch, Setup
from nbdebug.setup.source_lines import option_line
from nbdebug.source.location import add_line

_MAX_INITIAL_SHARE = 0.05  # of running statistics that have been updated often enough
_NOISE_CONSEQUENCES = ("G404", "G410", "G416", "T601", "T604", "T605", "T606", "T607", "T610", "T611")


@rule("M312", "warning")
def tiny_batch_batchnorm(
    setup: Setup,
    batch_statistics: list[BatchStatistics] | NotChecked,
    record: Record | NotChecked,
    batches: list[Batch] | NotChecked,
    *,
    few: int = 4,
    last: float = 0.9,
    lost: float = 0.25,
) -> Iterator[Finding]:
    """Batch normalization computes its statistics from so few samples that they are noise.

    ## What it does
    Counts the samples of each training batch normalization, and the values per channel. One value is an error (torch
    rejects it, or the output is its bias), and so is a last batch of one sample if a channel has one value per sample.
    Fewer than ``few`` samples are a warning; so is a momentum of ``last`` or more, which keeps almost only the last
    batch, and a momentum of zero if the running statistics still have their initial values. After a watch, reports
    running statistics with which the model has lost what it learned.

    ## Why it matters
    The noise of the statistics enters every layer, the output for one sample depends on other samples, and the running
    statistics used in evaluation are far from those of any training batch.

    ## How it is measured
    Exactly, by the shapes of the first batch, and by the length of the dataset for the last batch. Layers in eval mode
    are not checked. Running statistics are judged by their momentum: at 0.9, nine tenths of them are the last batch.
    After a watch, if the loss of training samples in eval mode is above ``lost`` = a quarter of the initial one, the
    first batches pass the model in eval mode twice: with the running statistics, and with those of each batch. It is
    reported if the difference is above that share of what the run has gained.

    Wu and He report the error of a ResNet-50 on ImageNet, in percent, by the number of samples per normalization. The
    limit of a warning, ``few`` = 4, is between the cost of 4 samples and that of 2:

    | samples | 32 | 16 | 8 | 4 | 2 |
    |---|---|---|---|---|---|
    | batch normalization | 23.6 | 23.7 | 24.8 | 27.3 | 34.7 |
    | group normalization | 24.1 | 24.2 | 24.0 | 24.2 | 24.1 |

    ## How to fix
    Use larger batches, ``drop_last=True``, or ``nn.GroupNorm``, which does not depend on the batch. Keep the default
    momentum, and shuffle the training samples.

    ## When to ignore
    When the statistics are synchronized over several processes.

    ## References
    Ioffe and Szegedy 2015, arXiv:1502.03167. Wu and He 2018, arXiv:1803.08494, figure 1 and table 2.
    """
    if isinstance(record, Record):
        if isinstance(batches, NotChecked):
            raise batches
        yield from _running_statistics_findings(setup, settled_run_summary(record), batches, lost)
        return
    if isinstance(batch_statistics, NotChecked):
        raise batch_statistics
    norms = [
        norm_statistics
        for norm_statistics in batch_statistics
        if not _is_synchronized(setup.eager_model.get_submodule(norm_statistics.path))
    ]
    too_small = [
        norm_statistics
        for norm_statistics in norms
        if norm_statistics.values_per_channel == 1 or norm_statistics.samples < few
    ]
    if too_small:
        smallest = min(too_small, key=lambda norm_statistics: norm_statistics.values_per_channel)
        yield _finding(smallest, len(too_small), few, "error" if smallest.values_per_channel == 1 else "warning")
    per_sample = [
        norm_statistics
        for norm_statistics in norms
        if norm_statistics.samples == norm_statistics.values_per_channel > 1
    ]
    if per_sample and _last_batch_size(setup.train_loader) == 1:
        yield _single_sample_finding(per_sample[0])
    for path in (norm_statistics.path for norm_statistics in norms):
        norm = setup.eager_model.get_submodule(path)
        if isinstance(norm, _BatchNorm) and _never_updates(norm):
            yield _momentum_finding(path, 0.0, "never change, so that evaluation uses mean 0 and variance 1")
        elif isinstance(norm, _BatchNorm) and norm.running_mean is not None and (norm.momentum or 0.0) >= last:
            yield _momentum_finding(path, norm.momentum, "are almost equal to the statistics of the last batch")


def _running_statistics_findings(setup: Setup, run: RunSummary, batches: list[Batch], lost: float) -> Iterator[Finding]:
    """Report running statistics that cost a share of what a run has gained."""
    if len(run.train.loss) < 2 or not run.train.loss[-1] > lost * run.train.loss[0] > 0:
        return
    losses = compare_running_statistics(setup, batches)
    gained = float(run.train.loss[0]) - losses.batch_loss if losses else 0.0
    if losses is None or not losses.running_loss - losses.batch_loss > lost * gained > 0:
        return
    is_unfinished = losses.initial_share > _MAX_INITIAL_SHARE
    layer = format_module(losses.path)
    line = option_line(setup, setup.eager_model.get_submodule(losses.path), "momentum", losses.momentum)
    yield Finding(
        message="The running statistics of batch normalization do not describe the training batches: in eval mode the "
        f"loss of {len(batches)} training batches is {losses.running_loss:.4g}; with the statistics of each batch it "
        f"is {losses.batch_loss:.4g}.",
        where=add_line(Location(module=losses.path), line) if line and is_unfinished else Location(module=losses.path),
        cause=f"{losses.initial_share:.0%} of the running statistics of {layer} are still their initial values, since "
        f"its momentum is only {losses.momentum:g}."
        if is_unfinished
        else "The batches that updated them last differ from the others: either the batches are in the order of their "
        "classes, or other data passed in train mode.",
        fix="momentum=0.1  # the weight of the new batch"
        if is_unfinished
        else "train_loader = DataLoader(train_set, batch_size=32, shuffle=True)   # and model.eval() before other data",
        evidence={
            "running loss": losses.running_loss,
            "batch loss": losses.batch_loss,
            "momentum": losses.momentum,
            "initial share": losses.initial_share,
        },
        explains=("E702", "E703", "E706", "E709", "T606", "T609", "T611", "T612"),
        aspect="running statistics",
    )


def _finding(statistics: BatchStatistics, count: int, min_samples: int, severity: Severity) -> Finding:
    more = f" (and {count - 1} more)" if count > 1 else ""
    return Finding(
        message=f"The normalization {format_module(statistics.path)}{more} computes its statistics from "
        f"{statistics.samples} samples ({statistics.values_per_channel} values per channel); at least {min_samples} "
        "samples are needed.",
        where=Location(module=statistics.path),
        cause="The batches are too small for batch normalization.",
        fix="nn.GroupNorm(groups, channels)  # does not depend on the batch; or a larger batch_size",
        evidence={"samples": statistics.samples, "values": statistics.values_per_channel, "normalizations": count},
        explains=_NOISE_CONSEQUENCES if severity == "warning" else ("G416", "M307", "T607", "T611"),
        severity=severity,
    )


def _single_sample_finding(statistics: BatchStatistics) -> Finding:
    return Finding(
        message=f"The last batch of each epoch has 1 sample. The normalization {format_module(statistics.path)} needs "
        "2 values per channel and will raise an error.",
        where=Location(module=statistics.path),
        cause="The number of samples is one more than a multiple of the batch size.",
        fix="Create the loader with drop_last=True.",
        evidence={"samples of the last batch": 1},
        severity="error",
    )


def _never_updates(norm: _BatchNorm) -> bool:
    if norm.running_mean is None or norm.running_var is None or norm.momentum != 0:
        return False
    return not bool(norm.running_mean.any()) and bool((norm.running_var == 1).all())


def _momentum_finding(path: str, momentum: float | None, consequence: str) -> Finding:
    return Finding(
        message=f"The momentum of {format_module(path)} is {momentum:g}; about 0.1 is usual. Its running statistics "
        f"{consequence}.",
        where=Location(module=path),
        cause="In torch, the momentum is the weight of the new batch, not of the old statistics.",
        fix="momentum=0.1  # what other libraries call 0.9",
        evidence={"momentum": momentum},
        explains=("E703", "T604"),
        severity="warning",
    )


def _is_synchronized(module: nn.Module) -> bool:
    return isinstance(module, nn.SyncBatchNorm) and torch.distributed.is_initialized()


def _last_batch_size(loader: Any) -> int | None:
    """The number of samples in the last batch of an epoch; None if it is not known in advance."""
    if type(loader) is not DataLoader or type(loader.batch_sampler) is not BatchSampler or loader.drop_last:
        return None
    try:
        samples, size = len(loader.sampler), loader.batch_sampler.batch_size  # type: ignore[arg-type]
    except TypeError:
        return None
    return samples % size or size


def bad() -> Setup:
    """Batches of two samples."""
    return _batchnorm_setup(2)


def good() -> Setup:
    """Batches of sixteen samples."""
    return _batchnorm_setup(16)


def _batchnorm_setup(size: int) -> Setup:
    x, y = points()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    setup = minimal_setup(model, x, y, nn.CrossEntropyLoss())
    setup.train_loader = DataLoader(setup.train_loader.dataset, batch_size=size)
    return setup
