"""Crashes: optimizers, their parameters, schedulers and scalers."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "latent_code_scaled_after_leaf",
        "the image to be optimized is scaled after it was told to require gradients",
        kind="optimizers",
        style="script",
        source="Stack Overflow, ValueError: can't optimize a non-leaf Tensor",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3)).requires_grad_(False)
style = torch.rand(1, 3, 12, 12)


def gram(features):
    flat = features.flatten(2)
    return flat @ flat.transpose(1, 2) / flat.size(2)


goal = gram(net(style))
image = torch.randn(1, 3, 12, 12, requires_grad=True) * 0.1
optimizer = torch.optim.Adam([image], lr=0.05)
for _ in range(4):
    loss = nn.functional.mse_loss(gram(net(image)), goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "torch.randn(1, 3, 12, 12, requires_grad=True) * 0.1",
                "(torch.randn(1, 3, 12, 12) * 0.1).requires_grad_()",
            ),
        ),
        line=("image = torch.randn(1, 3, 12, 12, requires_grad=True) * 0.1",),
        says=("image", "requires_grad_|detach|nn.parameter|after the multiplication|* 0.1"),
    ),
    crash(
        "head_in_two_groups",
        "the head gets a rate of its own and is also among all parameters",
        kind="optimizers",
        style="functional",
        source="discuss.pytorch.org, some parameters appear in more than one parameter group",
        program="""
import torch
from torch import nn


def make_optimizer(model, lr):
    groups = [
        {"params": model.parameters(), "lr": lr / 10},
        {"params": model[-1].parameters(), "lr": lr},
    ]
    return torch.optim.SGD(groups, lr=lr)


def finetune(model, batches, lr=0.1):
    optimizer = make_optimizer(model, lr)
    for x, y in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
finetune(model, [(torch.randn(5, 6), torch.randint(3, (5,))) for _ in range(3)])
""",
        repair=(('"params": model.parameters()', '"params": model[:-1].parameters()'),),
        line=('{"params": model.parameters(), "lr": lr / 10},', '{"params": model[-1].parameters(), "lr": lr},'),
        says=("model[-1]|last layer|head|2.weight|model[:-1]|exclude|twice|already in",),
    ),
    crash(
        "lbfgs_like_adam",
        "LBFGS is exchanged for Adam, and its step is called without a closure",
        kind="optimizers",
        style="trainer",
        source="Stack Overflow, step() missing 1 required positional argument: 'closure'",
        program="""
import torch
from torch import nn


class Fit:
    optimizers = {"adam": torch.optim.Adam, "lbfgs": torch.optim.LBFGS}

    def __init__(self, model, name, lr):
        self.model = model
        self.optimizer = self.optimizers[name](model.parameters(), lr=lr)

    def run(self, x, y, steps):
        for _ in range(steps):
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(x), y)
            loss.backward()
            self.optimizer.step()


torch.manual_seed(0)
x = torch.linspace(-1, 1, 30).unsqueeze(1)
model = nn.Sequential(nn.Linear(1, 10), nn.Tanh(), nn.Linear(10, 1))
Fit(model, "lbfgs", lr=0.1).run(x, x.sin(), steps=3)
""",
        repair=(
            (
                "            self.optimizer.zero_grad()\n"
                "            loss = nn.functional.mse_loss(self.model(x), y)\n"
                "            loss.backward()\n"
                "            self.optimizer.step()\n",
                "            def closure():\n"
                "                self.optimizer.zero_grad()\n"
                "                loss = nn.functional.mse_loss(self.model(x), y)\n"
                "                loss.backward()\n"
                "                return loss\n\n"
                "            self.optimizer.step(closure)\n",
            ),
        ),
        line=("self.optimizer.step()", "self.optimizer.zero_grad()", 'Fit(model, "lbfgs", lr=0.1)'),
        says=("lbfgs", "closure", "def closure|return|zero_grad|reevaluat|again"),
    ),
)
