"""Crashes: tensors changed in place that backward needs."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "relu_inplace_after_sigmoid",
        "the gates are changed in place after the sigmoid that needs them",
        kind="inplace",
        style="hand_written_model",
        source="discuss.pytorch.org, modified by an inplace operation",
        program="""
import torch
from torch import nn


class GatedUnit(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gate = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        value = self.value(x)
        out = value * gate
        gate += 0.1
        return out + x * gate


torch.manual_seed(0)
model = nn.Sequential(GatedUnit(6), GatedUnit(6), nn.Linear(6, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(4):
    x = torch.randn(16, 6)
    loss = (model(x).squeeze(1) - x.sum(1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("gate += 0.1", "gate = gate + 0.1"),),
        says=("in place|in-place|inplace", "gate"),
    ),
    crash(
        "mask_written_into_softmax",
        "attention weights are set to zero after the softmax",
        kind="inplace",
        style="reshape_by_hand",
        source="Stack Overflow, masked attention in place",
        program="""
import torch
from torch import nn


class MaskedAttention(nn.Module):
    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.heads = heads
        self.qk = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, padding):
        b, n, d = x.shape
        q, k = self.qk(x).reshape(b, n, 2, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2), dim=-1)
        weights[padding[:, None, None, :].expand_as(weights)] = 0.0
        values = x.reshape(b, n, self.heads, -1).transpose(1, 2)
        return self.out((weights @ values).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
model = MaskedAttention()
optimizer = torch.optim.Adam(model.parameters())
padding = torch.zeros(4, 7, dtype=torch.bool)
padding[:, 5:] = True
for _ in range(3):
    x = torch.randn(4, 7, 16)
    loss = (model(x, padding) - x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "weights[padding[:, None, None, :].expand_as(weights)] = 0.0",
                "weights = weights.masked_fill(padding[:, None, None, :], 0.0)",
            ),
        ),
        says=("in place|in-place|inplace", "weights"),
    ),
    crash(
        "running_sum_augmented",
        "an accumulator is squared and then changed by +=",
        kind="inplace",
        style="typed",
        source="discuss.pytorch.org, += is an in-place operation",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class OdeConfig:
    steps: int = 5
    dt: float = 0.1


class NeuralOde(nn.Module):
    def __init__(self, config: OdeConfig) -> None:
        super().__init__()
        self.config = config
        self.field = nn.Linear(2, 2)

    def forward(self, start: Tensor) -> tuple[Tensor, Tensor]:
        position = start.clone()
        energy = torch.zeros(())
        for _ in range(self.config.steps):
            velocity = torch.tanh(self.field(position))
            energy = energy + position.pow(2).mean()
            position += self.config.dt * velocity
        return position, energy


torch.manual_seed(0)
model = NeuralOde(OdeConfig())
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    end, energy = model(torch.randn(20, 2))
    loss = end.norm(dim=1).mean() + 0.01 * energy
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("position += self.config.dt * velocity", "position = position + self.config.dt * velocity"),),
        says=("in place|in-place|inplace", "position"),
    ),
    crash(
        "target_column_zeroed",
        "a column of the logits is overwritten after its softmax was taken",
        kind="inplace",
        style="custom_parts",
        source="Stack Overflow, custom loss modifies its input",
        program="""
import torch
from torch import nn


class MarginLoss(nn.Module):
    def forward(self, scores, labels):
        probabilities = scores.sigmoid()
        rows = torch.arange(len(labels))
        correct = probabilities[rows, labels].clone()
        probabilities[rows, labels] = 0.0
        return (probabilities.max(dim=1).values - correct + 1).clamp(min=0).mean()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4))
criterion = MarginLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    x, labels = torch.randn(18, 6), torch.randint(4, (18,))
    loss = criterion(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("probabilities = scores.sigmoid()", "probabilities = scores.sigmoid().clone()"),),
        line=("probabilities = scores.sigmoid()", "probabilities[rows, labels] = 0.0"),
        says=("in place|in-place|inplace", "probabilities"),
    ),
    crash(
        "retained_graph_over_steps",
        "retain_graph hides that the state carries a graph through weights that a step has changed",
        kind="inplace",
        style="notebook_cells",
        source="discuss.pytorch.org, retain_graph=True and modified by an inplace operation",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
series = torch.sin(torch.arange(400) / 7).reshape(4, 10, 10, 1)
rnn = nn.GRU(1, 14, batch_first=True)
readout = nn.Linear(14, 1)
# %%
optimizer = torch.optim.Adam([*rnn.parameters(), *readout.parameters()], lr=0.01)
hidden = torch.zeros(1, 10, 14)
# %%
for chunk in series:
    states, hidden = rnn(chunk[:, :-1], hidden)
    loss = nn.functional.mse_loss(readout(states), chunk[:, 1:])
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
""",
        repair=(("rnn(chunk[:, :-1], hidden)", "rnn(chunk[:, :-1], hidden.detach())"),),
        line=("rnn(chunk[:, :-1], hidden)", "loss.backward(retain_graph=True)"),
        says=("hidden", "detach"),
    ),
    crash(
        "tanh_then_added_in_place",
        "a residual is added in place to the output that tanh needs",
        kind="inplace",
        style="lightning_like",
        source="discuss.pytorch.org, out += residual",
        program="""
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, dim=10):
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, 2)

    def forward(self, x):
        out = torch.tanh(self.linear(x))
        out += x
        return self.head(out)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


torch.manual_seed(0)
module = Residual()
optimizer = module.configure_optimizers()
for i in range(3):
    loss = module.training_step((torch.randn(8, 10), torch.randint(2, (8,))), i)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("out += x", "out = out + x"),),
        says=(
            "in place|in-place|inplace",
            "+=|`out`|'out'|out = out",
        ),
    ),
)
