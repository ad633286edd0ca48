"""Crashes: what autograd refuses: changes in place, a graph used twice, losses without a graph."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "critic_steps_before_generator",
        "the discriminator is stepped between the forward and the backward pass of the generator",
        kind="autograd",
        style="script",
        source="discuss.pytorch.org, GAN, one of the variables needed for gradient computation has been modified",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
discriminator = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
criterion = nn.BCEWithLogitsLoss()
opt_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)

for iteration in range(4):
    real = torch.randn(16, 2) + 3
    fake = generator(torch.randn(16, 8))
    scores = discriminator(fake)

    d_loss = criterion(discriminator(real), ones) + criterion(discriminator(fake.detach()), zeros)
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()

    g_loss = criterion(scores, ones)
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
""",
        repair=(
            ("    scores = discriminator(fake)\n", ""),
            ("g_loss = criterion(scores, ones)", "g_loss = criterion(discriminator(fake), ones)"),
        ),
        line=("scores = discriminator(fake)", "g_loss = criterion(scores, ones)", "opt_d.step()", "g_loss.backward()"),
        says=("step", "discriminator|opt_d"),
    ),
    crash(
        "gates_masked_in_place",
        "a helper multiplies the output of a sigmoid in place",
        kind="autograd",
        style="hand_written_model",
        source="Stack Overflow, modified by an inplace operation, output 0 of SigmoidBackward0",
        program="""
import torch
from torch import nn


def drop_rows(values, rate):
    keep = torch.rand(values.size(0), 1) > rate
    values *= keep
    return values


class GatedUnit(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.content = nn.Linear(dim, dim)
        self.gate = nn.Linear(dim, dim)

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        if self.training:
            gate = drop_rows(gate, 0.2)
        return x + gate * torch.tanh(self.content(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.units = nn.ModuleList(GatedUnit(12) for _ in range(2))
        self.out = nn.Linear(12, 1)

    def forward(self, x):
        for unit in self.units:
            x = unit(x)
        return self.out(x)


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    x = torch.randn(30, 12)
    loss = (net(x) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("values *= keep", "values = values * keep"),),
        line=("values *= keep", "gate = drop_rows(gate, 0.2)", "gate = torch.sigmoid(self.gate(x))"),
        says=("*=|mul_|values * keep", "sigmoid|place"),
    ),
    crash(
        "metrics_of_attached_outputs",
        "the metric turns outputs into numpy arrays while they are part of a graph",
        kind="autograd",
        style="notebook_cells",
        source="Stack Overflow, Can't call numpy() on Tensor that requires grad",
        program="""
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
x = torch.linspace(-3, 3, 90).unsqueeze(1)
y = torch.sin(x) + 0.1 * torch.randn_like(x)
# %%
def r2_score(true, predicted):
    true, predicted = true.numpy(), predicted.numpy()
    return 1 - np.square(true - predicted).sum() / np.square(true - true.mean()).sum()
# %%
model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss
# %%
history = []
for epoch in range(3):
    optimizer.step(closure)
    history.append(r2_score(y, model(x)))
""",
        repair=(("predicted.numpy()", "predicted.detach().numpy()"),),
        line=("true, predicted = true.numpy(), predicted.numpy()", "history.append(r2_score(y, model(x)))"),
        says=("predicted|model(x)", "detach|no_grad"),
    ),
)
