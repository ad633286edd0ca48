"""Tests of the search of settings."""

from __future__ import annotations

import pickle
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.tools.tune import Tuning
from nbdebug.tools.tune.space import parse_space
from tests.preserve.fingerprint import fingerprint
from tests.tools.stopping_screens import StopAfterChecks
from tests.tools.try_fix.programs import debugger, sgd

optuna = pytest.importorskip("optuna")
QUICK: dict[str, Any] = {"steps": 16, "seeds": 3}


def set_width(copy: Any, width: int) -> None:
    """Replace the model by one of another width."""
    copy.model = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 2))


@pytest.fixture(scope="module")
def by_grid() -> tuple[Tuning, Debugger, bool]:
    dbg = debugger(optimizer=sgd(1e-3))
    model, optimizer = dbg.setup.model, dbg.setup.optimizers[0]
    before = fingerprint(model, nn.CrossEntropyLoss(), optimizer, None, loaders=[dbg.setup.train_loader])
    verbosity = optuna.logging.get_verbosity()
    result = dbg.tune({"learning rate": [1e-5, 0.3, 1e6]}, 5, sampler="grid", **QUICK)
    before.check()
    return result, dbg, optuna.logging.get_verbosity() == verbosity


def test_best_setting_is_found_and_confirmed_by_other_seeds(by_grid: tuple[Tuning, Debugger, bool]) -> None:
    result, dbg, is_quiet = by_grid
    assert result.verdict == "better"
    assert result.best is not None
    assert result.best.values == {"learning rate": 0.3}
    assert len(result.trials) == 3  # of a budget of five, all that the grid has
    assert result.difference.low > 0
    assert [run.seed for run in result.after] == [0, 1, 2]
    assert result.after[0].steps[-1] == 4 * QUICK["steps"]
    assert 'group["lr"] = 0.3' in result.code
    assert "the checkup before the search found no error" in result.to_text()
    assert "checkup" in dbg.reports
    assert is_quiet


def test_result(by_grid: tuple[Tuning, Debugger, bool]) -> None:
    result = by_grid[0]
    assert result.to_frame().columns.tolist() == ["number", "learning rate", "score", "steps", "pruned"]
    assert pickle.loads(pickle.dumps(result)).headline == result.headline
    assert result.plot().get_legend()
    assert "pruned" in result.to_html()


def test_diverging_trial_is_pruned(by_grid: tuple[Tuning, Debugger, bool]) -> None:
    (trial,) = [trial for trial in by_grid[0].trials if trial.values == {"learning rate": 1e6}]
    assert trial.pruned
    assert trial.steps < QUICK["steps"]


def test_range_and_function_are_searched_and_resumed(tmp_path: Path) -> None:
    space = {set_width: [2, 32], "learning rate": (1e-2, 1.0), "batch size": (8, 16)}
    dbg, path = debugger(optimizer=sgd(0.1)), tmp_path / "study.db"
    first = dbg.tune(space, 3, path=path, **QUICK)
    second = dbg.tune(space, 4, path=path, **QUICK)
    assert second.trials[:3] == first.trials
    assert len(second.trials) == 4
    for trial in second.trials:
        assert trial.values["set width"] in (2, 32)
        assert 0.01 <= trial.values["learning rate"] <= 1
        assert trial.values["batch size"] in range(8, 17)
    with pytest.raises(SetupError, match="path is a search of 'set width: 2, 32; learning rate"):
        dbg.tune({"learning rate": (1e-2, 1.0)}, 3, path=path, **QUICK)


def test_trials_in_workers_are_those_of_this_process() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        options: dict[str, Any] = {"steps": 8, "seeds": 2, "sampler": "grid"}
        space = {"learning rate": [1e-4, 0.3, 1e6]}
        here, there = (debugger(optimizer=sgd(0.1)).tune(space, 3, workers=workers, **options) for workers in (None, 2))
    finally:
        torch.set_num_threads(threads)
    assert there.trials == here.trials
    assert [(run.seed, run.losses) for run in there.after] == [(run.seed, run.losses) for run in here.after]
    assert there.verdict == here.verdict


def test_rounds_of_workers_are_repeatable_and_resumed(tmp_path: Path) -> None:
    space, options = {"learning rate": (1e-3, 1.0)}, {"steps": 8, "seeds": 2, "workers": 3}
    path = tmp_path / "study.db"
    debugger(optimizer=sgd(0.1)).tune(space, 3, path=path, **options)
    resumed = debugger(optimizer=sgd(0.1)).tune(space, 5, path=path, **options)
    assert [trial.number for trial in resumed.trials] == [0, 1, 2, 3, 4]
    fresh = debugger(optimizer=sgd(0.1)).tune(space, 3, **options)
    assert resumed.trials[:3] == fresh.trials


SCRIPT = """
from tests.tools.try_fix.programs import debugger, sgd
debugger(optimizer=sgd(0.1)).tune({"learning rate": (1e-2, 1.0)}, 5000, path=PATH, steps=16, seeds=3)
"""


def finished_trials(path: Path) -> list[tuple[int, str]]:
    try:
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute("select number, state from trials where state = 'COMPLETE'").fetchall()
    except sqlite3.OperationalError:
        return []


def test_killed_search_loses_no_finished_trial(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT.replace("PATH", repr(str(path)))])
    deadline = time.monotonic() + 300
    while len(finished_trials(path)) < 3 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    process.kill()
    process.wait()
    before = finished_trials(path)
    assert len(before) >= 3
    result = debugger(optimizer=sgd(0.1)).tune({"learning rate": (1e-2, 1.0)}, 1, path=path, **QUICK)
    assert {number for number, _ in before} <= {trial.number for trial in result.trials}


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("at", [20, 120])  # in the trials, in the confirmation
def test_state_is_as_before_after_an_interrupted_search(error: type[BaseException], at: int) -> None:
    dbg = debugger(optimizer=sgd(0.1))
    setup, calls = dbg.setup, 0

    def interrupt(copy: Any) -> float:
        nonlocal calls
        calls += 1
        if calls == at:
            raise error("stop")
        return 0.5

    before = fingerprint(setup.model, setup.loss_fn, setup.optimizers[0], None, loaders=[setup.train_loader])
    with pytest.raises((SetupError, error)):
        dbg.tune({"learning rate": [0.1, 0.2]}, 6, sampler="random", steps=8, seeds=8, score=interrupt)
    before.check()
    assert calls == at


def test_stopped_trial_does_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("nbdebug.tools.tune.tool.show_view", lambda view: StopAfterChecks(20))
    result = debugger(optimizer=sgd(0.1)).tune({"learning rate": [0.1, 0.2]}, 4, path=tmp_path / "s.db", **QUICK)
    assert result.verdict == "stopped"
    assert len(result.trials) == 1
    assert "so far the best of 1 trials is learning rate 0." in result.headline


def test_errors_of_the_checkup_are_refused() -> None:
    dbg = debugger(nn.Softmax(-1))
    with pytest.raises(SetupError, match=r"the checkup found L201; expected no error before a search"):
        dbg.tune({"learning rate": [0.1, 0.2]}, 2)
    assert "L201" in [finding.code for finding in dbg.findings]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({}, r"space is \{\}; expected a dictionary"),
        ({"momentumm": [1, 2]}, "setting is 'momentumm'; expected one of learning rate"),
        ({"dropout": [0.1]}, "dropout is a list; expected a list of values, or"),
        ({"dropout": (0.5, 0.1)}, "expected \\(low, high\\), two numbers"),
        ({"dropout": 0.5}, "dropout is a float; expected a list"),
    ],
)
def test_spaces_that_cannot_be_searched(space: Any, message: str) -> None:
    with pytest.raises(SetupError, match=message):
        parse_space(space)


def test_setting_without_effect_and_grid_over_a_range_are_refused() -> None:
    with pytest.raises(SetupError, match="the setting 'dropout' does not alter this setup"):
        debugger().tune({"dropout": [0.1, 0.2]}, 2, **QUICK)
    with pytest.raises(SetupError, match="learning rate is a range; expected a list"):
        debugger().tune({"learning rate": (0.1, 0.2)}, 2, sampler="grid", **QUICK)
    with pytest.raises(SetupError, match="sampler is 'bayes'; expected one of tpe, random, grid"):
        debugger().tune({"learning rate": [0.1, 0.2]}, 2, sampler="bayes")  # type: ignore[arg-type]


def test_present_value_is_no_error() -> None:
    torch.manual_seed(0)
    result = debugger(optimizer=sgd(0.3)).tune({"learning rate": [0.3, 1e-4]}, 2, sampler="grid", **QUICK)
    assert result.verdict == "no better"
    assert result.best is not None
    assert result.best.values == {"learning rate": 0.3}
