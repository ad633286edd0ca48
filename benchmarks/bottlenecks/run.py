"""Measure how well ``profile()`` names planted bottlenecks, and what applying its advice brings.

Run ``python -m benchmarks.bottlenecks.run tuning``, ``loop``, ``fresh``, ``held_out`` or ``everyday``, with names of
cases to run only those.
A bottleneck is right if the first advice is of its kind, placed if the advice names one of its marked lines, and
close if the predicted gain is within 10 % of what the program with the advice applied brings. Of those that are not
close, it is counted apart whether the prediction lies in the 95 % interval of what the advice brings, and whether the
range that the profile states contains it. A balanced program must get no advice and no finding of P801 to P808.
The program and the changed one run in short alternating blocks, and their times do not include the time in which other
programs had the core.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import time
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import mkdtemp

from benchmarks.bottlenecks.interleaved import Brought, brought_gain, build, started_process
from benchmarks.bottlenecks.programs import Case, Change
from nbdebug.tools.profile import Profile

TOLERANCE = 0.1
# A user creates the debugger in the file of the program.
DEBUGGER = """

from nbdebug.debugger import Debugger

def debug(p):
    return Debugger(p.model, p.train_loader, p.val_loader, loss_fn=p.loss_fn, optimizer=p.optimizer)
"""
NAMES = ("tuning", "loop", "fresh", "held_out", "everyday")


@dataclass
class Outcome:
    """What the profile said of a case, and what its advice brought."""

    name: str
    right: bool
    advice: str
    placed: bool | None = None
    predicted: float | None = None
    range: tuple[float, float] | None = None
    brought: Brought | None = None
    overhead: float = 0.0
    seconds: float = 0.0

    @property
    def is_close(self) -> bool:
        """Check whether the predicted gain is within the tolerance of what the change brought."""
        if self.predicted is None or self.brought is None:
            return False
        return abs(self.predicted / self.brought.gain - 1) <= TOLERANCE

    @property
    def is_in_interval(self) -> bool:
        """Check whether the predicted gain lies in the interval of what the change brought."""
        if self.predicted is None or self.brought is None:
            return False
        return self.brought.low <= self.predicted <= self.brought.high

    @property
    def states_brought(self) -> bool:
        """Check whether the range that the profile states contains what the change brought."""
        if self.range is None or self.brought is None:
            return False
        return self.range[0] <= self.brought.gain <= self.range[1]


def main(half: str, names: list[str]) -> None:
    """Run the cases of a half and print a line for each."""
    cases: list[Case] = import_module(f"benchmarks.bottlenecks.{half}_cases").CASES
    outcomes = [run_case(case) for case in cases if not names or case.name in names]
    planted = [outcome for outcome in outcomes if outcome.placed is not None]
    balanced = [outcome for outcome in outcomes if outcome.placed is None]
    ranged = [outcome for outcome in planted if outcome.range is not None]
    print(
        f"right {sum(o.right for o in planted)}/{len(planted)}, "
        f"placed {sum(bool(o.placed) for o in planted)}/{len(planted)}, "
        f"gain within 10 % {sum(o.is_close for o in planted)}/{len(planted)}, "
        f"within 10 % or in the interval {sum(o.is_close or o.is_in_interval for o in planted)}/{len(planted)}, "
        f"stated range contains it {sum(o.states_brought for o in ranged)}/{len(ranged)}, "
        f"alarms {sum(not o.right for o in balanced)}/{len(balanced)}, "
        f"overhead at most {max((o.overhead for o in outcomes), default=0.0):.1%}"
    )


def run_case(case: Case) -> Outcome:
    """Profile a case in a process of its own, and apply the advice."""
    started = time.perf_counter()
    case = isolate(case)
    with started_process(send_judgment, case) as pipe:
        outcome, code = pipe.recv()
    if outcome.predicted is not None:
        outcome.brought = brought_gain(case, change_for(code))
    outcome.seconds = time.perf_counter() - started
    planted = f"close={outcome.is_close} in_interval={outcome.is_in_interval} states_brought={outcome.states_brought}"
    print(json.dumps(asdict(outcome)), "" if outcome.placed is None else planted, flush=True)
    return outcome


def send_judgment(case: Case, pipe: Connection) -> None:
    """Profile a case, and send what the profile says with the code of its first advice."""
    result, codes = profiled(case)
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
            outcome.range = (first.low, first.high) if first.low < first.high else None
    pipe.send((outcome, first.code if first else ""))


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


def profiled(case: Case) -> tuple[Profile, list[str]]:
    """Return the profile of a program, and the codes of the findings on it."""
    program = build(case, Change())
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


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        sys.exit(f"half is {sys.argv[1:2]}; expected one of {NAMES}.")
    main(sys.argv[1], sys.argv[2:])
