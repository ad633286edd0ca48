"""Tests of the runs of the optimizer comparison."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.tools.compare_optimizers import compare_optimizers
from nbdebug.tools.compare_optimizers.candidates import build_candidates
from nbdebug.tools.compare_optimizers.tool import ComparisonRunner
from tests.tools.stopping_screens import StopAfterChecks


def test_compare_optimizers_same_settings_under_two_names_are_tied() -> None:
    adam = partial(torch.optim.Adam, lr=0.01)
    result = compare_optimizers(classifier(), {"one": adam, "two": adam}, steps=30, seeds=2)
    assert result.verdict == "tie"
    assert [entry.rank for entry in result.entries] == [1, 1]
    assert result.entries[0].runs[0].losses == result.entries[1].runs[0].losses
    assert "one and two are tied" in result.headline


class RandomNoiseDataset(Dataset[tuple[Tensor, int]]):
    """Samples with noise from the global generators of torch and Python."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((4,), float(index)) + 0.01 * torch.rand(4) + 0.01 * random.random(), index % 3


class RecordingModel(nn.Module):
    """Records, in its class, its inputs after dropout in training steps."""

    inputs: list[Tensor] = []  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.drop = network(3), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        dropped = self.drop(x)
        if self.training and torch.is_grad_enabled():
            RecordingModel.inputs.append(dropped.clone())
        output: Tensor = self.inner(dropped)
        return output


@pytest.mark.parametrize("generator", [None, torch.Generator()], ids=["global", "own"])
def test_compare_optimizers_gives_same_batches_and_dropout_to_all_candidates(generator: torch.Generator | None) -> None:
    loader = DataLoader(RandomNoiseDataset(), 8, shuffle=True, generator=generator)
    setup = Setup(RecordingModel(), loader, loss_fn=nn.CrossEntropyLoss())
    RecordingModel.inputs.clear()
    rates = {"SGD": 0.01, "Adam": 0.01}
    compare_optimizers(setup, list(rates), rates=rates, steps=12, seeds=2)
    runs = [torch.stack(RecordingModel.inputs[i : i + 12]) for i in range(0, 48, 12)]
    assert torch.equal(runs[0], runs[1])
    assert torch.equal(runs[2], runs[3])
    assert not torch.equal(runs[0], runs[2])


def test_compare_optimizers_without_rates_finds_them() -> None:
    result = compare_optimizers(classifier(), [torch.optim.Adam, "SGD"], steps=40, seeds=2)
    assert {entry.origin for entry in result.entries} <= {"found", "default"}
    assert "found" in {entry.origin for entry in result.entries}
    assert all(entry.rate for entry in result.entries)


def test_compare_optimizers_all_schedules_multiply_candidates() -> None:
    result = compare_optimizers(classifier(), schedules="all", steps=20, seeds=1)
    names = {"your Adam", *(f"your Adam, {name}" for name in ("one-cycle", "cosine", "step", "linear"))}
    assert {entry.name for entry in result.entries} == names
    assert all(len(entry.runs[0].losses) == 20 for entry in result.entries)


def test_compare_optimizers_schedule_sets_same_rates_as_its_code() -> None:
    rates: list[float] = []

    class RecordingSGD(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            rates.append(self.param_groups[0]["lr"])
            return super().step(closure)

    result = compare_optimizers(classifier(), RecordingSGD, "cosine", rates={"RecordingSGD": 0.1}, steps=40, seeds=1)
    names: dict[str, Any] = {"torch": torch, "model": network(3), "steps": 40}
    exec("optimizer = torch.optim.SGD(model.parameters(), 0.1)", names)
    exec(result.entries[0].code.split("\n", 1)[1], names)
    rates_from_code = []
    for _ in range(40):
        rates_from_code.append(names["optimizer"].param_groups[0]["lr"])
        names["optimizer"].step()
        names["scheduler"].step()
    assert rates == pytest.approx(rates_from_code)


def test_compare_optimizers_with_closure_or_step_fn_trains_candidate() -> None:
    one_batch_setup = Setup(network(3), [points()], loss_fn=nn.CrossEntropyLoss())
    lbfgs = compare_optimizers(one_batch_setup, [torch.optim.LBFGS], rates={"LBFGS": 0.1}, steps=10, seeds=1)
    assert lbfgs.entries[0].state == "learns"
    model, loss_fn = network(3), nn.CrossEntropyLoss()
    batches = [{"x": x, "y": y} for x, y in zip(points()[0].split(16), points()[1].split(16), strict=True)]
    setup = Setup(model, batches, batches, step_fn=lambda batch: loss_fn(model(batch["x"]), batch["y"]))
    result = compare_optimizers(setup, ["Adam"], rates={"Adam": 0.05}, steps=40, seeds=2)
    assert result.verdict == "clear"
    assert "on the same 64 samples" in str(result)


@pytest.mark.parametrize("checks", [0, 10, 70, 100])
def test_comparison_runner_stopped_keeps_completed_steps(checks: int) -> None:
    setup = classifier()
    before = [p.clone() for p in setup.model.parameters()]
    rates = {"SGD": 0.01, "Adam": 0.01}
    runner = ComparisonRunner(setup, build_candidates(setup, list(rates), None, rates), 30, 3, 1, None)
    runner.run(StopAfterChecks(checks))
    result = runner.result()
    assert result.stopped
    assert sum(len(run.losses) for entry in result.entries for run in entry.runs) <= checks
    assert (result.verdict == "stopped") == (checks <= 10)
    assert all(torch.equal(a, b) for a, b in zip(before, setup.model.parameters(), strict=True))
    assert "Stop" in str(result) or result.verdict != "stopped"


def test_compare_optimizers_without_learning_candidate_has_no_best() -> None:
    x, _ = points()
    setup = minimal_setup(network(3), x, torch.randint(0, 3, (64,)), nn.CrossEntropyLoss(label_smoothing=1.0))
    result = compare_optimizers(setup, ["SGD"], rates={"SGD": 1e-6}, steps=20, seeds=2)
    assert result.verdict == "none"
    assert result.best is None
    assert result.code == ""
