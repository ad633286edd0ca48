"""Check the corpus of crashes: every faulty program raises, every fixed one runs and trains, every cause has its line.

    python -m benchmarks.crashes.check                      all crashes and all other errors
    python -m benchmarks.crashes.check --only linear_size,dtype those whose kind, id or style contains one of the texts
    python -m benchmarks.crashes.check --list               with what each faulty program raises, and where
    python -m benchmarks.crashes.check --table              counts by kind, style and half; runs nothing

Each program runs in a process of its own, one after the other.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import os
import signal
import sys
import tempfile
import traceback
import types
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # Optimizers import it when they are made: once here instead of once in every process.

from benchmarks.crashes.case import STYLES, Crash, OtherError, half
from benchmarks.crashes.corpus import FOLDERS, load
from benchmarks.crashes.healthy import HEALTHY

LONGEST_PROGRAM = 60
SECONDS_PER_PROGRAM = 60
FEWEST_BACKWARD_PASSES = 2


@dataclass(frozen=True)
class Outcome:
    """How a program ended."""

    error: str = ""
    message: str = ""
    own_lines: tuple[int, ...] = ()
    from_torch: bool = False
    backward_passes: int = 0


def main() -> None:
    """Check the corpus; exit with 1 if something is wrong."""
    options = _options()
    crashes = {name: load(name) for name in FOLDERS}
    everything = [case for cases in crashes.values() for case in cases]
    if options.table:
        return print(_table(everything))
    problems = _problems_of_form(everything)
    for name, cases in crashes.items():
        problems += [f"{case.id}: belongs to the half {half(case)}" for case in cases if half(case) != name]
    texts = options.only.split(",")
    chosen = [case for case in everything if any(text in f"{case.kind} {case.id} {case.style}" for text in texts)]
    others = [other for other in HEALTHY if any(text in f"healthy {other.id}" for text in texts)]
    with tempfile.TemporaryDirectory() as folder:
        for case in chosen:
            problems += _problems_of_run(case, Path(folder), options.list)
        for other in others:
            problems += _problems_of_other(other, Path(folder), options.list)
    for problem in problems:
        print(f"WRONG {problem}")
    print(f"{len(chosen)} crashes and {len(others)} other errors checked, {len(problems)} problems")
    sys.exit(bool(problems))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only",
        default="",
        help="check those whose kind, id or style contains one of these texts, separated by commas",
    )
    parser.add_argument("--list", action="store_true", help="print what each program raises")
    parser.add_argument("--table", action="store_true", help="print counts, run nothing")
    return parser.parse_args()


def _table(crashes: list[Crash]) -> str:
    rows = [f"{'kind':<20}{'all':>5}{'dev.':>6}{'held':>6}  styles"]
    for kind in sorted({case.kind for case in crashes}):
        cases = [case for case in crashes if case.kind == kind]
        development = sum(half(case) == "development" for case in cases)
        styles = ", ".join(sorted({case.style for case in cases}))
        rows.append(f"{kind:<20}{len(cases):>5}{development:>6}{len(cases) - development:>6}  {styles}")
    development = sum(half(case) == "development" for case in crashes)
    rows.append(f"{'all':<20}{len(crashes):>5}{development:>6}{len(crashes) - development:>6}")
    rows += [f"{style:<20}{count:>5}" for style, count in Counter(case.style for case in crashes).most_common()]
    return "\n".join(rows)


def _problems_of_form(crashes: list[Crash]) -> list[str]:
    problems = []
    for name, count in Counter(case.id for case in crashes).items():
        if count > 1:
            problems.append(f"{name}: {count} crashes have this name")
    for case in crashes:
        lines = case.faulty.splitlines()
        for text in case.line:
            if (count := sum(text in line for line in lines)) != 1:
                problems.append(f"{case.id}: the text {text!r} stands in {count} lines")
        if not case.line_numbers & case.repaired_line_numbers:
            problems.append(
                f"{case.id}: the repair changes lines {sorted(case.repaired_line_numbers)}, none is acceptable"
            )
        if case.style not in STYLES:
            problems.append(f"{case.id}: unknown style {case.style!r}")
        if len(lines) > LONGEST_PROGRAM:
            problems.append(f"{case.id}: {len(lines)} lines")
        if not case.says or any(entry != entry.lower() for entry in case.says):
            problems.append(f"{case.id}: says {case.says}")
        if (case.style == "notebook_cells") != (len(case.cells) > 1):
            problems.append(f"{case.id}: of style {case.style}, but in {len(case.cells)} cells")
        for number, cell in enumerate([*case.cells, *case.fixed_cells]):
            try:
                compile(cell, case.id, "exec", dont_inherit=True)
            except SyntaxError as error:
                problems.append(f"{case.id}: part {number} is no cell of its own: {error}")
        if len(case.cells) != len(case.fixed_cells):
            problems.append(f"{case.id}: the twins differ in their number of cells")
    return problems


def _problems_of_run(case: Crash, folder: Path, is_listed: bool) -> list[str]:
    problems = []
    faulty = run(case.faulty, folder / f"{case.id}.py")
    if not faulty.error:
        problems.append(f"{case.id}: the faulty program does not raise")
    elif not faulty.own_lines:
        problems.append(f"{case.id}: no line of the faulty program is in the traceback")
    elif case.is_explained_by(faulty.message.split("Original Traceback")[0]):
        problems.append(f"{case.id}: torch's own message has all of {case.says}; an explanation says more")
    if is_listed:
        shown = "at the cause" if case.line_numbers & set(faulty.own_lines) else "elsewhere"
        origin = "torch" if faulty.from_torch else "program"
        print(f"{case.id}: {shown}, lines {faulty.own_lines} ({origin}): {faulty.error}: {faulty.message[:240]}")
    fixed = run(case.fixed, folder / f"{case.id}_fixed.py")
    if fixed.error:
        problems.append(f"{case.id}: the fixed program raises {fixed.error}: {fixed.message}, lines {fixed.own_lines}")
    elif fixed.backward_passes < FEWEST_BACKWARD_PASSES:
        problems.append(f"{case.id}: the fixed program makes {fixed.backward_passes} backward passes")
    return problems


def _problems_of_other(other: OtherError, folder: Path, is_listed: bool) -> list[str]:
    outcome = run(other.source, folder / f"{other.id}.py")
    if is_listed:
        print(f"{other.id}: lines {outcome.own_lines}: {outcome.error}: {outcome.message[:240]}")
    if outcome.error != other.raises:
        return [f"{other.id}: raises {outcome.error or 'nothing'}, not {other.raises}"]
    return [f"{other.id}: the exception comes from torch"] if outcome.from_torch else []


def run(source: str, path: Path) -> Outcome:
    """Run a program in a process of its own."""
    path.write_text(source)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run_and_send, args=(source, str(path), sender))
    process.start()
    sender.close()
    outcome = Outcome(error="Unfinished", message=f"no end after {SECONDS_PER_PROGRAM} s, or the process died")
    with contextlib.suppress(EOFError):
        if receiver.poll(SECONDS_PER_PROGRAM):
            outcome = Outcome(*receiver.recv())
    process.join(1)
    if process.is_alive():
        process.kill()
    return outcome


def _run_and_send(source: str, path: str, sender: Connection) -> None:
    module = types.ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    passes = _count_backward_passes()
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    outcome: tuple[str, str, tuple[int, ...], bool] = ("", "", (), False)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(source, path, "exec", dont_inherit=True), vars(module))
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = tuple(frame.lineno or 0 for frame in frames if frame.filename == path)
        from_torch = f"{os.sep}torch{os.sep}" in frames[-1].filename
        outcome = (type(error).__name__, str(error), own, from_torch)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # A loader's handler would raise here after a worker's death.
    sender.send((*outcome, sum(passes.values())))
    sender.close()


def _count_backward_passes() -> Counter[str]:
    passes: Counter[str] = Counter()

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **keywords: Any) -> Any:
            passes[name] += 1
            return function(*args, **keywords)

        return call

    for name in ("backward", "grad"):
        setattr(torch.autograd, name, counted(name, getattr(torch.autograd, name)))
    return passes


if __name__ == "__main__":
    main()
