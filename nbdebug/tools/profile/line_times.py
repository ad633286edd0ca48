"""Seconds of the user's lines, from the exact time of the phases and the samples within each."""

from __future__ import annotations

import ast
import linecache
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import mean, median
from typing import Any

from nbdebug.source.assignments import covering_statement, function_by_name
from nbdebug.source.location import SourceLine, get_code
from nbdebug.source.search import call_name, covers_line, enclosing_scope, innermost_loop
from nbdebug.tools.profile.line_sampler import LineSampler
from nbdebug.tools.profile.phases import LineCharges
from nbdebug.tools.profile.time_profile import LineTime

_MIN_SHARE = 0.01  # of the step time, for a line in the table
_MAX_LINES = 40
_LOOP_PHASES = ("python", "evaluation")  # their lines are those of the loop, which call everything below
_SAVING_CALLS = {"save", "save_checkpoint", "save_model", "save_pretrained", "dump", "save_file", "savez", "to_pickle"}


def line_times(
    sampler: LineSampler, charges: list[LineCharges], phase_seconds: Mapping[str, float], loss_fn: Any
) -> tuple[LineTime, ...]:
    """Return the lines of each phase with their seconds per step, slowest first.

    ``charges`` are the times of the lines of the loop in a traced run; with the samples, they only divide the time of
    each phase in a run that no trace slows down, ``phase_seconds``. Samples outside the hooked phases in the function
    of the loss count as phase "loss".
    """
    lines = [*_loop_lines(charges, phase_seconds), *_called_lines(sampler, phase_seconds, loss_fn)]
    called = {item.phase for item in lines if not item.is_loop_line}
    lines = [item for item in lines if not item.is_loop_line or item.phase not in called or item.phase == "python"]
    shown = [item for item in lines if item.seconds >= _MIN_SHARE * sum(phase_seconds.values())]
    return tuple(sorted(shown, key=lambda item: -item.seconds)[:_MAX_LINES])


def _loop_lines(charges: list[LineCharges], phase_seconds: Mapping[str, float]) -> Iterator[LineTime]:
    """Yield the lines of the loop."""
    sums: dict[tuple[str, SourceLine | None], float] = defaultdict(float)
    totals: dict[str, float] = defaultdict(float)
    for step in charges:
        for (phase, line), seconds in step.items():
            sums[phase, line] += seconds
            totals[phase] += seconds
    for (phase, line), seconds in sums.items():
        if line is not None and totals[phase]:
            growth = _growth([step.get((phase, line), 0.0) for step in charges])
            yield LineTime(phase, line, line.text, phase_seconds[phase] * seconds / totals[phase], growth, True)


def _called_lines(sampler: LineSampler, phase_seconds: Mapping[str, float], loss_fn: Any) -> Iterator[LineTime]:
    """Yield the sampled lines of the functions that the loop calls.

    A line and a comprehension in it, which may have a frame of its own, are one line.
    """
    sums: dict[tuple[str, str, int], tuple[SourceLine, float]] = {}
    for (phase, line), seconds in sampler.seconds.items():
        known, earlier = sums.get((phase, line.file, line.number), (line, 0.0))
        outer = known if line.function.startswith("<") else line
        sums[phase, line.file, line.number] = outer, seconds + earlier
    for (phase, _, _), (line, seconds) in sums.items():
        is_loss = phase == "python" and _is_line_of(line, loss_fn)
        if phase in phase_seconds and (phase not in _LOOP_PHASES or is_loss):
            share = seconds / sampler.totals[phase]
            yield LineTime("loss" if is_loss else phase, line, line.text, phase_seconds[phase] * share)


def _is_line_of(line: SourceLine, function: Any) -> bool:
    """Check whether a line belongs to a function, or to the ``forward`` of a module."""
    code = get_code(getattr(function, "forward", function)) if function is not None else None
    return code is not None and code.co_filename == line.file and code.co_name == line.function


def _growth(seconds: list[float]) -> float:
    """Return the typical time in the last third of the steps divided by that in the first third.

    It is the smaller one of the ratios of sums and of medians: a few slow steps are no growth.
    """
    third = len(seconds) // 3
    if third < 2:
        return 1.0
    first, last = seconds[:third], seconds[-third:]
    return min(summary(last) / max(summary(first), 1e-5) for summary in (mean, median))


def is_in_loop(line: SourceLine) -> bool:
    """Check whether a line is inside a loop or a comprehension of its own function."""
    scope, statement = enclosing_scope(line), covering_statement(line)
    if scope is not None and innermost_loop(scope, line.number) is not None:
        return True
    comprehensions = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    return statement is not None and any(isinstance(node, comprehensions) for node in ast.walk(statement))


def function_name(line: SourceLine) -> str:
    """Return the name of the function around a line; a comprehension, which may have a frame of its own, is none."""
    return getattr(enclosing_scope(line), "name", line.function)


def own_loop(line: SourceLine, step_lines: Iterable[SourceLine]) -> int:
    """Return the first line of the outermost loop around a line in which no step is made; the line itself if none."""
    scope = enclosing_scope(line)
    steps = [step.number for step in step_lines if (step.file, step.function) == (line.file, line.function)]
    loops = [node for node in ast.walk(scope) if isinstance(node, (ast.For, ast.While))] if scope is not None else []
    around = [node for node in loops if covers_line(node, line.number)]
    without_step = [node.lineno for node in around if not any(covers_line(node, step) for step in steps)]
    return min(without_step, default=line.number)


def called_names(line: SourceLine) -> set[str]:
    """Return the names of the functions that the statement of a line calls."""
    statement = covering_statement(line)
    if isinstance(statement, (ast.For, ast.While, ast.If, ast.With)):
        return set()
    return {call_name(node) for node in ast.walk(statement) if isinstance(node, ast.Call)} if statement else set()


def saves_checkpoint(line: SourceLine) -> bool:
    """Check whether a line calls a function that writes a checkpoint, or one of its file that does so."""
    names = called_names(line)
    bodies = [function_by_name(line.file, name) for name in names - _SAVING_CALLS]
    calls = (node for body in bodies if body is not None for node in ast.walk(body) if isinstance(node, ast.Call))
    return bool(names & _SAVING_CALLS) or any(call_name(call) in _SAVING_CALLS for call in calls)


def find_line(files: Iterable[str], is_match: Callable[[str], bool]) -> SourceLine | None:
    """Return the only line in some files whose text matches, or the first of several."""
    for file in sorted(files):
        for number, text in enumerate(linecache.getlines(file), 1):
            if is_match(text.partition("#")[0]):
                return SourceLine(file, number)
    return None
