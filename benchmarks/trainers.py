"""Are the findings of a run in each trainer those of a bare loop with the same objects, on all programs of a corpus?

Run: python -m benchmarks.trainers CORPUS [--only WORD] [--trainer NAME ...] [--epochs 4] [--every 1] [--checkup]
     [--twins]

A corpus is a folder with ``program.py``, which loads a case, and ``cases``. A case fits the form of a trainer if epochs
of the usual steps (forward, backward, clip, step), with a scheduler that steps each epoch and a validation in eval
mode, train the same weights as its own loop, bit for bit; the others have their mistake in the loop itself. Each run is
a watch of the first epochs that looks at every step: by default the time of a step decides which steps it looks at, and
the steps of a trainer take longer. ``--every 0`` is that default. Findings are equal if the codes of all errors and
warnings are the same; those of the Trainer of Transformers are compared with a bare loop of the same model, which
returns its loss.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

from benchmarks.trainer_loops import (
    BARE,
    BARE_WITH_OWN_LOSS,
    WATCHES,
    ProgramRun,
    fit_bare,
    is_expressible,
    observe_loop,
    parameters_equal,
)

TRAINERS = [name for name in WATCHES if name not in (BARE, BARE_WITH_OWN_LOSS)]


def reference(trainer: str) -> str:
    """Return the bare loop with which a trainer is compared."""
    return BARE_WITH_OWN_LOSS if trainer == "Transformers" else BARE


def compare_case(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return the codes that each trainer shows for a case, or why it has none; no trainer if the case does not fit."""
    torch.set_num_threads(1)
    sys.path.insert(0, str(options.corpus))
    load: Any = __import__("program")

    def build() -> Any:
        load.seed_everything(0)
        return load.load_case(path)[1](fixed=options.twins, seed=0)

    codes: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        torch.manual_seed(0)
        own = build()
        loop = observe_loop(own, options.epochs)
        run = ProgramRun(build(), loop)
        with contextlib.suppress(Exception):
            fit_bare(run)
            if parameters_equal((own.model, run.program.model)):
                names = [*options.trainer, *{reference(trainer): None for trainer in options.trainer}]
                runs = {
                    name: ProgramRun(build(), loop, options.checkup, options.every or None)
                    for name in names
                    if is_expressible(name, loop)
                }
                codes = {name: find_codes(name, run) for name, run in runs.items()}
    return {"case": path.stem, "loop": loop, "codes": codes}


def find_codes(trainer: str, run: ProgramRun) -> list[str] | str:
    """Return the codes of all faults that a trainer shows; the end of the traceback if it cannot train the program."""
    try:
        return sorted({finding.code for finding in WATCHES[trainer](run).findings.faults})
    except Exception:
        return traceback.format_exc().strip().splitlines()[-1]


def describe_case(row: dict[str, Any]) -> str:
    """Return the codes of a case in bare loops, and those of each trainer that differ."""
    codes = row["codes"]
    if not codes:
        return f"{row['case']:44} does not fit"
    expected = codes.get(BARE, codes.get(BARE_WITH_OWN_LOSS, []))
    lines = [f"{row['case']:44} {' '.join(expected) or 'quiet'}"]
    for trainer in TRAINERS:
        expected = codes.get(reference(trainer))
        if trainer in codes and codes[trainer] != expected:
            lines.append(f"    {trainer}: {codes[trainer]}; {reference(trainer)}: {expected}")
    return "\n".join(lines)


def main() -> None:
    """Print each case whose findings differ, and for each trainer how many are equal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--trainer", action="append", choices=TRAINERS)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--every", type=int, default=1, help="the steps from one look to the next")
    parser.add_argument("--checkup", action="store_true", help="run a checkup before each watch")
    parser.add_argument("--twins", action="store_true", help="the programs without their mistakes")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    options.trainer = options.trainer or TRAINERS
    paths = [path for path in sorted((options.corpus / "cases").glob("[a-z]*.py")) if options.only in path.stem]
    rows = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for job in [pool.submit(compare_case, path, options) for path in paths]:
            rows.append(job.result())
            print(describe_case(rows[-1]), flush=True)
    fitting = [row["codes"] for row in rows if row["codes"]]
    print(f"\n{len(fitting)} of {len(rows)} programs fit the form of a trainer")
    for trainer in options.trainer:
        trained = [codes for codes in fitting if isinstance(codes.get(trainer), list)]
        equal = sum(codes[trainer] == codes.get(reference(trainer)) for codes in trained)
        print(f"{trainer:14} trains {len(trained)}, of which {equal} have equal findings")


if __name__ == "__main__":
    main()
