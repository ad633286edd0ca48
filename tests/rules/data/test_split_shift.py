"""D109, D110 and D119 tell splits that were cut or prepared wrongly from drift, augmentation and balance on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from tests.rules.rule_findings import fault_messages, rule_findings

DRAWN = torch.Generator().manual_seed(0)
X = torch.randn(400, 4, generator=DRAWN)
Y = (X @ torch.randn(4, 3, generator=DRAWN)).argmax(1)
REAL = X.sum(1, keepdim=True)
COLORS = torch.rand(200, 3, 6, 6, generator=DRAWN) * torch.tensor([0.9, 0.6, 0.3])[:, None, None]
SERIES = (0.1 * torch.randn(600, 2, generator=DRAWN)).cumsum(0)
WINDOWS = torch.stack([SERIES[i : i + 12] for i in range(580)])
Part = tuple[Tensor, Tensor]


class Prepared(Dataset[Any]):
    """Samples that go through a function."""

    def __init__(self, part: Part, change: Callable[[Tensor], Tensor]) -> None:
        self.part, self.change = part, change

    def __len__(self) -> int:
        return len(self.part[0])

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input": self.change(self.part[0][index]), "label": self.part[1][index]}


def splits(train: Part, val: Part, model: nn.Module | None = None, loss_fn: Any = None) -> Setup:
    loaders = [DataLoader(TensorDataset(*part), 20) for part in (train, val)]
    return Setup(model or network(3), *loaders, loss_fn=loss_fn or nn.CrossEntropyLoss())


def prepared(train: Callable[[Tensor], Tensor], val: Callable[[Tensor], Tensor]) -> Setup:
    parts = Prepared((X[:300], Y[:300]), train), Prepared((X[300:], Y[300:]), val)
    return Setup(network(3), *(DataLoader(part, 20) for part in parts), loss_fn=nn.CrossEntropyLoss())


def colors(val: Tensor) -> Setup:
    labels = torch.arange(200) % 2
    head = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 2))
    return splits((COLORS[:120], labels[:120]), (val, labels[120:]), head)


def values(scale: float) -> Setup:
    return splits((X[:300], REAL[:300]), (X[300:], scale * REAL[300:]), network(1), nn.MSELoss())


def noisy(x: Tensor) -> Tensor:
    return x * (0.7 + 0.6 * torch.rand(1)) + 0.2 * torch.randn(4)


def windows() -> Setup:
    model = nn.Sequential(nn.Flatten(), nn.Linear(24, 1))
    target = WINDOWS[:, -1, :1] + 1
    return splits((WINDOWS[:400], target[:400]), (WINDOWS[412:], target[412:]), model, nn.MSELoss())


OTHER_UNITS: dict[str, Callable[[], Setup]] = {
    "normalized once": lambda: prepared(lambda x: (x - 0.5) / 0.2, lambda x: x),
    "divided in training only": lambda: prepared(lambda x: x / 255, lambda x: x),
    "columns scaled by their own range": lambda: splits(
        (X[:300], Y[:300]), ((X[300:] - X.min(0).values) / (X.max(0).values - X.min(0).values), Y[300:])
    ),
    "targets in thousands": lambda: values(1000.0),
    "colors in reverse": lambda: colors(COLORS[120:].flip(1)),
}
SAME_UNITS: dict[str, Callable[[], Setup]] = {
    "augmented training": lambda: prepared(noisy, lambda x: x),
    "colors in order": lambda: colors(COLORS[120:]),
    "a series that drifts": windows,
    "targets a little wider": lambda: values(1.5),
}


@pytest.mark.parametrize("name", OTHER_UNITS)
def test_other_units_are_found(name: str) -> None:
    assert len(fault_messages(OTHER_UNITS[name](), "D109")) == 1


@pytest.mark.parametrize("name", SAME_UNITS)
def test_drift_and_augmentation_are_left_alone(name: str) -> None:
    assert fault_messages(SAME_UNITS[name](), "D109") == []


def test_colors_in_reverse_come_before_classes_that_seem_to_have_changed_places() -> None:
    labels = torch.arange(600) % 3
    pictures = torch.rand(600, 3, 4, 4, generator=torch.Generator().manual_seed(1))
    pictures += torch.tensor([0.6, 0.3, 0.0])[:, None, None]
    pictures[torch.arange(600), labels, 1:3, 1:3] += 1
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 3))
    setup = splits((pictures[:300], labels[:300]), (pictures[300:].flip(1), labels[300:]), model)
    codes = [one.code for one in Debugger.of(setup).checkup(select=["D109", "D125"]).faults]
    assert codes == ["D109", "D125"]


def scaled_to_thousands(target: Tensor) -> Tensor:
    return target / 1000


def test_the_line_that_scales_one_split_is_named() -> None:
    parts = TensorDataset(X[:300], scaled_to_thousands(REAL[:300])), TensorDataset(X[300:], REAL[300:])

    def error(output: Tensor, target: Tensor) -> Tensor:
        return nn.functional.mse_loss(output, target)

    setup = Setup(network(1), *(DataLoader(part, 20) for part in parts), loss_fn=error)
    assert [one.where.source for one in rule_findings(setup, "D109")] == ["    return target / 1000"]


def cut(order: Tensor) -> Setup:
    return splits((X[order[:300]], Y[order[:300]]), (X[order[300:]], Y[order[300:]]))


def shares(train: list[int], val: list[int]) -> Setup:
    labels = [torch.repeat_interleave(torch.arange(3), torch.tensor(counts)) for counts in (train, val)]
    return splits(*((torch.randn(len(one), 4), one) for one in labels))


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda: cut(torch.argsort(Y)), "D119"),
        (lambda: cut(torch.argsort(Y)), "D110"),
        (lambda: cut(torch.argsort(Y + 1.5 * torch.rand(400, generator=DRAWN))), "D110"),
        (lambda: shares([100, 100, 0], [30, 30, 30]), "D119"),
        (lambda: shares([100, 100, 100], [30, 40, 0]), "D119"),
        (lambda: shares([200, 80, 20], [20, 30, 60]), "D110"),
    ],
    ids=["sorted, cut", "sorted, other shares", "nearly sorted", "unseen class", "unjudged class", "other shares"],
)
def test_a_split_that_follows_the_classes_is_found(build: Callable[[], Setup], code: str) -> None:
    assert fault_messages(build(), code)


@pytest.mark.parametrize(
    "build",
    [
        lambda: cut(torch.randperm(400, generator=DRAWN)),
        lambda: shares([100, 100, 100], [300, 60, 15]),
        lambda: shares([300, 60, 15], [30, 30, 30]),
        lambda: shares([200, 100, 2], [60, 30, 0]),
        lambda: shares([200, 100, 50], [40, 28, 12]),
    ],
    ids=["shuffled", "balanced training", "balanced validation", "two of a class", "about the same"],
)
def test_a_random_split_and_balance_are_left_alone(build: Callable[[], Setup]) -> None:
    setup = build()
    assert fault_messages(setup, "D110") + fault_messages(setup, "D119") == []
