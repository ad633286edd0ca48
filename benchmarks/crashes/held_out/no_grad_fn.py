"""Crashes: backward from a loss without a graph."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "forward_under_no_grad",
        "the model runs under no_grad in training",
        kind="no_grad_fn",
        style="trainer",
        source="discuss.pytorch.org, with torch.no_grad() around the forward pass",
        program="""
import torch
from torch import nn


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    @torch.no_grad()
    def predict(self, x):
        return self.model(x)

    def train(self, x, y, steps):
        for _ in range(steps):
            scores = self.predict(x)
            loss = nn.functional.cross_entropy(scores, y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


torch.manual_seed(0)
Trainer(nn.Linear(7, 3)).train(torch.randn(20, 7), torch.randint(3, (20,)), steps=3)
""",
        repair=(("scores = self.predict(x)", "scores = self.model(x)"),),
        line=("scores = self.predict(x)", "@torch.no_grad()", "return self.model(x)"),
        says=("no_grad",),
    ),
    crash(
        "hidden_detached_output",
        "the output of the encoder is detached and nothing after it learns",
        kind="no_grad_fn",
        style="hand_written_model",
        source="discuss.pytorch.org, detach in forward",
        program="""
import torch
from torch import nn


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.GRU(3, 12, batch_first=True)

    def encode(self, sequence):
        _, last = self.encoder(sequence)
        return last[-1].detach()

    def forward(self, left, right):
        return torch.cosine_similarity(self.encode(left), self.encode(right))


torch.manual_seed(0)
model = Matcher()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    left, right = torch.randn(8, 10, 3), torch.randn(8, 10, 3)
    same = torch.randint(2, (8,)).float()
    loss = nn.functional.mse_loss(model(left, right), same)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("return last[-1].detach()", "return last[-1]"),),
        says=("detach",),
    ),
    crash(
        "numpy_inside_loss",
        "the loss is computed with NumPy",
        kind="no_grad_fn",
        style="custom_parts",
        source="Stack Overflow, custom loss with numpy",
        program="""
import numpy as np
import torch
from torch import nn


class QuantileLoss(nn.Module):
    def __init__(self, quantile):
        super().__init__()
        self.quantile = quantile

    def forward(self, prediction, target):
        error = target.numpy() - prediction.detach().numpy()
        values = np.maximum(self.quantile * error, (self.quantile - 1) * error)
        return torch.from_numpy(values).mean()


torch.manual_seed(0)
model = nn.Linear(3, 1)
criterion = QuantileLoss(0.9)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    x = torch.randn(20, 3)
    loss = criterion(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            ("error = target.numpy() - prediction.detach().numpy()", "error = target - prediction"),
            ("np.maximum(", "torch.maximum("),
            ("return torch.from_numpy(values).mean()", "return values.mean()"),
        ),
        line=(
            "error = target.numpy() - prediction.detach().numpy()",
            "np.maximum(",
            "return torch.from_numpy(values).mean()",
        ),
        says=("numpy|detach",),
    ),
    crash(
        "grad_mode_left_off",
        "the validation switches gradients off and never on again",
        kind="no_grad_fn",
        style="typed",
        source="discuss.pytorch.org, torch.set_grad_enabled(False)",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class RunConfig:
    epochs: int = 3
    lr: float = 0.05


def validate(model: nn.Module, x: Tensor, y: Tensor) -> float:
    model.eval()
    torch.set_grad_enabled(False)
    return nn.functional.mse_loss(model(x), y).item()


def train(model: nn.Module, x: Tensor, y: Tensor, config: RunConfig) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=config.lr)
    for _ in range(config.epochs):
        model.train()
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(validate(model, x, y))


torch.manual_seed(0)
train(nn.Linear(4, 2), torch.randn(30, 4), torch.randn(30, 2), RunConfig())
""",
        repair=(
            (
                "    torch.set_grad_enabled(False)\n    return nn.functional.mse_loss(model(x), y).item()",
                "    with torch.no_grad():\n        return nn.functional.mse_loss(model(x), y).item()",
            ),
        ),
        line=("torch.set_grad_enabled(False)",),
        says=("set_grad_enabled|gradients are off|no_grad|grad mode|switched off",),
    ),
    crash(
        "sampled_action_loss",
        "the loss is made of sampled actions, which have no gradient",
        kind="no_grad_fn",
        style="lightning_like",
        source="discuss.pytorch.org, policy gradient without log_prob",
        program="""
import torch
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 4))

    def forward(self, states):
        return Categorical(logits=self.net(states))

    def training_step(self, states, rewards):
        policy = self(states)
        actions = policy.sample()
        gained = rewards.gather(1, actions.unsqueeze(1)).squeeze(1)
        return -(actions * gained).mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


torch.manual_seed(0)
module = Policy()
optimizer = module.configure_optimizers()
for _ in range(3):
    loss = module.training_step(torch.randn(10, 3), torch.randn(10, 4))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("-(actions * gained).mean()", "-(policy.log_prob(actions) * gained).mean()"),),
        line=("-(actions * gained).mean()", "actions = policy.sample()"),
        says=("sample|actions",),
    ),
)
