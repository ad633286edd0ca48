"""Losses between samples: pairs, triplets, the rest of the batch, a slow teacher."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from nbdebug.debugger import Debugger
from tests.rules.real.catalog import healthy
from tests.rules.real.data import digits, loader, padded, split, tumors


def encoder(width: int = 16) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(64, width),
    )  # fmt: skip


class Pairs(Dataset[Any]):
    """Two pictures, and whether they show one digit."""

    def __init__(self) -> None:
        self.x, self.y = digits()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        same = torch.rand(()) < 0.5
        others = torch.nonzero((self.y == self.y[index]) == same).squeeze(1)
        other = int(others[torch.randint(len(others), ())])
        return self.x[index], self.x[other], same.float()


class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = encoder()

    def forward(self, one: Tensor, other: Tensor) -> Any:
        return self.encoder(one), self.encoder(other)


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

    def one_of(self, chosen: Tensor) -> Tensor:
        places = torch.nonzero(chosen).squeeze(1)
        return self.x[places[torch.randint(len(places), ())]]

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        same = self.y == self.y[index]
        return self.x[index], self.one_of(same), self.one_of(~same)


@healthy
def triplets_by_step() -> Debugger:
    model, loss = encoder(), nn.TripletMarginLoss(margin=1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    train = DataLoader(Triplets(), 32, shuffle=True)
    return Debugger(model, train, optimizer=optimizer, step_fn=lambda batch: loss(*map(model, batch)))


class Tripled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = encoder()

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Any:
        return self.net(anchor), self.net(positive), self.net(negative)


@healthy
def triplets_in_the_model() -> Debugger:
    model = Tripled()
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

    def hardest(output: Tensor, label: Tensor) -> Tensor:
        apart, same = torch.cdist(output, output), label[:, None] == label[None]
        positive = (apart * same).amax(1)
        negative = (apart + 1e6 * same).amin(1)
        return F.relu(positive - negative + 0.5).mean()

    train, val = split(*digits())
    return Debugger(model, train, val, loss_fn=hardest, optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))


class CLIP(nn.Module):
    """Pictures and the words about them, each in the direction of the other."""

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
def pictures_and_words() -> Debugger:
    model = CLIP()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    train, val = split(*digits())
    return Debugger(
        model, train, val, loss_fn=clip_loss, optimizer=optimizer, unpack=lambda batch: (tuple(batch), None)
    )


class Views(Dataset[Any]):
    """Two noisy views of each picture."""

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

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        return F.normalize(self.projector(self.backbone(torch.cat([one, other]))), dim=1)


def nt_xent(z: Tensor, temperature: float = 0.5) -> Tensor:
    alike = (z @ z.t() / temperature).masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))
    half = len(z) // 2
    return F.cross_entropy(alike, torch.cat([torch.arange(half, 2 * half), torch.arange(half)]))


@healthy
def two_views_of_a_batch() -> Debugger:
    model = SimCLR()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    train = DataLoader(Views(), 32, shuffle=True, drop_last=True)
    return Debugger(model, train, loss_fn=nt_xent, optimizer=optimizer, unpack=lambda batch: (tuple(batch), None))


@healthy
def views_against_a_slow_teacher() -> Debugger:
    """BYOL: a predictor follows an average of its own past."""
    online, predictor = encoder(16), nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
    target = copy.deepcopy(online).requires_grad_(False)
    model = nn.ModuleDict({"online": online, "predictor": predictor})

    def half(one: Tensor, other: Tensor) -> Tensor:
        with torch.no_grad():
            goal = target(other)
        return 2 - 2 * F.cosine_similarity(predictor(online(one)), goal).mean()

    return Debugger(
        model,
        DataLoader(Views(), 32, shuffle=True),
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
        step_fn=lambda batch: half(*batch) + half(*reversed(batch)),
        extra_state=[target],
    )


@healthy
def mean_teacher() -> Debugger:
    """A loss of consistency with averaged weights beside that of the labels, most of which are missing (-1)."""
    x, y = tumors()
    model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 2))
    teacher = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
    few = torch.where(torch.arange(len(y)) % 4 == 0, y, -1)

    def step(batch: list[Tensor]) -> Tensor:
        inputs, target = batch
        logits = model(inputs)
        with torch.no_grad():
            wanted = teacher(inputs).softmax(1)
        return F.cross_entropy(logits, target, ignore_index=-1) + F.mse_loss(logits.softmax(1), wanted)

    return Debugger(
        model, loader(x, few), optimizer=torch.optim.Adam(model.parameters()), step_fn=step, extra_state=[teacher]
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
