"""Crashes: flattening that is missing, comes too early or takes the batch axis with it."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "cifar_no_flatten",
        "the maps of the convolutions go into the linear layer without being flattened",
        kind="flatten",
        style="script",
        source="Stack Overflow, mat1 and mat2 shapes (5760x6 and 128x4)",
        program="""
import torch
import torch.nn as nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(4),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Linear(16 * 4 * 4, 10)

    def forward(self, x):
        x = self.features(x)
        return self.classifier(x)


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    x, y = torch.randn(16, 3, 32, 32), torch.randint(10, (16,))
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("return self.classifier(x)", "return self.classifier(x.flatten(1))"),),
        line=("return self.classifier(x)", "x = self.features(x)"),
        says=("flatten", "classifier"),
    ),
    crash(
        "flatten_before_conv",
        "the images are flattened before the convolutions",
        kind="flatten",
        style="notebook_cells",
        source="Kaggle notebook, digits from a table of pixels",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
pixels = torch.rand(100, 28, 28)
digits = torch.randint(0, 10, (100,))
# %%
def preprocess(batch):
    return batch.reshape(len(batch), -1)


model = nn.Sequential(
    nn.Conv2d(1, 8, kernel_size=3),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(8 * 13 * 13, 10),
)
# %%
optimizer = torch.optim.Adam(model.parameters())
for start in range(0, 100, 25):
    x = preprocess(pixels[start : start + 25])
    loss = nn.functional.cross_entropy(model(x), digits[start : start + 25])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("batch.reshape(len(batch), -1)", "batch.reshape(len(batch), 1, 28, 28)"),),
        line=("batch.reshape(len(batch), -1)", "x = preprocess("),
        says=("flat|reshape|2 axes|2-d|784", "0"),
    ),
    crash(
        "mlp_on_images",
        "images go into a perceptron without being flattened",
        kind="flatten",
        style="trainer",
        source="Stack Overflow, fully connected network on MNIST",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __init__(self, n):
        generator = torch.Generator().manual_seed(0)
        self.images = torch.rand(n, 1, 28, 28, generator=generator)
        self.labels = torch.randint(10, (n,), generator=generator)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.labels[i]


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.criterion = nn.CrossEntropyLoss()

    def train_one_epoch(self, loader):
        self.model.train()
        for images, labels in loader:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(images), labels)
            loss.backward()
            self.optimizer.step()


mlp = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
Trainer(mlp).train_one_epoch(DataLoader(Digits(96), batch_size=32))
""",
        repair=(("nn.Sequential(nn.Linear(784, 64)", "nn.Sequential(nn.Flatten(), nn.Linear(784, 64)"),),
        line=("nn.Sequential(nn.Linear(784, 64)", "self.criterion(self.model(images), labels)"),
        says=("flatten|view|reshape", "784", "28"),
    ),
)
