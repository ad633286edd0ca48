"""Measure how well ``profile()`` names planted bottlenecks, and what applying its advice brings.

Run ``python -m benchmarks.bottlenecks.run tuning``, ``fresh``, ``held_out`` or ``everyday``, with names of cases to run
only those.
A bottleneck is right if the first advice is of its kind, placed if the advice names one of its marked lines, and
predicted if the gain is within 10 % of what the program with the advice applied brings. A balanced program must get no
advice and no finding of P801 to P808. Programs run interleaved, in load-free time: without the time in which other
programs had the core.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from benchmarks.bottlenecks.programs import Case, Change, Program, endless, update
from nbdebug.tools.profile import Profile
from nbdebug.tools.profile.clocks import host_seconds

THREADS = 1  # except where a program sets another number
WARMUP, STEPS, ROUNDS = 3, 30, 5
MIN_SECONDS = 0.4  # of a run, unless its steps take longer with their number
TOLERANCE = 0.1
# A user creates the debugger in the file of the program.
DEBUGGER = """

from nbdebug.debugger import Debugger

def debug(p):
    return Debugger(p.model, p.train_loader, p.val_loader, loss_fn=p.loss_fn, optimizer=p.optimizer)
"""
NAMES = ("tuning", "fresh", "held_out", "everyday")


class StepLimit(BaseException):
    """Ends a loop."""


@dataclass
class Outcome:
    """What the profile said of a case."""

    name: str
    right: bool
    advice: str
    placed: bool | None = None
    predicted: float | None = None
    range: tuple[float, float] | None = None
    brought: float | None = None
    overhead: float = 0.0
    seconds: float = 0.0

    @property
    def is_close(self) -> bool:
        """Check whether the predicted gain is within the tolerance of what the change brought."""
        if self.predicted is None or self.brought is None:
            return False
        return abs(self.predicted / self.brought - 1) <= TOLERANCE


def main(half: str, names: list[str]) -> None:
    """Run the cases of a half and print a line for each."""
    cases: list[Case] = import_module(f"benchmarks.bottlenecks.{half}_cases").CASES
    outcomes = [run_case(case) for case in cases if not names or case.name in names]
    planted = [outcome for outcome in outcomes if outcome.placed is not None]
    balanced = [outcome for outcome in outcomes if outcome.placed is None]
    print(
        f"right {sum(o.right for o in planted)}/{len(planted)}, "
        f"placed {sum(bool(o.placed) for o in planted)}/{len(planted)}, "
        f"gain within 10 % {sum(o.is_close for o in planted)}/{len(planted)}, "
        f"alarms {sum(not o.right for o in balanced)}/{len(balanced)}, "
        f"overhead at most {max(o.overhead for o in outcomes):.1%}"
    )


def run_case(case: Case) -> Outcome:
    """Profile a case, and apply the advice."""
    started = time.perf_counter()
    case = isolate(case)
    result, codes = profiled(case, build(case, Change()))
    first = result.advice[0] if result.advice else None
    text = f"{first.kind}: {first.headline}" if first else "balanced"
    outcome = Outcome(case.name, True, text, overhead=result.overhead)
    if not case.kinds:
        outcome.right = first is None and not codes
        outcome.advice += f" {codes}" if codes else ""
    else:
        outcome.right = first is not None and first.kind in case.kinds
        outcome.placed = first is not None and first.line is not None and first.line.number in marked_lines(case)
        if first is not None and outcome.right:
            outcome.predicted = first.gain
            outcome.range = (first.low, first.high) if first.is_measured else None
            outcome.brought = brought_gain(case, change_for(first.code))
    outcome.seconds = time.perf_counter() - started
    print(json.dumps(asdict(outcome)), "" if outcome.placed is None else f"close={outcome.is_close}", flush=True)
    return outcome


def build(case: Case, change: Change) -> Program:
    """Build a program with the settings of a new process."""
    torch.manual_seed(0)
    torch.set_num_threads(THREADS)
    torch.autograd.set_detect_anomaly(False)
    return case.build(change)


def isolate(case: Case) -> Case:
    """Return a case in a file of its own, as a user's program is."""
    module = inspect.getmodule(case.build)
    header = inspect.getsource(module).partition("CASES: list")[0]
    source = f"{header}\n{inspect.getsource(case.build).partition(chr(10))[2]}{DEBUGGER}"
    path = Path(mkdtemp()) / f"{case.name}.py"
    path.write_text(source)
    spec = spec_from_file_location(case.name, path)
    program = module_from_spec(spec)
    sys.modules[case.name] = program
    spec.loader.exec_module(program)
    return Case(getattr(program, case.name), case.kinds)


def profiled(case: Case, program: Program) -> tuple[Profile, list[str]]:
    """Return the profile of a program, and the codes of the findings on it."""
    debugger = sys.modules[case.name].debug(program)
    result = debugger.profile(program.train)
    return result, [finding.code for finding in debugger.findings]


def marked_lines(case: Case) -> set[int]:
    """Return the numbers of the marked lines of a program."""
    lines, first = inspect.getsourcelines(case.build)
    return {first + i for i, line in enumerate(lines) if line.rstrip().endswith("# here")}


def change_for(code: str) -> Change:
    """Return the change that a line of advice describes."""
    if match := re.search(r"num_workers=(\d+)", code):
        return Change(workers=int(match[1]))
    if match := re.search(r"batch_size=(\d+)", code):
        return Change(batch_size=int(match[1]))
    if match := re.search(r"set_num_threads\((\d+)\)", code):
        return Change(threads=int(match[1]))
    if match := re.search(r"step % (\d+) == 0", code):
        return Change(every=int(match[1]))
    return Change(fixed=True)


def brought_gain(case: Case, change: Change) -> float:
    """Return the samples per second with the change divided by those without, as the median of interleaved rounds."""
    ratios, is_growing = [], "growing" in case.kinds
    for _ in range(ROUNDS):
        before = seconds_per_sample(build(case, Change()), is_growing)
        ratios.append(before / seconds_per_sample(build(case, change), is_growing))
    return median(ratios)


def seconds_per_sample(program: Program, is_growing: bool) -> float:
    """Return the mean time of a step after the warm-up, divided by the samples of a batch."""
    loop = program.train or (lambda: plain_loop(program))
    warmup = WARMUP + 3 * program.train_loader.num_workers  # until prefetched batches are used up
    stamps = run_steps(loop, warmup, 0.0 if is_growing else MIN_SECONDS)
    return (stamps[-1] - stamps[warmup]) / (len(stamps) - 1 - warmup) / (program.train_loader.batch_size or 1)


def plain_loop(program: Program) -> None:
    """Train without anything else."""
    for _, (x, y) in endless(program.train_loader):
        update(program, x, y)


def run_steps(loop: Callable[[], Any], warmup: int, seconds: float) -> list[float]:
    """Run a loop for some steps after the warm-up, and return the time at the end of each."""
    stamps: list[float] = []

    def end_step(*_: Any) -> None:
        stamps.append(host_seconds())
        if len(stamps) > warmup + STEPS and stamps[-1] - stamps[warmup] >= seconds:
            raise StepLimit

    handle = register_optimizer_step_post_hook(end_step)
    try:
        loop()
    except StepLimit:
        pass
    finally:
        handle.remove()
    return stamps


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        sys.exit(f"half is {sys.argv[1:2]}; expected one of {NAMES}.")
    main(sys.argv[1], sys.argv[2:])
