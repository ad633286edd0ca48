"""L206 over time, height and width; softmaxes that run there on purpose are left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from tests.rules.rule_findings import fault_messages

WORDS = torch.randint(0, 12, (32, 7), generator=torch.Generator().manual_seed(0))
PICTURES = torch.rand(32, 1, 6, 8, generator=torch.Generator().manual_seed(0))
MASKS = (PICTURES[:, 0] * 2.99).long()


class Ends(nn.Module):
    """A body that ends in some function."""

    def __init__(self, body: nn.Module, end: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.end = body, end

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.body(x))


class Pooled(nn.Module):
    """Weights over time from one unit."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.body, self.score, self.head = nn.Embedding(12, 8), nn.Linear(8, 1), nn.Linear(8, 3)
        self.axis = axis

    def forward(self, words: Tensor) -> Tensor:
        states = self.body(words)
        weights = torch.softmax(self.score(states), dim=self.axis)
        scores: Tensor = self.head((weights * states).sum(1))
        return scores


def tokens(output: Tensor, target: Tensor) -> Tensor:
    return F.nll_loss(output.reshape(-1, output.shape[-1]), target.reshape(-1))


def tagger(axis: int) -> Setup:
    body = nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 5))
    return minimal_setup(Ends(body, lambda x: F.log_softmax(x, dim=axis)), WORDS, WORDS % 5, tokens)


def segmenter(axis: int, loss_fn: Any = None, target: Tensor = MASKS) -> Setup:
    end = F.log_softmax if loss_fn is None else F.softmax
    model = Ends(nn.Conv2d(1, 3, 3, padding=1), lambda x: end(x, dim=axis))
    return minimal_setup(model, PICTURES, target, loss_fn or nn.NLLLoss())


def one_hot(axis: int) -> Setup:
    return segmenter(axis, nn.MSELoss(), F.one_hot(MASKS, 3).movedim(-1, 1).float())


def pooled(axis: int) -> Setup:
    return minimal_setup(Pooled(axis), WORDS, WORDS[:, 0] % 3, nn.CrossEntropyLoss())


@pytest.mark.parametrize(
    "setup",
    [tagger(1), segmenter(2), segmenter(-1), one_hot(3), pooled(2)],
    ids=["time", "height", "width", "width of one-hot targets", "one unit"],
)
def test_another_axis_is_found(setup: Setup) -> None:
    assert len(fault_messages(setup, "L206")) == 1


@pytest.mark.parametrize(
    "setup", [tagger(-1), segmenter(1), one_hot(1), pooled(1)], ids=["tags", "pixels", "one-hot", "weights over time"]
)
def test_the_axis_of_the_classes_is_left_alone(setup: Setup) -> None:
    assert fault_messages(setup, "L206") == []
