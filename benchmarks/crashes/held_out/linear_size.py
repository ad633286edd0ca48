"""Crashes: a linear layer, or a product of matrices, that meets another number of features."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "matmul_weights_transposed",
        "a weight matrix made by hand in the layout of nn.Linear, multiplied from the right",
        kind="linear_size",
        style="functional",
        source="Stack Overflow, weights of a network from scratch",
        program="""
import torch

torch.manual_seed(0)
x = torch.randn(50, 8)
y = (x[:, 0] > 0).float()


def init(n_in, n_out):
    weight = torch.randn(n_out, n_in) * 0.1
    return weight.requires_grad_(), torch.zeros(n_out, requires_grad=True)


def linear(x, weight, bias):
    return x @ weight + bias


w1, b1 = init(8, 20)
w2, b2 = init(20, 1)
parameters = [w1, b1, w2, b2]


def net(x):
    hidden = torch.relu(linear(x, w1, b1))
    return linear(hidden, w2, b2).squeeze(1)


for step in range(5):
    loss = torch.nn.functional.binary_cross_entropy_with_logits(net(x), y)
    grads = torch.autograd.grad(loss, parameters)
    with torch.no_grad():
        for p, g in zip(parameters, grads):
            p -= 0.5 * g
""",
        repair=(("x @ weight + bias", "x @ weight.T + bias"),),
        line=("x @ weight + bias", "torch.randn(n_out, n_in)"),
        says=("8", "20", "transpose|.t|swap"),
    ),
    crash(
        "bidirectional_head",
        "the head of a bidirectional LSTM takes one direction only",
        kind="linear_size",
        style="lightning_like",
        source="discuss.pytorch.org, bidirectional LSTM",
        program="""
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, vocab=200, dim=24, hidden=32, tags=7):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.lstm = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(hidden, tags)

    def forward(self, tokens):
        states, _ = self.lstm(self.embed(tokens))
        return self.head(states)

    def training_step(self, batch, batch_idx):
        tokens, tags = batch
        logits = self(tokens)
        return nn.functional.cross_entropy(logits.transpose(1, 2), tags)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def fit(module, data):
    optimizer = module.configure_optimizers()
    for i, batch in enumerate(data):
        optimizer.zero_grad()
        loss = module.training_step(batch, i)
        loss.backward()
        optimizer.step()


torch.manual_seed(3)
data = [(torch.randint(200, (6, 11)), torch.randint(7, (6, 11))) for _ in range(4)]
fit(Tagger(), data)
""",
        repair=(("nn.Linear(hidden, tags)", "nn.Linear(2 * hidden, tags)"),),
        says=("64", "32", "head"),
    ),
    crash(
        "adaptive_pool_removed",
        "the pooling before the head was removed and the maps have grown",
        kind="linear_size",
        style="custom_parts",
        source="GitHub issue, 224 pixels instead of 32",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __init__(self, n, size):
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        image = torch.zeros(1, self.size, self.size)
        side = 2 + index % 6
        image[:, :side, :side] = 1
        return image, float(side)


class Head(nn.Module):
    def __init__(self, channels, side):
        super().__init__()
        self.regress = nn.Linear(channels * side * side, 1)

    def forward(self, maps):
        return self.regress(maps.reshape(maps.shape[0], -1)).squeeze(1)


torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ReLU(), Head(4, side=8))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for images, sides in DataLoader(Squares(32, size=20), batch_size=8):
    loss = nn.functional.mse_loss(model(images), sides.float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("Head(4, side=8)", "Head(4, side=10)"),),
        line=("Head(4, side=8)", "self.regress = nn.Linear(", "Squares(32, size=20)"),
        says=("400", "256", "2.regress|regress"),
    ),
    crash(
        "flatten_takes_batch",
        "Flatten(0) puts the samples of a batch into one vector",
        kind="linear_size",
        style="custom_parts",
        source="Stack Overflow, nn.Flatten start_dim size mismatch got input mat vec",
        program="""
import torch
from torch import nn


def block(n_in, n_out):
    return nn.Sequential(nn.Conv2d(n_in, n_out, 3, stride=2, padding=1), nn.BatchNorm2d(n_out), nn.ReLU())


def make_model(n_classes=6):
    features = nn.Sequential(block(3, 8), block(8, 12))
    head = nn.Sequential(nn.Flatten(0), nn.Linear(12 * 4 * 4, n_classes))
    return nn.Sequential(features, head)


torch.manual_seed(0)
model = make_model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(3):
    images, labels = torch.rand(5, 3, 16, 16), torch.randint(6, (5,))
    loss = nn.CrossEntropyLoss()(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("nn.Flatten(0)", "nn.Flatten()"),),
        says=("flatten", "batch|start_dim", "960"),
    ),
)
