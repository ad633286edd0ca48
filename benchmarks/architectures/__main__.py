"""Checkup and three watched steps on every model family that the installed packages can build.

python -m benchmarks.architectures run [--package transformers] [--families bert,gpt2] [--results FILE] [--seconds 60]
python -m benchmarks.architectures ledger [--results FILE]     adds the outcomes to ledger.csv
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LEDGER = Path(__file__).parent / "ledger.csv"
_LIBRARIES: list[Any] = []  # an operator lives as long as its library
BUILD_SECONDS, CHECK_SECONDS, _FAMILIES_PER_PROCESS = 25, 60, 20  # of this process, so that others do not matter


class OutOfTime(BaseException):
    """The time of a family is over; no rule catches it."""


def _stop(*_: Any) -> None:
    raise OutOfTime


def check_family(package: str, family: str, seconds: int = CHECK_SECONDS) -> dict[str, Any]:
    """Return the outcome of one family, whose check may take some seconds of the processor."""
    from benchmarks.architectures.check import check
    from benchmarks.architectures.models import PACKAGES, NotBuilt

    row: dict[str, Any] = {"package": package, "family": family}
    start = time.perf_counter()
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, BUILD_SECONDS)
    try:
        candidate = PACKAGES[package][1](family)
        row["build_seconds"] = round(time.perf_counter() - start, 1)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        row |= check(candidate)
    except NotBuilt as reason:
        row["not_built"] = str(reason)
    except OutOfTime:
        is_built = "build_seconds" in row
        row["timeout" if is_built else "not_built"] = f"more than {seconds if is_built else BUILD_SECONDS} s"
    except Exception as error:
        row["not_built" if "build_seconds" not in row else "crash"] = f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return row


def define_torchvision_operators() -> None:
    """Let torchvision be imported beside a torch without its compiled operators, which no classifier calls."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _LIBRARIES.append(library)


def work(package: str, families: Iterable[str], results: Path, seconds: int) -> None:
    """Check families one after another in this process, and append each outcome to a file."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    try:
        import transformers

        transformers.utils.logging.set_verbosity_error()
    except Exception:
        pass
    for family in families:
        row = check_family(package, family, seconds)
        gc.collect()
        with results.open("a") as file:
            file.write(json.dumps(row, default=str) + "\n")


def run(package: str, families: list[str], results: Path, seconds: int) -> None:
    """Check families in processes of twenty; a process that dies costs only the family that it died in."""
    remaining = [name for name in families if name not in done(results, package)]
    while remaining:
        batch = remaining[:_FAMILIES_PER_PROCESS]
        command = [
            sys.executable,
            "-m",
            "benchmarks.architectures",
            "work",
            "--package",
            package,
            "--families",
            ",".join(batch),
            "--seconds",
            str(seconds),
        ]
        limit = 60 + 10 * seconds * len(batch)
        try:
            process = subprocess.run(
                [*command, "--results", str(results)], timeout=limit, capture_output=True, text=True
            )
            death = f"the process ended with {process.returncode}: {process.stderr[-200:]}"
        except subprocess.TimeoutExpired:
            death = f"the process took more than {limit} s"
        checked = done(results, package)
        dead = next((name for name in batch if name not in checked), None)
        if dead is not None:
            with results.open("a") as file:
                file.write(json.dumps({"package": package, "family": dead, "crash": death}) + "\n")
        remaining = [name for name in remaining if name not in checked and name != dead]
        print(f"{time.strftime('%H:%M:%S')} {package}: {len(remaining)} families remain", flush=True)


def read(results: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of outcomes."""
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def done(results: Path, package: str) -> set[str]:
    """Return the families whose outcome is in the file."""
    return {row["family"] for row in read(results) if row["package"] == package}


def write_ledger(rows: list[dict[str, Any]]) -> None:
    """Replace the lines of the ledger on some families, and print the numbers of families by package and outcome."""
    import pandas as pd

    names = ["package", "family"]
    earlier = pd.read_csv(LEDGER, dtype=str, keep_default_na=False) if LEDGER.exists() else pd.DataFrame()
    lines = pd.DataFrame([_ledger_line(row) for row in rows]).astype(str)
    frame = pd.concat([earlier, lines]).drop_duplicates(names, keep="last").sort_values(names)
    frame.to_csv(LEDGER, index=False)
    print(frame.groupby(["package", "outcome"]).size().unstack(fill_value=0).to_string())


def _ledger_line(row: dict[str, Any]) -> dict[str, Any]:
    """Return what the ledger says of a family."""
    findings = [*row.get("findings", []), *row.get("watch_findings", [])]
    failed = [*row.get("failed_rules", []), *row.get("watch_failed_rules", [])]
    crash = row.get("crash") or row.get("watch_crash") or row.get("watch_errors") or row.get("timeout") or ""
    is_changed = bool(row.get("changed")) or row.get("steps") == "changed"
    outcome = "crashed" if crash else "changed" if is_changed else "a rule failed" if failed else "checked"
    return {
        "package": row["package"],
        "family": row["family"],
        "outcome": "not built" if "not_built" in row else outcome,
        "reason": (row.get("not_built") or crash or "; ".join(f"{code}: {why}" for code, why in failed))[:120],
        "model": row.get("model", ""),
        "head": row.get("head", ""),
        "parameters": row.get("parameters", ""),
        "rules": row.get("checked_rules", ""),
        "errors": " ".join(sorted({code for code, severity, *_ in findings if severity == "error"})),
        "warnings": " ".join(sorted({code for code, severity, *_ in findings if severity == "warning"})),
        "checkup seconds": row.get("checkup_cpu_seconds", ""),
        "steps": row.get("steps", ""),
    }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "work", "ledger"])
    parser.add_argument("--package", default="transformers")
    parser.add_argument("--families", default="")
    parser.add_argument("--results", type=Path, default=Path("architectures.jsonl"))
    parser.add_argument("--share", default="0/1", help="this process takes every n-th family, such as 0/2")
    parser.add_argument("--seconds", type=int, default=CHECK_SECONDS, help="of the processor for each family")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    define_torchvision_operators()
    from benchmarks.architectures.models import PACKAGES

    if options.command == "ledger":
        return write_ledger(read(options.results))
    families = options.families.split(",") if options.families else PACKAGES[options.package][0]()
    if options.command == "work":
        return work(options.package, families, options.results, options.seconds)
    index, count = map(int, options.share.split("/"))
    random.Random(0).shuffle(families)  # a run that is stopped early has seen families of all kinds
    run(options.package, families[index::count], options.results, options.seconds)


if __name__ == "__main__":
    main()
