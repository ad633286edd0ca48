"""D105 and D125 ask a small learner whether labels belong to inputs, and to the same classes in both splits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import network
from nbdebug.setup import Setup

DRAWN = torch.Generator().manual_seed(0)
X = torch.randn(800, 4, generator=DRAWN)
Y = (X @ torch.randn(4, 3, generator=DRAWN)).argmax(1)
MIXED = torch.randperm(400, generator=DRAWN)
CE = nn.CrossEntropyLoss()
PICTURES = torch.rand(800, 1, 8, 8, generator=DRAWN) + torch.eye(8)[Y * 3 % 8].reshape(-1, 1, 1, 8)
TOKENS = torch.randint(0, 20, (800, 6), generator=DRAWN) + 20 * (torch.rand(800, 6, generator=DRAWN) < 0.5) * Y[:, None]


class Named(Dataset[Any]):
    """Samples as dictionaries, with the names of their classes."""

    def __init__(self, x: Tensor, y: Tensor, **names: Any) -> None:
        self.x, self.y = x, y
        self.__dict__.update(names)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"x": self.x[index], "labels": self.y[index]}


def pair(model: nn.Module, x: Tensor, train: Tensor, val: Tensor) -> Callable[[], Setup]:
    parts = [TensorDataset(x[:400], train), TensorDataset(x[400:], val)]
    return lambda: Setup(model, DataLoader(parts[0], 32, shuffle=True), DataLoader(parts[1], 32), loss_fn=CE)


def named(train: dict[str, Any], val: dict[str, Any]) -> Callable[[], Setup]:
    parts = [Named(X[:400], Y[:400], **train), Named(X[400:], Y[400:], **val)]
    return lambda: Setup(network(3), DataLoader(parts[0], 32), DataLoader(parts[1], 32), loss_fn=CE)


def alone(y: Tensor) -> Callable[[], Setup]:
    return lambda: Setup(network(3), DataLoader(TensorDataset(X, y), 32), loss_fn=CE)


picture_model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
token_model = nn.Sequential(nn.Embedding(60, 4), nn.Flatten(), nn.Linear(24, 3))
NAMES = ["cat", "dog", "fox"]
PARITY = ((X[:, :4] > 0).sum(1) % 2).long()
UNRELATED: dict[str, Callable[[], Setup]] = {
    "shuffled alone": pair(network(3), X, Y[:400][MIXED], Y[400:]),
    "pictures": pair(picture_model, PICTURES, Y[:400][MIXED], Y[400:]),
    "tokens": pair(token_model, TOKENS, Y[:400][MIXED], Y[400:]),
    "validation": pair(network(3), X, Y[:400], Y[400:][MIXED]),
    "one place apart": alone(Y.roll(1)),
}
RELATED: dict[str, Callable[[], Setup]] = {
    "plain": pair(network(3), X, Y[:400], Y[400:]),
    "a third of noise": pair(network(3), X, torch.where(torch.rand(400) < 0.3, Y[:400][MIXED], Y[:400]), Y[400:]),
    "beyond the learner": alone(PARITY),
    "random everywhere": alone(Y[torch.randperm(800)]),
    "few samples": lambda: Setup(network(3), DataLoader(TensorDataset(X[:60], Y[:60].flip(0)), 32), loss_fn=CE),
    "all of one class": alone(torch.ones_like(Y)),
}
RENUMBERED: dict[str, Callable[[], Setup]] = {
    "two change places": pair(network(3), X, Y[:400], torch.tensor([2, 1, 0])[Y[400:]]),
    "pictures, all moved": pair(picture_model, PICTURES, Y[:400], (Y[400:] + 1) % 3),
    "lists of names": named({"classes": NAMES}, {"classes": NAMES[::-1]}),
    "maps of names": named({"class_to_idx": {"a": 0, "b": 1, "c": 2}}, {"class_to_idx": {"b": 0, "c": 1}}),
    "hidden folder": named({"classes": [".ipynb_checkpoints", "a", "b"]}, {}),
}
NUMBERED: dict[str, Callable[[], Setup]] = {
    "the same": pair(network(3), X, Y[:400], Y[400:]),
    "the same names": named({"classes": NAMES}, {"classes": NAMES}),
    "fewer classes at the end": named({"classes": NAMES}, {"classes": NAMES[:2]}),
    "names in training only": named({"class_to_idx": {"a": 0, "b": 1, "c": 2}}, {}),
    "another domain": pair(network(3), torch.cat([X[:400], X[400:] * 3 + 2]), Y[:400], Y[400:]),
    "sizes by name": named({"shape": {"height": 8, "width": 9}}, {"shape": {"height": 8, "width": 9}}),
}


def said(setup: Setup, code: str) -> list[Finding]:
    return [one for one in Debugger.of(setup).checkup(select=[code]) if one.severity != "note"]


@pytest.mark.parametrize("name", UNRELATED)
def test_labels_of_other_inputs_are_found(name: str) -> None:
    (found,) = said(UNRELATED[name](), "D105")
    assert found.severity == "error"


@pytest.mark.parametrize("name", RELATED)
def test_labels_that_belong_or_cannot_be_told_are_left_alone(name: str) -> None:
    assert said(RELATED[name](), "D105") == []


@pytest.mark.parametrize("name", RENUMBERED)
def test_other_numbers_are_found(name: str) -> None:
    (found,) = said(RENUMBERED[name](), "D125")
    assert found.severity == "error"


@pytest.mark.parametrize("name", NUMBERED)
def test_the_same_numbers_are_left_alone(name: str) -> None:
    assert said(NUMBERED[name](), "D125") == []
