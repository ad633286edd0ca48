"""Healthy training runs that resemble faulty ones: flat, rising or negative losses, schedules, noise."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import lr_scheduler

from nbdebug.rules.examples import mlp, rings, train, training_setup, waves
from nbdebug.setup import Setup

Run = tuple[Setup, Callable[[], None]]
CE, MSE = nn.CrossEntropyLoss(), nn.MSELoss()


def classifier_run(epochs: int = 12, loss: nn.Module = CE, lr: float = 1e-2, model: nn.Module | None = None) -> Run:
    setup = training_setup(model or mlp(8, 32, 2), rings(), rings(256, seed=1), loss, lr=lr)
    return setup, lambda: train(setup, epochs)


def with_scheduler(make_scheduler: Callable[[torch.optim.Optimizer], lr_scheduler.LRScheduler]) -> Run:
    setup = training_setup(mlp(8, 32, 2), rings(), rings(256, seed=1), CE, lr=1e-2)

    def loop() -> None:
        scheduler = make_scheduler(setup.optimizers[0])
        for _ in range(12):
            train(setup, 1)
            scheduler.step()

    return setup, loop


def noise_floor() -> Run:
    """A linear regression with more noise than signal."""
    x = torch.randn(600, 5, generator=torch.Generator().manual_seed(3))
    y = x @ torch.arange(5.0)[:, None] * 0.15 + torch.randn(600, 1, generator=torch.Generator().manual_seed(4))
    model = mlp(5, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    setup = training_setup(model, (x[:400], y[:400]), (x[400:], y[400:]), MSE, optimizer=optimizer)
    return setup, lambda: train(setup, 10)


def fixed_order() -> Run:
    setup = training_setup(mlp(4, 32, 1), waves(), waves(256, seed=1), MSE, lr=1e-2, shuffle=False)
    return setup, lambda: train(setup, 12)


def easy_samples_first() -> Run:
    """Samples sorted by noise, so that the loss is larger in later batches."""
    x, y = waves()
    noise = torch.randn(y.shape, generator=torch.Generator().manual_seed(2))
    noise *= torch.linspace(0, 2, len(y))[:, None]
    setup = training_setup(mlp(4, 32, 1), (x, y + noise), waves(256, seed=1), MSE, lr=1e-2, shuffle=False)
    return setup, lambda: train(setup, 12)


def adversarial_training() -> Run:
    """A generator and a discriminator; neither loss falls for long."""
    generator, discriminator = mlp(4, 16, 2), mlp(2, 16, 1)
    real = torch.randn(384, 2) + 2
    setup = training_setup(
        discriminator, (real, torch.ones(384, 1)), (real, torch.ones(384, 1)), nn.BCEWithLogitsLoss()
    )
    generator_optimizer = torch.optim.Adam(generator.parameters(), 2e-3)

    def loop() -> None:
        for x, _ in [*setup.train_loader] * 8:
            fake = generator(torch.randn(len(x), 4))
            setup.optimizers[0].zero_grad()
            (F.softplus(-discriminator(x)).mean() + F.softplus(discriminator(fake.detach())).mean()).backward()
            setup.optimizers[0].step()
            generator_optimizer.zero_grad()
            F.softplus(-discriminator(fake)).mean().backward()
            generator_optimizer.step()

    return setup, loop


def adversarial_parts() -> Run:
    """A generator and a discriminator in one model; the watched loss is the generator's, which ends where it began."""
    model = nn.ModuleDict({"generator": mlp(4, 32, 32, 2), "discriminator": mlp(2, 32, 32, 1)})
    generator, discriminator = model.values()
    angle = 2 * torch.pi * torch.rand(768)
    real = torch.stack([angle.cos() + 1.5, angle.sin() - 1], 1)
    first, second = (torch.optim.Adam(part.parameters(), 1e-3, betas=(0.5, 0.99)) for part in model.values())
    loss_fn, ones = nn.BCEWithLogitsLoss(), torch.ones(768, 1)
    setup = training_setup(model, (real, ones), (real[:64], ones[:64]), loss_fn, optimizer=first)

    def loop() -> None:
        for x, y in [*setup.train_loader] * 30:
            fake = generator(torch.randn(len(x), 4))
            second.zero_grad()
            (loss_fn(discriminator(x), y) + loss_fn(discriminator(fake.detach()), 1 - y)).backward()
            second.step()
            first.zero_grad()
            loss_fn(discriminator(fake), y).backward()
            first.step()

    return setup, loop


def bootstrapped_targets() -> Run:
    """Value learning with targets from a copy of the network, which is replaced every second epoch."""
    setup = training_setup(mlp(4, 32, 1), waves(), waves(256, seed=1), MSE, lr=2e-3)

    def loop() -> None:
        for epoch in range(10):
            if epoch % 2 == 0:
                target_network = deepcopy(setup.model)
            for x, _ in setup.train_loader:
                with torch.no_grad():
                    target = x[:, :1] + 0.95 * target_network(0.9 * x + 0.3 * torch.randn_like(x))
                setup.optimizers[0].zero_grad()
                F.smooth_l1_loss(setup.model(x), target).backward()
                setup.optimizers[0].step()

    return setup, loop


def policy_gradient() -> Run:
    """A policy gradient, whose loss does not measure progress."""
    setup = training_setup(mlp(8, 32, 2), rings(), rings(256, seed=1), CE, lr=5e-3)

    def loop() -> None:
        for x, y in [*setup.train_loader] * 10:
            policy = torch.distributions.Categorical(logits=setup.model(x))
            action = policy.sample()
            setup.optimizers[0].zero_grad()
            (-policy.log_prob(action) * ((action == y).float() - 0.5)).mean().backward()
            setup.optimizers[0].step()

    return setup, loop


class VariationalAutoencoder(nn.Module):
    """An autoencoder that samples its code."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = mlp(8, 32, 8), mlp(4, 32, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encode(x).chunk(2, -1)
        return self.decode(mean + torch.randn_like(mean) * (log_variance / 2).exp()), mean, log_variance


def rising_loss_weight() -> Run:
    """A second loss term whose weight rises from zero."""
    x, _ = rings()
    weight = [0.0]

    def loss(output: tuple[Tensor, Tensor, Tensor], target: Tensor) -> Tensor:
        reconstruction, mean, log_variance = output
        term = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean()
        return (reconstruction - target).square().sum(1).mean() + weight[0] * term

    setup = training_setup(VariationalAutoencoder(), (x, x), (x, x), loss, lr=3e-3)

    def loop() -> None:
        for epoch in range(10):
            weight[0] = epoch / 9
            train(setup, 1)

    return setup, loop


def contrastive_training() -> Run:
    """Contrastive learning from two views of each sample."""
    setup = training_setup(mlp(8, 32, 8), rings(), rings(256, seed=1), CE, lr=3e-3)

    def loop() -> None:
        for x, _ in [*setup.train_loader] * 8:
            a, b = (F.normalize(setup.model(x + 0.1 * torch.randn_like(x)), dim=1) for _ in range(2))
            setup.optimizers[0].zero_grad()
            F.cross_entropy(a @ b.T / 0.2, torch.arange(len(x))).backward()
            setup.optimizers[0].step()

    return setup, loop


def pretrained_classifier() -> Run:
    setup = training_setup(mlp(8, 32, 2), rings(), rings(256, seed=1), CE, lr=1e-2)
    train(setup, 40)
    setup.optimizers[0].param_groups[0]["lr"] = 1e-4
    return setup, lambda: train(setup, 5)


def gradient_accumulation() -> Run:
    setup = training_setup(mlp(8, 32, 2), rings(), rings(256, seed=1), CE, lr=1e-2, batch_size=16)

    def loop() -> None:
        for step, (x, y) in enumerate([*setup.train_loader] * 16):
            (CE(setup.model(x), y) / 4).backward()
            if step % 4 == 3:
                setup.optimizers[0].step()
                setup.optimizers[0].zero_grad()

    return setup, loop


def dropout_model() -> nn.Module:
    return nn.Sequential(*mlp(8, 96, 96), nn.ReLU(), nn.Dropout(0.5), mlp(96, 2))


def batch_norm_model() -> nn.Module:
    return nn.Sequential(mlp(8, 32), nn.BatchNorm1d(32), nn.ReLU(), mlp(32, 2))


HEALTHY: dict[str, Callable[[], Run]] = {
    "plain": classifier_run,
    "half the learning rate": lambda: classifier_run(16, lr=5e-3),
    "three times the learning rate": lambda: classifier_run(lr=3e-2),
    "label smoothing": lambda: classifier_run(loss=nn.CrossEntropyLoss(label_smoothing=0.2)),
    "class weights": lambda: classifier_run(loss=nn.CrossEntropyLoss(weight=torch.tensor([0.4, 2.0]))),
    "heavy dropout": lambda: classifier_run(10, model=dropout_model()),
    "batch normalization": lambda: classifier_run(model=batch_norm_model()),
    "cosine to zero": lambda: with_scheduler(lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 12)),
    "warm-up": lambda: with_scheduler(
        lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda epoch: min(1.0, (epoch + 1) / 5))
    ),
    "warm restarts": lambda: with_scheduler(lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 4)),
    "noise floor": noise_floor,
    "fixed order of similar batches": fixed_order,
    "easy samples first": easy_samples_first,
    "adversarial training": adversarial_training,
    "adversarial parts of one model": adversarial_parts,
    "bootstrapped targets": bootstrapped_targets,
    "policy gradient": policy_gradient,
    "rising loss weight": rising_loss_weight,
    "contrastive training": contrastive_training,
    "pretrained": pretrained_classifier,
    "accumulated gradients": gradient_accumulation,
}
