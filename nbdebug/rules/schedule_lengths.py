"""The length of a schedule in epochs, batches or samples, compared with the steps of the loop."""

from __future__ import annotations

import ast
import math

from nbdebug.finding import Severity
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.planned_rates import unreached_peak
from nbdebug.loop_monitor.schedules import SchedulerUse, planned_length
from nbdebug.setup import Setup, loaders
from nbdebug.setup.source_lines import argument_line, creation_line, find_setup_creation
from nbdebug.source.creation import Creation
from nbdebug.source.location import SourceLine

SLOW = 0.01  # of the highest rate
_LENGTH_OPTIONS = ("steps_per_epoch", "total_steps", "T_max", "total_iters")


def batches_per_epoch(setup: Setup) -> int:
    """Return the number of batches per epoch; 0 if the loader does not provide it."""
    return loaders.batch_count(setup.train_loader) or 0


def steps_of_kind(loop: LoopSummary, use: SchedulerUse) -> int:
    """Return the steps of all schedulers of one class: a run that is resumed creates its scheduler again."""
    return sum(other.steps for other in loop.schedulers if type(other.scheduler) is type(use.scheduler))


def is_poor_per_epoch(setup: Setup, loop: LoopSummary, use: SchedulerUse, max_slow_share: float) -> bool:
    """Check whether the rates of a schedule that steps per batch would be as low, or never reach its peak, per epoch.

    The rate of epoch k would then be that of step k.
    """
    epochs = math.ceil(loop.steps / max(batches_per_epoch(setup), 1))
    if unreached_peak(use.scheduler, epochs, loop.steps):
        return True
    ratios = loop.rates.first_ratios[:epochs]
    return len(ratios) == epochs > 1 and sum(ratio < SLOW for ratio in ratios) > max_slow_share * epochs


def sample_count(setup: Setup, loop: LoopSummary, use: SchedulerUse) -> int | None:
    """Return the samples of an epoch if a schedule is planned for them, and steps once for each of fewer batches.

    It is if its length is the number of epochs times the samples: the loop completed exactly these epochs, so that it
    was not stopped early.
    """
    length, samples = planned_length(use.scheduler), loaders.dataset_length(setup.train_loader)
    batches = batches_per_epoch(setup)
    if not length or not samples or not batches or use.steps != loop.steps or use.steps % batches:
        return None
    is_planned = length == samples * (use.steps // batches) and 2 * use.steps <= length
    return samples if is_planned else None


def severity_of_sample_count(setup: Setup, use: SchedulerUse) -> Severity:
    """Return "note" if the length is a whole number of epochs, too: then a longer run may be planned."""
    is_whole = (planned_length(use.scheduler) or 0) % max(batches_per_epoch(setup), 1) == 0
    return "note" if is_whole else "warning"


def length_line(setup: Setup, use: SchedulerUse) -> SourceLine | None:
    """Return the line that chooses the length of a schedule, or the one that creates the scheduler.

    Of several calls that may create it, that is the only one that reads a data set.
    """
    lines = (argument_line(setup, use.scheduler, option) for option in _LENGTH_OPTIONS)
    if line := next(filter(None, lines), None) or creation_line(setup, use.scheduler):
        return line
    creation = find_setup_creation(setup, use.scheduler, is_excluded=lambda item: _reads_no_data_set(use, item))
    return creation.line if creation else None


def _reads_no_data_set(use: SchedulerUse, creation: Creation) -> bool:
    """Check whether no argument for a length in a call reads the attribute of a loader that holds its data set."""
    arguments = [creation.argument(use.scheduler, option) for option in _LENGTH_OPTIONS]
    nodes = [node for argument in arguments if argument is not None for node in ast.walk(argument)]
    return not any(isinstance(node, ast.Attribute) and node.attr == "dataset" for node in nodes)


def describe_sample_count(kind: str, use: SchedulerUse, samples: int, batches: int) -> tuple[str, str, str]:
    """Message, cause and fix for a schedule that is planned for samples and steps once per batch."""
    length = planned_length(use.scheduler) or 1
    return (
        f"{kind} is planned for {length:,} steps, {samples:,} for each epoch, but an epoch has {batches:,} batches. "
        f"The run ended after {use.steps:,} steps, which is {use.steps / length:.1%} of the schedule.",
        "The length of the schedule counts samples, but the scheduler steps once per batch.",
        "steps = epochs * len(train_loader)   # batches: for OneCycleLR, steps_per_epoch=len(train_loader)",
    )
