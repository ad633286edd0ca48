"""Tests of L205 on data of a batch that is neither input nor target: rewards, prices and the marks of last steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug import Debugger
from nbdebug.finding import Finding

_Step = Callable[[nn.Module, dict[str, Tensor]], Tensor]


class Log(Dataset[dict[str, Tensor]]):
    """States, actions and one more value of each sample, as a column or as a number."""

    def __init__(self, is_column: bool) -> None:
        generator = torch.Generator().manual_seed(0)
        self.state = torch.randn(64, 5, generator=generator)
        self.action = torch.randint(0, 3, (64,), generator=generator)
        self.gain = torch.rand(64, 1, generator=generator) if is_column else torch.rand(64, generator=generator)

    def __len__(self) -> int:
        return len(self.state)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"x": self.state[index], "labels": self.action[index], "gain": self.gain[index]}


def watched_broadcasts(step: _Step, is_column: bool) -> list[Finding]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches: DataLoader[Any] = DataLoader(Log(is_column), batch_size=16)
    debugger = Debugger(model, batches, optimizer=optimizer)
    with debugger.watch() as run:
        for _ in range(3):
            for batch in batches:
                optimizer.zero_grad()
                step(model, batch).backward()
                optimizer.step()
    assert not run.error_summary
    return [finding for finding in debugger.findings if finding.code == "L205"]


def gain_error(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    chosen = model(batch["x"]).gather(1, batch["labels"][:, None]).squeeze(1)
    return (chosen - batch["gain"]).abs().mean()  # here


def scaled_gain(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    gain = (batch["gain"] - 0.5) * 2
    best = model(batch["x"]).amax(1)
    return torch.mul(gain, best).mean()  # here


def later_values(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        later = batch["x"].flip(0).sum(1)
    goal = batch["gain"] + 0.9 * later  # here
    chosen = model(batch["x"]).gather(1, batch["labels"][:, None])
    return (chosen - goal).square().mean()


def every_pair(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    best = model(batch["x"]).amax(1)
    return torch.relu(best.unsqueeze(1) - batch["gain"].flatten()).mean()


def ranked_pairs(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    best, gain = model(batch["x"]).amax(1), batch["gain"].flatten()
    is_better = (gain[:, None] > gain).float()
    return (is_better * nn.functional.softplus(best - best[:, None])).mean()


def similar_states(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    output = nn.functional.normalize(model(batch["x"]), dim=1)
    scores = output @ output.T / (0.1 + batch["gain"])
    return nn.functional.cross_entropy(scores, torch.arange(len(scores)))


def gain_column(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    chosen = model(batch["x"]).gather(1, batch["labels"][:, None])
    return (chosen - batch["gain"].view_as(chosen)).square().mean()


@pytest.mark.parametrize("step", [gain_error, scaled_gain, later_values])
def test_data_of_the_batch_in_columns_is_reported_at_the_line_that_broadcasts_it(step: _Step) -> None:
    (finding,) = watched_broadcasts(step, is_column=True)
    assert finding.evidence["result"] == (16, 16)
    assert "data of the batch (16, 1)" in finding.message
    assert "# here" in (finding.where.source or "")
    assert "squeeze(-1)" in finding.fix


@pytest.mark.parametrize("step", [gain_error, scaled_gain])
def test_data_of_the_batch_with_one_number_for_each_sample_is_quiet(step: _Step) -> None:
    assert watched_broadcasts(step, is_column=False) == []


@pytest.mark.parametrize("is_column", [False, True])
@pytest.mark.parametrize("step", [every_pair, ranked_pairs, similar_states, gain_column])
def test_tables_of_all_pairs_are_quiet(step: _Step, is_column: bool) -> None:
    assert watched_broadcasts(step, is_column) == []
