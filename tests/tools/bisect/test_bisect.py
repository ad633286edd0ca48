"""Tests of bisection over changes, samples and checkpoints."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.statistics.noisy_bisection import NoisyBisection
from nbdebug.tools.bisect.delta_debugging import first_failing, minimize
from tests.preserve.fingerprint import fingerprint
from tests.tools.try_fix.programs import debugger, sgd


def harmless(number: int) -> Any:
    def change(copy: Any) -> None:
        copy.optimizer.param_groups[0]["lr"] *= 1 + 1e-4 * number

    return change


def test_bisection_names_the_change_that_lowers_the_score() -> None:
    dbg = debugger(optimizer=sgd(0.3))
    changes: list[Any] = [harmless(number) for number in range(12)]
    changes[7] = "learning rate=1e-4"
    before = fingerprint(
        dbg.setup.model, dbg.setup.loss_fn, dbg.setup.optimizers[0], None, loaders=[dbg.train_loader, dbg.val_loader]
    )
    result = dbg.bisect(changes, steps=20)
    before.check()
    assert (result.verdict, result.indices) == ("located", (7,))
    assert result.candidates == ("change 8 (learning rate 1e-4)",)
    assert len(result.runs) <= 14
    assert dbg.results["bisect"] is result
    assert "nbdebug bisect: located. The validation accuracy falls with change 8" in result.to_text()
    assert len(result.to_frame()) == len(result.runs)
    assert result.view().state()["notice"][0].startswith("located")
    assert result.plot().get_ylabel() == "validation accuracy"
    assert pickle.loads(pickle.dumps(result)) == result


def configure(copy: Any, config: dict[str, Any]) -> None:
    assert set(config) == {"optimizer", "width", "batch_size"}
    group = copy.optimizer.param_groups[0]
    group["lr"], group["momentum"] = config["optimizer"].pop("lr"), config["optimizer"].get("momentum", 0.0)


GOOD = {"optimizer": {"lr": 0.3}, "width": 16, "batch_size": 32}
BAD = {"width": 32, "optimizer": {"lr": 1e-4, "momentum": 0.01}, "batch_size": 32}


def test_bisection_over_configurations_names_the_key_that_lowers_the_score() -> None:
    dbg = debugger(optimizer=sgd(0.3))
    result = dbg.bisect(configs=(GOOD, BAD), configure=configure, steps=20)
    assert (result.verdict, result.over, result.indices) == ("located", "keys", (1,))
    assert result.candidates == ("optimizer.lr = 0.0001",)
    assert GOOD["optimizer"] == {"lr": 0.3}
    assert dbg.setup.optimizers[0].param_groups[0]["lr"] == 0.3
    assert result.plot().get_xlabel() == "number of keys"


@pytest.mark.parametrize(
    ("configs", "function", "message"),
    [
        ((GOOD, GOOD), configure, "configs differ in 0 keys"),
        (GOOD, configure, "configs is"),
        ((GOOD, BAD), None, "configure is None"),
    ],
)
def test_bisection_over_unsuitable_configurations_is_refused(configs: Any, function: Any, message: str) -> None:
    with pytest.raises(nbdebug.SetupError, match=message):
        debugger().bisect(configs=configs, configure=function)


def test_bisection_without_regression_says_so() -> None:
    result = debugger().bisect([harmless(0)] * 4, steps=8)
    assert result.verdict == "not reproduced"
    assert len(result.runs) == 6


def test_bisection_with_too_few_runs_names_the_candidates_left() -> None:
    changes: list[Any] = [harmless(number) for number in range(16)]
    changes[3] = "learning rate=1e-5"
    result = debugger(optimizer=sgd(0.3)).bisect(changes, steps=20, runs=4)
    assert result.verdict == "undecided"
    assert 3 in result.indices
    assert len(result.candidates) == len(result.probabilities) > 1
    assert "candidates are left after 4 runs" in result.headline


@pytest.mark.parametrize("culprit", [1, 17, 64])
def test_posterior_locates_a_shift_in_noise_that_seeds_share(culprit: int) -> None:
    generator = np.random.default_rng(culprit)
    seeds = generator.normal(size=100)
    search = NoisyBisection(64)
    while search.located is None and len(search.scores) < 40:
        version, seed = search.next_run()
        search.add(version, seed, seeds[seed] + 0.05 * generator.normal() - 1.5 * (version >= culprit))
    assert search.located == culprit - 1
    assert len(search.scores) <= 20


def test_posterior_of_equal_scores_stays_uniform_enough_to_be_undecided() -> None:
    search = NoisyBisection(8)
    for version in (0, 8, 4):
        search.add(version, 0, 1.0)
    assert len(search.candidates()) > 1


def test_minimize_finds_one_item_in_two_runs_for_each_halving() -> None:
    for culprit in (0, 2500, 4999):
        runs: list[int] = []

        def fails(items: Any, culprit: int = culprit, runs: list[int] = runs) -> bool:
            runs.append(len(items))
            return culprit in items

        assert minimize(range(5000), fails) == [culprit]
        assert len(runs) <= 26


def test_minimize_keeps_items_that_fail_only_together() -> None:
    assert minimize(range(64), lambda items: {3, 40} <= set(items)) == [3, 40]
    assert len(minimize(range(8), lambda items: len(items) >= 3)) == 3


def test_first_failing_returns_the_first_position() -> None:
    assert [first_failing(9, lambda index, first=first: index >= first) for first in range(1, 9)] == [*range(1, 9)]


def poisoned_debugger(count: int, poisonous: int) -> Debugger:
    torch.manual_seed(0)
    x = torch.randn(count, 8)
    x[poisonous, 3] = torch.nan
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    loader = DataLoader(TensorDataset(x, torch.arange(count) % 2), 64, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)


def test_samples_poisonous_one_of_five_thousand_is_found_in_forty_short_runs() -> None:
    dbg = poisoned_debugger(5000, 4321)
    before = fingerprint(dbg.setup.model, None, dbg.setup.optimizers[0], None, loaders=[dbg.train_loader])
    result = dbg.bisect(samples=True)
    before.check()
    assert (result.verdict, result.indices) == ("located", (4321,))
    assert len(result.runs) <= 40
    assert result.candidates == ("sample 4321",)
    assert "red: failed" in result.plot().get_xlabel()


def test_samples_own_predicate_and_run_limit() -> None:
    dbg = poisoned_debugger(400, 77)
    result = dbg.bisect(samples=True, fails=lambda copy: bool(copy.model[0].weight.isnan().any()), runs=4)
    assert result.verdict == "undecided"
    assert 77 in result.indices
    assert "samples are left after 4 runs" in result.headline
    healthy = debugger().bisect(samples=True)
    assert healthy.verdict == "not reproduced"


def test_checkpoints_first_broken_one_is_named(tmp_path: Path) -> None:
    dbg = debugger()
    paths = []
    for number in range(9):
        state = {name: tensor.clone() for name, tensor in dbg.setup.model.state_dict().items()}
        if number >= 5:
            state["0.weight"][0, 0] = float("nan")
        torch.save({"model": state, "epoch": number}, tmp_path / f"{number}.pt")
        paths.append(tmp_path / f"{number}.pt")
    result = dbg.bisect(checkpoints=paths)
    assert (result.verdict, result.indices) == ("located", (5,))
    assert len(result.runs) <= 5
    assert dbg.bisect(checkpoints=paths[:4]).verdict == "not reproduced"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "^bisect got 0 of changes, samples, checkpoints, reference and configs; expected one"),
        ({"changes": ["clipping"], "samples": True}, "^bisect got 2 of"),
        ({"changes": ["clipping"]}, r"^changes is 1 changes; expected a list of at least 2\. Use try_fix"),
        ({"checkpoints": []}, "^checkpoints has 0 entries; expected at least 2"),
        ({"samples": True, "runs": 1}, "^runs is 1; expected a whole number from 4"),
        ({"samples": True, "configure": configure}, "^configs is None; expected two dictionaries"),
    ],
)
def test_invalid_options_raise(options: dict[str, Any], message: str) -> None:
    with pytest.raises(nbdebug.SetupError, match=message):
        debugger().bisect(**options)
