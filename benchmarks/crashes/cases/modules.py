"""Crashes: modules, their attributes, containers, buffers and norms."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "branches_called_as_module",
        "a ModuleList of branches is called like a layer",
        kind="modules",
        style="hand_written_model",
        source="Stack Overflow, Module [ModuleList] is missing the required forward function",
        program="""
import torch
from torch import nn


class ResidualMLP(nn.Module):
    def __init__(self, dim=8, depth=3):
        super().__init__()
        self.first = nn.Linear(2, dim)
        self.hidden = nn.ModuleList()
        for _ in range(depth):
            self.hidden.append(nn.Linear(dim, dim))
            self.hidden.append(nn.GELU())
        self.last = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.first(x)
        x = x + self.hidden(x)
        return self.last(x)


torch.manual_seed(0)
model = ResidualMLP()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    x = torch.rand(16, 2)
    loss = nn.functional.mse_loss(model(x), x.prod(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("self.hidden = nn.ModuleList()", "self.hidden = nn.Sequential()"),),
        line=("self.hidden = nn.ModuleList()", "x = x + self.hidden(x)"),
        says=("hidden", "sequential|loop|for "),
    ),
    crash(
        "tied_weight_is_tensor",
        "a decoder is tied to the transposed weight of the encoder, which is a tensor",
        kind="modules",
        style="typed",
        source="discuss.pytorch.org, cannot assign as parameter 'weight' (torch.nn.Parameter or None expected)",
        program="""
import torch
from torch import Tensor, nn


class TiedAutoencoder(nn.Module):
    def __init__(self, features: int, code: int) -> None:
        super().__init__()
        self.encoder = nn.Linear(features, code)
        self.decoder = nn.Linear(code, features)
        self.decoder.weight = self.encoder.weight.t()

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x).relu())


def fit(model: nn.Module, x: Tensor, epochs: int) -> None:
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(epochs):
        loss = nn.functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
fit(TiedAutoencoder(12, 4), torch.rand(30, 12), epochs=3)
""",
        repair=(
            ("        self.decoder.weight = self.encoder.weight.t()\n", "        self.bias = self.decoder.bias\n"),
            (
                "self.decoder(self.encoder(x).relu())",
                "nn.functional.linear(self.encoder(x).relu(), self.encoder.weight.t(), self.bias)",
            ),
        ),
        line=("self.decoder.weight = self.encoder.weight.t()",),
        says=("decoder", "nn.parameter(|functional.linear|f.linear|in forward|.data|copy_"),
    ),
    crash(
        "last_batch_of_one",
        "the last batch has one sample, and BatchNorm1d cannot normalize it",
        kind="modules",
        style="trainer",
        source="Stack Overflow, Expected more than 1 value per channel when training",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Data:
    def __init__(self, n=61, batch_size=16):
        x = torch.randn(n, 5)
        everything = TensorDataset(x, (x.sum(1) > 0).long())
        self.train, self.valid = random_split(everything, [49, 12])
        self.batch_size = batch_size

    def loader(self):
        return DataLoader(self.train, self.batch_size, shuffle=True)


class Trainer:
    def __init__(self, data):
        self.data = data
        self.model = nn.Sequential(nn.Linear(5, 10), nn.BatchNorm1d(10), nn.ReLU(), nn.Linear(10, 2))
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def fit(self, epochs):
        for _ in range(epochs):
            for x, y in self.data.loader():
                loss = nn.functional.cross_entropy(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()


torch.manual_seed(0)
Trainer(Data()).fit(2)
""",
        repair=(("shuffle=True)", "shuffle=True, drop_last=True)"),),
        line=(
            "return DataLoader(self.train, self.batch_size, shuffle=True)",
            "random_split(everything, [49, 12])",
            "batch_size=16",
            "nn.BatchNorm1d(10)",
        ),
        says=("drop_last|last batch|batch size|batch_size", "batchnorm|batch norm"),
    ),
    crash(
        "super_after_layers",
        "the layers are set before the module is initialized",
        kind="modules",
        style="lightning_like",
        source="Stack Overflow, cannot assign module before Module.__init__() call",
        program="""
import torch
from torch import nn


class BaseModule(nn.Module):
    def __init__(self, lr):
        super().__init__()
        self.lr = lr

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)


class Regression(BaseModule):
    def __init__(self, n_features, lr=0.05):
        self.net = nn.Sequential(nn.Linear(n_features, 8), nn.ReLU(), nn.Linear(8, 1))
        super().__init__(lr)

    def training_step(self, x):
        return nn.functional.mse_loss(self.net(x), x.mean(dim=1, keepdim=True))


torch.manual_seed(0)
module = Regression(5)
optimizer = module.configure_optimizers()
for _ in range(3):
    optimizer.zero_grad()
    module.training_step(torch.randn(10, 5)).backward()
    optimizer.step()
""",
        repair=(
            (
                "        self.net = nn.Sequential(nn.Linear(n_features, 8), nn.ReLU(), nn.Linear(8, 1))\n"
                "        super().__init__(lr)\n",
                "        super().__init__(lr)\n"
                "        self.net = nn.Sequential(nn.Linear(n_features, 8), nn.ReLU(), nn.Linear(8, 1))\n",
            ),
        ),
        line=("self.net = nn.Sequential(", "super().__init__(lr)"),
        says=("super().__init__", "net"),
    ),
)
