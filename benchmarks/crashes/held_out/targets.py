"""Crashes: losses that meet targets of another shape or type, and labels that are out of range."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "language_model_classes_last",
        "the logits of a language model have their classes last when the loss wants them second",
        kind="targets",
        style="lightning_like",
        source="Stack Overflow, Expected target size, got, CrossEntropyLoss with sequences",
        program="""
import torch
import torch.nn.functional as F
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, vocab=40, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.lstm = nn.LSTM(dim, 32, batch_first=True)
        self.head = nn.Linear(32, vocab)

    def forward(self, tokens):
        hidden, _ = self.lstm(self.embed(tokens))
        return self.head(hidden)

    def training_step(self, batch, batch_idx):
        inputs, targets = batch[:, :-1], batch[:, 1:]
        logits = self(inputs)
        return F.cross_entropy(logits, targets)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)


class MiniTrainer:
    def fit(self, module, batches):
        optimizer = module.configure_optimizers()
        for index, batch in enumerate(batches):
            loss = module.training_step(batch, index)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


torch.manual_seed(0)
MiniTrainer().fit(LanguageModel(), [torch.randint(0, 40, (8, 21)) for _ in range(4)])
""",
        repair=(("F.cross_entropy(logits, targets)", "F.cross_entropy(logits.transpose(1, 2), targets)"),),
        line=("return F.cross_entropy(logits, targets)", "return self.head(hidden)", "logits = self(inputs)"),
        says=("transpose|permute|flatten|reshape|view|movedim", "class|vocab|logits"),
    ),
    crash(
        "ratings_from_one",
        "the dataset gives the ratings 1 to 5 as labels of five classes",
        kind="targets",
        style="trainer",
        source="discuss.pytorch.org, IndexError Target 5 is out of bounds",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Reviews(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        words, stars = self.rows[index]
        return torch.tensor(words), stars


class StarModel(nn.Module):
    def __init__(self, vocabulary, classes=5):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocabulary, 16, mode="mean")
        self.out = nn.Linear(16, classes)

    def forward(self, words):
        return self.out(self.bag(words))


class Trainer:
    def __init__(self, model):
        self.model = model
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)

    def epoch(self, loader):
        for words, stars in loader:
            loss = self.loss(self.model(words), stars)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


torch.manual_seed(0)
rows = [(torch.randint(0, 300, (12,)).tolist(), 1 + i % 5) for i in range(40)]
Trainer(StarModel(300)).epoch(DataLoader(Reviews(rows), batch_size=10))
""",
        repair=(("return torch.tensor(words), stars", "return torch.tensor(words), stars - 1"),),
        line=(
            "return torch.tensor(words), stars",
            "loss = self.loss(self.model(words), stars)",
            "rows = [(torch.randint(0, 300, (12,)).tolist(), 1 + i % 5) for i in range(40)]",
            "words, stars = self.rows[index]",
            "def __init__(self, vocabulary, classes=5):",
        ),
        says=("5", "- 1|subtract|from 0|0 to 4|0..4|start at 1|from 1|6"),
    ),
)
