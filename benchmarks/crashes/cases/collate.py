"""Crashes: samples that do not stack."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "sentences_of_unequal_length",
        "sentences of unequal length do not stack",
        kind="collate",
        style="script",
        source="Stack Overflow, stack expects each tensor to be equal size",
        program="""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

torch.manual_seed(0)
sentences = [torch.randint(1, 30, (4 + i % 5,)) for i in range(32)]
labels = [i % 2 for i in range(32)]
data = list(zip(sentences, labels))


def pad(samples):
    tokens, y = zip(*samples)
    return pad_sequence(list(tokens), batch_first=True), torch.tensor(y)


loader = DataLoader(data, batch_size=8)
embed, head = nn.Embedding(30, 6, padding_idx=0), nn.Linear(6, 2)
optimizer = torch.optim.Adam([*embed.parameters(), *head.parameters()], lr=0.01)
for tokens, y in loader:
    loss = nn.functional.cross_entropy(head(embed(tokens).mean(1)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("DataLoader(data, batch_size=8)", "DataLoader(data, batch_size=8, collate_fn=pad)"),),
        line=("DataLoader(data, batch_size=8)", "for tokens, y in loader", "sentences = ["),
        says=("collate|pad", "4", "5"),
    ),
    crash(
        "sample_is_none",
        "the data set returns None for a broken file",
        kind="collate",
        style="trainer",
        source="Stack Overflow, default_collate: found NoneType",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Scans(Dataset):
    def __init__(self, n):
        self.scans = [torch.full((9,), float(i)) for i in range(n)]
        self.scans[13] = torch.full((9,), float("nan"))

    def __len__(self):
        return len(self.scans)

    def __getitem__(self, index):
        scan = self.scans[index]
        if scan.isnan().any():
            return None
        return scan / 30, float(index > 15)


class Trainer:
    def __init__(self, dataset):
        self.loader = DataLoader(dataset, batch_size=5)
        self.model = nn.Linear(9, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def run(self):
        for x, y in self.loader:
            loss = nn.functional.mse_loss(self.model(x).squeeze(1), y.float())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


torch.manual_seed(0)
Trainer(Scans(30)).run()
""",
        repair=(("return None", "scan = torch.zeros(9)"),),
        line=("return None", "for x, y in self.loader", "self.loader = DataLoader(dataset, batch_size=5)"),
        says=("none", "13"),
    ),
    crash(
        "stack_in_own_collate",
        "an own collate function stacks boxes of unequal number",
        kind="collate",
        style="typed",
        source="discuss.pytorch.org, collate for object detection",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader


@dataclass
class Sample:
    image: Tensor
    boxes: Tensor


def make(n: int) -> list[Sample]:
    torch.manual_seed(0)
    return [Sample(torch.rand(3, 8, 8), torch.rand(1 + i % 4, 4)) for i in range(n)]


def collate(samples: list[Sample]) -> tuple[Tensor, Tensor]:
    images = torch.stack([sample.image for sample in samples])
    boxes = torch.stack([sample.boxes for sample in samples])
    return images, boxes.mean(dim=1)


model = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
optimizer = torch.optim.Adam(model.parameters())
for images, centers in DataLoader(make(24), batch_size=6, collate_fn=collate):
    loss = nn.functional.smooth_l1_loss(model(images), centers)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "torch.stack([sample.boxes for sample in samples])",
                "torch.stack([sample.boxes.mean(dim=0) for sample in samples])",
            ),
            ("return images, boxes.mean(dim=1)", "return images, boxes"),
        ),
        line=("torch.stack([sample.boxes for sample in samples])",),
        says=("boxes", "1", "2"),
    ),
    crash(
        "portrait_and_landscape",
        "portraits and landscapes are stacked by an own collate object",
        kind="collate",
        style="reshape_by_hand",
        source="GitHub issue, got [24, 32, 64] at entry 0 and [24, 64, 32] at entry 1",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader


class Patches:
    def __init__(self, patch):
        self.patch = patch

    def split(self, image):
        c, h, w = image.shape
        p = self.patch
        return image.reshape(c, h // p, p, w // p, p).permute(1, 3, 0, 2, 4).reshape(h // p, w // p, c * p * p)

    def __call__(self, samples):
        images, labels = zip(*samples)
        grids = [self.split(image) for image in images]
        return torch.stack(grids), torch.tensor(labels)


torch.manual_seed(0)
photos = [(torch.rand(1, 8, 16) if i % 3 else torch.rand(1, 16, 8), i % 2) for i in range(1, 25)]
model = nn.Sequential(nn.Linear(16, 10), nn.ReLU(), nn.Linear(10, 2))
optimizer = torch.optim.Adam(model.parameters())
for grids, labels in DataLoader(photos, batch_size=6, collate_fn=Patches(4)):
    loss = nn.functional.cross_entropy(model(grids).flatten(1, -2).mean(1), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "grids = [self.split(image) for image in images]",
                "grids = [self.split(image).flatten(0, 1) for image in images]",
            ),
        ),
        line=("grids = [self.split(image) for image in images]", "return torch.stack(grids)"),
        says=(
            "2",
            "4",
            "grids|sample|image",
        ),
    ),
)
