"""Two networks that train against each other, with optimizers in turns."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import mlp
from tests.rules.real.datasets import loader, moons, split, tumors
from tests.rules.unusual.catalog import TrainingLoop, batches, unusual

NOISE = 4


def generator_network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(NOISE, 32), nn.ReLU(), nn.Linear(32, 2))


def critic_network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))


def adam(model: nn.Module, lr: float = 2e-3) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), lr=lr, betas=(0.5, 0.999))


@unusual
def gan_with_optimizers_in_turns() -> tuple[Debugger, TrainingLoop]:
    networks = nn.ModuleDict({"generator": generator_network(), "critic": critic_network()})
    generator, critic = networks["generator"], networks["critic"]
    generator_optimizer, critic_optimizer = adam(generator), adam(critic)
    data, bce = loader(moons()[0]), F.binary_cross_entropy_with_logits

    def train() -> None:
        for (real,) in batches(data, 10):
            fake = generator(torch.randn(len(real), NOISE))
            real_score, fake_score = critic(real), critic(fake.detach())
            critic_optimizer.zero_grad()
            (bce(real_score, torch.ones_like(real_score)) + bce(fake_score, torch.zeros_like(fake_score))).backward()
            critic_optimizer.step()
            generator_optimizer.zero_grad()
            score = critic(fake)
            bce(score, torch.ones_like(score)).backward()
            generator_optimizer.step()

    return Debugger(networks, data, optimizer=[generator_optimizer, critic_optimizer]), train


@unusual
def least_squares_gan_seen_from_the_critic() -> tuple[Debugger, TrainingLoop]:
    generator, critic = generator_network(), critic_network()
    generator_optimizer, critic_optimizer = adam(generator), adam(critic)
    points = moons()[0]
    data, mse = loader(points, torch.ones(len(points), 1)), nn.MSELoss()

    def train() -> None:
        for real, ones in batches(data, 10):
            fake = generator(torch.randn(len(real), NOISE))
            critic_optimizer.zero_grad()
            (0.5 * mse(critic(real), ones) + 0.5 * mse(critic(fake.detach()), 0 * ones)).backward()
            critic_optimizer.step()
            generator_optimizer.zero_grad()
            (0.5 * mse(critic(fake), ones)).backward()
            generator_optimizer.step()

    return Debugger(critic, data, loss_fn=mse, optimizer=critic_optimizer), train


@unusual
def wasserstein_gan_with_gradient_penalty() -> tuple[Debugger, TrainingLoop]:
    networks = nn.ModuleDict({"generator": generator_network(), "critic": critic_network()})
    generator, critic = networks["generator"], networks["critic"]
    generator_optimizer, critic_optimizer = adam(generator, 1e-3), adam(critic, 1e-3)
    data = loader(moons()[0])

    def penalty(real: Tensor, fake: Tensor) -> Tensor:
        mixed = torch.lerp(real, fake, torch.rand(len(real), 1)).requires_grad_()
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        return 10 * (slope.norm(dim=1) - 1).square().mean()

    def train() -> None:
        for step, (real,) in enumerate(batches(data, 12)):
            fake = generator(torch.randn(len(real), NOISE)).detach()
            critic_optimizer.zero_grad()
            (critic(fake).mean() - critic(real).mean() + penalty(real, fake)).backward()
            critic_optimizer.step()
            if step % 5 == 4:
                generator_optimizer.zero_grad()
                (-critic(generator(torch.randn(len(real), NOISE))).mean()).backward()
                generator_optimizer.step()

    return Debugger(networks, data, optimizer=[critic_optimizer, generator_optimizer]), train


@unusual
def hinge_gan_with_spectral_normalization() -> tuple[Debugger, TrainingLoop]:
    generator = generator_network()
    critic = nn.Sequential(
        spectral_norm(nn.Linear(2, 32)), nn.LeakyReLU(0.2), spectral_norm(nn.Linear(32, 32)), nn.LeakyReLU(0.2),
        spectral_norm(nn.Linear(32, 1)),
    )  # fmt: skip
    generator_optimizer, critic_optimizer = adam(generator), adam(critic)
    data = loader(moons()[0])

    def train() -> None:
        for (real,) in batches(data, 10):
            fake = generator(torch.randn(len(real), NOISE))
            critic_optimizer.zero_grad()
            (F.relu(1 - critic(real)).mean() + F.relu(1 + critic(fake.detach())).mean()).backward()
            critic_optimizer.step()
            generator_optimizer.zero_grad()
            (-critic(fake).mean()).backward()
            generator_optimizer.step()

    return Debugger(generator, data, optimizer=generator_optimizer, unpack=lambda batch: (
        torch.randn(len(batch[0]), NOISE), None)), train  # fmt: skip


@unusual
def gan_that_freezes_its_critic_in_turns() -> tuple[Debugger, TrainingLoop]:
    generator, critic = generator_network(), critic_network()
    generator_optimizer, critic_optimizer = adam(generator), adam(critic)
    points = moons()[0]
    data, bce = loader(points, torch.ones(len(points), 1)), nn.BCEWithLogitsLoss()

    def train() -> None:
        for real, ones in batches(data, 10):
            critic.requires_grad_(True)
            fake = generator(torch.randn(len(real), NOISE))
            critic_optimizer.zero_grad()
            (bce(critic(real), ones) + bce(critic(fake.detach()), 0 * ones)).backward()
            critic_optimizer.step()
            critic.requires_grad_(False)
            generator_optimizer.zero_grad()
            bce(critic(fake), ones).backward()
            generator_optimizer.step()

    return Debugger(critic, data, loss_fn=bce, optimizer=critic_optimizer), train


class ReversedGradient(torch.autograd.Function):
    """The identity, with a gradient of the opposite sign."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return -grads[0]


class DomainAdversary(nn.Module):
    """Features that tell classes but not domains (Ganin and Lempitsky 2015)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(30, 32), nn.ReLU())
        self.label, self.domain = nn.Linear(32, 2), nn.Linear(32, 2)

    def forward(self, x: Tensor) -> Any:
        features = self.features(x)
        return self.label(features), self.domain(ReversedGradient.apply(features))


@unusual
def domain_adversarial_network() -> tuple[Debugger, TrainingLoop]:
    model = DomainAdversary()
    x, y = tumors()
    domain = (torch.arange(len(x)) % 2).long()
    data = loader(x + 0.3 * domain[:, None], y, domain)

    def loss(output: Any, target: Any) -> Tensor:
        return F.cross_entropy(output[0], target[0]) + 0.1 * F.cross_entropy(output[1], target[1])

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train() -> None:
        for inputs, label, domain_label in batches(data, 8):
            optimizer.zero_grad()
            loss(model(inputs), (label, domain_label)).backward()
            optimizer.step()

    unpack = lambda batch: (batch[0], (batch[1], batch[2]))  # noqa: E731
    return Debugger(model, data, loss_fn=loss, optimizer=optimizer, unpack=unpack), train


@unusual
def adversarial_training_by_projected_gradients() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 2))
    data, val = split(*tumors())
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def attack(x: Tensor, y: Tensor) -> Tensor:
        shift = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
        for _ in range(2):
            (slope,) = torch.autograd.grad(F.cross_entropy(model(x + shift), y), shift)
            shift = (shift + 0.05 * slope.sign()).clamp(-0.1, 0.1).detach().requires_grad_()
        return (x + shift).detach()

    def train() -> None:
        for x, y in batches(data, 8):
            adversarial = attack(x, y)
            optimizer.zero_grad()
            F.cross_entropy(model(adversarial), y).backward()
            optimizer.step()

    return Debugger(model, data, val, loss_fn=F.cross_entropy, optimizer=optimizer), train


@unusual
def generator_whose_loss_is_the_score_of_a_critic() -> tuple[Debugger, TrainingLoop]:
    torch.manual_seed(11)
    generator, critic = mlp(NOISE, 48, 48, 2), mlp(2, 48, 48, 1, seed=6)
    generator_optimizer, critic_optimizer = (torch.optim.RMSprop(net.parameters(), 1e-3) for net in (generator, critic))
    real = moons()[0]
    data = loader(torch.randn(len(real), NOISE), real)

    def train() -> None:
        for noise, points in batches(data, 10):
            for _ in range(4):
                critic_optimizer.zero_grad()
                (critic(generator(noise).detach()).mean() - critic(points).mean()).backward()
                critic_optimizer.step()
                with torch.no_grad():
                    for weight in critic.parameters():
                        weight.clamp_(-0.1, 0.1)
            generator_optimizer.zero_grad()
            (-critic(generator(noise)).mean()).backward()
            generator_optimizer.step()

    loss_fn = lambda fake, _: -critic(fake).mean()  # noqa: E731
    return Debugger(generator, data, loss_fn=loss_fn, optimizer=generator_optimizer), train
