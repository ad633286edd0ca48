"""O505: gradients accumulate from step to step."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.event_stacks import is_in_loops_of, ordering_line
from nbdebug.loop_monitor.leftover_gradients import LeftoverGradients
from nbdebug.measurements.parameter_coverage import ParameterEntry, largest_part
from nbdebug.rule_engine.loop_edits import clear_before, insert_at_line
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.location import get_location
from nbdebug.source.search import find_uncalled_method

_CONSEQUENCES = (
    *("O501", "O508:limit", "G402", "G404", "G410", "G412", "T601", "T602", "T604", "T605", "T606", "T607"),
    *("T608", "T610", "E709"),
)
_FIX = "optimizer.zero_grad()   # before this line"
_FIX_OUTSIDE = "optimizer.zero_grad()   # inside the loop over batches"
_FIX_ACCUMULATED = "Call optimizer.zero_grad() after each optimizer.step(); the backward passes before it add up."


@rule("O505", "error")
def zero_grad_missing(
    setup: Setup,
    loop: LoopSummary,
    parameters: list[ParameterEntry] | NotChecked,
    *,
    least: int = 3,
    share: float = 0.5,
    some: float = 0.2,
    enlarged: float = 0.5,
    rare: float = 0.1,
) -> Iterator[Finding]:
    """Gradients accumulate from step to step: nothing clears them.

    ## What it does
    Checks whether the gradients of an optimizer are cleared at any time between two of its steps: by ``zero_grad`` of
    the optimizer or of a module, or by anything that leaves them zero or None when a backward pass starts. Checks the
    same between the backward passes of one closure, as of LBFGS.

    ## Why it matters
    Each step then follows the sum of all gradients so far, like an undamped momentum. With plain SGD the loss may even
    decrease faster at first, which hides the error; later it oscillates, and no learning rate works.

    ## How it is measured
    In your own loop, in its first eight steps and at powers of two after them. At least ``least`` = 3 inspected
    intervals are needed, of which more than a ``share`` of one half were not cleared; if at least ``least`` and a share
    of ``some`` = 0.2 were not, as with a call at every second batch, it is a warning. Accumulating over several
    backward passes and clearing after the step is correct, and so are two optimizers that alternate.

    If the loss of one optimizer runs through the parameters of another one, as that of an actor through its critic, its
    backward pass leaves gradients there. They are reported if the first optimizer has stepped with this pass, and the
    other one then adds its own backward pass to them and steps, in as many steps as above.

    If the last batches of an epoch do not fill a group of accumulated ones, their gradients may be carried into the
    first step of the next epoch. This is so if at least ``least`` steps sum batches of two epochs, more than the others
    do, and at the same position in each epoch; groups that are counted across epochs have one size. It is a warning if
    these steps sum at least ``enlarged`` = 50% more batches and are a share of ``rare`` = 10% of all, else a note.

    ## How to fix
    Call ``optimizer.zero_grad()`` in every iteration, before ``backward()`` or after ``step()``.

    ## When to ignore
    When gradients should accumulate over steps.

    ## References
    PyTorch recipe: zeroing out gradients; documentation of torch.optim.Optimizer.zero_grad.
    """
    if loop.uncleared_closure_steps >= least:
        yield _closure_finding(loop)
        return
    leftover = loop.leftover_gradients
    is_leftover = leftover is not None and leftover.steps >= max(least, some * leftover.checked_steps)
    if leftover is not None and is_leftover and loop.uncleared_intervals <= share * loop.checked_intervals:
        is_scaled = leftover.step_line == loop.lines.get("step")
        is_rare = leftover.steps <= share * leftover.checked_steps
        yield _leftover_finding(leftover, parameters, is_rare=is_rare, is_scaled=is_scaled)
        return
    if loop.checked_intervals < least:
        raise NotChecked(
            f"only {loop.checked_intervals} steps of your loop were inspected; at least {least} are needed"
        )
    is_rare = loop.uncleared_intervals <= share * loop.checked_intervals
    if is_rare and loop.uncleared_intervals < max(least, some * loop.checked_intervals):
        if loop.step_groups.carried.steps >= least:
            yield _carried_finding(loop, enlarged, rare)
        return
    # A zero_grad() that the loop over batches does not contain is the line to move.
    is_outside = "zero_grad" in loop.stacks and not is_in_loops_of(loop.stacks, "zero_grad", "backward")
    line = ordering_line(loop.stacks, "zero_grad", "backward") if is_outside else loop.lines.get("backward")
    step_line = loop.lines.get("optimizer")
    accumulates = loop.backward_passes >= 2 * loop.steps > 0 and step_line is not None and not is_outside
    uncalled_line = find_uncalled_method("zero_grad", [*user_written_objects(setup), *([line.file] if line else [])])
    yield Finding(
        message=f"Gradients accumulate: in {loop.uncleared_intervals} of {loop.checked_intervals} inspected steps, the "
        "previous step's gradients had not been cleared before backward().",
        where=get_location(uncalled_line or line, _uncleared_part(loop.uncleared_parameters, parameters)),
        cause="This line names zero_grad without calling it: the parentheses are missing."
        if uncalled_line
        else _cause(loop, is_outside, is_rare),
        fix=_FIX_OUTSIDE if is_outside else _FIX_ACCUMULATED if accumulates else _FIX,
        edits=_clearing_edits(setup, loop, is_outside, accumulates, uncalled_line is not None),
        evidence={"looked at": loop.checked_intervals, "not cleared": loop.uncleared_intervals, "steps": loop.steps},
        explains=_CONSEQUENCES,
        severity="warning" if is_rare else None,
    )


def _clearing_edits(
    setup: Setup, loop: LoopSummary, is_outside: bool, accumulates: bool, is_named: bool
) -> tuple[Edit, ...]:
    """Return the insertion of zero_grad() after the step that ends a group of passes, or before each pass.

    ``is_named`` tells whether a line names the method without calling it, which then is the line to change.
    """
    step, backward = loop.uncleared_step_line or loop.lines.get("optimizer"), loop.lines.get("backward")
    if accumulates and step:
        return insert_at_line(setup, step, "optimizer.zero_grad()", "after")
    if is_outside and backward:
        return insert_at_line(setup, backward, "optimizer.zero_grad()", "before")
    return () if is_named else clear_before(step, backward, is_scaled=step == loop.lines.get("step"))


def _cause(loop: LoopSummary, is_outside: bool, is_rare: bool) -> str:
    """Return why gradients are not cleared."""
    if is_outside:
        return "zero_grad() runs before the loop over batches, not in it."
    if is_rare:
        return "zero_grad() runs only for some of the batches, but step() for each."
    if "zero_grad" in loop.stacks and not loop.has_one_optimizer:
        return "The loop calls zero_grad(), but not between the steps of this optimizer."
    if "zero_grad" in loop.stacks:
        return "zero_grad() runs for few batches only, or for other parameters."
    return "Nothing in the loop calls zero_grad() between one step and the next."


def _uncleared_part(names: frozenset[str], parameters: list[ParameterEntry] | NotChecked) -> str | None:
    """Return the largest part of the model with the gradients that pile up; None if that is the whole model."""
    entries = [] if isinstance(parameters, NotChecked) else parameters
    uncleared = [entry for entry in entries if entry.name in names]
    if not uncleared or len(uncleared) == len(entries):
        return None
    return largest_part(uncleared[0], uncleared, entries) or None


def _leftover_finding(
    leftover: LeftoverGradients, parameters: list[ParameterEntry] | NotChecked, *, is_rare: bool, is_scaled: bool
) -> Finding:
    """Report steps with the gradients of a loss that another optimizer minimizes."""
    line, foreign = leftover.line, leftover.foreign_line
    place = f"The backward pass in line {foreign.number} of {foreign.file}" if foreign else "That backward pass"
    return Finding(
        message=f"In {leftover.steps} of {leftover.checked_steps} inspected steps, the gradients of an optimizer "
        "include those of a loss that another optimizer minimizes. The backward pass of that loss runs through these "
        "parameters. Their gradients had not been cleared before their own backward pass.",
        where=get_location(line, _uncleared_part(leftover.parameters, parameters)),
        cause=f"{place} leaves gradients in these parameters, and nothing clears them before this line.",
        fix=_FIX,
        edits=clear_before(leftover.step_line, line, is_scaled=is_scaled),
        evidence={"looked at": leftover.checked_steps, "with gradients of another loss": leftover.steps},
        explains=_CONSEQUENCES,
        severity="warning" if is_rare else None,
    )


def _carried_finding(loop: LoopSummary, enlarged: float, rare: float) -> Finding:
    """Report the last batches of each epoch, whose gradients are added to the first step of the next epoch."""
    carried, groups = loop.step_groups.carried, loop.step_groups
    rest = carried.batches - carried.position
    is_harmful = rest >= enlarged * carried.position and carried.steps >= rare * groups.steps
    return Finding(
        message=f"Gradients are carried from one epoch into the next: {carried.steps} of {groups.steps} steps "
        f"({carried.steps / groups.steps:.0%}) sum {carried.batches} batches, of which {rest} belong to the previous "
        f"epoch; expected {carried.position}.",
        where=get_location(loop.lines.get("backward")),
        cause="The last batches of an epoch do not fill a group of accumulated ones. No step follows them, and nothing "
        "clears their gradients.",
        fix="Call optimizer.step() and optimizer.zero_grad() after the last batch of each epoch, too.",
        evidence={"steps": groups.steps, "with batches of two epochs": carried.steps, "batches": carried.batches},
        explains=_CONSEQUENCES,
        severity="warning" if is_harmful else "note",
    )


def _closure_finding(loop: LoopSummary) -> Finding:
    """Report gradients that accumulate between the evaluations of one closure."""
    return Finding(
        message=f"Gradients accumulate within a step: in {loop.uncleared_closure_steps} of {loop.closure_steps} "
        "inspected steps with several evaluations of the closure, the gradients of one evaluation had not been cleared "
        "before the next.",
        where=get_location(loop.lines.get("backward")),
        cause="zero_grad() runs outside the closure, which the optimizer calls several times for each step.",
        fix=_FIX,
        evidence={"steps": loop.closure_steps, "not cleared": loop.uncleared_closure_steps},
        explains=_CONSEQUENCES,
    )


def bad() -> Setup:
    """A classifier for three classes."""
    return classifier()


def bad_loop(setup: Setup) -> None:
    """Forward, backward and step, without zero_grad."""
    for x, y in [*setup.train_loader] * 2:
        setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
        setup.optimizers[0].step()


def good() -> Setup:
    """The same setup."""
    return classifier()


def good_loop(setup: Setup) -> None:
    """Clear the gradients after each step."""
    for x, y in [*setup.train_loader] * 2:
        setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
        setup.optimizers[0].step()
        setup.optimizers[0].zero_grad()
