"""Crashes: backward through a graph that was freed."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "hidden_state_between_batches",
        "the state of the LSTM carries the graph of the last batch",
        kind="backward_twice",
        style="script",
        source="discuss.pytorch.org, LSTM and backward a second time",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
series = torch.sin(torch.arange(0, 60, 0.1)).reshape(-1, 1, 1)
lstm = nn.LSTM(1, 12)
head = nn.Linear(12, 1)
optimizer = torch.optim.Adam([*lstm.parameters(), *head.parameters()], lr=0.01)

state = (torch.zeros(1, 1, 12), torch.zeros(1, 1, 12))
for start in range(0, 500, 100):
    chunk = series[start : start + 101]
    optimizer.zero_grad()
    output, state = lstm(chunk[:-1], state)
    loss = nn.functional.mse_loss(head(output), chunk[1:])
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "    output, state = lstm(chunk[:-1], state)\n",
                "    output, state = lstm(chunk[:-1], tuple(s.detach() for s in state))\n",
            ),
        ),
        line=("output, state = lstm(chunk[:-1], state)",),
        says=("state", "detach"),
    ),
    crash(
        "losses_summed_over_steps",
        "the running sum of losses is differentiated in every step",
        kind="backward_twice",
        style="functional",
        source="discuss.pytorch.org, total_loss += loss",
        program="""
import torch
from torch import nn


def run(model, batches, lr=0.01):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    total = 0
    for x, y in batches:
        loss = nn.functional.mse_loss(model(x), y)
        total = total + loss
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    return total / len(batches)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
batches = [(torch.randn(10, 4), torch.randn(10, 1)) for _ in range(4)]
print(run(model, batches))
""",
        repair=(("total = total + loss", "total = total + loss.detach()"), ("total.backward()", "loss.backward()")),
        line=("total = total + loss", "total.backward()"),
        says=("total",),
    ),
    crash(
        "features_computed_once",
        "features with a graph are computed once, before the loop",
        kind="backward_twice",
        style="notebook_cells",
        source="Kaggle notebook, precomputed embeddings",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
texts = torch.randint(50, (40, 6))
labels = torch.randint(2, (40,)).float()
embedding = nn.Embedding(50, 8)
scorer = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
# %%
features = torch.tanh(embedding(texts)).mean(dim=1)
# %%
optimizer = torch.optim.Adam(scorer.parameters(), lr=0.01)
for epoch in range(4):
    logits = scorer(features).squeeze(1)
    loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.tanh(embedding(texts)).mean(dim=1)", "torch.tanh(embedding(texts)).mean(dim=1).detach()"),),
        says=("features",),
    ),
    crash(
        "normalized_weights_outside_loop",
        "a weight is normalized once and used in every step",
        kind="backward_twice",
        style="reshape_by_hand",
        source="GitHub issue, weight computed in the constructor",
        program="""
import torch
from torch import nn


class CosineHead(nn.Module):
    def __init__(self, dim, classes):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, dim))
        self.directions = self.weight / self.weight.norm(dim=1, keepdim=True)

    def forward(self, x):
        b, h, d = x.shape
        flat = nn.functional.normalize(x.reshape(b * h, d), dim=1)
        return (flat @ self.directions.T).reshape(b, h, -1)


torch.manual_seed(0)
head = CosineHead(8, 5)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for _ in range(3):
    x, y = torch.randn(4, 6, 8), torch.randint(5, (4, 6))
    loss = nn.functional.cross_entropy(head(x).reshape(24, 5), y.reshape(24))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            ("        self.directions = self.weight / self.weight.norm(dim=1, keepdim=True)\n", ""),
            (
                "        b, h, d = x.shape\n",
                "        b, h, d = x.shape\n        directions = self.weight / self.weight.norm(dim=1, keepdim=True)\n",
            ),
            ("flat @ self.directions.T", "flat @ directions.T"),
        ),
        line=("self.directions = self.weight",),
        says=("directions",),
    ),
    crash(
        "ppo_old_log_probs",
        "the log-probabilities of the old policy keep their graph over several updates",
        kind="backward_twice",
        style="typed",
        source="GitHub issue, PPO and backward through the graph a second time",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributions import Categorical


@dataclass
class PPOConfig:
    updates: int = 3
    clip: float = 0.2


def collect(policy: nn.Module, n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    states = torch.randn(n, 4)
    choice = Categorical(logits=policy(states))
    actions = choice.sample()
    return states, actions, choice.log_prob(actions), torch.randn(n)


torch.manual_seed(0)
config = PPOConfig()
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
states, actions, old_log_probs, advantages = collect(policy, 32)
for _ in range(config.updates):
    log_probs = Categorical(logits=policy(states)).log_prob(actions)
    ratio = (log_probs - old_log_probs).exp()
    clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
    loss = -torch.min(ratio * advantages, clipped * advantages).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("choice.log_prob(actions), torch.randn(n)", "choice.log_prob(actions).detach(), torch.randn(n)"),),
        line=(
            "choice.log_prob(actions), torch.randn(n)",
            "ratio = (log_probs - old_log_probs).exp()",
            "= collect(policy, 32)",
        ),
        says=("old_log_probs|log_prob", "detach"),
    ),
    crash(
        "regularizer_computed_once",
        "a penalty of the weights is computed once, before the loop",
        kind="backward_twice",
        style="custom_parts",
        source="Stack Overflow, L2 penalty and retain_graph",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Penalty(nn.Module):
    def __init__(self, model, strength):
        super().__init__()
        self.model, self.strength = [model], strength

    def forward(self):
        return self.strength * sum((p**2).sum() for p in self.model[0].parameters())


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
penalty = Penalty(model, 1e-3)
loader = DataLoader(TensorDataset(torch.randn(40, 6), torch.randn(40, 1)), batch_size=10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
extra = penalty()
for x, y in loader:
    loss = nn.functional.mse_loss(model(x), y) + extra
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "    loss = nn.functional.mse_loss(model(x), y) + extra",
                "    loss = nn.functional.mse_loss(model(x), y) + penalty()",
            ),
        ),
        line=("extra = penalty()", "nn.functional.mse_loss(model(x), y) + extra"),
        says=("extra",),
    ),
)
