"""Crashes: sizes of linear layers, flattening and reshapes that do not fit the data."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "view_minus_one_takes_the_batch",
        "the features are viewed with -1 for the batch and a number of features that is too small",
        kind="flattened_size",
        style="hand_written_model",
        source="discuss.pytorch.org, Expected input batch_size to match target batch_size",
        program="""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CifarNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.pool = nn.MaxPool2d(2, 2)
        self.fc1 = nn.Linear(32 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = x.view(-1, 32 * 4 * 4)
        x = F.relu(self.fc1(x))
        return self.fc2(x)


torch.manual_seed(0)
model = CifarNet()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(3):
    inputs, labels = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
    optimizer.zero_grad()
    outputs = model(inputs)
    loss = criterion(outputs, labels)
    loss.backward()
    optimizer.step()
""",
        repair=(
            ("self.fc1 = nn.Linear(32 * 4 * 4, 64)", "self.fc1 = nn.Linear(32 * 8 * 8, 64)"),
            ("x = x.view(-1, 32 * 4 * 4)", "x = x.view(x.size(0), -1)"),
        ),
        line=("x = x.view(-1, 32 * 4 * 4)", "self.fc1 = nn.Linear(32 * 4 * 4, 64)"),
        says=("view", "2048|8 * 8|32, 8, 8|(16, -1)|x.size(0)|x.shape[0]|flatten"),
    ),
    crash(
        "vae_decoder_reshape",
        "the decoder reshapes the projection of the code to more channels than were projected",
        kind="flattened_size",
        style="functional",
        source="Stack Overflow, shape is invalid for input of size in a VAE",
        program="""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
LATENT = 12
encoder = nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 200), nn.ReLU(), nn.Linear(200, 2 * LATENT))
project = nn.Linear(LATENT, 32 * 7 * 7)
up = nn.Sequential(
    nn.ConvTranspose2d(64, 16, 4, stride=2, padding=1),
    nn.ReLU(),
    nn.ConvTranspose2d(16, 1, 4, stride=2, padding=1),
)


def encode(x):
    mu, logvar = encoder(x).chunk(2, dim=1)
    return mu + torch.randn_like(mu) * (0.5 * logvar).exp(), mu, logvar


def decode(z):
    h = F.relu(project(z))
    h = h.view(z.size(0), 64, 7, 7)
    return torch.sigmoid(up(h))


def elbo(x):
    z, mu, logvar = encode(x)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum()
    return F.binary_cross_entropy(decode(z), x, reduction="sum") + kl


parameters = [*encoder.parameters(), *project.parameters(), *up.parameters()]
optimizer = torch.optim.Adam(parameters, lr=1e-3)
for _ in range(4):
    loss = elbo(torch.rand(20, 1, 28, 28))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("project = nn.Linear(LATENT, 32 * 7 * 7)", "project = nn.Linear(LATENT, 64 * 7 * 7)"),),
        line=("project = nn.Linear(LATENT, 32 * 7 * 7)", "h = h.view(z.size(0), 64, 7, 7)"),
        says=("3136", "1568", "project|view"),
    ),
)
