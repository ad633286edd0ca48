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
    crash(
        "crop_smaller_than_head",
        "the data set crops the images to a size other than the one the head was counted for",
        kind="linear_size",
        style="script",
        source="discuss.pytorch.org, mat1 and mat2 shapes cannot be multiplied after changing the crop",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __init__(self, n=32, crop=24):
        self.images, self.labels = torch.rand(n, 1, 32, 32), torch.randint(10, (n,))
        self.crop = crop

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        top = (32 - self.crop) // 2
        return self.images[i, :, top : top + self.crop, top : top + self.crop], self.labels[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc = nn.Linear(16 * 7 * 7, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.conv1(x).relu(), 2)
        x = nn.functional.max_pool2d(self.conv2(x).relu(), 2)
        return self.fc(torch.flatten(x, 1))


torch.manual_seed(0)
model, loader = Net(), DataLoader(Digits(), batch_size=8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in loader:
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("crop=24", "crop=28"),),
        line=("crop=24", "self.fc = nn.Linear(16 * 7 * 7, 10)"),
        says=("576", "784", "fc|linear|crop|in_features"),
    ),
    crash(
        "dummies_add_columns",
        "a table is turned into one-hot columns in one cell, the model of a later cell counts the raw columns",
        kind="linear_size",
        style="notebook_cells",
        source="Stack Overflow, get_dummies and input size of the first linear layer",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
ages, incomes = torch.rand(48), torch.rand(48)
cities = torch.randint(4, (48,))
# %%
numeric = torch.stack([ages, incomes], dim=1)
table = torch.cat([numeric, nn.functional.one_hot(cities, 4).float()], dim=1)
target = (ages + cities).unsqueeze(1)
# %%
n_features = 3  # age, income, city
model = nn.Sequential(nn.Linear(n_features, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters())
# %%
for epoch in range(3):
    for rows in torch.randperm(48).split(16):
        loss = nn.functional.mse_loss(model(table[rows]), target[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
        repair=(("n_features = 3  # age, income, city", "n_features = table.shape[1]"),),
        line=("n_features = 3  # age, income, city", "nn.Linear(n_features, 16)", "nn.functional.one_hot(cities, 4)"),
        says=("6", "3", "n_features|in_features|linear|one_hot"),
    ),
    crash(
        "bidirectional_tagger_head",
        "the head of a tagger has the features of one direction, the LSTM gives those of two",
        kind="linear_size",
        style="hand_written_model",
        source="Stack Overflow, BiLSTM linear layer size mismatch",
        program="""
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, vocab=40, dim=12, hidden=20, tags=5):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.1)
        self.tag = nn.Linear(hidden, tags)

    def forward(self, words):
        states, _ = self.rnn(self.embed(words))
        return self.tag(self.drop(states))


torch.manual_seed(0)
model = Tagger()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    words = torch.randint(40, (4, 9))
    loss = nn.functional.cross_entropy(model(words).transpose(1, 2), words % 5)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("nn.Linear(hidden, tags)", "nn.Linear(2 * hidden, tags)"),),
        line=("self.tag = nn.Linear(hidden, tags)", "bidirectional=True"),
        says=("40", "20", "bidirectional|direction|self.tag|linear"),
    ),
    crash(
        "latent_not_halved",
        "the encoder of a VAE gives mean and log variance together, the sample is made from both",
        kind="linear_size",
        style="lightning_like",
        source="discuss.pytorch.org, VAE decoder size mismatch",
        program="""
import torch
from torch import nn


class VAE(nn.Module):
    def __init__(self, n=20, latent=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(n, 16), nn.ReLU(), nn.Linear(16, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 16), nn.ReLU(), nn.Linear(16, n))

    def sample(self, x):
        code = self.encoder(x)
        return code + torch.randn_like(code), code

    def training_step(self, batch):
        z, code = self.sample(batch)
        mean, logvar = code.chunk(2, dim=1)
        kl = -0.5 * (1 + logvar - mean**2 - logvar.exp()).mean()
        return nn.functional.mse_loss(self.decoder(z), batch) + kl

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


torch.manual_seed(0)
module = VAE()
optimizer = module.configure_optimizers()
for batch in torch.rand(4, 10, 20):
    loss = module.training_step(batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "return code + torch.randn_like(code), code",
                "mean, logvar = code.chunk(2, dim=1)\n"
                "        return mean + torch.randn_like(mean) * (0.5 * logvar).exp(), code",
            ),
        ),
        line=(
            "return code + torch.randn_like(code), code",
            "code = self.encoder(x)",
            "nn.Linear(16, 2 * latent)",
            "nn.Linear(latent, 16)",
        ),
        says=("8", "4", "latent|decoder|linear|code"),
    ),
)
