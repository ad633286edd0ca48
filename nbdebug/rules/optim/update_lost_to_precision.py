"""O517: steps are smaller than the dtype of the weights can represent."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator
from dataclasses import replace

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.rounded_updates import UpdateSample
from nbdebug.loss_curves.run_summary import get_run_summary
from nbdebug.measurements.parameter_coverage import format_names
from nbdebug.measurements.precision import RoundedUpdate
from nbdebug.records import Record
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.location import SourceLine, get_location
from nbdebug.source.search import call_arguments, call_name, find_unique_line, search_files

_WINDOW_RATIO, _COMPENSATED_GROWTH = 8, 2.0  # compensated: eight times as many steps, twice as many changes
_TRAINED_SHARE = 0.7  # of the loss of a constant prediction; a new head is at 1 or above
_CONSEQUENCES = ("G409", "G414", "O502", "T601", "T606", "T607", "T608", "T610", "T614")


@rule("O517", "error", origin="optimizer")
def update_lost_to_precision(
    setup: Setup,
    rounded_updates: list[RoundedUpdate] | NotChecked,
    is_trained: bool | NotChecked,
    loop: LoopSummary | NotChecked,
    record: Record | NotChecked,
    *,
    lost: float = 0.5,
    least: int = 3,
    window: int = 64,
) -> Iterator[Finding]:
    """The optimizer steps are smaller than the dtype of the weights can represent.

    ## What it does
    For parameters in bfloat16 or float16, counts the values that have a gradient and that an optimizer step leaves
    unchanged.

    ## Why it matters
    A bfloat16 has 8 significant bits: the distance from 0.05 to the next number is 0.00024. A smaller step is rounded
    away at every step, while gradients and learning rate look correct.

    ## How it is measured
    By a step of a fresh optimizer with the same groups, on copies of the parameters in their dtype and in float32, at
    the highest rate of the schedule and with the accumulated momentum: later steps of Adam are smaller than this first
    one. Reported for weights if more than ``lost`` = half of the values that a float32 step changes stay unchanged:
    rounding to nearest then loses more steps than it keeps. Biases and scales are not judged alone.

    In your own loop, up to 4,096 values of each such weight are compared before and after each inspected step, of which
    ``least`` = 3 are needed at half of the highest rate or more; a weight is reported if these steps, taken together,
    left most of its values unchanged.

    An optimizer from outside torch may compensate for the rounding, as with a master copy in float32, Kahan summation
    or stochastic rounding: then the more steps, the more values change. Its weights are compared over windows of 1, 2,
    4 and more steps. A weight is reported if fewer than half of its values changed in each window, and in the longest
    one, of ``window`` = 64 steps or more, less than twice as many as in one of an eighth of its length. In 16 runs of
    one network at learning rates from 3e-5 to 1e-2, this ratio was 0.5 to 2 for lost updates and 3 to 9 for compensated
    ones.

    A model whose loss is well below that of a constant prediction before training is being fine-tuned: the few values
    that change may suffice, so it is a note.

    ## How to fix
    Keep the weights in float32 and compute under torch.autocast.

    ## When to ignore
    When the steps are accumulated in another copy of the weights in float32.

    ## References
    Micikevicius et al. 2017, arXiv:1710.03740, section 3.1: a master copy of the weights in float32. Zamirai et al.
    2020, arXiv:2010.06192: in pure bfloat16 training, the rounding of the updates costs the accuracy.
    """
    if isinstance(loop, LoopSummary):
        findings = _findings_in_loop(setup, loop, lost, least, window)
        is_fine_tuned = is_trained is True if isinstance(record, NotChecked) else _starts_trained(record)
        yield from (replace(finding, severity="note" if is_fine_tuned else None) for finding in findings)
    elif isinstance(rounded_updates, NotChecked):
        raise rounded_updates
    if not isinstance(rounded_updates, NotChecked):
        yield from _findings_of_first_step(setup, rounded_updates, is_trained is True, lost)


def _starts_trained(record: Record) -> bool:
    """Check whether the loss is well below that of a constant prediction at the start of the run."""
    summary = get_run_summary(record)
    return summary.chance is not None and summary.start < _TRAINED_SHARE * summary.chance


def _findings_of_first_step(
    setup: Setup, rounded_step: list[RoundedUpdate], is_trained: bool, max_unchanged: float
) -> Iterator[Finding]:
    stepped_weights = [
        rounded for rounded in rounded_step if rounded.entry.parameter.dim() > 1 and rounded.expected_changes
    ]
    if rounded_step and not stepped_weights:
        raise NotChecked("no weights with fewer than 32 bits have a gradient")
    if unchanged := [
        rounded
        for rounded in stepped_weights
        if rounded.actual_changes < (1 - max_unchanged) * rounded.expected_changes
    ]:
        yield replace(_finding(setup, unchanged, len(stepped_weights)), severity="note" if is_trained else None)


def _findings_in_loop(
    setup: Setup, loop: LoopSummary, max_unchanged: float, min_steps: int, min_window: int
) -> Iterator[Finding]:
    by_name = {name: _steps_at_high_rate(samples) for name, samples in loop.rounded_updates.items() if samples}
    inspected = {name: samples for name, samples in by_name.items() if len(samples) >= min_steps}
    if not inspected:
        raise NotChecked("too few steps of weights with fewer than 32 bits were inspected in your loop")
    unchanged = {
        name_of_weight: samples
        for name_of_weight, samples in inspected.items()
        if _are_mostly_unchanged(samples, max_unchanged) and _stays_unchanged(samples, min_window)
    }
    if unchanged:
        yield _loop_finding(setup, loop, unchanged, len(inspected))


def _are_mostly_unchanged(samples: list[UpdateSample], max_unchanged: float) -> bool:
    """Check that the inspected steps left most values unchanged, taken together; of longer windows, each one."""
    if all(sample.steps == 1 for sample in samples):
        return sum(s.changed for s in samples) < (1 - max_unchanged) * sum(s.with_gradient for s in samples)
    return all(sample.changed < (1 - max_unchanged) * sample.with_gradient for sample in samples)


def _stays_unchanged(samples: list[UpdateSample], min_window: int) -> bool:
    """Check that a long window changes hardly more values than a short one, unless all samples are single steps."""
    if all(sample.steps == 1 for sample in samples):
        return True
    shares = {sample.steps: sample.changed / sample.with_gradient for sample in samples}
    pairs = [
        (shares[steps // _WINDOW_RATIO], share)
        for steps, share in shares.items()
        if steps >= min_window and steps // _WINDOW_RATIO in shares
    ]
    return bool(pairs) and pairs[-1][1] < _COMPENSATED_GROWTH * pairs[-1][0]


def _steps_at_high_rate(samples: tuple[UpdateSample, ...]) -> list[UpdateSample]:
    """The inspected steps at half of the highest rate or more, on values that had a gradient."""
    highest_rate = max(sample.learning_rate for sample in samples)
    return [sample for sample in samples if sample.learning_rate >= highest_rate / 2 and sample.with_gradient]


def _loop_finding(setup: Setup, loop: LoopSummary, unchanged: dict[str, list[UpdateSample]], weights: int) -> Finding:
    shares = {
        name: sum(m.changed for m in samples) / sum(m.with_gradient for m in samples)
        for name, samples in unchanged.items()
    }
    name = min(shares, key=lambda key: shares[key])
    parameter = setup.eager_model.get_parameter(name)
    dtype = str(parameter.dtype).removeprefix("torch.")
    line = _cast_line(setup, parameter.dtype) or loop.lines.get("update")
    longest = max(sample.steps for sample in unchanged[name])
    steps = f"{len(unchanged[name])} inspected " + ("steps" if longest == 1 else f"windows of up to {longest} steps")
    return Finding(
        message=f"Steps changed only {shares[name]:.0%} of the values of {name} that have a gradient, over "
        f"{steps}. The same holds for {len(unchanged)} of {weights} weights.",
        where=get_location(line, name.rpartition(".")[0] or None, name),
        cause=f"{dtype} rounds away a change of less than half of the distance to the next representable number.",
        fix="model = model.float()   # then, in the loop:\n"
        f"with torch.autocast(device_type={parameter.device.type!r}, dtype=torch.bfloat16):\n"
        "    loss = loss_fn(model(x), y)",
        setup_fix="mixed precision=off",
        evidence={name: {"share moved": share} for name, share in list(shares.items())[:8]}
        | {"inspected": len(unchanged[name]), "steps": longest, "weights": weights},
        explains=_CONSEQUENCES,
    )


def _cast_line(setup: Setup, dtype: torch.dtype) -> SourceLine | None:
    """The only line of the user's code that casts to a type of fewer than 32 bits, also by the name of a constant."""
    name, context = str(dtype).removeprefix("torch."), user_written_objects(setup)
    methods = {name, "half"} if dtype == torch.float16 else {name}
    constants = _constants_of(dtype, search_files(context))

    def is_cast(node: ast.AST) -> bool:
        arguments = call_arguments(node) if isinstance(node, ast.Call) else []
        names = {getattr(argument, "attr", None) for argument in arguments}
        names |= {getattr(argument, "id", None) for argument in arguments}
        return call_name(node) in methods or (
            not names.isdisjoint({name, *constants}) and call_name(node) != "autocast"
        )

    return find_unique_line(is_cast, context)


def _constants_of(dtype: torch.dtype, files: Collection[str]) -> set[str]:
    """The names of the global variables of some files that hold a type."""
    modules = [module for module in [*sys.modules.values()] if getattr(module, "__file__", None) in files]
    variables = [vars(module) for module in modules] or [vars(sys.modules["__main__"])]
    return {name for scope in variables for name, value in [*scope.items()] if value is dtype}


def _finding(setup: Setup, unchanged: list[RoundedUpdate], weights: int) -> Finding:
    worst = min(unchanged, key=lambda rounded: rounded.actual_changes / rounded.expected_changes)
    parameter = worst.entry.parameter
    dtype = str(parameter.dtype).removeprefix("torch.")
    return Finding(
        message=f"A step changes only {worst.actual_changes / worst.expected_changes:.0%} of "
        f"{worst.expected_changes:,} values of {worst.entry.name} that have a gradient: the step is "
        f"{worst.median_step:.2g}, and the distance to the next {dtype} number is {worst.median_spacing:.2g}. The same "
        f"holds for {len(unchanged)} of {weights} weights.",
        where=get_location(_cast_line(setup, parameter.dtype), worst.entry.module, worst.entry.name),
        cause=f"{dtype} rounds away a change of less than half of that distance "
        f"({format_names([rounded.entry for rounded in unchanged])}).",
        fix="model = model.float()   # then, in the loop:\n"
        f"with torch.autocast(device_type={parameter.device.type!r}, dtype=torch.bfloat16):\n"
        "    loss = loss_fn(model(x), y)",
        setup_fix="mixed precision=off",
        evidence={
            rounded.entry.name: {
                "moved": rounded.actual_changes,
                "asked": rounded.expected_changes,
                "step": rounded.median_step,
                "distance": rounded.median_spacing,
            }
            for rounded in unchanged[:8]
        }
        | {"weights": weights},
        explains=_CONSEQUENCES,
    )


def _bfloat16_setup(rate: float) -> Setup:
    x, y = points()
    model = network(3).bfloat16()
    loader = DataLoader(TensorDataset(x.bfloat16(), y), batch_size=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(optimizer,))


def bad() -> Setup:
    """Small steps in bfloat16."""
    return _bfloat16_setup(1e-5)


def good() -> Setup:
    """Steps that bfloat16 can represent."""
    return _bfloat16_setup(1e-2)
