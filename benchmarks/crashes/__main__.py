"""Score the explanations of crashes on the corpus.

    python -m benchmarks.crashes --half development --json out.json
    python -m benchmarks.crashes --only linear_size --show

Each program runs in a process of its own, one after the other. Its exception is explained from the traceback alone.
Four questions: does the first finding name the cause, does it point to an acceptable line, does the program with its
edits run and train, and is there no finding on errors that are not torch's.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import linecache
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import types
import warnings
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

from benchmarks.crashes.case import Crash, Half
from benchmarks.crashes.check import FEWEST_BACKWARD_PASSES, SECONDS_PER_PROGRAM, run
from benchmarks.crashes.corpus import load
from benchmarks.crashes.healthy import HEALTHY
from nbdebug.finding import Edit, Finding
from nbdebug.rule_engine.crash_rules import explain_crash, prepare_explanations
from nbdebug.source.edits import apply_edits


@dataclass
class Explained:
    """What is said of one exception."""

    error: str = ""
    codes: tuple[str, ...] = ()
    text: str = ""
    lines: tuple[int, ...] = ()
    edits: tuple[Edit, ...] = ()
    tried: str = ""
    failures: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass
class Score:
    """The answers for one crash."""

    id: str
    kind: str
    style: str
    codes: tuple[str, ...]
    named: bool
    placed: bool
    runs: bool
    tried: bool
    seconds: float
    problem: str = ""
    text: str = field(default="", repr=False)


def main() -> None:
    """Score the corpus and print the shares."""
    options = _options()
    chosen = [case for case in load(cast(Half, options.half)) if options.only in f"{case.kind} {case.id} {case.style}"]
    prepare_explanations()
    with tempfile.TemporaryDirectory() as folder:
        scores = [_score(case, Path(folder)) for case in chosen]
        others = [] if options.only else [(o.id, _explain(o.source, Path(folder) / f"{o.id}.py")) for o in HEALTHY]
    for score in scores:
        if not (score.named and score.placed and score.runs):
            missing = [name for name in ("named", "placed", "runs") if not getattr(score, name)]
            print(f"{score.id} ({score.kind}, {score.style}): not {', '.join(missing)} {score.codes} {score.problem}")
        if options.show:
            print(score.text, "\n")
    loud = [(name, said.codes) for name, said in others if said.codes]
    for name, codes in loud:
        print(f"{name}: says {codes} of an error that is not torch's")
    print(_summary(scores, len(others), len(loud)))
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(score) for score in scores], indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("development", "held-out"), default="development")
    parser.add_argument("--only", default="", help="those whose kind, id or style contains this text")
    parser.add_argument("--show", action="store_true", help="print the explanations")
    parser.add_argument("--json", default="", help="write the answers to this file")
    return parser.parse_args()


def _summary(scores: list[Score], others: int, loud: int) -> str:
    count = max(len(scores), 1)
    shares = [f"{name} {sum(getattr(s, name) for s in scores)}/{len(scores)}" for name in ("named", "placed", "runs")]
    seconds = sorted(score.seconds for score in scores) or [0.0]
    tried = [score for score in scores if score.tried]
    shares.append(f"tried and runs {sum(s.runs for s in tried)}/{len(tried)}")
    shares.append(f"seconds: median {seconds[count // 2]:.2f}, slowest {seconds[-1]:.2f}")
    return ", ".join([*shares, f"other errors explained {loud}/{others}"])


def _score(case: Crash, folder: Path) -> Score:
    path = folder / f"{case.id}.py"
    said = _explain(case.faulty, path)
    runs, problem = False, "; ".join(said.failures)
    if said.edits and all(edit.file == str(path) for edit in said.edits):
        outcome = run(apply_edits(case.faulty, said.edits), folder / f"{case.id}_changed.py")
        runs = not outcome.error and outcome.backward_passes >= FEWEST_BACKWARD_PASSES
        if outcome.error:
            problem += f" the changed program raises {outcome.error}: {outcome.message[:100]}"
    named, placed = case.is_explained_by(said.text), bool(case.line_numbers & set(said.lines))
    text = f"--- {case.id}: {said.error}\n{said.text}"
    tried = bool(said.tried)
    return Score(case.id, case.kind, case.style, said.codes, named, placed, runs, tried, said.seconds, problem, text)


def _explain(source: str, path: Path) -> Explained:
    """Run a program in a process of its own and explain what it raises."""
    path.write_text(source)
    receiver, sender = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_run_and_explain, args=(source, str(path), sender))
    process.start()
    sender.close()
    said = Explained(error="unfinished")
    with contextlib.suppress(EOFError):
        if receiver.poll(SECONDS_PER_PROGRAM):
            said = Explained(**receiver.recv())  # plain data, since the program replaces __main__
    process.join(1)
    if process.is_alive():
        process.kill()
    return said


def _run_and_explain(source: str, path: str, sender: Connection) -> None:
    module = types.ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    linecache.checkcache()
    said = Explained()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(source, path, "exec", dont_inherit=True), vars(module))
    except Exception as error:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # A loader's handler would raise here after a worker's death.
        started = time.process_time()  # which other programs on the machine do not change
        report = explain_crash(error, with_trace=False)  # as below a cell
        seconds = time.process_time() - started
        said = Explained(f"{type(error).__name__}: {error}"[:300], seconds=seconds)
        said.failures = tuple(f"{rule.code} {rule.why}" for rule in report.not_checked)
        if report.findings:
            said = _describe(said, report.findings)
    sender.send(vars(said))
    sender.close()


def _describe(said: Explained, findings: tuple[Finding, ...]) -> Explained:
    first = findings[0]
    said.codes = tuple(finding.code for finding in findings)
    said.text = f"{first}\n{first.evidence}"
    said.lines = tuple({first.where.line or 0, *(edit.line for edit in first.edits)})
    said.edits, said.tried = first.edits, first.trial
    return said


if __name__ == "__main__":
    main()
