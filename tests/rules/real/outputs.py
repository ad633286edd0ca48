"""Losses for other outputs than classes and values: sequences, densities, risks, mixtures of labels, several heads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, default_collate

from nbdebug.debugger import Debugger
from tests.rules.real.catalog import healthy
from tests.rules.real.data import diabetes, digits, loader, padded, split, tumors


def mlp(inside: int, outside: int, width: int = 32) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inside, width), nn.ReLU(), nn.Linear(width, outside))


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=1e-3)


class Speech(nn.Module):
    """Log-probabilities (time, batch, classes) with a blank, as CTC wants them."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.rnn, self.out = nn.GRU(6, 24, bidirectional=True, batch_first=True), nn.Linear(48, classes)

    def forward(self, frames: Tensor) -> Tensor:
        return self.out(self.rnn(frames)[0]).log_softmax(-1).transpose(0, 1)


def spoken(samples: list[Any]) -> Any:
    frames, letters = zip(*samples, strict=True)
    inputs, targets = torch.tensor([len(one) for one in frames]), torch.tensor([len(one) for one in letters])
    return nn.utils.rnn.pad_sequence(frames, batch_first=True), torch.cat(letters), inputs, targets


@healthy
def ctc() -> Debugger:
    g = torch.Generator().manual_seed(0)
    sounds, data = torch.randn(5, 6, generator=g), []
    for _ in range(128):
        letters = torch.randint(1, 5, (int(torch.randint(2, 5, (), generator=g)),), generator=g)
        frames = sounds[letters.repeat_interleave(4)]
        data.append((frames + 0.1 * torch.randn(frames.shape, generator=g), letters))
    model, loss = Speech(), nn.CTCLoss(zero_infinity=True)
    train: Any = DataLoader(data, batch_size=16, shuffle=True, collate_fn=spoken)  # type: ignore[arg-type]
    return Debugger(
        model,
        train,
        loss_fn=lambda output, given: loss(output, *given),
        optimizer=adam(model),
        unpack=lambda batch: (batch[0], batch[1:]),
    )


@healthy
def label_smoothing() -> Debugger:
    model, (train, val) = mlp(30, 2), split(*tumors())
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(label_smoothing=0.1), optimizer=adam(model))


def gaussian(output: Tensor, target: Tensor) -> Tensor:
    mean, raw = output.chunk(2, dim=1)
    return F.gaussian_nll_loss(mean, target, F.softplus(raw) + 1e-4)


@healthy
def regression_with_its_own_variance() -> Debugger:
    model, (train, val) = mlp(10, 2), split(*diabetes())
    return Debugger(model, train, val, loss_fn=gaussian, optimizer=adam(model))


def pinball(output: Tensor, target: Tensor) -> Tensor:
    total = torch.zeros(())
    for column, quantile in enumerate((0.1, 0.5, 0.9)):
        error = target[:, 0] - output[:, column]
        total = total + torch.max(quantile * error, (quantile - 1) * error).mean()
    return total / 3


@healthy
def quantiles() -> Debugger:
    model, (train, val) = mlp(10, 3), split(*diabetes())
    return Debugger(model, train, val, loss_fn=pinball, optimizer=adam(model))


def cox(risk: Tensor, target: Tensor) -> Tensor:
    """The negative partial log-likelihood of times and events."""
    order = target[:, 0].argsort(descending=True)
    risk, event = risk.squeeze(1)[order], target[order, 1]
    return -((risk - torch.logcumsumexp(risk, 0)) * event).sum() / event.sum()


@healthy
def survival() -> Debugger:
    x, y = tumors()
    time = torch.exp(y + 0.3 * torch.randn(len(y), generator=torch.Generator().manual_seed(0)))
    seen = (torch.rand(len(y), generator=torch.Generator().manual_seed(1)) < 0.7).float()
    model, (train, val) = mlp(30, 1), split(x, torch.stack([time, seen], 1))
    return Debugger(model, train, val, loss_fn=cox, optimizer=adam(model))


def mixed(samples: list[Any]) -> Any:
    x, y = default_collate(samples)
    share, order = torch.distributions.Beta(0.4, 0.4).sample(), torch.randperm(len(x))
    soft = F.one_hot(y, 10).float()
    return share * x + (1 - share) * x[order], share * soft + (1 - share) * soft[order]


@healthy
def mixup() -> Debugger:
    x, y = digits()
    model = nn.Sequential(nn.Flatten(), mlp(64, 10))
    data: Any = list(zip(x, y, strict=True))
    train = DataLoader(data, batch_size=32, shuffle=True, collate_fn=mixed)
    return Debugger(model, train, loss_fn=nn.CrossEntropyLoss(), optimizer=adam(model))


class FocalLoss(nn.Module):
    """Lin and others 2017."""

    def __init__(self, gamma: float = 2.0, alpha: float = 0.25) -> None:
        super().__init__()
        self.gamma, self.alpha = gamma, alpha

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        bce = F.binary_cross_entropy_with_logits(logits.squeeze(1), target, reduction="none")
        p = torch.exp(-bce)
        alpha = self.alpha * target + (1 - self.alpha) * (1 - target)
        return (alpha * (1 - p) ** self.gamma * bce).mean()


@healthy
def focal_loss() -> Debugger:
    x, y = tumors()
    model, (train, val) = mlp(30, 1), split(x, (y == 0).float())
    return Debugger(model, train, val, loss_fn=FocalLoss(), optimizer=adam(model))


class TwoTasks(nn.Module):
    """One trunk, a head for the digit and one for the amount of ink; each task has its own learned weight."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU())
        self.digit, self.ink = nn.Linear(32, 10), nn.Linear(32, 1)
        self.weight = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        h = self.trunk(x)
        return {"digit": self.digit(h), "ink": self.ink(h).squeeze(-1), "weight": self.weight}


def two_losses(output: dict[str, Tensor], target: dict[str, Tensor]) -> Tensor:
    digit = F.cross_entropy(output["digit"], target["digit"])
    ink = F.mse_loss(output["ink"], target["ink"])
    w = output["weight"]
    return torch.exp(-w[0]) * digit + torch.exp(-w[1]) * ink + w.sum()


def apart(batch: dict[str, Tensor]) -> Any:
    return batch["image"], {name: batch[name] for name in ("digit", "ink")}


@healthy
def two_tasks_with_learned_weights() -> Debugger:
    x, y = digits()
    ink = x.mean((1, 2, 3))
    ink = (ink - ink.mean()) / ink.std()
    data: Any = [{"image": a, "digit": b, "ink": c} for a, b, c in zip(x, y, ink, strict=True)]
    model = TwoTasks()
    train = DataLoader(data, batch_size=32, shuffle=True)
    return Debugger(model, train, loss_fn=two_losses, optimizer=adam(model), unpack=apart)


@healthy
def some_targets_missing() -> Debugger:
    """Several measurements at once, some of them not taken (NaN) and left out of the loss."""
    x, y = diabetes()
    y = torch.cat([y, -y + 0.1 * x[:, :1]], 1)
    y[torch.rand(y.shape, generator=torch.Generator().manual_seed(0)) < 0.3] = float("nan")

    def known(output: Tensor, target: Tensor) -> Tensor:
        there = ~torch.isnan(target)
        return F.mse_loss(output[there], target[there])

    model, (train, val) = mlp(10, 2), split(x, y)
    return Debugger(model, train, val, loss_fn=known, optimizer=adam(model))


@healthy
def some_labels_missing() -> Debugger:
    """Labels of -1 that the loss drops by itself."""
    x, y = digits()

    def known(output: Tensor, target: Tensor) -> Tensor:
        there = target >= 0
        return F.cross_entropy(output[there], target[there])

    model = nn.Sequential(nn.Flatten(), mlp(64, 10))
    few = torch.where(torch.rand(len(y), generator=torch.Generator().manual_seed(0)) < 0.5, y, -1)
    return Debugger(model, loader(x, few), loss_fn=known, optimizer=adam(model))


class Teacher(nn.Module):
    """A student beside the frozen teacher that it is to follow."""

    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = mlp(30, 2, 8), mlp(30, 2, 64)
        self.teacher.requires_grad_(False).eval()

    def forward(self, x: Tensor) -> Any:
        with torch.no_grad():
            wanted = self.teacher(x)
        return self.student(x), wanted


def distilled(output: Any, target: Tensor, warmth: float = 4.0) -> Tensor:
    student, teacher = output
    soft = F.kl_div(F.log_softmax(student / warmth, 1), F.softmax(teacher / warmth, 1), reduction="batchmean")
    return 0.7 * warmth**2 * soft + 0.3 * F.cross_entropy(student, target)


@healthy
def distillation_from_a_frozen_teacher() -> Debugger:
    model, (train, val) = Teacher(), split(*tumors())
    return Debugger(model, train, val, loss_fn=distilled, optimizer=adam(model.student))


@healthy
def several_labels_at_once() -> Debugger:
    x, y = digits()
    labels = torch.stack([y % 2, y > 4, (y % 3) == 0, y == 8], 1).float()
    model = nn.Sequential(nn.Flatten(), mlp(64, 4))
    train, val = split(x, labels)
    loss = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 1.0, 1.5, 9.0]))
    return Debugger(model, train, val, loss_fn=loss, optimizer=adam(model))


@healthy
def counts_by_poisson() -> Debugger:
    words, _ = padded()
    model = nn.Sequential(
        nn.EmbeddingBag(20, 16, mode="sum", padding_idx=0), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0)
    )
    train, val = split(words, (words > 10).sum(1).float())
    return Debugger(model, train, val, loss_fn=nn.PoissonNLLLoss(), optimizer=adam(model))


@healthy
def sets_of_points() -> Debugger:
    """Deep sets: the mean over the points of a set, after a network for each."""
    g = torch.Generator().manual_seed(0)
    center = torch.randn(256, 1, 2, generator=g)
    points = center + torch.randn(256, 10, 2, generator=g)

    class DeepSets(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.each, self.all = mlp(2, 32), mlp(32, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.all(torch.relu(self.each(x)).mean(dim=1)).squeeze(-1)

    model = DeepSets()
    train, val = split(points, points.mean(1).norm(dim=1))
    return Debugger(model, train, val, loss_fn=nn.MSELoss(), optimizer=adam(model))
