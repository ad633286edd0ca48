"""Crashes: tensors on two devices."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "batch_left_on_cpu",
        "the model was moved, the batch was not",
        kind="device",
        style="script",
        source="Stack Overflow, Expected all tensors to be on the same device",
        program="""
import torch
import torch.nn as nn

torch.manual_seed(0)
device = torch.device("meta")
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2)).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for step in range(3):
    inputs = torch.randn(16, 10)
    labels = torch.randint(0, 2, (16,)).to(device)
    optimizer.zero_grad()
    outputs = model(inputs)
    loss = criterion(outputs, labels)
    loss.backward()
    optimizer.step()
""",
        repair=(("inputs = torch.randn(16, 10)", "inputs = torch.randn(16, 10).to(device)"),),
        line=("inputs = torch.randn(16, 10)", "outputs = model(inputs)"),
        says=("device", "cpu", "inputs|input|batch"),
    ),
    crash(
        "labels_left_on_cpu",
        "the trainer moves the images only",
        kind="device",
        style="trainer",
        source="discuss.pytorch.org, labels on another device",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, device):
        self.device = device
        self.model = model.to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def epoch(self, loader):
        for images, labels in loader:
            images = images.to(self.device)
            labels.to(self.device)
            logits = self.model(images)
            loss = nn.functional.cross_entropy(logits, labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


torch.manual_seed(0)
data = TensorDataset(torch.rand(40, 1, 8, 8), torch.randint(3, (40,)))
net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
Trainer(net, "meta").epoch(DataLoader(data, batch_size=20))
""",
        repair=(("            labels.to(self.device)", "            labels = labels.to(self.device)"),),
        line=("            labels.to(self.device)", "cross_entropy(logits, labels)"),
        says=("labels|target", "cpu", "device"),
    ),
    crash(
        "zeros_made_in_forward",
        "the first state is made in forward without a device",
        kind="device",
        style="hand_written_model",
        source="discuss.pytorch.org, hidden state on the CPU",
        program="""
import torch
from torch import nn


class CharRNN(nn.Module):
    def __init__(self, vocab=30, dim=8, hidden=16):
        super().__init__()
        self.hidden = hidden
        self.embed = nn.Embedding(vocab, dim)
        self.lstm = nn.LSTM(dim, hidden, batch_first=True)
        self.head = nn.Linear(hidden, vocab)

    def init_hidden(self, batch):
        shape = (1, batch, self.hidden)
        return torch.zeros(shape), torch.zeros(shape)

    def forward(self, text):
        state = self.init_hidden(text.shape[0])
        out, _ = self.lstm(self.embed(text), state)
        return self.head(out)


DEVICE = "meta"
model = CharRNN().to(DEVICE)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    text = torch.randint(30, (4, 11), device=DEVICE)
    logits = model(text[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "return torch.zeros(shape), torch.zeros(shape)",
                "return tuple(torch.zeros(shape, device=self.head.weight.device) for _ in range(2))",
            ),
        ),
        line=(
            "return torch.zeros(shape), torch.zeros(shape)",
            "state = self.init_hidden(",
            "self.lstm(self.embed(text), state)",
        ),
        says=(
            "cpu",
            "init_hidden|zeros|device=",
        ),
    ),
    crash(
        "plain_attribute_not_buffer",
        "a constant of the module is a plain attribute, which .to does not move",
        kind="device",
        style="custom_parts",
        source="GitHub issue, register_buffer",
        program="""
import torch
from torch import nn


class Normalize(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.mean = torch.tensor(mean).view(1, -1, 1, 1)
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1))

    def forward(self, images):
        return (images - self.mean) / self.std


class SmoothLoss(nn.Module):
    def forward(self, logits, labels):
        return nn.functional.cross_entropy(logits, labels, label_smoothing=0.1)


device = torch.device("meta")
model = nn.Sequential(
    Normalize([0.5] * 3, [0.2] * 3), nn.Conv2d(3, 6, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4)
).to(device)
criterion = SmoothLoss().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    images, labels = torch.rand(5, 3, 10, 10, device=device), torch.randint(4, (5,), device=device)
    loss = criterion(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "self.mean = torch.tensor(mean).view(1, -1, 1, 1)",
                'self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))',
            ),
        ),
        line=("self.mean = torch.tensor(mean)", "images - self.mean"),
        says=("mean", "buffer", "cpu"),
    ),
)
