"""Special layers and losses: codebooks, margins, differential equations, perceptual losses."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from tests.rules.real.catalog import healthy
from tests.rules.real.datasets import digits, loader, moons, split, tumors
from tests.rules.real.optimizers import adam


class VQVAE(nn.Module):
    """A codebook between encoder and decoder, with a straight-through gradient."""

    def __init__(self, code_count: int = 16, width: int = 8) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, width, 3, 1, 1))
        self.book = nn.Embedding(code_count, width)
        self.decode = nn.Sequential(nn.Conv2d(width, 16, 3, 1, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1))
        nn.init.uniform_(self.book.weight, -1 / code_count, 1 / code_count)

    def forward(self, x: Tensor) -> Any:
        z = self.encode(x).permute(0, 2, 3, 1)
        distances = torch.cdist(z.reshape(-1, z.shape[-1]), self.book.weight)
        codes = self.book(distances.argmin(1)).view_as(z)
        codebook, commitment = F.mse_loss(codes, z.detach()), F.mse_loss(z, codes.detach())
        codes = z + (codes - z).detach()
        return self.decode(codes.permute(0, 3, 1, 2)), codebook + 0.25 * commitment


@healthy
def vq_vae() -> Debugger:
    x, y = digits()
    model = VQVAE()
    return Debugger(
        model,
        loader(x, y),
        loss_fn=lambda output, target: F.mse_loss(output[0], target) + output[1],
        optimizer=adam(model),
        unpack=lambda batch: (batch[0], batch[0]),
    )


class ArcFace(nn.Module):
    """Deng and others 2019: cosines with a margin for the right class, times a scale."""

    def __init__(self, classes: int = 10, width: int = 16, scale: float = 16.0, margin: float = 0.3) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, width))
        self.weight, self.scale, self.margin = nn.Parameter(torch.empty(classes, width)), scale, margin
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        cosine = F.linear(F.normalize(self.body(x)), F.normalize(self.weight)).clamp(-1 + 1e-6, 1 - 1e-6)
        angle = torch.acos(cosine)
        target = torch.cos(angle + self.margin)
        return self.scale * torch.where(F.one_hot(label, cosine.shape[1]).bool(), target, cosine)


@healthy
def arcface() -> Debugger:
    model = ArcFace()
    train, val = split(*digits())
    return Debugger(
        model,
        train,
        val,
        loss_fn=nn.CrossEntropyLoss(),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        unpack=lambda batch: ((batch[0], batch[1]), batch[1]),
    )


class Solution(nn.Module):
    """u(t) of a damped spring; the loss is the residual of its equation."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, t: Tensor) -> Tensor:
        return self.net(t)


@healthy
def differential_equation() -> Debugger:
    model = Solution()

    def step(batch: list[Tensor]) -> Tensor:
        t = batch[0].requires_grad_(True)
        u = model(t)
        (du,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        (ddu,) = torch.autograd.grad(du.sum(), t, create_graph=True)
        start = model(torch.zeros(1, 1))
        return (ddu + 0.4 * du + 4 * u).square().mean() + (start - 1).square().mean()

    return Debugger(model, loader(torch.rand(256, 1) * 3), optimizer=adam(model), step_fn=step)


class PerceptualLoss(nn.Module):
    """The distance of two images, in pixels and in features of a frozen network."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.features.eval().requires_grad_(False)

    def forward(self, image: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(image, target) + 0.1 * F.mse_loss(self.features(image), self.features(target))


@healthy
def super_resolution_with_perceptual_loss() -> Debugger:
    x, _ = digits()
    model = nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 4, 3, padding=1), nn.PixelShuffle(2))
    train, val = split(F.avg_pool2d(x, 2), x)
    return Debugger(model, train, val, loss_fn=PerceptualLoss(), optimizer=adam(model))


@healthy
def hinge_with_signs() -> Debugger:
    x, y = tumors()
    model = nn.Linear(30, 1)
    loss = lambda score, sign: F.relu(1 - sign * score.squeeze(1)).mean()  # noqa: E731
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, weight_decay=1e-3)
    train, val = split(x, 2.0 * y - 1)
    return Debugger(model, train, val, loss_fn=loss, optimizer=optimizer)


@healthy
def logistic_regression() -> Debugger:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    train, val = split(*digits())
    return Debugger(
        model, train, val, loss_fn=nn.CrossEntropyLoss(), optimizer=torch.optim.SGD(model.parameters(), 0.1)
    )


class GumbelChoice(nn.Module):
    """One of several filters by Gumbel-softmax, hard in the forward pass and soft in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.which, self.filters, self.head = nn.Linear(2, 4), nn.Linear(2, 4 * 16), nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        choice = F.gumbel_softmax(self.which(x), tau=1.0, hard=True)
        features = torch.relu(self.filters(x)).view(-1, 4, 16)
        return self.head(torch.einsum("bk,bkd->bd", choice, features))


@healthy
def gumbel_softmax() -> Debugger:
    model = GumbelChoice()
    train, val = split(*moons())
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(), optimizer=adam(model, 3e-3))


class FourierFeatures(nn.Module):
    """An image as a function of its coordinates, through random Fourier features."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("frequency", torch.randn(2, 32) * 3)
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid())

    def forward(self, coordinates: Tensor) -> Tensor:
        angle = 2 * math.pi * coordinates @ self.frequency
        return self.net(torch.cat([angle.sin(), angle.cos()], -1))


@healthy
def image_as_function_of_coordinates() -> Debugger:
    grid = torch.stack(torch.meshgrid(torch.linspace(0, 1, 16), torch.linspace(0, 1, 16), indexing="ij"), -1)
    image = F.interpolate(digits()[0][:1], size=16, mode="bilinear").flatten()[:, None]
    model = FourierFeatures()
    return Debugger(model, loader(grid.view(-1, 2), image), loss_fn=nn.MSELoss(), optimizer=adam(model))
