"""D122 names copies with other labels, and leaves inputs that repeat by chance alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup

X, Y = points()
CE = nn.CrossEntropyLoss()
TWICE, OTHER = torch.cat([X, X[:8]]), torch.cat([Y, (Y[:8] + 1) % 3])
DRAWN = torch.Generator().manual_seed(0)
PICTURES = torch.randint(0, 256, (64, 1, 8, 8), generator=DRAWN).float() / 255
FLAGS = (torch.randn(200, 3, generator=DRAWN) > 0).float()
TOKENS = torch.randint(0, 5, (200, 3), generator=DRAWN)
CHANCE = torch.arange(200) % 3


def by_name() -> Setup:
    rows = [{"x": x, "labels": y} for x, y in zip(TWICE, OTHER, strict=True)]
    return Setup(network(3), DataLoader(rows, 16), loss_fn=CE)


def pictures() -> Setup:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    return minimal_setup(model, torch.cat([PICTURES, PICTURES[:6]]), torch.cat([Y, (Y[:6] + 2) % 3]), CE)


def binary() -> Setup:
    yes = (OTHER > 0).float().unsqueeze(1)
    yes[64:] = 1 - yes[:8]
    return minimal_setup(network(1), TWICE, yes, nn.BCEWithLogitsLoss())


def of(model: nn.Module, x: Tensor, y: Tensor, loss_fn: Any = CE) -> Callable[[], Setup]:
    return lambda: minimal_setup(model, x, y, loss_fn)


def own_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.nll_loss(output.log_softmax(1), target)


FAULTY: dict[str, Callable[[], Setup]] = {
    "table": of(network(3), TWICE, OTHER),
    "loss of one's own": of(network(3), TWICE, OTHER, own_loss),
    "dictionaries": by_name,
    "pictures": pictures,
    "binary": binary,
    "whole classes": of(network(3), torch.cat([X, X]), torch.cat([Y, (Y + 1) % 3])),
}
HEALTHY: dict[str, Callable[[], Setup]] = {
    "each once": of(network(3), X, Y),
    "copies that agree": of(network(3), torch.cat([X, X]), torch.cat([Y, Y])),
    "flags": of(nn.Linear(3, 3), FLAGS, CHANCE),
    "tokens": of(nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(12, 3)), TOKENS, CHANCE),
    "one constant input": of(network(3), torch.ones(64, 4), Y),
    "repeated measurements": of(network(1), torch.cat([X, X]), torch.randn(128, 1), nn.MSELoss()),
    "several labels a sample": of(network(3), X, F.one_hot(Y, 3).float(), nn.BCEWithLogitsLoss()),
}


def said(setup: Setup) -> list[Finding]:
    return list(Debugger.of(setup).checkup(select=["D122"]))


@pytest.mark.parametrize("name", FAULTY)
def test_copies_with_other_labels_are_found(name: str) -> None:
    (found,) = said(FAULTY[name]())
    assert found.severity == "warning"
    assert found.where.sample == 0


@pytest.mark.parametrize("name", HEALTHY)
def test_chance_is_at_most_a_note(name: str) -> None:
    assert [one for one in said(HEALTHY[name]()) if one.severity != "note"] == []


def test_the_pairs_are_named_and_counted() -> None:
    (found,) = said(FAULTY["table"]())
    assert "16 of 72 train samples" in found.message
    assert found.evidence["groups of (index, label)"][3] == [(3, int(Y[3])), (67, int(OTHER[67]))]
