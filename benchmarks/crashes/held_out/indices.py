"""Crashes: words, labels and indices out of their range or of the wrong type."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "special_words_not_counted",
        "the vocabulary starts after the special words, and the embedding has a row per ordinary word only",
        kind="indices",
        style="trainer",
        source="Stack Overflow, IndexError: index out of range in self, nn.Embedding",
        program="""
import torch
from torch import nn

PAD, UNKNOWN = 0, 1


class Vocabulary:
    def __init__(self, texts):
        words = sorted({word for text in texts for word in text.split()})
        self.index = {word: i for i, word in enumerate(words, start=2)}

    def __len__(self):
        return len(self.index)

    def encode(self, text):
        return torch.tensor([self.index.get(word, UNKNOWN) for word in text.split()])


class Trainer:
    def __init__(self, texts):
        self.vocabulary = Vocabulary(texts)
        self.model = nn.Sequential(nn.EmbeddingBag(len(self.vocabulary), 6), nn.Linear(6, 2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5)

    def step(self, texts, labels):
        rows = [self.vocabulary.encode(text) for text in texts]
        loss = nn.functional.cross_entropy(self.model(torch.stack(rows)), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
texts = ["cats chase mice", "dogs chase cats", "mice eat cheese", "dogs eat meat"]
trainer = Trainer(texts)
for _ in range(3):
    trainer.step(texts, torch.tensor([0, 1, 0, 1]))
""",
        repair=(("return len(self.index)", "return len(self.index) + 2"),),
        line=("return len(self.index)", "nn.EmbeddingBag(len(self.vocabulary), 6)", "enumerate(words, start=2)"),
        says=("7", "8", "embedding|num_embeddings|rows"),
    ),
    crash(
        "stars_from_one_to_five",
        "the ratings of a file run from one to five and are taken as classes",
        kind="indices",
        style="script",
        source="Stack Overflow, IndexError: Target 5 is out of bounds",
        program="""
import csv
import io

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FILE = "price,weight,stars\\n" + "".join(f"{i % 7},{i % 3},{i % 5 + 1}\\n" for i in range(40))


def read(file):
    rows = list(csv.DictReader(io.StringIO(file)))
    x = torch.tensor([[float(row["price"]), float(row["weight"])] for row in rows])
    y = torch.tensor([int(row["stars"]) for row in rows])
    return TensorDataset(x, y)


torch.manual_seed(0)
n_classes = 5
model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, n_classes))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters())
for x, y in DataLoader(read(FILE), batch_size=10):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(('int(row["stars"])', 'int(row["stars"]) - 1'),),
        line=(
            'y = torch.tensor([int(row["stars"]) for row in rows])',
            "loss = criterion(model(x), y)",
            "n_classes = 5",
        ),
        says=("5", "4", "- 1|subtract|minus|from 0|start at 0|starts at 0|0 to 4|0..4|[0, 4]"),
    ),
    crash(
        "ignored_pixels_are_minus_one",
        "unlabelled pixels are marked with -1, the loss ignores -100",
        kind="indices",
        style="functional",
        source="GitHub issue, Target -1 is out of bounds, ignore_index",
        program="""
import torch
from torch import nn
from torch.nn import functional as F


def annotate(images, n_classes=3):
    masks = (images.mean(dim=1) * n_classes).long().clamp(max=n_classes - 1)
    border = torch.rand(masks.shape) < 0.1
    return masks.masked_fill(border, -1)


def step(model, optimizer, images):
    masks = annotate(images)
    loss = F.cross_entropy(model(images), masks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    step(model, optimizer, torch.rand(2, 3, 10, 10))
""",
        repair=(("F.cross_entropy(model(images), masks)", "F.cross_entropy(model(images), masks, ignore_index=-1)"),),
        line=("F.cross_entropy(model(images), masks)", "return masks.masked_fill(border, -1)"),
        says=("-1", "ignore_index|-100"),
    ),
)
