"""Distances, margins and energies between views, and stop-gradients that are meant."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from tests.rules.real.datasets import digits, loader, moons, split, tumors
from tests.rules.unusual.catalog import TrainingLoop, batches, unusual


def flat_digits() -> tuple[Tensor, Tensor]:
    images, labels = digits()
    return images.flatten(1), labels


def encoder(width: int = 16) -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, width))


def views(x: Tensor) -> tuple[Tensor, Tensor]:
    return x + 0.1 * torch.randn_like(x), x * (torch.rand_like(x) > 0.2)


def normalized_temperature_loss(first: Tensor, second: Tensor) -> Tensor:
    z = F.normalize(torch.cat([first, second]), dim=1)
    scores = (z @ z.T / 0.5).masked_fill(torch.eye(len(z), dtype=torch.bool), -torch.inf)
    return F.cross_entropy(scores, torch.arange(len(z)).roll(len(first)))


@unusual
def contrastive_views() -> tuple[Debugger, TrainingLoop]:
    model = encoder()
    data = loader(flat_digits()[0], drop_last=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train() -> None:
        for (x,) in batches(data, 10):
            first, second = map(model, views(x))
            optimizer.zero_grad()
            normalized_temperature_loss(first, second).backward()
            optimizer.step()

    return Debugger(model, data, optimizer=optimizer), train


@unusual
def contrastive_views_with_labels_unused() -> tuple[Debugger, TrainingLoop]:
    model = nn.ModuleDict({"encoder": encoder(32), "projector": nn.Linear(32, 8)})
    data = loader(*flat_digits(), drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def train() -> None:
        for x, _ in batches(data, 10):
            first, second = (model["projector"](model["encoder"](view)) for view in views(x))
            loss = normalized_temperature_loss(first, second)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return Debugger(model, data, optimizer=optimizer), train


@unusual
def bootstrap_your_own_latent() -> tuple[Debugger, TrainingLoop]:
    online = nn.Sequential(encoder(), nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16)))
    target = copy.deepcopy(online[0]).requires_grad_(False)
    data = loader(flat_digits()[0], drop_last=True)
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)

    def train() -> None:
        for (x,) in batches(data, 10):
            first, second = views(x)
            with torch.no_grad():
                wanted = target(second)
            optimizer.zero_grad()
            (2 - 2 * F.cosine_similarity(online(first), wanted).mean()).backward()
            optimizer.step()
            with torch.no_grad():
                for slow, fast in zip(target.parameters(), online[0].parameters(), strict=True):
                    slow.mul_(0.99).add_(fast, alpha=0.01)

    return Debugger(online, data, optimizer=optimizer, extra_state=[target]), train


class SimSiam(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = encoder()
        self.predictor = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 16))

    def forward(self, first: Tensor, second: Tensor) -> Any:
        z1, z2 = self.encoder(first), self.encoder(second)
        return self.predictor(z1), self.predictor(z2), z1.detach(), z2.detach()


@unusual
def simple_siamese_with_stopped_gradients() -> tuple[Debugger, TrainingLoop]:
    model = SimSiam()
    data = loader(flat_digits()[0], drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def train() -> None:
        for (x,) in batches(data, 10):
            p1, p2, z1, z2 = model(*views(x))
            loss = -0.5 * (F.cosine_similarity(p1, z2).mean() + F.cosine_similarity(p2, z1).mean())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return Debugger(model, data, optimizer=optimizer, unpack=lambda batch: (views(batch[0]), None)), train


@unusual
def barlow_twins() -> tuple[Debugger, TrainingLoop]:
    model = encoder(8)
    data = loader(*flat_digits(), drop_last=True, batch_size=48)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def train() -> None:
        for x, _ in batches(data, 15):
            first, second = ((z - z.mean(0)) / z.std(0) for z in map(model, views(x)))
            correlation = first.T @ second / len(x)
            off_diagonal = correlation - torch.diag(correlation.diagonal())
            loss = (correlation.diagonal() - 1).square().sum() + 5e-3 * off_diagonal.square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return Debugger(model, data, optimizer=optimizer), train


@unusual
def momentum_contrast_with_a_queue() -> tuple[Debugger, TrainingLoop]:
    model = encoder()
    keys = copy.deepcopy(model).requires_grad_(False)
    data = loader(flat_digits()[0], drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)

    def train() -> None:
        queue = F.normalize(torch.randn(128, 16), dim=1)
        for (x,) in batches(data, 10):
            first, second = views(x)
            query = F.normalize(model(first), dim=1)
            with torch.no_grad():
                for slow, fast in zip(keys.parameters(), model.parameters(), strict=True):
                    slow.lerp_(fast, 0.01)
                key = F.normalize(keys(second), dim=1)
            logits = torch.cat([(query * key).sum(1, keepdim=True), query @ queue.T], 1) / 0.2
            optimizer.zero_grad()
            F.cross_entropy(logits, torch.zeros(len(x), dtype=torch.long)).backward()
            optimizer.step()
            queue = torch.cat([queue, key])[-128:]

    return Debugger(model, data, optimizer=optimizer), train


@unusual
def triplets_mined_in_the_batch() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16))
    data, val = split(*flat_digits())

    def loss_fn(embedding: Tensor, label: Tensor) -> Tensor:
        distance, same = torch.cdist(embedding, embedding), label[:, None] == label
        hardest = (distance * same).amax(1) - (distance + 1e3 * same).amin(1)
        return F.relu(hardest + 1.0).mean()

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train() -> None:
        for epoch in range(10):
            for x, y in data:
                optimizer.zero_grad()
                loss_fn(model(x), y).backward()
                optimizer.step()
            if epoch % 3 == 2:
                model.eval()
                with torch.no_grad():
                    [loss_fn(model(x), y) for x, y in val]
                model.train()

    return Debugger(model, data, val, loss_fn=loss_fn, optimizer=optimizer), train


@unusual
def margin_ranking_of_pairs() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 1))
    x, y = tumors()
    data, loss_fn = loader(x[y == 1][:200], x[y == 0][:200]), nn.MarginRankingLoss(margin=1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train() -> None:
        for better, worse in batches(data, 25):
            optimizer.zero_grad()
            loss_fn(model(better), model(worse), torch.ones(len(better), 1)).backward()
            optimizer.step()

    return Debugger(model, data, optimizer=optimizer), train


@unusual
def energy_based_by_contrastive_divergence() -> tuple[Debugger, TrainingLoop]:
    energy = nn.Sequential(nn.Linear(2, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1))
    data = loader(moons()[0])
    optimizer = torch.optim.Adam(energy.parameters(), lr=1e-3)

    def sample(start: Tensor) -> Tensor:
        x = start.clone()
        for _ in range(5):
            x = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(energy(x).sum(), x)
            x = x - 0.1 * slope + 0.05 * torch.randn_like(x)
        return x.detach()

    def train() -> None:
        for (x,) in batches(data, 8):
            positive, negative = energy(x), energy(sample(x + 0.3 * torch.randn_like(x)))
            optimizer.zero_grad()
            (positive.mean() - negative.mean() + 0.1 * (positive**2 + negative**2).mean()).backward()
            optimizer.step()

    return Debugger(energy, data, optimizer=optimizer), train


@unusual
def self_distillation_with_centered_teacher() -> tuple[Debugger, TrainingLoop]:
    student = encoder(24)
    teacher = copy.deepcopy(student).requires_grad_(False)
    data = loader(flat_digits()[0], drop_last=True)
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)

    def train() -> None:
        center = torch.zeros(24)
        for (x,) in batches(data, 10):
            first, second = views(x)
            with torch.no_grad():
                wanted = teacher(second)
                probabilities = ((wanted - center) / 0.04).softmax(1)
                center = 0.9 * center + 0.1 * wanted.mean(0)
            optimizer.zero_grad()
            (-(probabilities * (student(first) / 0.1).log_softmax(1)).sum(1).mean()).backward()
            optimizer.step()
            with torch.no_grad():
                for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                    slow.lerp_(fast, 0.01)

    return Debugger(student, data, optimizer=optimizer), train
