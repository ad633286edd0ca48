"""Generative models: variational, adversarial, flows and diffusion."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from nbdebug.debugger import Debugger
from tests.rules.real.catalog import healthy
from tests.rules.real.datasets import digits, loader, moons


class VAE(nn.Module):
    def __init__(self, latent: int = 8) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU())
        self.mu, self.logvar = nn.Linear(48, latent), nn.Linear(48, latent)
        self.decode = nn.Sequential(nn.Linear(latent, 48), nn.ReLU(), nn.Linear(48, 64), nn.Sigmoid())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = self.encode(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar) if self.training else mu
        return self.decode(z).view_as(x), mu, logvar


def elbo(output: Any, x: Tensor) -> Tensor:
    """Sum over the batch, as in the example of torch."""
    reconstruction, mu, logvar = output
    bce = F.binary_cross_entropy(reconstruction, x, reduction="sum")
    return bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())


@healthy
def vae_with_summed_loss() -> Debugger:
    images, labels = digits()
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return Debugger(
        model, loader(images, labels), loss_fn=elbo, optimizer=optimizer, unpack=lambda batch: (batch[0], batch[0])
    )


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh())

    def forward(self, z: Tensor) -> Tensor:
        return self.net(z).view(-1, 1, 8, 8)


class Discriminator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(64, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


def image_loader() -> Any:
    return loader(digits()[0] * 2 - 1)


@healthy
def gan_discriminator_step() -> Debugger:
    generator, discriminator = Generator(), Discriminator()
    bce = nn.BCEWithLogitsLoss()

    def step(batch: list[Tensor]) -> Tensor:
        (real,) = batch
        with torch.no_grad():
            fake = generator(torch.randn(len(real), 8))
        return bce(discriminator(real), torch.ones(len(real), 1)) + bce(discriminator(fake), torch.zeros(len(real), 1))

    optimizer = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    return Debugger(discriminator, image_loader(), optimizer=optimizer, step_fn=step, extra_state=[generator])


@healthy
def gan_generator_step() -> Debugger:
    generator, discriminator = Generator(), Discriminator()

    def step(batch: list[Tensor]) -> Tensor:
        size = len(batch[0])
        return F.binary_cross_entropy_with_logits(discriminator(generator(torch.randn(size, 8))), torch.ones(size, 1))

    optimizer = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    return Debugger(generator, image_loader(), optimizer=optimizer, step_fn=step, extra_state=[discriminator])


class GAN(nn.Module):
    """Generator and discriminator in one module, as with Lightning."""

    def __init__(self) -> None:
        super().__init__()
        self.generator, self.discriminator = Generator(), Discriminator()

    def forward(self, real: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        fake = self.generator(torch.randn(len(real), 8))
        return self.discriminator(real), self.discriminator(fake.detach()), self.discriminator(fake)


def both_losses(output: Any, _: Tensor) -> Tensor:
    real, fake, generator_scores = output
    critic = F.softplus(-real).mean() + F.softplus(fake).mean()
    return critic + F.softplus(-generator_scores).mean()


@healthy
def gan_in_one_module() -> Debugger:
    model = GAN()
    generator_optimizer = torch.optim.Adam(model.generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    discriminator_optimizer = torch.optim.Adam(model.discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    return Debugger(
        model, image_loader(), loss_fn=both_losses, optimizer=[generator_optimizer, discriminator_optimizer]
    )


@healthy
def wasserstein_critic_with_gradient_penalty() -> Debugger:
    generator = Generator()
    critic = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))

    def step(batch: list[Tensor]) -> Tensor:
        (real,) = batch
        fake = generator(torch.randn(len(real), 8)).detach()
        weight = torch.rand(len(real), 1, 1, 1)
        interpolated = (weight * real + (1 - weight) * fake).requires_grad_(True)
        score = critic(interpolated)
        (gradient,) = torch.autograd.grad(score, interpolated, torch.ones_like(score), create_graph=True)
        penalty = ((gradient.flatten(1).norm(2, dim=1) - 1) ** 2).mean()
        return critic(fake).mean() - critic(real).mean() + 10 * penalty

    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
    return Debugger(critic, image_loader(), optimizer=optimizer, step_fn=step, extra_state=[generator])


class Denoiser(nn.Module):
    """Predicts the noise in an image from the image and a sinusoidal embedding of the time."""

    def __init__(self, width: int = 16, steps: int = 100) -> None:
        super().__init__()
        self.register_buffer("signal_share", torch.cumprod(1 - torch.linspace(1e-4, 0.05, steps), 0))
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.input, self.middle = nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.norm, self.out = nn.GroupNorm(4, width), nn.Conv2d(width, 1, 3, padding=1)
        nn.init.zeros_(self.out.weight)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        angle = t[:, None] * torch.exp(torch.arange(8) * -1.0)
        time = self.time(torch.cat([angle.sin(), angle.cos()], 1))[:, :, None, None]
        h = F.silu(self.input(x) + time)
        return self.out(F.silu(self.norm(h + self.middle(h))))


@healthy
def diffusion_by_step() -> Debugger:
    model = Denoiser()

    def step(batch: list[Tensor]) -> Tensor:
        (x,) = batch
        t, noise = torch.randint(0, 100, (len(x),)), torch.randn_like(x)
        signal_share = model.signal_share[t].view(-1, 1, 1, 1)
        return F.mse_loss(model(signal_share.sqrt() * x + (1 - signal_share).sqrt() * noise, t), noise)

    return Debugger(model, image_loader(), optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3), step_fn=step)


class NoisyImages:
    """A data set that samples a time and noise for every image."""

    def __init__(self, x: Tensor) -> None:
        self.x, self.signal_share = x, torch.cumprod(1 - torch.linspace(1e-4, 0.05, 100), 0)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        t, noise = torch.randint(0, 100, ()), torch.randn_like(self.x[index])
        return self.signal_share[t].sqrt() * self.x[index] + (1 - self.signal_share[t]).sqrt() * noise, t, noise


@healthy
def diffusion_from_a_data_set() -> Debugger:
    model = Denoiser()
    train: Any = DataLoader(NoisyImages(digits()[0] * 2 - 1), batch_size=32, shuffle=True)  # type: ignore[arg-type]
    return Debugger(model, train, loss_fn=nn.MSELoss(), optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3))


class Coupling(nn.Module):
    """Scales and shifts one half of the axes by a function of the other."""

    def __init__(self, flip: bool) -> None:
        super().__init__()
        self.flip, self.net = flip, nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        fixed, transformed = x.flip(1).chunk(2, 1) if self.flip else x.chunk(2, 1)
        scale, shift = self.net(fixed).chunk(2, 1)
        scale = torch.tanh(scale)
        return torch.cat([fixed, transformed * scale.exp() + shift], 1), scale.squeeze(1)


class Flow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Coupling(bool(i % 2)) for i in range(4))

    def forward(self, x: Tensor) -> Tensor:
        volume = torch.zeros(len(x))
        for layer in self.layers:
            x, change = layer(x)
            volume = volume + change
        return torch.distributions.Normal(0.0, 1.0).log_prob(x).sum(1) + volume


@healthy
def normalizing_flow() -> Debugger:
    model = Flow()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return Debugger(model, loader(moons()[0]), loss_fn=lambda density, _: -density.mean(), optimizer=optimizer)
