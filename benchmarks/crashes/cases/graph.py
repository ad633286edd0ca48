"""Crashes: losses without a graph, graphs walked twice, values that are not a number."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "criterion_without_reduction",
        "the criterion comes from a registry that makes it without a reduction",
        kind="graph",
        style="custom_parts",
        source="Stack Overflow, grad can be implicitly created only for scalar outputs",
        program="""
import torch
from torch import nn

LOSSES = {
    "l1": lambda: nn.L1Loss(),
    "l2": lambda: nn.MSELoss(),
    "huber": lambda: nn.HuberLoss(reduction="none"),
}


class Experiment:
    def __init__(self, model, loss_name):
        self.model = model
        self.criterion = LOSSES[loss_name]()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def update(self, x, y):
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(x), y)
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
experiment = Experiment(nn.Linear(3, 1), "huber")
for _ in range(3):
    x = torch.randn(12, 3)
    experiment.update(x, x.sum(1, keepdim=True))
""",
        repair=(('nn.HuberLoss(reduction="none")', "nn.HuberLoss()"),),
        line=('nn.HuberLoss(reduction="none")', "loss = self.criterion(self.model(x), y)", "loss.backward()"),
        says=("reduction|.mean()|.sum()|mean or sum", "loss|12"),
    ),
    crash(
        "fake_not_detached",
        "the discriminator loss walks through the generator, whose graph is needed again",
        kind="graph",
        style="trainer",
        source="discuss.pytorch.org, GAN, Trying to backward through the graph a second time",
        program="""
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce


class Gan:
    def __init__(self):
        self.g = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
        self.d = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
        self.opt_g = torch.optim.Adam(self.g.parameters())
        self.opt_d = torch.optim.Adam(self.d.parameters())

    def discriminate(self, real, fake):
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(fake), 1)
        loss = bce(self.d(real), ones) + bce(self.d(fake), zeros)
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()

    def generate(self, fake):
        loss = bce(self.d(fake), torch.ones(len(fake), 1))
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()

    def step(self, real):
        fake = self.g(torch.randn(len(real), 4))
        self.discriminate(real, fake)
        self.generate(fake)


torch.manual_seed(0)
gan = Gan()
for _ in range(3):
    gan.step(torch.randn(10, 2))
""",
        repair=(("self.discriminate(real, fake)\n", "self.discriminate(real, fake.detach())\n"),),
        line=("self.discriminate(real, fake)", "bce(self.d(fake), zeros)", "def discriminate(self, real, fake):"),
        says=("detach", "fake|discriminat"),
    ),
    crash(
        "metric_of_tensor_with_graph",
        "a metric of numpy gets the scores with their graph",
        kind="graph",
        style="functional",
        source="Stack Overflow, Can't call numpy() on Tensor that requires grad",
        program="""
import numpy as np
import torch
from torch import nn


def r2(predicted, actual):
    predicted, actual = np.asarray(predicted), np.asarray(actual)
    return 1 - ((predicted - actual) ** 2).sum() / ((actual - actual.mean()) ** 2).sum()


def epoch(model, optimizer, batches):
    scores = []
    for x, y in batches:
        out = model(x)
        loss = nn.functional.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scores.append(r2(out, y))
    return np.mean(scores)


torch.manual_seed(0)
model = nn.Linear(3, 1)
x = torch.randn(4, 10, 3)
epoch(model, torch.optim.SGD(model.parameters(), lr=0.1), [(rows, rows.sum(1, keepdim=True)) for rows in x])
""",
        repair=(("scores.append(r2(out, y))", "scores.append(r2(out.detach(), y))"),),
        line=(
            "scores.append(r2(out, y))",
            "predicted, actual = np.asarray(predicted), np.asarray(actual)",
            "out = model(x)",
        ),
        says=("detach|no_grad", "predicted|out"),
    ),
    crash(
        "coordinate_not_in_graph",
        "the residual of an equation is differentiated by a coordinate that the network does not use",
        kind="graph",
        style="notebook_cells",
        source="discuss.pytorch.org, PINN, a differentiated Tensor appears to not have been used in the graph",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 1))
optimizer = torch.optim.Adam(net.parameters())
# %%
points = torch.rand(40, 2, requires_grad=True)
# %%
def residual(points):
    x, t = points[:, :1], points[:, 1:]
    u = net(points)
    u_x, u_t = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
    return u_t + u * u_x
# %%
for _ in range(3):
    loss = residual(points).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("u = net(points)", "u = net(torch.cat([x, t], dim=1))"),),
        line=("u = net(points)", "x, t = points[:, :1], points[:, 1:]", "u_x, u_t = torch.autograd.grad("),
        says=("points", "slice|view|copy|net(points)|cat(|points[:, :1]|computed from|derived"),
    ),
)
