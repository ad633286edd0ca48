"""Crashes: optimizers without parameters."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "model_given_to_optimizer",
        "the optimizer is given the weight of the model",
        kind="empty_optimizer",
        style="functional",
        source="Stack Overflow, params argument given to the optimizer should be an iterable of Tensors or dicts",
        program="""
import torch
from torch import nn


def fit(model, x, y, steps=3):
    optimizer = torch.optim.SGD(model.weight, lr=0.1)
    for _ in range(steps):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
fit(nn.Linear(3, 1), torch.randn(20, 3), torch.randn(20, 1))
""",
        repair=(("model.weight, lr=0.1", "[model.weight], lr=0.1"),),
        says=(
            "weight",
            "list|parameters()|iterable",
        ),
    ),
    crash(
        "nothing_left_to_train",
        "only parameters that need gradients go into the optimizer, and there are none",
        kind="empty_optimizer",
        style="lightning_like",
        source="GitHub issue, freeze and filter(requires_grad)",
        program="""
import torch
from torch import nn


class Transfer(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.head = nn.Linear(16, 4)
        self.requires_grad_(False)

    def forward(self, x):
        return self.head(self.backbone(x))

    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)

    def configure_optimizers(self):
        trained = [p for p in self.parameters() if p.requires_grad]
        return torch.optim.Adam(trained, lr=1e-3)


torch.manual_seed(0)
module = Transfer()
optimizer = module.configure_optimizers()
for i in range(3):
    loss = module.training_step((torch.randn(6, 8), torch.randint(4, (6,))), i)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("        self.requires_grad_(False)", "        self.backbone.requires_grad_(False)"),),
        line=("        self.requires_grad_(False)", "trained = [p for p", "torch.optim.Adam(trained"),
        says=("requires_grad|frozen",),
    ),
)
