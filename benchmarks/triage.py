"""Ask triage for the cause of each mistake of a corpus, from its symptom in words alone.

    python -m benchmarks.triage CORPUS                      all cases of CORPUS/cases
    python -m benchmarks.triage CORPUS --only softmax       cases whose file name contains a word
    python -m benchmarks.triage CORPUS --json rows.jsonl    one line for each case, as soon as it is known

A corpus is a folder with ``program.py``, which loads a case: a program, the symptom of its mistake, and the codes of
the rules that name it. Triage asks the program before training. Where no error explains the symptom, it recommends to
watch the loop, so the program is trained under watch, and triage is asked again. A case counts as named if the first
finding has an accepted code, and as one of three if one of the first three has.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from nbdebug.debugger import Debugger


def triage_case(program: Any, symptom: str) -> tuple[Any, bool]:
    """Return the triage of a program, and whether its loop had to be watched."""
    debugger = Debugger(
        program.model,
        program.train_loader,
        program.val_loader,
        loss_fn=program.loss_fn,
        optimizer=program.optimizer,
        scheduler=program.scheduler,
        task=program.task,
    )
    result = debugger.triage(symptom)
    if result.established:
        return result, False
    with debugger.watch():
        program.train(program)
    return debugger.triage(symptom), True


def run_case(load: Any, path: Path, seed: int) -> dict[str, Any]:
    """Return the row of one case."""
    case, build = load.load_case(path)
    load.seed_everything(seed)
    start, row = time.perf_counter(), {"case": case.id, "symptom": case.symptom, "accepts": case.accepts}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            result, watched = triage_case(build(fixed=False, seed=seed), case.symptom)
    except Exception as error:
        return {**row, "named": False, "top3": False, "codes": [], "error": f"{type(error).__name__}: {error}"}
    codes = list(dict.fromkeys(finding.code for finding in result.findings))
    return {
        **row,
        "named": bool(codes) and codes[0] in case.accepts,
        "top3": any(code in case.accepts for code in codes[:3]),
        "codes": codes,
        "patterns": result.patterns,
        "watched": watched,
        "established": result.established,
        "seconds": time.perf_counter() - start,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases, and print a line for each and the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--part", default="0/1", help="I/N: only every Nth case, from the Ith on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    sys.path.insert(0, str(options.corpus))
    load = importlib.import_module("program")
    index, parts = map(int, options.part.split("/"))
    paths = [path for path in load.case_files(options.corpus / "cases") if options.only in path.stem][index::parts]
    rows = []
    for path in paths:
        row = run_case(load, path, options.seed)
        rows.append(row)
        mark = "named" if row["named"] else "top 3" if row["top3"] else "MISSED"
        print(f"{mark:6} {row['case']:44} {row.get('seconds', 0):6.1f}s  {', '.join(row['codes'][:5])}"
              f"  {row.get('error', '')}", flush=True)  # fmt: skip
        if options.json:
            with options.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    named, top3 = sum(row["named"] for row in rows), sum(row["top3"] for row in rows)
    print(
        f"named {named}/{len(rows)} = {named / len(rows):.0%}   top three {top3}/{len(rows)} = {top3 / len(rows):.0%}"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
