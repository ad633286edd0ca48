"""Losses between samples: pairs, triplets, in-batch negatives, averaged teachers."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from nbdebug.debugger import Debugger
from tests.rules.real.catalog import healthy
from tests.rules.real.datasets import digits, loader, padded, split, tumors


def encoder(width: int = 16) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(64, width),
    )  # fmt: skip


class Pairs(Dataset[Any]):
    """Two images, and 1 if they show the same digit."""

    def __init__(self) -> None:
        self.x, self.y = digits()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        same = torch.rand(()) < 0.5
        candidates = torch.nonzero((self.y == self.y[index]) == same).squeeze(1)
        second = int(candidates[torch.randint(len(candidates), ())])
        return self.x[index], self.x[second], same.float()


class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = encoder()

    def forward(self, first: Tensor, second: Tensor) -> Any:
        return self.encoder(first), self.encoder(second)


class ContrastiveLoss(nn.Module):
    """Hadsell, Chopra and LeCun 2006."""

    def __init__(self, margin: float = 1.0) -> None:
        super().__init__()
        self.margin = margin

    def forward(self, output: Any, same: Tensor) -> Tensor:
        distance = F.pairwise_distance(*output)
        return (same * distance.pow(2) + (1 - same) * F.relu(self.margin - distance).pow(2)).mean()


@healthy
def siamese_contrastive() -> Debugger:
    model = Siamese()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    return Debugger(model, DataLoader(Pairs(), 32, shuffle=True), loss_fn=ContrastiveLoss(), optimizer=optimizer)


class Triplets(Dataset[Any]):
    def __init__(self) -> None:
        self.x, self.y = digits()

    def __len__(self) -> int:
        return len(self.x)

    def sample_from(self, mask: Tensor) -> Tensor:
        indices = torch.nonzero(mask).squeeze(1)
        return self.x[indices[torch.randint(len(indices), ())]]

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        same = self.y == self.y[index]
        return self.x[index], self.sample_from(same), self.sample_from(~same)


@healthy
def triplets_by_step() -> Debugger:
    model, loss = encoder(), nn.TripletMarginLoss(margin=1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    train = DataLoader(Triplets(), 32, shuffle=True)
    return Debugger(model, train, optimizer=optimizer, step_fn=lambda batch: loss(*map(model, batch)))


class TripletNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = encoder()

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Any:
        return self.net(anchor), self.net(positive), self.net(negative)


@healthy
def triplets_in_the_model() -> Debugger:
    model = TripletNetwork()
    return Debugger(
        model,
        DataLoader(Triplets(), 32, shuffle=True),
        loss_fn=lambda output: F.triplet_margin_loss(*output),
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
        unpack=lambda batch: (batch, None),
    )


@healthy
def batch_hard_triplets() -> Debugger:
    model = encoder()

    def batch_hard_loss(output: Tensor, label: Tensor) -> Tensor:
        distances, same = torch.cdist(output, output), label[:, None] == label[None]
        positive = (distances * same).amax(1)
        negative = (distances + 1e6 * same).amin(1)
        return F.relu(positive - negative + 0.5).mean()

    train, val = split(*digits())
    return Debugger(model, train, val, loss_fn=batch_hard_loss, optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))


class CLIP(nn.Module):
    """Embeddings of images and of their labels, trained to match."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.text = encoder(16), nn.Embedding(10, 16)
        self.scale = nn.Parameter(torch.tensor(2.659))

    def forward(self, image: Tensor, text: Tensor) -> Tensor:
        a, b = F.normalize(self.image(image), dim=-1), F.normalize(self.text(text), dim=-1)
        return self.scale.exp() * a @ b.t()


def clip_loss(logits: Tensor) -> Tensor:
    labels = torch.arange(len(logits))
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


@healthy
def clip() -> Debugger:
    model = CLIP()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    train, val = split(*digits())
    return Debugger(
        model, train, val, loss_fn=clip_loss, optimizer=optimizer, unpack=lambda batch: (tuple(batch), None)
    )


class NoisyViews(Dataset[Any]):
    """Two noisy views of each image."""

    def __init__(self) -> None:
        self.x = digits()[0]

    def __len__(self) -> int:
        return len(self.x)

    def view(self, x: Tensor) -> Tensor:
        return torch.roll(x, int(torch.randint(-1, 2, ())), dims=2) + 0.1 * torch.randn_like(x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.view(self.x[index]), self.view(self.x[index])


class SimCLR(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = encoder(32)
        self.projector = nn.Sequential(nn.ReLU(), nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return F.normalize(self.projector(self.backbone(torch.cat([first, second]))), dim=1)


def nt_xent(z: Tensor, temperature: float = 0.5) -> Tensor:
    similarities = (z @ z.t() / temperature).masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))
    pairs = len(z) // 2
    return F.cross_entropy(similarities, torch.cat([torch.arange(pairs, 2 * pairs), torch.arange(pairs)]))


@healthy
def simclr() -> Debugger:
    model = SimCLR()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    train = DataLoader(NoisyViews(), 32, shuffle=True, drop_last=True)
    return Debugger(model, train, loss_fn=nt_xent, optimizer=optimizer, unpack=lambda batch: (tuple(batch), None))


@healthy
def byol() -> Debugger:
    """BYOL: a predictor follows a fixed target network."""
    online, predictor = encoder(16), nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
    target = copy.deepcopy(online).requires_grad_(False)
    model = nn.ModuleDict({"online": online, "predictor": predictor})

    def byol_loss(first: Tensor, second: Tensor) -> Tensor:
        with torch.no_grad():
            target_projection = target(second)
        return 2 - 2 * F.cosine_similarity(predictor(online(first)), target_projection).mean()

    return Debugger(
        model,
        DataLoader(NoisyViews(), 32, shuffle=True),
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
        step_fn=lambda batch: byol_loss(*batch) + byol_loss(*reversed(batch)),
        extra_state=[target],
    )


@healthy
def mean_teacher() -> Debugger:
    """A consistency loss with averaged weights, and a loss of the labels, most of which are missing (-1)."""
    x, y = tumors()
    model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 2))
    teacher = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
    partial_labels = torch.where(torch.arange(len(y)) % 4 == 0, y, -1)

    def step(batch: list[Tensor]) -> Tensor:
        inputs, target = batch
        logits = model(inputs)
        with torch.no_grad():
            teacher_probabilities = teacher(inputs).softmax(1)
        return F.cross_entropy(logits, target, ignore_index=-1) + F.mse_loss(logits.softmax(1), teacher_probabilities)

    return Debugger(
        model,
        loader(x, partial_labels),
        optimizer=torch.optim.Adam(model.parameters()),
        step_fn=step,
        extra_state=[teacher],
    )


@healthy
def sentences_in_the_batch_as_negatives() -> Debugger:
    words, _ = padded()
    model = nn.EmbeddingBag(20, 16, padding_idx=0)

    def loss(output: Tensor, label: Tensor) -> Tensor:
        z = F.normalize(output, dim=1)
        return F.cosine_embedding_loss(z, z.roll(1, 0), torch.where(label == label.roll(1), 1, -1), margin=0.2)

    train, val = split(words, words[:, 0] % 3)
    return Debugger(model, train, val, loss_fn=loss, optimizer=torch.optim.Adam(model.parameters(), lr=1e-2))
