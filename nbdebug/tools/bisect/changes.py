"""Bisection over a list of changes, under the noise of training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.finding import Finding
from nbdebug.setup import Setup
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.statistics.noisy_bisection import NoisyBisection
from nbdebug.tools.bisect.delta_debugging import OutOfRuns
from nbdebug.tools.bisect.result import Bisection, ProbeRun
from nbdebug.tools.bisect.run_log import RunLog
from nbdebug.tools.try_fix.change import SetupChange, parse_change
from nbdebug.tools.try_fix.matched_run import changed_copy, train_copy
from nbdebug.tools.try_fix.run_score import OwnScore, RunScore
from nbdebug.tools.try_fix.tool import prepare_experiment
from nbdebug.validation import describe_type

_END_SEEDS = 3  # with which both ends are run before a regression counts as not reproduced


def bisect_changes(
    setup: Setup,
    changes: Sequence[Any],
    findings: Iterable[Finding],
    log: RunLog,
    own_score: OwnScore | None,
    steps: int,
) -> Bisection:
    """Name the change that lowers the score: the setup without changes is good, and that with all of them bad.

    Version k has the first k changes. Each run adds to the posterior of all changes, and the next one is made where
    it halves the posterior, so that a version is repeated only while its side is undecided.
    """
    if not isinstance(changes, (list, tuple)) or len(changes) < 2:
        got = f"{len(changes)} changes" if isinstance(changes, (list, tuple)) else describe_type(changes)
        raise SetupError(f"changes is {got}; expected a list of at least 2. Use try_fix(change) for one.")
    parsed = [parse_change(change, findings) for change in changes]
    score, in_place = prepare_experiment(setup, steps, _END_SEEDS, own_score)
    log.metric = score.metric
    versions = _Versions(setup, parsed, score, steps, in_place)
    search = NoisyBisection(len(parsed))
    try:
        if not _reproduces(search, versions, log):
            return log.result(
                "not reproduced",
                f"The {score.metric} with all changes is not lower than without any, in {_END_SEEDS} seeds.",
            )
        while search.located is None:
            _run(search, versions, log, *search.next_run())
    except OutOfRuns:
        pass
    return _located(search, parsed, log)


class _Versions:
    """Trains a copy with the first changes."""

    def __init__(
        self, setup: Setup, changes: Sequence[SetupChange], score: RunScore, steps: int, in_place: bool
    ) -> None:
        self.setup, self.changes, self.steps, self.in_place = setup, changes, steps, in_place
        self.scores = [score, *(score.for_change() for _ in changes)]

    def run(self, version: int, seed: int) -> float:
        """Return the score of a version."""
        score = self.scores[version]
        options = (self.setup, self.changes[:version], score.batches, score.loss_kind, seed, self.in_place)
        with changed_copy(*options) as treated, UserCodeErrors(lambda: f"with the first {version} changes"):
            return train_copy(treated, score, seed, self.steps, lambda run: False).score


def _run(search: NoisyBisection, versions: _Versions, log: RunLog, version: int, seed: int) -> float:
    log.check()
    score = versions.run(version, seed)
    search.add(version, seed, score)
    log.add(ProbeRun(f"the first {version} changes" if version else "no change", version, seed, score))
    return score


def _reproduces(search: NoisyBisection, versions: _Versions, log: RunLog) -> bool:
    """Run both ends with some seeds, until the bad one is worse."""
    differences = []
    for seed in range(_END_SEEDS):
        good, bad = (_run(search, versions, log, version, seed) for version in (0, search.count))
        differences.append(bad - good)
        if float(np.mean(differences)) < 0:
            return True
    return False


def _located(search: NoisyBisection, changes: Sequence[SetupChange], log: RunLog) -> Bisection:
    posterior, left = search.posterior(), search.candidates()
    order = sorted(left, key=lambda index: -posterior[index])
    names = tuple(f"change {index + 1} ({changes[index].name})" for index in order)
    fields: dict[str, Any] = {
        "candidates": names,
        "indices": tuple(order),
        "probabilities": tuple(float(posterior[index]) for index in order),
    }
    if search.located is not None:
        return log.result(
            "located", f"The {log.metric} falls with {names[0]}, with probability {posterior[order[0]]:.2f}.", **fields
        )
    left_over = f"{len(order)} candidates are" if len(order) > 1 else f"{names[0]} alone is, without a second seed,"
    return log.result("undecided", f"{left_over} left after {len(log.runs)} runs. Allow more runs=.", **fields)
