"""Crashes: a linear layer, or a product of matrices, that meets another number of features."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "digits_cnn_1050",
        "the first linear layer after the convolutions has the size of another image",
        kind="linear_size",
        style="script",
        source="Stack Overflow, mat1 and mat2 shapes",
        program="""
import torch
import torch.nn as nn

torch.manual_seed(0)


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Sequential(nn.Conv2d(1, 16, 5, 1, 2), nn.ReLU(), nn.MaxPool2d(2))
        self.conv2 = nn.Sequential(nn.Conv2d(16, 32, 5, 1, 2), nn.ReLU(), nn.MaxPool2d(2))
        self.out = nn.Linear(1050, 10)

    def forward(self, x):
        x = self.conv1(x)
        x = self.conv2(x)
        x = x.view(x.size(0), -1)
        return self.out(x)


images = torch.randn(64, 1, 28, 28)
labels = torch.randint(0, 10, (64,))
cnn = CNN()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(cnn.parameters(), lr=0.001)
for i in range(0, 64, 16):
    loss = criterion(cnn(images[i : i + 16]), labels[i : i + 16])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("nn.Linear(1050, 10)", "nn.Linear(1568, 10)"),),
        says=("1568", "1050", "out"),
    ),
    crash(
        "mlp_hidden_chain",
        "two layers of a perceptron do not chain",
        kind="linear_size",
        style="trainer",
        source="discuss.pytorch.org, size mismatch in Sequential",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Regressor(nn.Module):
    def __init__(self, n_features):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(n_features, 64),
            nn.ReLU(),
            nn.Linear(64, 32),
            nn.ReLU(),
            nn.Linear(64, 1),
        )

    def forward(self, x):
        return self.body(x).squeeze(-1)


class Trainer:
    def __init__(self, model, loader):
        self.model = model
        self.loader = loader
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def fit(self, epochs):
        for _ in range(epochs):
            for x, y in self.loader:
                self.optimizer.zero_grad()
                loss = nn.functional.mse_loss(self.model(x), y)
                loss.backward()
                self.optimizer.step()


torch.manual_seed(1)
x = torch.randn(120, 9)
loader = DataLoader(TensorDataset(x, x.sum(1)), batch_size=30)
Trainer(Regressor(9), loader).fit(2)
""",
        repair=(("nn.Linear(64, 1)", "nn.Linear(32, 1)"),),
        line=("nn.Linear(64, 1)", "nn.Linear(64, 32)"),
        says=("body.4", "32", "64"),
    ),
    crash(
        "config_image_size",
        "the classifier was computed for images of 32 pixels, the images have 48",
        kind="linear_size",
        style="typed",
        source="GitHub issue, other input resolution",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Config:
    channels: int = 12
    image_size: int = 32
    n_classes: int = 5
    lr: float = 1e-2


class SmallNet(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        c, s = config.channels, config.image_size
        self.features = nn.Sequential(
            nn.Conv2d(3, c, 3, padding=1), nn.MaxPool2d(2), nn.Conv2d(c, 2 * c, 3, padding=1), nn.MaxPool2d(2)
        )
        self.classifier = nn.Linear(2 * c * (s // 4) ** 2, config.n_classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images).flatten(1))


def batches(n: int) -> list[tuple[Tensor, Tensor]]:
    return [(torch.randn(8, 3, 48, 48), torch.randint(5, (8,))) for _ in range(n)]


torch.manual_seed(0)
config = Config()
model = SmallNet(config)
optimizer = torch.optim.SGD(model.parameters(), lr=config.lr)
for images, labels in batches(4):
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("image_size: int = 32", "image_size: int = 48"),),
        line=("image_size: int = 32", "self.classifier = nn.Linear", "torch.randn(8, 3, 48, 48)"),
        says=("3456", "1536", "classifier"),
    ),
    crash(
        "one_hot_columns",
        "the table has more columns after one-hot encoding than the network was made for",
        kind="linear_size",
        style="notebook_cells",
        source="Kaggle notebook, tabular data",
        program="""
import numpy as np
import pandas as pd
import torch
from torch import nn

rng = np.random.default_rng(0)
table = pd.DataFrame(
    {
        "age": rng.uniform(18, 80, 200),
        "hours": rng.uniform(10, 60, 200),
        "job": rng.choice(["clerk", "nurse", "smith", "baker"], 200),
    }
)
table["target"] = (table["hours"] > 35).astype("float32")
# %%
encoded = pd.get_dummies(table.drop(columns="target"), columns=["job"])
X = torch.tensor(encoded.to_numpy(dtype="float32"))
y = torch.tensor(table["target"].to_numpy()).unsqueeze(1)
n_inputs = table.shape[1] - 1
# %%
net = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(n_inputs, 16), nn.ReLU(), nn.Linear(16, 1))
loss_fn = nn.BCEWithLogitsLoss()
opt = torch.optim.Adam(net.parameters(), lr=0.01)
# %%
for epoch in range(3):
    opt.zero_grad()
    loss = loss_fn(net(X), y)
    loss.backward()
    opt.step()
    print(epoch, loss.item())
""",
        repair=(("n_inputs = table.shape[1] - 1", "n_inputs = encoded.shape[1]"),),
        line=("n_inputs = table.shape[1] - 1", "net = nn.Sequential("),
        says=(
            "6",
            "3",
            "n_inputs|linear|module 1|`1`",
        ),
    ),
    crash(
        "tabular_embedding_width",
        "the width of concatenated embeddings was added up wrongly",
        kind="linear_size",
        style="hand_written_model",
        source="discuss.pytorch.org, categorical embeddings",
        program="""
import torch
from torch import nn


class TabularModel(nn.Module):
    def __init__(self, cardinalities, n_continuous, dim=6):
        super().__init__()
        self.embeddings = nn.ModuleList([nn.Embedding(n, dim) for n in cardinalities])
        self.norm = nn.BatchNorm1d(n_continuous)
        width = dim + n_continuous
        self.first = nn.Linear(width, 30)
        self.last = nn.Linear(30, 2)

    def forward(self, categories, continuous):
        parts = [layer(categories[:, i]) for i, layer in enumerate(self.embeddings)]
        parts.append(self.norm(continuous))
        x = torch.cat(parts, dim=1)
        return self.last(torch.relu(self.first(x)))


torch.manual_seed(0)
sizes = [4, 9, 3]
categories = torch.stack([torch.randint(n, (64,)) for n in sizes], dim=1)
continuous = torch.randn(64, 5)
labels = torch.randint(2, (64,))
model = TabularModel(sizes, 5)
optimizer = torch.optim.Adam(model.parameters())
for step in range(3):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(categories, continuous), labels)
    loss.backward()
    optimizer.step()
""",
        repair=(("width = dim + n_continuous", "width = dim * len(cardinalities) + n_continuous"),),
        line=("width = dim + n_continuous", "self.first = nn.Linear"),
        says=("23", "11", "first"),
    ),
    crash(
        "layer_norm_sizes",
        "a normalization layer has the width of another layer",
        kind="linear_size",
        style="script",
        source="Stack Overflow, Given normalized_shape, expected input with shape",
        program="""
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(10, 48),
    nn.LayerNorm(32),
    nn.GELU(),
    nn.Linear(48, 3),
)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(3):
    x, y = torch.randn(20, 10), torch.randint(3, (20,))
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("nn.LayerNorm(32)", "nn.LayerNorm(48)"),),
        says=(
            "48",
            "32",
            "layernorm|module 1|`1`",
        ),
    ),
)
