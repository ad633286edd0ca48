"""Tests of L213 for margin losses without a clamp, and for losses below zero that are bounded or scores."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding

CENTERS = 2 * torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(240) % 6
ROWS = CENTERS[LABELS] + torch.randn(240, 8, generator=torch.Generator().manual_seed(1))
Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]


def network(outputs: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, outputs))


def triplet(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return a row of the same class and a row of another class for each row of a batch."""
    alike = torch.stack([x[y == label][0] for label in y])
    return alike, torch.stack([x[y != label][0] for label in y])


def distance_margin(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    anchor, alike, other = (model(rows) for rows in (x, *triplet(x, y)))
    return ((anchor - alike).norm(dim=1) - (anchor - other).norm(dim=1) + 1).mean()


def squared_margin(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    embedded = model(torch.cat([x, *triplet(x, y)]))
    anchor, alike, other = embedded.chunk(3)
    return 1 + ((anchor - alike) ** 2).sum(1).mean() - ((anchor - other) ** 2).sum(1).mean()


def score_margin(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    better, worse = model(x[y < 3]), model(x[y >= 3])
    return 1 - better.mean() + worse.mean()


def clamped_distance_margin(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    anchor, alike, other = (model(rows) for rows in (x, *triplet(x, y)))
    return F.triplet_margin_loss(anchor, alike, other)


def negative_likelihood(model: nn.Module, x: Tensor, _: Tensor) -> Tensor:
    mean, log_scale = model(x).split([1, 1], dim=1)
    return -torch.distributions.Normal(mean, log_scale.exp()).log_prob(x[:, :1] / 1000).mean()


def negative_cosine(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    first, second = model(x), model(triplet(x, y)[0])
    return -10 * F.cosine_similarity(first, second).mean()


class Density(nn.Module):
    """Returns the log-likelihood of each row under a learned normal distribution."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.log_scale = nn.Parameter(torch.zeros(8)), nn.Parameter(torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        return torch.distributions.Normal(self.mean, self.log_scale.exp()).log_prob(x / 1000).sum(1)


def negative_score(model: nn.Module, x: Tensor, _: Tensor) -> Tensor:
    loss: Tensor = -model(x).mean()
    return loss


def unknown_marks(model: nn.Module, x: Tensor, _: Tensor) -> Tensor:
    """Take marks of -1 for targets of a binary cross-entropy."""
    return F.binary_cross_entropy_with_logits(model(x), x[:, :4].sign())


def margin_with_penalty(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Add a bounded part that is another one in each batch."""
    return score_margin(model, x, y) + torch.sigmoid(x.mean())


def findings(model: nn.Module, loss: Loss, *others: torch.optim.Optimizer) -> list[Finding]:
    """Return what is said of L213 after a watched loop."""
    loader = DataLoader(TensorDataset(ROWS, LABELS), batch_size=48, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    debugger = Debugger(model, loader, loss_fn=nn.TripletMarginLoss(), optimizer=optimizer)
    with debugger.watch():
        for _ in range(30):
            for x, y in loader:
                optimizer.zero_grad()
                value = loss(model, x, y)
                value.backward()
                optimizer.step()
                for other in others:
                    other.step()
    return [finding for finding in debugger.findings if finding.code == "L213"]


@pytest.mark.parametrize(
    ("loss", "outputs", "degree"),
    [(distance_margin, 4, 1), (squared_margin, 4, 2), (score_margin, 1, 1)],
    ids=["distances", "squared distances", "scores"],
)
def test_loss_wrong_sign_of_margin_without_clamp_is_error_with_margin(loss: Loss, outputs: int, degree: int) -> None:
    (finding,) = findings(network(outputs), loss)
    assert finding.severity == "error"
    assert (finding.evidence["degree"], finding.evidence["margin"]) == (degree, pytest.approx(1, abs=0.05))
    assert finding.evidence["last"] < 0 < finding.evidence["first"]


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (lambda: network(4), clamped_distance_margin),
        (lambda: network(2), negative_likelihood),
        (lambda: network(4), negative_cosine),
        (Density, negative_score),
    ],
    ids=["clamped margin", "normal likelihood", "cosine", "returned likelihood"],
)
def test_loss_wrong_sign_ignores_losses_with_bound_or_of_one_score(model: Callable[[], nn.Module], loss: Loss) -> None:
    assert findings(model(), loss) == []


def test_loss_wrong_sign_ignores_critic_that_takes_turns_with_another_network() -> None:
    generator = network(8)
    optimizer = torch.optim.SGD(generator.parameters(), lr=0.0)
    assert findings(network(1), score_margin, optimizer) == []


@pytest.mark.parametrize(
    ("loss", "outputs", "is_constant"),
    [
        (score_margin, 1, True),
        (squared_margin, 4, True),
        (distance_margin, 4, True),
        (unknown_marks, 4, False),
        (margin_with_penalty, 1, False),
    ],
)
def test_loss_wrong_sign_of_a_part_that_differs_by_step_states_its_range(
    loss: Loss, outputs: int, is_constant: bool
) -> None:
    (finding,) = findings(network(outputs), loss)
    margin = re.search(r"it was (.*) plus a part", finding.message.partition("In each of")[2])
    assert margin is not None
    bounds = [float(number) for number in re.findall(r"-?[\d.]+", margin[1])]
    assert bounds == [1.0] if is_constant else bounds == sorted(bounds) and len(bounds) == 2
    assert bounds[0] - 0.01 <= finding.evidence["margin"] <= bounds[-1] + 0.01
    assert f"its median over the last 10% of the steps is {finding.evidence['last']:.3g}" in finding.message
