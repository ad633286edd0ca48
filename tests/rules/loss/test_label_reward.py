"""Tests of L218 on losses that hardly reward the label, with scores of any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import network
from tests.rules.rule_findings import own_findings

Loss = Callable[[Tensor, Tensor], Tensor]
X = torch.randn(240, 4, generator=torch.Generator().manual_seed(0))
TAGS = torch.randn(240, 6, 4, generator=torch.Generator().manual_seed(1))


def smoothed_by_hand(share: float) -> Loss:
    def loss(scores: Tensor, target: Tensor) -> Tensor:
        classes = scores.shape[1]
        aims = F.one_hot(target, classes) * (1 - share) + share / classes
        return -(aims * scores.log_softmax(1)).sum(1).mean()

    return loss


def smoothed_likelihood(share: float) -> Loss:
    def loss(scores: Tensor, target: Tensor) -> Tensor:
        shares = scores.log_softmax(1)
        return (1 - share) * F.nll_loss(shares, target) - share * shares.mean()

    return loss


def mixed_with_neighbors(width: float) -> Loss:
    def loss(scores: Tensor, target: Tensor) -> Tensor:
        distance = torch.arange(scores.shape[1]) - target[:, None]
        aims = (-(distance / width).square() / 2).softmax(1)
        return -(aims * scores.log_softmax(1)).sum(1).mean()

    return loss


def pulled_together(scores: Tensor, target: Tensor) -> Tensor:
    distances = (scores[:, None] - scores[None]).square().sum(2)
    is_same = target[:, None] == target[None]
    return torch.where(is_same, distances, (4 - distances).clamp_min(0)).mean()


def with_constant(constant: float) -> Loss:
    return lambda scores, target: F.cross_entropy(scores, target) + constant


def focal(scores: Tensor, target: Tensor) -> Tensor:
    losses = F.cross_entropy(scores, target, reduction="none")
    return ((1 - (-losses).exp()) ** 2 * losses).mean()


def findings(loss_fn: Any, classes: int = 3, *, loop_loss: Any = None, is_tagged: bool = False) -> list[Finding]:
    """Return the findings of L218 of a checkup and a loop; ``loop_loss`` is another loss than that of the setup."""
    torch.manual_seed(0)
    inputs = TAGS if is_tagged else X
    targets = (inputs[..., 0] * classes).long() % classes
    model = nn.Sequential(nn.Linear(4, classes), nn.Flatten(0, 1)) if is_tagged else network(classes)
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=40)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    own = (lambda scores, target: loss_fn(scores, target.flatten())) if is_tagged else loss_fn
    debugger = Debugger(model, loader, loss_fn=own, optimizer=optimizer)
    debugger.checkup(select=["L218"])
    with debugger.watch(final_tests=False):
        for _ in range(3):
            for x, y in loader:
                optimizer.zero_grad()
                (loop_loss or own)(model(x), y).backward()
                optimizer.step()
    return own_findings(debugger, "L218")


FAULTY: dict[str, Callable[[], list[Finding]]] = {
    "an option of a module": lambda: findings(nn.CrossEntropyLoss(label_smoothing=0.95)),
    "an option in the loop": lambda: findings(
        F.cross_entropy, loop_loss=lambda o, t: F.cross_entropy(o, t, label_smoothing=0.95)
    ),
    "ten classes": lambda: findings(nn.CrossEntropyLoss(label_smoothing=0.9), 10),
    "two classes": lambda: findings(nn.CrossEntropyLoss(label_smoothing=0.9), 2),
    "by hand": lambda: findings(smoothed_by_hand(0.9)),
    "a share of the mean": lambda: findings(smoothed_likelihood(0.9)),
    "tags": lambda: findings(nn.CrossEntropyLoss(label_smoothing=0.95), is_tagged=True),
}
HEALTHY: dict[str, Callable[[], list[Finding]]] = {
    "a usual smoothing": lambda: findings(nn.CrossEntropyLoss(label_smoothing=0.1)),
    "a strong smoothing": lambda: findings(nn.CrossEntropyLoss(label_smoothing=0.3), 10),
    "smoothed in the loop": lambda: findings(
        F.cross_entropy, loop_loss=lambda o, t: F.cross_entropy(o, t, label_smoothing=0.1)
    ),
    "by hand": lambda: findings(smoothed_by_hand(0.1), 2),
    "neighbors on a scale": lambda: findings(mixed_with_neighbors(5.0), 100),
    "distances of embeddings": lambda: findings(pulled_together),
    "a constant": lambda: findings(with_constant(100.0)),
    "a focal loss": lambda: findings(focal),
    "weights": lambda: findings(nn.CrossEntropyLoss(weight=torch.tensor([1.0, 20.0, 0.1]))),
    "a margin": lambda: findings(nn.MultiMarginLoss()),
    "small weights": lambda: findings(lambda o, t: 1e-3 * F.cross_entropy(o, t)),
}


@pytest.mark.parametrize("name", FAULTY)
def test_loss_that_hardly_rewards_the_label_is_reported(name: str) -> None:
    (finding,) = FAULTY[name]()
    assert finding.severity == "warning"
    assert "The lowest loss found for scores that favor the label" in finding.message
    assert {"T607", "T610"} <= set(finding.explains)


@pytest.mark.parametrize("name", HEALTHY)
def test_loss_that_rewards_the_label_is_quiet(name: str) -> None:
    assert HEALTHY[name]() == []


def test_smoothing_of_a_loss_is_named_with_its_line() -> None:
    (finding,) = FAULTY["an option in the loop"]()
    assert "label_smoothing is 0.95" in finding.cause
    assert "label_smoothing=0.95" in (finding.where.source or "")
