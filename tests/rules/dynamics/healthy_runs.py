"""Training runs with nothing wrong, of which many look ill: flat, rising or negative losses, odd schedules, noise."""

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


def plain(epochs: int = 12, loss: nn.Module = CE, lr: float = 1e-2, model: nn.Module | None = None) -> Run:
    setup = training_setup(model or mlp(8, 32, 2), rings(), rings(256, seed=1), loss, lr=lr)
    return setup, lambda: train(setup, epochs)


def scheduled(make: Callable[[torch.optim.Optimizer], lr_scheduler.LRScheduler]) -> Run:
    setup = training_setup(mlp(8, 32, 2), rings(), rings(256, seed=1), CE, lr=1e-2)

    def loop() -> None:
        schedule = make(setup.optimizers[0])
        for _ in range(12):
            train(setup, 1)
            schedule.step()

    return setup, loop


def noise_floor() -> Run:
    """A linear task of which most is noise."""
    x = torch.randn(600, 5, generator=torch.Generator().manual_seed(3))
    y = x @ torch.arange(5.0)[:, None] * 0.15 + torch.randn(600, 1, generator=torch.Generator().manual_seed(4))
    model = mlp(5, 1)
    made = torch.optim.SGD(model.parameters(), lr=0.05)
    setup = training_setup(model, (x[:400], y[:400]), (x[400:], y[400:]), MSE, optimizer=made)
    return setup, lambda: train(setup, 10)


def fixed_order() -> Run:
    setup = training_setup(mlp(4, 32, 1), waves(), waves(256, seed=1), MSE, lr=1e-2, shuffle=False)
    return setup, lambda: train(setup, 12)


def from_easy_to_hard() -> Run:
    """Samples in the order of how noisy they are: later batches cost more, and nothing is forgotten."""
    x, y = waves()
    noise = torch.randn(y.shape, generator=torch.Generator().manual_seed(2))
    noise *= torch.linspace(0, 2, len(y))[:, None]
    setup = training_setup(mlp(4, 32, 1), (x, y + noise), waves(256, seed=1), MSE, lr=1e-2, shuffle=False)
    return setup, lambda: train(setup, 12)


def adversaries() -> Run:
    """Two networks that take turns; neither loss falls for long."""
    model = nn.ModuleDict({"make": mlp(4, 16, 2), "tell": mlp(2, 16, 1)})
    real = torch.randn(384, 2) + 2
    setup = training_setup(
        model["tell"], (real, torch.ones(384, 1)), (real, torch.ones(384, 1)), nn.BCEWithLogitsLoss()
    )
    makes = torch.optim.Adam(model["make"].parameters(), 2e-3)

    def loop() -> None:
        for x, _ in [*setup.train_loader] * 8:
            fake = model["make"](torch.randn(len(x), 4))
            setup.optimizers[0].zero_grad()
            (F.softplus(-model["tell"](x)).mean() + F.softplus(model["tell"](fake.detach())).mean()).backward()
            setup.optimizers[0].step()
            makes.zero_grad()
            F.softplus(-model["tell"](fake)).mean().backward()
            makes.step()

    return setup, loop


def moving_targets() -> Run:
    """Values that are learned from a copy of the network, which is renewed now and then."""
    setup = training_setup(mlp(4, 32, 1), waves(), waves(256, seed=1), MSE, lr=2e-3)

    def loop() -> None:
        for epoch in range(10):
            if epoch % 2 == 0:
                copy = deepcopy(setup.model)
            for x, _ in setup.train_loader:
                with torch.no_grad():
                    wanted = x[:, :1] + 0.95 * copy(0.9 * x + 0.3 * torch.randn_like(x))
                setup.optimizers[0].zero_grad()
                F.smooth_l1_loss(setup.model(x), wanted).backward()
                setup.optimizers[0].step()

    return setup, loop


def rewards() -> Run:
    """Actions that are drawn, and made likelier by what they earned; the loss means nothing."""
    setup = training_setup(mlp(8, 32, 2), rings(), rings(256, seed=1), CE, lr=5e-3)

    def loop() -> None:
        for x, y in [*setup.train_loader] * 10:
            policy = torch.distributions.Categorical(logits=setup.model(x))
            action = policy.sample()
            setup.optimizers[0].zero_grad()
            (-policy.log_prob(action) * ((action == y).float() - 0.5)).mean().backward()
            setup.optimizers[0].step()

    return setup, loop


class Auto(nn.Module):
    """An autoencoder that draws its code."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = mlp(8, 32, 8), mlp(4, 32, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, spread = self.encode(x).chunk(2, -1)
        return self.decode(mean + torch.randn_like(mean) * (spread / 2).exp()), mean, spread


def rising_weight() -> Run:
    """A second term that is turned up from nothing."""
    x, _ = rings()
    weight = [0.0]

    def loss(output: tuple[Tensor, Tensor, Tensor], wanted: Tensor) -> Tensor:
        made, mean, spread = output
        term = -0.5 * (1 + spread - mean**2 - spread.exp()).sum(1).mean()
        return (made - wanted).square().sum(1).mean() + weight[0] * term

    setup = training_setup(Auto(), (x, x), (x, x), loss, lr=3e-3)

    def loop() -> None:
        for epoch in range(10):
            weight[0] = epoch / 9
            train(setup, 1)

    return setup, loop


def contrasted() -> Run:
    """Two views of each sample, held against those of the others."""
    setup = training_setup(mlp(8, 32, 8), rings(), rings(256, seed=1), CE, lr=3e-3)

    def loop() -> None:
        for x, _ in [*setup.train_loader] * 8:
            a, b = (F.normalize(setup.model(x + 0.1 * torch.randn_like(x)), dim=1) for _ in range(2))
            setup.optimizers[0].zero_grad()
            F.cross_entropy(a @ b.T / 0.2, torch.arange(len(x))).backward()
            setup.optimizers[0].step()

    return setup, loop


def trained_before() -> Run:
    setup = training_setup(mlp(8, 32, 2), rings(), rings(256, seed=1), CE, lr=1e-2)
    train(setup, 40)
    setup.optimizers[0].param_groups[0]["lr"] = 1e-4
    return setup, lambda: train(setup, 5)


def accumulated() -> Run:
    setup = training_setup(mlp(8, 32, 2), rings(), rings(256, seed=1), CE, lr=1e-2, batch_size=16)

    def loop() -> None:
        for number, (x, y) in enumerate([*setup.train_loader] * 16):
            (CE(setup.model(x), y) / 4).backward()
            if number % 4 == 3:
                setup.optimizers[0].step()
                setup.optimizers[0].zero_grad()

    return setup, loop


def thinned() -> nn.Module:
    return nn.Sequential(*mlp(8, 96, 96), nn.ReLU(), nn.Dropout(0.5), mlp(96, 2))


def normalized() -> nn.Module:
    return nn.Sequential(mlp(8, 32), nn.BatchNorm1d(32), nn.ReLU(), mlp(32, 2))


HEALTHY: dict[str, Callable[[], Run]] = {
    "plain": plain,
    "half of the rate": lambda: plain(16, lr=5e-3),
    "three times the rate": lambda: plain(lr=3e-2),
    "label smoothing": lambda: plain(loss=nn.CrossEntropyLoss(label_smoothing=0.2)),
    "class weights": lambda: plain(loss=nn.CrossEntropyLoss(weight=torch.tensor([0.4, 2.0]))),
    "heavy dropout": lambda: plain(10, model=thinned()),
    "batch normalization": lambda: plain(model=normalized()),
    "cosine to zero": lambda: scheduled(lambda one: lr_scheduler.CosineAnnealingLR(one, 12)),
    "warm-up": lambda: scheduled(lambda one: lr_scheduler.LambdaLR(one, lambda epoch: min(1.0, (epoch + 1) / 5))),
    "warm restarts": lambda: scheduled(lambda one: lr_scheduler.CosineAnnealingWarmRestarts(one, 4)),
    "noise floor": noise_floor,
    "fixed order of like batches": fixed_order,
    "from easy to hard": from_easy_to_hard,
    "adversaries": adversaries,
    "moving targets": moving_targets,
    "rewards": rewards,
    "a term that is turned up": rising_weight,
    "contrast": contrasted,
    "trained before": trained_before,
    "accumulated gradients": accumulated,
}
