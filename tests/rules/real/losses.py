"""Losses beyond classes and values: sequences, densities, risks, mixed labels, several heads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, default_collate

from nbdebug.debugger import Debugger
from tests.rules.real.catalog import healthy
from tests.rules.real.datasets import diabetes, digits, loader, padded, split, tumors
from tests.rules.real.optimizers import adam


def mlp(inputs: int, outputs: int, width: int = 32) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))


class SpeechModel(nn.Module):
    """Log-probabilities (time, batch, classes) with a blank, for CTC."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.rnn, self.out = nn.GRU(6, 24, bidirectional=True, batch_first=True), nn.Linear(48, classes)

    def forward(self, frames: Tensor) -> Tensor:
        return self.out(self.rnn(frames)[0]).log_softmax(-1).transpose(0, 1)


def collate_speech(samples: list[Any]) -> Any:
    frames, letters = zip(*samples, strict=True)
    frame_counts, letter_counts = (
        torch.tensor([len(sequence) for sequence in frames]),
        torch.tensor([len(sequence) for sequence in letters]),
    )
    return nn.utils.rnn.pad_sequence(frames, batch_first=True), torch.cat(letters), frame_counts, letter_counts


@healthy
def ctc() -> Debugger:
    g = torch.Generator().manual_seed(0)
    sounds, data = torch.randn(5, 6, generator=g), []
    for _ in range(128):
        letters = torch.randint(1, 5, (int(torch.randint(2, 5, (), generator=g)),), generator=g)
        frames = sounds[letters.repeat_interleave(4)]
        data.append((frames + 0.1 * torch.randn(frames.shape, generator=g), letters))
    model, loss = SpeechModel(), nn.CTCLoss(zero_infinity=True)
    train: Any = DataLoader(data, batch_size=16, shuffle=True, collate_fn=collate_speech)  # type: ignore[arg-type]
    return Debugger(
        model,
        train,
        loss_fn=lambda output, target: loss(output, *target),
        optimizer=adam(model),
        unpack=lambda batch: (batch[0], batch[1:]),
    )


@healthy
def label_smoothing() -> Debugger:
    model, (train, val) = mlp(30, 2), split(*tumors())
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(label_smoothing=0.1), optimizer=adam(model))


def gaussian_loss(output: Tensor, target: Tensor) -> Tensor:
    mean, raw = output.chunk(2, dim=1)
    return F.gaussian_nll_loss(mean, target, F.softplus(raw) + 1e-4)


@healthy
def regression_with_predicted_variance() -> Debugger:
    model, (train, val) = mlp(10, 2), split(*diabetes())
    return Debugger(model, train, val, loss_fn=gaussian_loss, optimizer=adam(model))


def pinball_loss(output: Tensor, target: Tensor) -> Tensor:
    total = torch.zeros(())
    for column, quantile in enumerate((0.1, 0.5, 0.9)):
        error = target[:, 0] - output[:, column]
        total = total + torch.max(quantile * error, (quantile - 1) * error).mean()
    return total / 3


@healthy
def quantiles() -> Debugger:
    model, (train, val) = mlp(10, 3), split(*diabetes())
    return Debugger(model, train, val, loss_fn=pinball_loss, optimizer=adam(model))


def cox_loss(risk: Tensor, target: Tensor) -> Tensor:
    """The negative partial log-likelihood of times and events."""
    order = target[:, 0].argsort(descending=True)
    risk, event = risk.squeeze(1)[order], target[order, 1]
    return -((risk - torch.logcumsumexp(risk, 0)) * event).sum() / event.sum()


@healthy
def survival() -> Debugger:
    x, y = tumors()
    time = torch.exp(y + 0.3 * torch.randn(len(y), generator=torch.Generator().manual_seed(0)))
    observed = (torch.rand(len(y), generator=torch.Generator().manual_seed(1)) < 0.7).float()
    model, (train, val) = mlp(30, 1), split(x, torch.stack([time, observed], 1))
    return Debugger(model, train, val, loss_fn=cox_loss, optimizer=adam(model))


def collate_mixup(samples: list[Any]) -> Any:
    x, y = default_collate(samples)
    share, order = torch.distributions.Beta(0.4, 0.4).sample(), torch.randperm(len(x))
    soft = F.one_hot(y, 10).float()
    return share * x + (1 - share) * x[order], share * soft + (1 - share) * soft[order]


@healthy
def mixup() -> Debugger:
    x, y = digits()
    model = nn.Sequential(nn.Flatten(), mlp(64, 10))
    data: Any = list(zip(x, y, strict=True))
    train = DataLoader(data, batch_size=32, shuffle=True, collate_fn=collate_mixup)
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
    """One trunk with heads for the digit and for the amount of ink, and a learned weight for each task."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU())
        self.digit, self.ink = nn.Linear(32, 10), nn.Linear(32, 1)
        self.weight = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        h = self.trunk(x)
        return {"digit": self.digit(h), "ink": self.ink(h).squeeze(-1), "weight": self.weight}


def two_task_loss(output: dict[str, Tensor], target: dict[str, Tensor]) -> Tensor:
    digit = F.cross_entropy(output["digit"], target["digit"])
    ink = F.mse_loss(output["ink"], target["ink"])
    w = output["weight"]
    return torch.exp(-w[0]) * digit + torch.exp(-w[1]) * ink + w.sum()


def unpack_tasks(batch: dict[str, Tensor]) -> Any:
    return batch["image"], {name: batch[name] for name in ("digit", "ink")}


@healthy
def two_tasks_with_learned_weights() -> Debugger:
    x, y = digits()
    ink = x.mean((1, 2, 3))
    ink = (ink - ink.mean()) / ink.std()
    data: Any = [{"image": a, "digit": b, "ink": c} for a, b, c in zip(x, y, ink, strict=True)]
    model = TwoTasks()
    train = DataLoader(data, batch_size=32, shuffle=True)
    return Debugger(model, train, loss_fn=two_task_loss, optimizer=adam(model), unpack=unpack_tasks)


@healthy
def some_targets_missing() -> Debugger:
    """Several targets at once, of which the loss excludes the missing ones (NaN)."""
    x, y = diabetes()
    y = torch.cat([y, -y + 0.1 * x[:, :1]], 1)
    y[torch.rand(y.shape, generator=torch.Generator().manual_seed(0)) < 0.3] = float("nan")

    def masked_loss(output: Tensor, target: Tensor) -> Tensor:
        mask = ~torch.isnan(target)
        return F.mse_loss(output[mask], target[mask])

    model, (train, val) = mlp(10, 2), split(x, y)
    return Debugger(model, train, val, loss_fn=masked_loss, optimizer=adam(model))


@healthy
def some_labels_missing() -> Debugger:
    """Missing labels (-1) that the loss excludes."""
    x, y = digits()

    def masked_loss(output: Tensor, target: Tensor) -> Tensor:
        mask = target >= 0
        return F.cross_entropy(output[mask], target[mask])

    model = nn.Sequential(nn.Flatten(), mlp(64, 10))
    partial_labels = torch.where(torch.rand(len(y), generator=torch.Generator().manual_seed(0)) < 0.5, y, -1)
    return Debugger(model, loader(x, partial_labels), loss_fn=masked_loss, optimizer=adam(model))


class StudentAndTeacher(nn.Module):
    """A student and its frozen teacher."""

    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = mlp(30, 2, 8), mlp(30, 2, 64)
        self.teacher.requires_grad_(False).eval()

    def forward(self, x: Tensor) -> Any:
        with torch.no_grad():
            teacher_logits = self.teacher(x)
        return self.student(x), teacher_logits


def distillation_loss(output: Any, target: Tensor, temperature: float = 4.0) -> Tensor:
    student, teacher = output
    soft = F.kl_div(F.log_softmax(student / temperature, 1), F.softmax(teacher / temperature, 1), reduction="batchmean")
    return 0.7 * temperature**2 * soft + 0.3 * F.cross_entropy(student, target)


@healthy
def distillation_from_a_frozen_teacher() -> Debugger:
    model, (train, val) = StudentAndTeacher(), split(*tumors())
    return Debugger(model, train, val, loss_fn=distillation_loss, optimizer=adam(model.student))


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
    """Deep sets: a network for each point, and the mean over the set."""
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
