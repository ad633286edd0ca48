"""O506: backward runs, but no optimizer step follows, or the gradients are cleared before the step."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import replace

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.event_stacks import is_in_loops_of, ordering_line
from nbdebug.measurements.parameter_coverage import ParameterEntry, format_names, largest_part
from nbdebug.rule_engine.loop_edits import accumulate_fewer_batches, move_after, name_at
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, train
from nbdebug.setup import Setup
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import insert_after, insert_before
from nbdebug.source.location import SourceLine, get_location

_STEPS_PER_EPOCH = 10  # of an optimizer that accumulates
_CONSEQUENCES = (
    "G409",
    "G414",
    "G416",
    "O502",
    "T601",
    "T606",
    "T607",
    "T608",
    "T610",
    "E706",
    "E709",
    "T614",
)


@rule("O506", "error")
def step_missing(
    setup: Setup,
    loop: LoopSummary,
    parameters: list[ParameterEntry],
    *,
    least: int = 5,
    share: float = 0.5,
    some: float = 0.05,
    lost: float = 0.25,
) -> Iterator[Finding]:
    """Backward passes run, but no step follows them, or the gradients are cleared before the step.

    ## What it does
    Counts backward passes and steps, the steps that found all gradients cleared since the last backward pass, and the
    batches whose gradients were cleared before any step, or that no pass followed.

    ## Why it matters
    The weights do not change. The loss varies with the batches and the batch statistics, which looks like slow
    learning.

    ## How it is measured
    In your own loop, exactly: from ``least`` = 5 backward passes without a step that changed any parameter, or if more
    than a ``share`` of one half of the steps found no gradient; or from ``least`` training batches whose gradients were
    cleared and the next batch drawn before any step, if they are more than that share of all; a smaller share, from
    ``some`` = 5% on, is a note, or a warning if most of the steps that sum several batches lose other batches in this
    way. It is a note, too, for the last batches of an epoch that do not fill a group of accumulated ones; if more than
    ``lost`` = 25% of all batches are lost in this way in each epoch, it is a warning. Several backward passes for one
    step on one batch, as in adversarial training, do not count, unless there are parameters that had a gradient after
    an earlier pass, none after the last one, and so at no inspected step. Parameters that had a gradient at two fifths
    of the inspected steps and have not changed are a warning if an optimizer that never stepped holds them, while
    another one steps.

    ## How to fix
    The order is ``zero_grad()``, ``backward()``, ``step()``.

    ## When to ignore
    When gradients are only measured, and nothing should be trained.

    ## References
    PyTorch tutorial, Optimizing Model Parameters: zero_grad, backward and step in a training loop.
    """
    if loop.gradient_checks >= least and loop.uncovered_parameters.never_stepped:
        yield _unstepped_finding(setup, loop, parameters)
    if loop.backward_passes < least:
        if setup.optimizers and not loop.backward_passes and loop.unused_batches >= max(least, _two_epochs(setup)):
            yield _unused_batches_finding(loop)
            return
        raise NotChecked(f"only {loop.backward_passes} backward passes were recorded; at least {least} are needed")
    inspected = "inspected " if loop.tracked_steps < loop.steps else ""
    steps_in_loop = is_in_loops_of(loop.stacks, "optimizer", "backward")
    clearing = _clearing_event(loop, "before batch")
    evidence = {
        "backward passes": loop.backward_passes,
        "steps": loop.steps,
        "steps without gradient": loop.cleared_after_backward,
    }
    if loop.steps and loop.cleared_after_backward > share * loop.tracked_steps:
        yield _finding(
            f"In {loop.cleared_after_backward} of {loop.tracked_steps} {inspected}steps, all gradients were zero or "
            "None, because they were cleared after backward()",
            "zero_grad() runs between backward() and step().",
            "Move zero_grad() before backward(), or after step().",
            ordering_line(loop.stacks, _clearing_event(loop, "before step"), "optimizer"),
            evidence,
            edits=_move_before(loop, _clearing_event(loop, "before step"), "backward"),
        )
    elif loop.cleared_gradients.names:
        yield _cleared_between_passes(loop, parameters)
    elif loop.steps and loop.discarded_batches >= max(least, share * loop.batches_with_backward):
        yield _finding(
            f"The gradients of {loop.discarded_batches} of {loop.batches_with_backward} batches were cleared before "
            "any step used them",
            "zero_grad() runs for each batch, but step() runs only for some of them."
            if steps_in_loop
            else "zero_grad() runs for each batch, but step() does not: it is called after the loop over the batches.",
            "if number % k == 0:\n    optimizer.step()\n    optimizer.zero_grad()   # only after a step"
            if steps_in_loop
            else "Move step() into the loop over the batches, after backward().",
            ordering_line(loop.stacks, clearing if steps_in_loop else "optimizer", "backward")
            or loop.lines.get("backward"),
            {**evidence, "discarded batches": loop.discarded_batches},
            edits=move_after(loop.lines.get(clearing), loop.lines.get("optimizer"))
            if steps_in_loop
            else move_after(loop.lines.get("optimizer"), loop.lines.get("backward")),
        )
    elif (
        loop.steps
        and loop.step_groups.lost_epochs > 1
        and loop.step_groups.lost_batches >= max(least, some * loop.step_groups.batches)
    ):
        yield _lost_groups(loop, evidence, lost)
    elif (
        loop.steps
        and not loop.grad_scaler.skipped_steps
        and loop.discarded_batches >= max(least, some * loop.batches_with_backward)
    ):
        loses_part_of_groups = loop.incomplete_steps > share * max(loop.summing_steps, least)
        yield replace(
            _finding(
                f"The gradients of {loop.discarded_batches} of {loop.batches_with_backward} batches "
                f"({loop.discarded_batches / loop.batches_with_backward:.0%}) were cleared before any step used them",
                "The loop clears gradients before some of the batches that it accumulates, or skips some steps.",
                "if number % k == 0:\n    optimizer.step()\n    optimizer.zero_grad()   # only after the step",
                loop.lines.get("backward"),
                {**evidence, "discarded batches": loop.discarded_batches},
            ),
            severity="warning" if loses_part_of_groups else "note",
        )
    elif setup.optimizers and not loop.steps and not loop.changed and not loop.grad_scaler.skipped_steps:
        yield _finding(
            f"{loop.backward_passes} backward passes ran, but the optimizer never stepped",
            "The condition of step() is never true."
            if loop.skipping_branch
            else "The loop does not call step() of the optimizer that was passed.",
            "Change the condition of this branch, so that step() runs."
            if loop.skipping_branch
            else "optimizer.step()   # after this line",
            loop.skipping_condition or loop.lines.get("backward"),
            evidence,
            "no step",
            accumulate_fewer_batches(loop.skipping_branch, _group_size(setup)),
        )


def _clearing_event(loop: LoopSummary, followed: str) -> str:
    """Return the event of the calls that lost gradients, by what followed them; "zero_grad" if none was seen."""
    event = f"clearing {followed}"
    return event if event in loop.stacks else "zero_grad"


def _group_size(setup: Setup) -> int:
    """Return a number of batches to accumulate of which an epoch has several."""
    batches = _two_epochs(setup) / 2
    return max(1, int(batches) // _STEPS_PER_EPOCH) if math.isfinite(batches) else 1


def _lost_groups(loop: LoopSummary, evidence: dict[str, int], max_share: float) -> Finding:
    """Report the last batches of each epoch, which do not fill a group of accumulated ones."""
    groups = loop.step_groups
    lost_share = groups.lost_batches / groups.batches
    finding = _finding(
        f"The gradients of {groups.lost_batches} of {groups.batches} batches ({lost_share:.0%}) were cleared before "
        f"any step used them: they are the last batches of {groups.lost_epochs} epochs",
        "The last batches of an epoch do not fill a group of accumulated ones, and no step follows them.",
        "if number % k == 0 or number == len(train_loader):\n    optimizer.step()\n    optimizer.zero_grad()",
        loop.lines.get("backward"),
        {**evidence, "lost batches": groups.lost_batches},
    )
    return replace(finding, severity="warning" if lost_share > max_share else "note")


def _cleared_between_passes(loop: LoopSummary, parameters: list[ParameterEntry]) -> Finding:
    """Report parameters that only the loss of an earlier backward pass reaches, whose gradient is then cleared."""
    cleared = loop.cleared_gradients
    entries = [entry for entry in parameters if entry.name in cleared.names]
    finding = _finding(
        f"{format_names(entries)} had a gradient after an earlier backward pass of a step and none after its last one, "
        f"in all {cleared.steps} inspected steps: no step updates them",
        "The gradients are cleared between two backward passes, so those of the first loss are lost.",
        "optimizer.zero_grad()   # once, before the first backward pass\n"
        "first_loss.backward(retain_graph=True)\nsecond_loss.backward()\noptimizer.step()",
        loop.lines.get(_clearing_event(loop, "between passes")) or loop.lines.get("backward"),
        {"inspected steps": cleared.steps, "parameters": len(entries)},
    )
    module = largest_part(entries[0], entries, parameters) if entries else ""
    return replace(finding, where=replace(finding.where, module=module or None))


def _step_edits(setup: Setup, loop: LoopSummary, entries: list[ParameterEntry]) -> tuple[Edit, ...]:
    """Return the insertion of a step of the optimizer of some parameters after that of the other one."""
    line, tensors = loop.lines.get("optimizer"), {id(entry.parameter) for entry in entries}
    holders = [item for item in setup.optimizers if tensors & {id(p) for g in item.param_groups for p in g["params"]}]
    name = name_at(setup, line, holders[0]) if line and len(holders) == 1 else None
    statement = covering_statement(line) if line else None
    if line is None or name is None or not isinstance(statement, ast.Expr):
        return ()
    return (insert_after(line.file, statement.end_lineno or statement.lineno, f"{name}.step()"),)


def _unstepped_finding(setup: Setup, loop: LoopSummary, parameters: list[ParameterEntry]) -> Finding:
    """Report parameters of an optimizer that never steps, while another one does."""
    counts = loop.uncovered_parameters.never_stepped
    entries = [entry for entry in parameters if entry.name in counts]
    finding = _finding(
        f"{format_names(entries)} had a gradient in at least {min(counts.values())} of {loop.gradient_checks} "
        f"inspected steps and did not change in {loop.steps} steps: the optimizer that holds them never stepped",
        "The loop calls step() of one optimizer, but not of the other one.",
        "for optimizer in (first_optimizer, second_optimizer):\n    optimizer.step()",
        loop.lines.get("optimizer"),
        {"inspected steps": loop.gradient_checks, "steps": loop.steps, "parameters": len(entries)},
        "one optimizer",
        _step_edits(setup, loop, entries),
    )
    module = largest_part(entries[0], entries, parameters) if entries else ""
    return replace(finding, where=replace(finding.where, module=module or None), severity="warning")


def _two_epochs(setup: Setup) -> float:
    """Return the number of batches of two epochs; infinite if it is unknown."""
    try:
        return 2 * len(setup.train_loader)
    except TypeError:
        return math.inf


def _unused_batches_finding(loop: LoopSummary) -> Finding:
    """Report a loop that draws batches and runs no pass on any of them."""
    return _finding(
        f"{loop.unused_batches} batches were drawn from the training loader, but no forward pass, no backward pass and "
        "no step followed",
        "The code that trains is never reached: it waits for more batches than an epoch has, or its condition is never "
        "true.",
        "if len(group) == size or is_last_batch:   # train on an incomplete group, too",
        loop.lines.get("batch"),
        {"batches": loop.unused_batches, "backward passes": 0, "steps": 0},
    )


def _finding(
    headline: str,
    cause: str,
    fix: str,
    line: SourceLine | None,
    evidence: dict[str, int],
    aspect: str = "",
    edits: tuple[Edit, ...] = (),
) -> Finding:
    return Finding(
        f"{headline}.",
        get_location(line),
        cause=cause,
        fix=fix,
        evidence=evidence,
        explains=_CONSEQUENCES,
        aspect=aspect,
        edits=edits,
    )


def _move_before(loop: LoopSummary, moved: str, target: str) -> tuple[Edit, ...]:
    """Return the edits that move the line of one event before that of another in the same block of code."""
    line, place = loop.lines.get(moved), loop.lines.get(target)
    first, second = (covering_statement(item) if item else None for item in (line, place))
    if line is None or place is None or line.file != place.file or not isinstance(first, ast.Expr) or second is None:
        return ()
    if first.col_offset != second.col_offset or first.lineno <= second.lineno or first.end_lineno != first.lineno:
        return ()
    removed = Edit(line.file, first.lineno, 0, first.lineno + 1, 0, "")
    return insert_before(line.file, second.lineno, ast.unparse(first)), removed


def bad() -> Setup:
    """A classifier for three classes."""
    return classifier()


def bad_loop(setup: Setup) -> None:
    """Clear the gradients between backward and step."""
    for x, y in [*setup.train_loader] * 2:
        setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
        setup.optimizers[0].zero_grad()
        setup.optimizers[0].step()


def good() -> Setup:
    """The same setup."""
    return classifier()


def good_loop(setup: Setup) -> None:
    """Clear the gradients before the backward pass."""
    train(setup, 2)
