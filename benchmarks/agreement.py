"""Measure whether nbdebug.compare() finds planted divergences at their module, and is quiet on pairs that agree.

Run ``python -m benchmarks.agreement``.
"""

from __future__ import annotations

import argparse
import time

import torch

import nbdebug
from benchmarks.agreement_pairs import benign, everyday, planted

PLANTED = planted.PLANTED | everyday.PLANTED
BENIGN = (*benign.BENIGN, *everyday.BENIGN)
TUNED = sorted(planted.PLANTED)[::2]  # the others were scored once the tool was finished


def score_planted(names: list[str]) -> None:
    """Print where each planted divergence was found, and the totals."""
    rows = []
    for name in names:
        torch.manual_seed(len(name))
        a, b, inputs, module = PLANTED[name]()
        started = time.perf_counter()
        try:
            result = nbdebug.compare(a, b, inputs)
            is_placed = not result.agrees and (
                result.phase == "update" if module == "update" else module == "any" or _is_at(result.module, module)
            )
            text = result.to_text().replace("\n", " | ")
        except Exception as error:
            is_placed, text = False, f"{type(error).__name__}: {error}"
        rows.append((name in TUNED, is_placed))
        print(
            f"{'ok  ' if is_placed else 'MISS'} {name} [{module}] {time.perf_counter() - started:.1f} s: {text}",
            flush=True,
        )
    for title, tuned in (("tuned", True), ("first run", False)):
        own = [is_placed for is_tuned, is_placed in rows if is_tuned is tuned]
        print(f"{title}: {sum(own)} of {len(own)} located")


def _is_at(module: str, expected: str) -> bool:
    """Return whether a module is the expected one or a part of it; "" expects the model's own code."""
    return module == expected or (bool(expected) and module.startswith(f"{expected}."))


def score_benign(names: list[str]) -> None:
    """Print the verdict on each pair that agrees, and the number of alarms."""
    alarms = 0
    for name in names:
        torch.manual_seed(len(name))
        a, b, inputs = everyday.BENIGN[name]() if name in everyday.BENIGN else benign.make(name)
        try:
            result = nbdebug.compare(a, b, inputs)
            is_quiet, text = result.agrees, result.to_text().replace("\n", " | ")
        except Exception as error:
            is_quiet, text = False, f"{type(error).__name__}: {error}"
        alarms += not is_quiet
        print(f"{'ok  ' if is_quiet else 'ALARM'} {name}: {text if not is_quiet else ''}", flush=True)
    print(f"benign: {alarms} alarms on {len(names)}")


def main() -> None:
    """Score all pairs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=None, help="names of pairs")
    parser.add_argument("--tuned", action="store_true", help="only the pairs that were tuned on")
    options = parser.parse_args()
    names = [n for n in PLANTED if not options.tuned or n in TUNED]
    quiet = [n for number, n in enumerate(BENIGN) if not options.tuned or number % 2 == 0]
    if options.only is not None:
        names, quiet = ([n for n in options.only if n in group] for group in (PLANTED, BENIGN))
    score_planted(names)
    score_benign(quiet)


if __name__ == "__main__":
    main()
