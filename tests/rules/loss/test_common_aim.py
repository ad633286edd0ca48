"""Tests of L213 on a generator and a critic that should oppose each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding

Score = Callable[[Tensor], Tensor]


def network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, outputs)
    )


def ring(count: int) -> Tensor:
    angle = 6.28 * torch.rand(count)
    return torch.stack([angle.cos(), 0.6 * angle.sin()], 1) + torch.tensor([1.5, -1.0])


def labeled(scores: Tensor, label: float) -> Tensor:
    return F.binary_cross_entropy_with_logits(scores, torch.full_like(scores, label))


def wasserstein(real: Tensor, fake: Tensor) -> Tensor:
    return fake.mean() - real.mean()


def discrimination(real: Tensor, fake: Tensor) -> Tensor:
    return labeled(real, 1) + labeled(fake, 0)


def hinge(real: Tensor, fake: Tensor) -> Tensor:
    return F.relu(1 - real).mean() + F.relu(1 + fake).mean()


def mean_score(scores: Tensor) -> Tensor:
    return scores.mean()


def findings_of(
    critic_loss: Callable[[Tensor, Tensor], Tensor], score: Score, critic_lr: float = 1e-3, epochs: int = 10
) -> list[Finding]:
    torch.manual_seed(0)
    generator, critic = network(4, 2), network(2, 1)
    loader = DataLoader(TensorDataset(torch.randn(960, 4), ring(960)), 48, shuffle=True)
    optimizer = torch.optim.RMSprop(generator.parameters(), lr=1e-3)
    critic_optimizer = torch.optim.RMSprop(critic.parameters(), lr=critic_lr)

    def loss_fn(fake: Tensor, real: Tensor) -> Tensor:
        return score(critic(fake))

    dbg = Debugger(generator, loader, loss_fn=loss_fn, optimizer=optimizer)
    with dbg.watch():
        for _ in range(epochs):
            for noise, real in loader:
                for _ in range(3):
                    critic_optimizer.zero_grad()
                    critic_loss(critic(real), critic(generator(noise).detach())).backward()
                    critic_optimizer.step()
                    if critic_loss is wasserstein:
                        with torch.no_grad():
                            for weight in critic.parameters():
                                weight.clamp_(-0.1, 0.1)
                optimizer.zero_grad()
                loss_fn(generator(noise), real).backward()
                optimizer.step()
    return [finding for finding in dbg.findings if finding.code == "L213"]


@pytest.mark.parametrize(
    ("critic_loss", "score", "source"),
    [
        pytest.param(wasserstein, mean_score, "return scores.mean()", id="score without its minus sign"),
        pytest.param(hinge, mean_score, "return scores.mean()", id="hinge without its minus sign"),
        pytest.param(discrimination, lambda x: labeled(x, 0), "F.binary_cross", id="label of generated samples"),
    ],
)
def test_a_generator_that_helps_its_critic_is_reported(critic_loss, score, source) -> None:  # type: ignore[no-untyped-def]
    (finding,) = findings_of(critic_loss, score)
    assert finding.where.file == __file__
    assert source in (finding.where.source or "")
    assert finding.evidence["generated"] < finding.evidence["real"]
    assert finding.evidence["other loss"][1] < finding.evidence["other loss"][0]


@pytest.mark.parametrize(
    ("critic_loss", "score", "critic_lr"),
    [
        pytest.param(wasserstein, lambda scores: -scores.mean(), 1e-3, id="Wasserstein"),
        pytest.param(hinge, lambda scores: -scores.mean(), 1e-3, id="hinge"),
        pytest.param(discrimination, lambda scores: labeled(scores, 1), 1e-3, id="label of real samples"),
        pytest.param(discrimination, lambda scores: -labeled(scores, 0), 1e-3, id="minimax"),
        pytest.param(hinge, lambda scores: -scores.mean(), 1e-5, id="slow critic"),
    ],
)
def test_opponents_are_not_reported(critic_loss, score, critic_lr) -> None:  # type: ignore[no-untyped-def]
    assert not findings_of(critic_loss, score, critic_lr)
