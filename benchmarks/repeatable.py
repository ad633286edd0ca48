"""Measure whether dbg.repeatable() names the planted source of 30 programs, and leaves repeatable programs alone.

Run ``python -m benchmarks.repeatable`` for the planted causes, with ``--healthy FOLDER...`` for folders of programs
that are repeatable. A program is a file that makes ``dbg``, or a model, loaders, a loss and an optimizer, or that
defines ``program(fixed, seed)``, which returns an object with these. The comments ``# source:`` and ``# line:`` at the
head of a planted program are the truth about it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import re
import sys
import time
from pathlib import Path
from typing import Any

import nbdebug

FOLDER = Path(__file__).parent / "repeatability"
# The programs that were used while the tool was written; the others were scored once it was finished.
TUNED = {
    "clock_seed_in_collate", "worker_fresh_generator", "random_flip", "numpy_dropout", "class_counter",
    "set_of_columns", "half_filled_buffer", "global_running_mean", "module_generator", "futures_as_completed",
    "unsorted_files", "dataset_generator", "unseeded_shuffle",
}  # fmt: skip
STEPS, TIMEOUT = 20, 300.0


def load_program(path: Path) -> dict[str, Any]:
    """Run a program file and return its variables."""
    spec = importlib.util.spec_from_file_location(f"program_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return vars(module)


def debugger_of(path: Path) -> nbdebug.Debugger:
    """Return the debugger of a program: its own, or one of its objects, which are made after seeding everything."""
    sys.path += [str(folder) for folder in path.parents if folder.joinpath("program.py").exists()]
    if "dbg =" not in path.read_text(encoding="utf-8"):
        nbdebug.seed(0)
    names = load_program(path)
    if "dbg" in names:
        return names["dbg"]
    if "program" in names:
        names = vars(names["program"](fixed=True, seed=0))
    options = {
        name: names[name]
        for name in ("loss_fn", "optimizer", "scheduler", "forward", "unpack", "step_fn")
        if name in names
    }
    debugger = nbdebug.Debugger(names["model"], names["train_loader"], names.get("val_loader"), **options)
    debugger.setup.files.add(str(path))
    return debugger


def measure(path: str, answers: Any) -> None:
    """Put the answer on one program into a queue; runs in a process of its own."""
    started = time.perf_counter()
    try:
        debugger = debugger_of(Path(path))
        if "dbg =" in Path(path).read_text(encoding="utf-8"):
            debugger.setup.files.discard(__file__)  # it seeds programs that do not do so themselves
        result = debugger.repeatable(steps=STEPS)
        line = result.where
        answer = {
            "verdict": result.verdict,
            "sources": [cause.name for cause in result.causes],
            "line": (line.source or "") if line.line else "",
            "place": result.place,
            "unchecked": list(result.unchecked),
        }
    except BaseException as error:
        answer = {"verdict": f"{type(error).__name__}: {error}", "sources": [], "line": "", "place": ""}
    answers.put({**answer, "seconds": round(time.perf_counter() - started, 1)})


def answer_on(path: Path) -> dict[str, Any]:
    """Return the answer on one program, from a new process."""
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=measure, args=(str(path), answers))
    process.start()
    try:
        return answers.get(timeout=TIMEOUT)
    except Exception:
        return {"verdict": "no answer", "sources": [], "line": "", "place": "", "seconds": TIMEOUT}
    finally:
        process.kill()
        process.join()


def truth_of(path: Path) -> tuple[str, str]:
    """Return the planted source of a program, and a part of its line."""
    text = path.read_text(encoding="utf-8")
    source, line = (re.search(rf"^# {name}:(.*)$", text, re.MULTILINE) for name in ("source", "line"))
    return (source.group(1).strip() if source else ""), (line.group(1).strip() if line else "")


def score_planted(paths: list[Path]) -> None:
    """Print the answer on each planted program and the totals, apart for those that were tuned on."""
    rows = []
    for path in paths:
        answer, (source, line) = answer_on(path), truth_of(path)
        is_named = bool(answer["sources"]) and answer["sources"][0].startswith(source)
        is_located = not line or line in answer["line"]
        rows.append((path.stem in TUNED, is_named, is_located))
        print(
            f"{'ok  ' if is_named and is_located else 'MISS'} {path.stem}: {json.dumps(answer, ensure_ascii=False)}",
            flush=True,
        )
    for title, tuned in (("tuned", True), ("first run", False)):
        own = [row for row in rows if row[0] is tuned]
        print(f"{title}: {sum(row[1] for row in own)} of {len(own)} sources, {sum(row[2] for row in own)} lines")


def score_healthy(paths: list[Path]) -> None:
    """Print the answer on each repeatable program and the number of alarms."""
    answers = []
    for path in paths:
        answer = answer_on(path)
        if answer["verdict"].startswith("KeyError"):
            print(f"skip {path.stem}: it has no variable {answer['verdict'][10:]}")
            continue
        answers.append(answer)
        is_quiet = answers[-1]["verdict"] == "repeatable"
        print(
            f"{'ok  ' if is_quiet else 'ALARM'} {path.stem}: {json.dumps(answers[-1], ensure_ascii=False)}", flush=True
        )
    print(f"repeatable: {sum(a['verdict'] == 'repeatable' for a in answers)} of {len(answers)}")


def main() -> None:
    """Score the planted programs, or those of other folders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--healthy", nargs="*", default=None, help="folders of repeatable programs")
    parser.add_argument("--only", nargs="*", default=None, help="names of programs")
    parser.add_argument("--tuned", action="store_true", help="only the planted programs that were tuned on")
    options = parser.parse_args()
    folders = (
        [FOLDER / "planted"] if options.healthy is None else [Path(f) for f in options.healthy or [FOLDER / "healthy"]]
    )
    paths = [path for folder in folders for path in sorted(folder.glob("[a-z]*.py"))]
    paths = [p for p in paths if options.only is None or p.stem in options.only]
    paths = [p for p in paths if not options.tuned or p.stem in TUNED]
    (score_planted if options.healthy is None else score_healthy)(paths)


if __name__ == "__main__":
    main()
