"""Tests of runs in workers: the same runs as in this process, bit for bit, and an unchanged setup."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.tools.try_fix import TriedFix
from tests.preserve.fingerprint import fingerprint
from tests.tools.stopping_screens import StopAfterChecks
from tests.tools.try_fix.programs import debugger, sgd

QUICK: dict[str, Any] = {"steps": 8, "seeds": 2, "checkup": None}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Workers have one thread; sums of several may differ in their last bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def runs(result: TriedFix) -> list[tuple[int, list[int], list[float], list[float]]]:
    return [(run.seed, run.steps, run.scores, run.losses) for run in (*result.before, *result.after)]


def widen(copy: Any) -> None:
    copy.model = nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.5), nn.ReLU(), nn.Linear(32, 2))


# "normalize inputs" changes what the score is measured on, and the function draws new weights.
@pytest.mark.parametrize("change", ["learning rate=0.3", "normalize inputs", widen])
def test_runs_in_workers_are_those_of_this_process(change: Any) -> None:
    dbg = debugger(optimizer=sgd(1e-3), scale=30.0)
    setup = dbg.setup
    before = fingerprint(setup.model, setup.loss_fn, setup.optimizers[0], None, loaders=[setup.train_loader])
    here, there = dbg.try_fix(change, **QUICK), dbg.try_fix(change, workers=2, **QUICK)
    before.check()
    assert runs(there) == runs(here)
    assert (there.verdict, there.headline, there.total_steps) == (here.verdict, here.headline, here.total_steps)


def test_run_whose_worker_is_killed_counts_once(tmp_path: Path) -> None:
    parent, killed = os.getpid(), tmp_path / "killed"

    def change(copy: Any) -> None:
        copy.optimizer.param_groups[0]["lr"] = 0.3
        if os.getpid() != parent and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    dbg = debugger(optimizer=sgd(1e-3))
    result = dbg.try_fix(change, workers=2, **QUICK)
    assert killed.exists()
    assert runs(result) == runs(dbg.try_fix("learning rate=0.3", **QUICK))


def test_stop_keeps_complete_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.tools.try_fix.tool.show_view", lambda view: StopAfterChecks(6))
    result = debugger(optimizer=sgd(1e-3)).try_fix("learning rate=0.3", steps=100_000, seeds=4, checkup=None, workers=2)
    assert result.verdict == "stopped"
    assert [run.seed for run in result.before] == [run.seed for run in result.after]


class Uncopied(nn.Linear):
    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError("cannot be copied")


def test_model_that_cannot_be_copied_is_refused() -> None:
    with pytest.raises(SetupError, match="model cannot be copied; expected one that can, for workers"):
        debugger(Uncopied(2, 2)).try_fix("learning rate=0.3", workers=2, **QUICK)
