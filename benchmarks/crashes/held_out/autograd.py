"""Crashes: what autograd refuses: changes in place, a graph used twice, losses without a graph."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "state_carried_between_chunks",
        "the state of a recurrent network is carried into the next chunk with its graph",
        kind="autograd",
        style="custom_parts",
        source="discuss.pytorch.org, Trying to backward through the graph a second time, truncated BPTT",
        program="""
import torch
from torch import nn


class CharModel(nn.Module):
    def __init__(self, letters=30):
        super().__init__()
        self.embed = nn.Embedding(letters, 12)
        self.rnn = nn.GRU(12, 24)
        self.out = nn.Linear(24, letters)
        self.state = None

    def reset(self):
        self.state = None

    def forward(self, codes):
        output, self.state = self.rnn(self.embed(codes), self.state)
        return self.out(output)


class ChunkTrainer:
    def __init__(self, model, length):
        self.model, self.length = model, length
        self.optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)

    def fit(self, text):
        self.model.reset()
        for start in range(0, len(text) - self.length, self.length):
            chunk = text[start : start + self.length + 1]
            logits = self.model(chunk[:-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), chunk[1:].flatten())
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()


torch.manual_seed(0)
ChunkTrainer(CharModel(), length=10).fit(torch.randint(0, 30, (61, 4)))
""",
        repair=(
            (
                "        return self.out(output)\n",
                "        self.state = self.state.detach()\n        return self.out(output)\n",
            ),
        ),
        line=(
            "output, self.state = self.rnn(self.embed(codes), self.state)",
            "return self.out(output)",
            "self.model.reset()",
        ),
        says=("state", "detach"),
    ),
    crash(
        "losses_rebuilt_as_tensor",
        "a helper collects the losses of the tasks in a new tensor, which has no graph",
        kind="autograd",
        style="typed",
        source="Stack Overflow, element 0 of tensors does not require grad and does not have a grad_fn",
        program="""
from __future__ import annotations

import torch
from torch import Tensor, nn


class MultiTask(nn.Module):
    def __init__(self, inputs: int, tasks: dict[str, int]) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(inputs, 20), nn.ReLU())
        self.heads = nn.ModuleDict({name: nn.Linear(20, classes) for name, classes in tasks.items()})

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        hidden = self.trunk(x)
        return {name: head(hidden) for name, head in self.heads.items()}


def weighted_sum(losses: list[Tensor], weights: Tensor) -> Tensor:
    return (torch.tensor(losses) * weights).sum()


def train_step(model: MultiTask, optimizer: torch.optim.Optimizer, x: Tensor, y: dict[str, Tensor]) -> float:
    logits = model(x)
    losses = [nn.functional.cross_entropy(logits[name], y[name]) for name in y]
    total = weighted_sum(losses, torch.tensor([1.0, 0.5]))
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
    return total.item()


torch.manual_seed(0)
tasks = {"colour": 3, "shape": 4}
model = MultiTask(6, tasks)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    labels = {name: torch.randint(classes, (10,)) for name, classes in tasks.items()}
    train_step(model, optimizer, torch.randn(10, 6), labels)
""",
        repair=(("torch.tensor(losses)", "torch.stack(losses)"),),
        says=("torch.tensor", "stack|copies|copy|cuts|graph|detach"),
    ),
)
