"""One step of ``git bisect run``: a training script is good, bad, or cannot be judged."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.statistics.intervals import CONFIDENCE_LEVEL, student_quantile

GOOD, BAD, SKIP = 0, 1, 125  # as git bisect run expects
_NOT_RUNNABLE = ("SyntaxError", "IndentationError", "ImportError", "ModuleNotFoundError")
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|[-+]?inf"
_MAX_RUNS = 100
SEED_VARIABLE = "NBDEBUG_SEED"


@dataclass(frozen=True)
class Threshold:
    """A metric that the script prints, and the limit on its good side."""

    metric: str
    limit: float | None
    is_good_above: bool = False

    def read(self, output: str) -> float | None:
        """Return the last value of the metric in an output; None if it does not print it."""
        values = re.findall(rf"{re.escape(self.metric)}\s*[=:]?\s*({_NUMBER})", output, re.IGNORECASE)
        return float(values[-1]) if values else None

    def judge(self, values: Sequence[float], runs: int) -> int | None:
        """Return whether the mean of some runs is good or bad; None while it is undecided.

        With several runs, the interval by Student's t must exclude the limit. Its level is divided by the number of
        looks, so that all of them together keep 95%. A value that is not finite is bad.
        """
        assert self.limit is not None
        if not np.isfinite(values).all():
            return BAD
        signs = np.array(values) - self.limit if self.is_good_above else self.limit - np.array(values)
        if runs == 1:
            return GOOD if signs[0] > 0 else BAD
        if len(values) < 2:
            return None
        level = 1 - (1 - CONFIDENCE_LEVEL) / (runs - 1)
        half = student_quantile(len(values) - 1, level) * float(signs.std(ddof=1)) / len(values) ** 0.5
        mean = float(signs.mean())
        return GOOD if mean - half > 0 else BAD if mean + half < 0 else None


def bisect_step(
    script: Path,
    arguments: Sequence[str] = (),
    threshold: Threshold | None = None,
    runs: int = 1,
    timeout: float | None = None,
) -> int:
    """Run a script, and return 0 if it is good, 1 if it is bad, and 125 if that cannot be told.

    Without a threshold, a script is good if it ends without an error. One that cannot be imported cannot be judged. The
    environment variable NBDEBUG_SEED holds the number of the run, from 0. Raises SetupError for unusable options.
    """
    _check(script, threshold, runs)
    values: list[float] = []
    for number in range(runs):
        outcome = _run(script, arguments, number, timeout)
        if isinstance(outcome, int):
            print(f"run {number + 1}: {'bad' if outcome == BAD else 'skipped'}", file=sys.stderr)
            return outcome
        if threshold is None:
            return GOOD
        value = threshold.read(outcome)
        if value is None:
            print(f"the output has no {threshold.metric}; the commit is skipped", file=sys.stderr)
            return SKIP
        values.append(value)
        verdict = threshold.judge(values, runs)
        print(f"run {number + 1}: {threshold.metric} {value:.6g}", file=sys.stderr)
        if verdict is not None:
            return verdict
    print(f"undecided after {runs} runs; the commit is skipped", file=sys.stderr)
    return SKIP


def _check(script: Path, threshold: Threshold | None, runs: int) -> None:
    if not script.is_file():
        raise SetupError(f"script is {str(script)!r}; expected a file. Pass the path of your training script.")
    if not 1 <= runs <= _MAX_RUNS:
        raise SetupError(f"runs is {runs}; expected a whole number from 1 to {_MAX_RUNS}. Leave it out for 1.")
    if threshold is not None and threshold.limit is None:
        raise SetupError("metric has no limit; expected one. Add --below or --above with a number.")
    if threshold is None and runs > 1:
        raise SetupError(
            f"runs is {runs} without a metric; expected a metric to average. Add --metric loss --below 0.5."
        )


def _run(script: Path, arguments: Sequence[str], number: int, timeout: float | None) -> str | int:
    """Return the output of a script; an exit status if it fails."""
    environment = {**os.environ, SEED_VARIABLE: str(number)}
    command = [sys.executable, str(script), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return BAD
    if done.returncode == 0:
        return done.stdout + done.stderr
    last_line = (done.stderr.strip().splitlines() or [""])[-1]
    print(last_line, file=sys.stderr)
    return SKIP if last_line.startswith(_NOT_RUNNABLE) else BAD
