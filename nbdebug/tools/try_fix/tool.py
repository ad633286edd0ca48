"""Try one change on copies of a setup, paired by seed with the setup as it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.finding import Edit, Finding
from nbdebug.formatting import join_names
from nbdebug.options import Budget
from nbdebug.parallel import Backend, Workers, choose_workers
from nbdebug.preserve import Preserve
from nbdebug.report import Report
from nbdebug.rule_engine.checkup import judge_copy
from nbdebug.setup import Setup
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.statistics.paired_differences import PairedDifference, paired_difference
from nbdebug.tools.try_fix.arms import Arm, ArmRunner, score_differences
from nbdebug.tools.try_fix.change import SetupChange, parse_change
from nbdebug.tools.try_fix.matched_run import MatchedRun, setup_of_copy
from nbdebug.tools.try_fix.program import BuiltProgram, Program, started_program
from nbdebug.tools.try_fix.result import WITHOUT, FixVerdict, TriedFix, build_view
from nbdebug.tools.try_fix.run_score import OwnScore, RunScore
from nbdebug.tools.try_fix.settings import GroupSetting, assign_settings, changed_settings, copy_state
from nbdebug.training.model_copy import copy_obstacle
from nbdebug.validation import check_whole_number, validate_callable
from nbdebug.views.late_screen import before_any_result
from nbdebug.views.live import show_view

MIN_STEPS, MAX_STEPS, MIN_SEEDS, MAX_SEEDS = 5, 100_000, 2, 16
_USUAL_SEEDS = 5


def try_fix(
    setup: Setup,
    change: Any,
    findings: Iterable[Finding] = (),
    *,
    steps: int = 150,
    seeds: int = 5,
    score: OwnScore | None = None,
    checkup: Budget | None = "standard",
    start: Sequence[SetupChange] = (),
    build: Callable[[], Any] | None = None,
    find_program: Callable[[], Program | None] = lambda: None,
    workers: int | None = None,
    backend: Backend | None = None,
    log: Callable[[str], None] = lambda line: None,
) -> TriedFix:
    """Train copies of a setup with and without one change, for the same steps with the same seeds, and compare them.

    ``findings`` are those whose codes may stand for a change. Both copies see the same batches and the same random
    numbers, as far as the change leaves them alike. Nothing of the user's is changed. ``start`` are changes of all
    copies, before the change to try. A fix of the user's lines is tried in the program that ``build`` starts, or else
    in the one that ``find_program`` returns. Raises SetupError for several changes, for one that does not alter the
    setup, and for a setup that cannot be run.
    """
    parsed = parse_change(change, findings)
    pool_workers = choose_workers(backend, workers)
    run_score, in_place = prepare_experiment(setup, steps, seeds, score, pool_workers)
    program = _choose_program(parsed, build, find_program)
    if program is not None:
        baseline = Arm(WITHOUT, (), run_score, program=program)
        changed = Arm(f"with {parsed.name}", (), run_score, program=program, edits=parsed.edits)
    else:
        baseline = Arm(WITHOUT, tuple(start), run_score)
        changed = Arm(f"with {parsed.name}", (*start, parsed), run_score.for_change())
    runner = ArmRunner(setup, (baseline, changed), steps, seeds, in_place, pool_workers)
    settings: tuple[GroupSetting, ...] = ()
    reports = Report(), Report()

    def result(difference: PairedDifference, verdict: FixVerdict) -> TriedFix:
        return TriedFix(
            verdict=verdict,
            headline="",
            change=parsed.name,
            code=parsed.code,
            before=tuple(baseline.runs),
            after=tuple(changed.runs),
            difference=difference,
            metric=run_score.metric,
            steps=steps,
            vanished=_missing_findings(*reports),
            appeared=_missing_findings(*reports[::-1]),
            settings=settings,
            total_steps=runner.total_steps,
            seconds=time.perf_counter() - runner.started,
            _assign=partial(assign_settings, setup, settings, log) if settings else None,
        )

    no_difference = paired_difference(np.zeros(0))
    make_view = partial(_running_view, lambda: result(no_difference, "stopped"))
    with show_view(make_view("starting")) as screen:
        with before_any_result(screen, "Trial", make_view):
            screen.update(make_view("checkups without and with the change"))
            if program is not None:
                reports = _inspect_programs(program, parsed.edits, checkup)
            else:
                settings, reports = _inspect_copies(setup, parsed, runner, checkup)
        runner.run(screen, make_view)
        difference = paired_difference(score_differences(baseline.runs, changed.runs))
        tried = result(difference, _verdict(difference, baseline.runs, changed.runs))
        tried = replace(tried, headline=_headline(tried), notes=tuple(_notes(tried, setup, start, program)))
        screen.finish(tried)
    return tried


def _choose_program(
    change: SetupChange, build: Callable[[], Any] | None, find_program: Callable[[], Program | None]
) -> Program | None:
    """Return the program that is run with and without a change; None if copies of the setup are trained."""
    if build is None:
        return find_program() if change.needs_program else None
    validate_callable("build", build, "", "Leave it out")
    if not change.edits:
        raise SetupError(
            f"build runs your program, but {change.name} changes no line of it; expected a fix that does. Leave it out."
        )
    return BuiltProgram(build)


def _inspect_programs(program: Program, edits: Sequence[Edit], checkup: Budget | None) -> tuple[Report, Report]:
    """Return the reports on a new setup of a program without and with a change of its source."""
    reports = []
    for own_edits in ((), tuple(edits)):
        with started_program(program, own_edits, 0) as (setup, _), UserCodeErrors(lambda: "in build"):
            reports.append(judge_copy(setup, checkup) if checkup is not None else Report())
    return reports[0], reports[1]


def prepare_experiment(
    setup: Setup, steps: int, seeds: int, score: OwnScore | None, workers: Workers | None = None
) -> tuple[RunScore, bool]:
    """Return the score of the runs, and whether the model itself is trained and restored, as it cannot be copied.

    Raises SetupError for options that cannot be used, and for a setup that cannot be run.
    """
    check_whole_number("steps", steps, MIN_STEPS, MAX_STEPS)
    check_whole_number("seeds", seeds, MIN_SEEDS, MAX_SEEDS)
    validate_callable("score", score, "the copy of the setup", "Leave it out")
    in_place = is_trained_in_place(setup)
    if in_place and workers is not None:
        raise SetupError("model cannot be copied; expected one that can, for workers. Leave workers and backend out.")
    preserved = Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader))
    with preserved, UserCodeErrors(lambda: "before the trial"):
        return RunScore(setup, score), in_place


def is_trained_in_place(setup: Setup) -> bool:
    """Check whether the model cannot be copied, so that it is trained itself and restored."""
    preserved = Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader))
    with preserved, UserCodeErrors(lambda: "before the trial"):
        return bool(copy_obstacle(setup, next(setup.batches(1))))


def _running_view(result: Callable[[], TriedFix], status: str) -> Any:
    return build_view(result(), status)


def _inspect_copies(
    setup: Setup, change: SetupChange, runner: ArmRunner, checkup: Budget | None
) -> tuple[tuple[GroupSetting, ...], tuple[Report, Report]]:
    """Return the settings that a change consists of, and the reports on a copy without and with it."""
    reports: list[Report] = []
    settings: tuple[GroupSetting, ...] = ()
    for changes in ((), (change,)):
        with runner.changed_copy(changes) as treated:
            reports.append(judge_copy(setup_of_copy(treated), checkup) if checkup is not None else Report())
    with runner.changed_copy(()) as treated:
        before = copy_state(treated)
        if change.apply(treated) is True:
            settings = changed_settings(before, copy_state(treated))
    return settings, (reports[0], reports[1])


def _missing_findings(report: Report, other: Report) -> tuple[Finding, ...]:
    """Return the findings of a report that another one lacks, if it could check their rules."""
    present = {_identity(finding) for finding in other}
    return tuple(
        finding for finding in report if finding.code in other.checked_rules and _identity(finding) not in present
    )


def _identity(finding: Finding) -> tuple[str, str | None, str | None, str]:
    return finding.code, finding.where.module, finding.where.parameter, finding.aspect


def _verdict(difference: PairedDifference, before: list[MatchedRun], after: list[MatchedRun]) -> FixVerdict:
    if difference.pairs < MIN_SEEDS:
        return "stopped"
    if all(first.scores == second.scores for first, second in zip(before, after, strict=True)):
        return "no effect"
    return "helps" if difference.sign > 0 else "harms" if difference.sign < 0 else "undecided"


def _headline(tried: TriedFix) -> str:
    """Return the outcome in one or two sentences."""
    if tried.verdict == "stopped":
        return "Stopped before two seeds were complete."
    if tried.verdict == "no effect":
        return f"With {tried.change}, each run has the same {tried.metric} as without it."
    first, second = (float(np.mean([run.score for run in runs])) for runs in (tried.before, tried.after))
    return (
        f"With {tried.change}, the {tried.metric} after {tried.steps} steps is {second:.3g} instead of {first:.3g}. "
        f"The paired difference is {tried.difference}."
    )


def _notes(tried: TriedFix, setup: Setup, start: Sequence[SetupChange], program: Program | None) -> Iterator[str]:
    """Yield how the copies were compared, and the limits of the comparison."""
    pairs = tried.difference.pairs
    after = f" after {join_names([change.name for change in start])}" if start else ""
    if program is not None:
        yield "each run starts your program again, with a copy of its changed lines, and ends after these batches"
    else:
        yield f"copies are trained from your weights{after} by a plain loop: zero_grad, forward, loss, backward, step"
    if 0 < pairs <= _USUAL_SEEDS:
        yield f"with {pairs} pairs, the sign-flip p is at least {tried.difference.smallest_p:.2g}"
    if pairs > 1 and all(run.scores == runs[0].scores for runs in (tried.before, tried.after) for run in runs):
        yield "all seeds give the same run, as nothing in it is random: the interval has no meaning"
    if tried.verdict == "undecided":
        yield "more seeds or steps narrow the interval"
    if setup.scheduler is not None and program is None:
        yield "your schedule is not used; the learning rate is the highest one of its schedule"
