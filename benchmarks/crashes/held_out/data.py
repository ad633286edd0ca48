"""Crashes: data of another type, indices out of range, and samples that cannot be stacked."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "letters_without_collate_fn",
        "the dataset gives sentences of different lengths, and the loader stacks them",
        kind="data",
        style="lightning_like",
        source="Stack Overflow, stack expects each tensor to be equal size, default_collate",
        program="""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    def __init__(self, texts, labels):
        self.texts, self.labels = texts, labels

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        codes = [ord(letter) % 97 + 1 for letter in self.texts[index]]
        return torch.tensor(codes), torch.tensor(self.labels[index])


class DataModule:
    texts = ["great", "awful food", "nice", "never again", "lovely place", "bad"]
    labels = [1, 0, 1, 0, 1, 0]

    def collate(self, samples):
        codes, labels = zip(*samples)
        return pad_sequence(codes, batch_first=True), torch.stack(labels)

    def train_dataloader(self):
        return DataLoader(Sentences(self.texts, self.labels), batch_size=3)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 12, padding_idx=0)
        self.out = nn.Linear(12, 2)

    def training_step(self, batch):
        codes, labels = batch
        return nn.functional.cross_entropy(self.out(self.embed(codes).sum(1)), labels)


torch.manual_seed(0)
module = Classifier()
optimizer = torch.optim.Adam(module.parameters())
for batch in DataModule().train_dataloader():
    loss = module.training_step(batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "return DataLoader(Sentences(self.texts, self.labels), batch_size=3)",
                "return DataLoader(Sentences(self.texts, self.labels), batch_size=3, collate_fn=self.collate)",
            ),
        ),
        line=(
            "return DataLoader(Sentences(self.texts, self.labels), batch_size=3)",
            "return torch.tensor(codes), torch.tensor(self.labels[index])",
            "codes = [ord(letter) % 97 + 1 for letter in self.texts[index]]",
        ),
        says=("collate_fn|pad", "length|size"),
    ),
)
