"""Crashes: integers given to layers of floats."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "word_counts_are_integers",
        "counts of words go as integers into a linear layer",
        kind="integer_input",
        style="custom_parts",
        source="Stack Overflow, expected Float but found Long",
        program="""
from collections import Counter

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WORDS = ["good", "bad", "fine", "awful", "film"]


class Reviews(Dataset):
    texts = [("good fine film", 1), ("bad awful film", 0), ("good good film", 1), ("awful film", 0)] * 5

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        text, label = self.texts[index]
        counts = Counter(text.split())
        return torch.tensor([counts[word] for word in WORDS]), label


torch.manual_seed(0)
classifier = nn.Sequential(nn.Linear(len(WORDS), 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(classifier.parameters(), lr=0.02)
for counts, labels in DataLoader(Reviews(), batch_size=5):
    loss = nn.functional.cross_entropy(classifier(counts), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("for word in WORDS]), label", "for word in WORDS], dtype=torch.float32), label"),),
        line=("for word in WORDS]), label", "classifier(counts), labels)"),
        says=(
            "int64|long|integer",
            "counts|float32|.float()",
        ),
    ),
    crash(
        "byte_images",
        "images of bytes go into a convolution",
        kind="integer_input",
        style="script",
        source="discuss.pytorch.org, Input type (unsigned char) and bias type (float)",
        program="""
import torch
import torch.nn as nn

torch.manual_seed(0)
images = torch.randint(0, 256, (48, 3, 20, 20), dtype=torch.uint8)
labels = torch.randint(0, 2, (48,))
model = nn.Sequential(nn.Conv2d(3, 4, 5), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16 * 16, 2))
optimizer = torch.optim.Adam(model.parameters())
for i in range(0, 48, 12):
    batch = images[i : i + 12]
    loss = nn.functional.cross_entropy(model(batch), labels[i : i + 12])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("batch = images[i : i + 12]", "batch = images[i : i + 12] / 255"),),
        line=("batch = images[i : i + 12]", "dtype=torch.uint8", "model(batch)"),
        says=(
            "uint8|unsigned char|byte",
            "float32|.float()|255",
        ),
    ),
    crash(
        "mean_of_integers",
        "the mean of a column of integers",
        kind="integer_input",
        style="notebook_cells",
        source="Stack Overflow, mean(): could not infer output dtype",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
ages = torch.randint(18, 90, (200, 1))
target = (ages > 50).float()
# %%
def standardize(column):
    return (column - column.mean()) / column.float().std()


x = standardize(ages)
# %%
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for epoch in range(5):
    loss = nn.functional.binary_cross_entropy_with_logits(model(x), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("x = standardize(ages)", "x = standardize(ages.float())"),),
        line=("x = standardize(ages)", "return (column - column.mean())", "ages = torch.randint(18, 90, (200, 1))"),
        says=(
            "int64|long|integer",
            "column|ages|.float()|float32",
        ),
    ),
    crash(
        "integer_parameter",
        "a parameter is made from integers",
        kind="integer_input",
        style="hand_written_model",
        source="GitHub issue, Only Tensors of floating point dtype can require gradients",
        program="""
import torch
from torch import nn


class DecayBias(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.distances = nn.Parameter(torch.arange(length))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, scores):
        return scores - self.scale * self.distances


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 10), DecayBias(10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    x = torch.randn(8, 4)
    loss = nn.functional.cross_entropy(model(x), torch.randint(10, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.arange(length)", "torch.arange(length, dtype=torch.float32)"),),
        says=("float", "int64|long|integer"),
    ),
)
