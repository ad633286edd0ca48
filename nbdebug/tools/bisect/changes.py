"""Bisection over a list of changes, or over the keys of a configuration, under the noise of training."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
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

_Path = tuple[str, ...]  # keys of nested dictionaries
_FlatConfig = dict[_Path, Any]
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
    prefixes = [parsed[:count] for count in range(len(parsed) + 1)]
    names = [f"change {index} ({change.name})" for index, change in enumerate(parsed, 1)]
    return _bisect_versions(setup, prefixes, names, log, own_score, steps)


def bisect_configurations(
    setup: Setup,
    configs: Sequence[Mapping[str, Any]],
    configure: Callable[[Any, dict[str, Any]], Any] | None,
    log: RunLog,
    own_score: OwnScore | None,
    steps: int,
) -> Bisection:
    """Name the key whose value lowers the score, of a good configuration and a bad one.

    Version k has the bad values of the first k keys that differ. ``configure(copy, config)`` sets a copy up by a
    configuration, and may return another setup. Keys of nested dictionaries are joined by dots.
    """
    pair = list(configs) if isinstance(configs, (list, tuple)) else []
    if len(pair) != 2 or not all(isinstance(config, Mapping) for config in pair):
        raise SetupError(
            f"configs is {describe_type(configs)}; expected two dictionaries. Pass (good_config, bad_config)."
        )
    if not callable(configure):
        raise SetupError(
            f"configure is {describe_type(configure)}; expected a function of a copy of the setup and a configuration. "
            "Pass configure=, which sets up the copy's model, optimizer or loaders."
        )
    good, bad = (_flatten(config) for config in pair)
    paths = [path for path in {**bad, **good} if path not in good or path not in bad or good[path] != bad[path]]
    if len(paths) < 2:
        raise SetupError(
            f"configs differ in {len(paths)} keys; expected at least 2. Use try_fix() to compare two configurations."
        )
    versions = [_configuration_change(configure, good, bad, paths[:count]) for count in range(len(paths) + 1)]
    names = [f"{'.'.join(path)} = {bad[path]!r}" if path in bad else f"no {'.'.join(path)}" for path in paths]
    return _bisect_versions(setup, versions, names, log, own_score, steps)


def _configuration_change(
    configure: Callable[[Any, dict[str, Any]], Any], good: _FlatConfig, bad: _FlatConfig, changed: Sequence[_Path]
) -> list[SetupChange]:
    """Return the change of a copy to the good configuration with the bad values at some paths."""
    kept = {path: value for path, value in good.items() if path not in changed}
    config = _nest({**kept, **{path: bad[path] for path in changed if path in bad}})
    change = parse_change(lambda treated: configure(treated, copy.deepcopy(config)))
    return [replace(change, name=f"{len(changed)} keys changed")]


def _flatten(config: Mapping[str, Any], parents: _Path = ()) -> _FlatConfig:
    """Return the values of nested dictionaries by their paths."""
    flat: _FlatConfig = {}
    for key, value in config.items():
        is_nested = isinstance(value, Mapping) and len(value) > 0
        flat |= _flatten(value, (*parents, str(key))) if is_nested else {(*parents, str(key)): value}
    return flat


def _nest(flat: _FlatConfig) -> dict[str, Any]:
    """Return nested dictionaries of values by their paths."""
    nested: dict[str, Any] = {}
    for (*parents, key), value in flat.items():
        inner = nested
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[key] = value
    return nested


def _bisect_versions(
    setup: Setup,
    versions: Sequence[Sequence[SetupChange]],
    names: Sequence[str],
    log: RunLog,
    own_score: OwnScore | None,
    steps: int,
) -> Bisection:
    """Name the version that is worse than the one before it; the first is good, and the last one bad."""
    score, in_place = prepare_experiment(setup, steps, _END_SEEDS, own_score)
    log.metric = score.metric
    copies = _Versions(setup, versions, score, steps, in_place)
    search = NoisyBisection(len(names))
    try:
        if not _reproduces(search, copies, log):
            return log.result(
                "not reproduced",
                f"The {score.metric} with all {log.over} is not lower than without any, in {_END_SEEDS} seeds.",
            )
        while search.located is None:
            _run(search, copies, log, *search.next_run())
    except OutOfRuns:
        pass
    return _located(search, names, log)


class _Versions:
    """Trains a copy with the changes of a version."""

    def __init__(
        self, setup: Setup, versions: Sequence[Sequence[SetupChange]], score: RunScore, steps: int, in_place: bool
    ) -> None:
        self.setup, self.versions, self.steps, self.in_place = setup, versions, steps, in_place
        self.scores = [score, *(score.for_change() for _ in versions[1:])]

    def run(self, version: int, seed: int) -> float:
        """Return the score of a version."""
        score = self.scores[version]
        options = (self.setup, self.versions[version], score.batches, score.loss_kind, seed, self.in_place)
        with changed_copy(*options) as treated, UserCodeErrors(lambda: f"with the first {version} changes"):
            return train_copy(treated, score, seed, self.steps, lambda run: False).score


def _run(search: NoisyBisection, versions: _Versions, log: RunLog, version: int, seed: int) -> float:
    log.check()
    score = versions.run(version, seed)
    search.add(version, seed, score)
    log.add(ProbeRun(f"the first {version} {log.over}" if version else "no change", version, seed, score))
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


def _located(search: NoisyBisection, names_of_all: Sequence[str], log: RunLog) -> Bisection:
    posterior, left = search.posterior(), search.candidates()
    order = sorted(left, key=lambda index: -posterior[index])
    names = tuple(names_of_all[index] for index in order)
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
