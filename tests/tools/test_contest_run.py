"""Runs of the optimizer comparison: conditions, batches, and the result."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.tools.compare_optimizers import OptimizerComparison, compare_optimizers
from nbdebug.tools.compare_optimizers.candidates import build_candidates
from nbdebug.tools.compare_optimizers.tool import ComparisonRunner
from nbdebug.views.live import Screen
from nbdebug.views.page import static_html


@pytest.fixture(scope="module")
def contest() -> OptimizerComparison:
    """Four with rates that are known: one that is right, one too slow, one wild, and the user's own."""
    setup = classifier(val_loader=DataLoader(TensorDataset(*points()), 16))
    rates = {"SGD": 1e-5, "AdamW": 0.03, "SGD+momentum": 500.0}
    return compare_optimizers(setup, ["yours", *rates], rates=rates, steps=60)


def test_the_outcomes_are_told_apart(contest: OptimizerComparison) -> None:
    found = {one.name: one for one in contest.entries}
    assert contest.verdict == "clear"
    assert contest.best is found["AdamW"]
    assert {name: one.state for name, one in found.items()} == {
        "AdamW": "learns",
        "your Adam": "learns",
        "SGD": "does not learn",
        "SGD+momentum": "diverges",
    }
    assert found["SGD+momentum"].rank == 4
    assert found["SGD+momentum"].train is None
    assert not found["SGD+momentum"].stable


def test_the_result_speaks_for_itself(contest: OptimizerComparison) -> None:
    said = str(contest)
    assert "clear. AdamW at 0.03 has the lowest validation loss" in said
    assert "SGD+momentum diverges with 3 of 3 seeds" in said
    assert "your optimizer is worse than 1 of the 3 others" in said
    assert contest.judged_by == "val"
    assert contest.start is not None
    assert contest.best is not None
    assert contest.best.val is not None
    assert contest.best.val < contest.start
    frame = contest.to_frame()
    assert set(frame.candidate) == {one.name for one in contest.entries}
    assert frame.val_loss.notna().sum() >= 18
    assert len(contest.plot().get_lines()) == 4


def test_the_code_makes_the_best_again(contest: OptimizerComparison) -> None:
    names: dict[str, Any] = {"torch": torch, "model": network(3)}
    exec(contest.code, names)
    assert type(names["optimizer"]) is torch.optim.AdamW
    assert names["optimizer"].param_groups[0]["lr"] == 0.03


def test_the_page_is_small_and_reads_without_scripts(contest: OptimizerComparison) -> None:
    page = static_html(contest.view())
    assert len(page) < 60_000
    assert "SGD+momentum" in contest.view().html()


def test_the_same_settings_under_two_names_are_a_tie() -> None:
    make = partial(torch.optim.Adam, lr=0.01)
    result = compare_optimizers(classifier(), {"one": make, "two": make}, steps=30, seeds=2)
    assert result.verdict == "tie"
    assert [one.rank for one in result.entries] == [1, 1]
    assert result.entries[0].runs[0].losses == result.entries[1].runs[0].losses
    assert "one and two are tied" in result.headline


class Noisy(Dataset[tuple[Tensor, int]]):
    """Samples with noise from the global generators of torch and Python."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((4,), float(index)) + 0.01 * torch.rand(4) + 0.01 * random.random(), index % 3


class Recording(nn.Module):
    """Notes what it is given in train mode, with a gradient."""

    seen: list[Tensor] = []  # noqa: RUF012 - one list for the test, whatever is restored

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.drop = network(3), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        dropped = self.drop(x)
        if self.training and torch.is_grad_enabled():
            Recording.seen.append(dropped.clone())
        output: Tensor = self.inner(dropped)
        return output


@pytest.mark.parametrize("generator", [None, torch.Generator()])
def test_all_candidates_get_the_same_batches_and_the_same_dropout(generator: torch.Generator | None) -> None:
    loader = DataLoader(Noisy(), 8, shuffle=True, generator=generator)
    setup = Setup(Recording(), loader, loss_fn=nn.CrossEntropyLoss())
    Recording.seen.clear()
    rates = {"SGD": 0.01, "Adam": 0.01}
    compare_optimizers(setup, list(rates), rates=rates, steps=12, seeds=2)
    runs = [torch.stack(Recording.seen[i : i + 12]) for i in range(0, 48, 12)]
    assert torch.equal(runs[0], runs[1])
    assert torch.equal(runs[2], runs[3])
    assert not torch.equal(runs[0], runs[2])


def test_rates_are_found_where_none_is_given() -> None:
    result = compare_optimizers(classifier(), [torch.optim.Adam, "SGD"], steps=40, seeds=2)
    assert {one.origin for one in result.entries} <= {"found", "default"}
    assert "found" in {one.origin for one in result.entries}
    assert all(one.rate for one in result.entries)


def test_schedules_multiply_the_candidates() -> None:
    result = compare_optimizers(classifier(), schedules="all", steps=20, seeds=1)
    names = {"your Adam", *(f"your Adam, {name}" for name in ("one-cycle", "cosine", "step", "linear"))}
    assert {one.name for one in result.entries} == names
    assert all(len(one.runs[0].losses) == 20 for one in result.entries)


def test_a_schedule_moves_the_rate_as_its_code_does() -> None:
    rates: dict[str, list[float]] = {}

    class Telling(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            rates.setdefault("run", []).append(self.param_groups[0]["lr"])
            return super().step(closure)

    result = compare_optimizers(classifier(), Telling, "cosine", rates={"Telling": 0.1}, steps=40, seeds=1)
    names: dict[str, Any] = {"torch": torch, "model": network(3), "steps": 40}
    exec("optimizer = torch.optim.SGD(model.parameters(), 0.1)", names)
    exec(result.entries[0].code.split("\n", 1)[1], names)
    again = []
    for _ in range(40):
        again.append(names["optimizer"].param_groups[0]["lr"])
        names["optimizer"].step()
        names["scheduler"].step()
    assert rates["run"] == pytest.approx(again)


def test_one_cycle_leaves_plain_sgd_without_momentum() -> None:
    setup = classifier()
    (one,) = build_candidates(setup, "SGD", "one-cycle", {"SGD": 0.1})
    assert one.schedule is not None
    (optimizer,) = one.optimizers()
    one.schedule(optimizer, 10)
    assert optimizer.param_groups[0]["momentum"] == 0


def test_groups_keep_the_ratio_of_their_rates_and_stay_without_decay() -> None:
    model = network(3)
    groups = [{"params": model[0].parameters(), "lr": 0.5, "weight_decay": 0.1}, {"params": model[2].parameters()}]
    setup = minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(torch.optim.SGD(groups, lr=0.1),))
    (one,) = build_candidates(setup, ["AdamW"], None, {"AdamW": 0.01})
    (optimizer,) = one.optimizers()
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.01, 0.002])
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.01, 0.0]


def test_the_settings_of_an_instance_are_taken_without_its_state() -> None:
    setup = classifier()
    given = torch.optim.SGD(setup.model.parameters(), lr=0.05, momentum=0.8)
    (one,) = build_candidates(setup, given, None, None)
    (optimizer,) = one.optimizers()
    assert (one.origin, one.rate) == ("given", 0.05)
    assert optimizer is not given
    assert optimizer.param_groups[0]["momentum"] == 0.8
    assert not optimizer.state


def test_closures_losses_from_the_model_and_step_functions_run() -> None:
    whole = Setup(network(3), [points()], loss_fn=nn.CrossEntropyLoss())
    lbfgs = compare_optimizers(whole, [torch.optim.LBFGS], rates={"LBFGS": 0.1}, steps=10, seeds=1)
    assert lbfgs.entries[0].state == "learns"
    model, loss_fn = network(3), nn.CrossEntropyLoss()
    batches = [{"x": x, "y": y} for x, y in zip(points()[0].split(16), points()[1].split(16), strict=True)]
    setup = Setup(model, batches, batches, step_fn=lambda batch: loss_fn(model(batch["x"]), batch["y"]))
    result = compare_optimizers(setup, ["Adam"], rates={"Adam": 0.05}, steps=40, seeds=2)
    assert result.verdict == "clear"
    assert "on the same 64 samples" in str(result)


class StopAfter(Screen):
    """A screen on which Stop is pressed at a certain look."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    @property
    def stopped(self) -> bool:
        self.looks -= 1
        return self.looks < 0


@pytest.mark.parametrize("looks", [0, 10, 70, 100])
def test_stop_keeps_what_there_is(looks: int) -> None:
    setup = classifier()
    before = [p.clone() for p in setup.model.parameters()]
    rates = {"SGD": 0.01, "Adam": 0.01}
    trial = ComparisonRunner(setup, build_candidates(setup, list(rates), None, rates), 30, 3, 1, None)
    trial.run(StopAfter(looks))
    result = trial.result()
    assert result.stopped
    assert sum(len(run.losses) for one in result.entries for run in one.runs) <= looks
    assert (result.verdict == "stopped") == (looks <= 10)
    assert all(torch.equal(a, b) for a, b in zip(before, setup.model.parameters(), strict=True))
    assert "Stop" in str(result) or result.verdict != "stopped"


def test_nothing_that_learns_is_said() -> None:
    x, _ = points()
    setup = minimal_setup(network(3), x, torch.randint(0, 3, (64,)), nn.CrossEntropyLoss(label_smoothing=1.0))
    result = compare_optimizers(setup, ["SGD"], rates={"SGD": 1e-6}, steps=20, seeds=2)
    assert result.verdict == "none"
    assert result.best is None
    assert result.code == ""
