"""Crashes: optimizers, their parameters, schedulers and scalers."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "experts_in_plain_dict",
        "the experts stand in a plain dict, and the model has no parameters",
        kind="optimizers",
        style="lightning_like",
        source="Stack Overflow, ValueError: optimizer got an empty parameter list",
        program="""
import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self, domains, n_in=3):
        super().__init__()
        self.experts = {domain: nn.Linear(n_in, 1) for domain in domains}

    def forward(self, domain, x):
        return self.experts[domain](x)


class Module(nn.Module):
    def __init__(self, domains):
        super().__init__()
        self.model = Experts(domains)

    def training_step(self, batch):
        domain, x = batch
        return nn.functional.l1_loss(self.model(domain, x), x.amax(1, keepdim=True))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


torch.manual_seed(0)
module = Module(["news", "mail"])
optimizer = module.configure_optimizers()
for domain in ("news", "mail", "news"):
    optimizer.zero_grad()
    module.training_step((domain, torch.randn(8, 3))).backward()
    optimizer.step()
""",
        repair=(
            (
                "self.experts = {domain: nn.Linear(n_in, 1) for domain in domains}",
                "self.experts = nn.ModuleDict({domain: nn.Linear(n_in, 1) for domain in domains})",
            ),
        ),
        line=("self.experts = {domain: nn.Linear(n_in, 1) for domain in domains}",),
        says=("experts", "moduledict"),
    ),
    crash(
        "scheduler_gets_model",
        "the scheduler is given the model",
        kind="optimizers",
        style="typed",
        source="Stack Overflow, TypeError: Sequential is not an Optimizer",
        program="""
import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler


def make_scheduler(target, warmup: int, total: int):
    rise = lr_scheduler.LinearLR(target, start_factor=0.1, total_iters=warmup)
    fall = lr_scheduler.CosineAnnealingLR(target, T_max=total - warmup)
    return lr_scheduler.SequentialLR(target, [rise, fall], milestones=[warmup])


def train(model: nn.Module, x: Tensor, y: Tensor, epochs: int = 6) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = make_scheduler(model, warmup=2, total=epochs)
    for _ in range(epochs):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()


torch.manual_seed(0)
x = torch.randn(20, 2)
train(nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)), x, x.sum(1, keepdim=True))
""",
        repair=(
            ("make_scheduler(model, warmup=2, total=epochs)", "make_scheduler(optimizer, warmup=2, total=epochs)"),
        ),
        says=("model", "optimizer"),
    ),
    crash(
        "rates_of_two_groups",
        "two groups of parameters, one function of the rate in a list",
        kind="optimizers",
        style="custom_parts",
        source="discuss.pytorch.org, Expected 2 lr_lambdas, but got 1",
        program="""
import torch
from torch import nn


class Recipe:
    def __init__(self, warmup):
        self.warmup = warmup

    def split(self, model):
        decayed = [p for p in model.parameters() if p.ndim > 1]
        others = [p for p in model.parameters() if p.ndim <= 1]
        return [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]

    def rate(self, step):
        return min(1.0, (step + 1) / self.warmup)

    def build(self, model):
        optimizer = torch.optim.AdamW(self.split(model), lr=1e-3)
        return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, [self.rate])


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2))
optimizer, scheduler = Recipe(warmup=3).build(model)
for _ in range(5):
    loss = nn.functional.cross_entropy(model(torch.randn(6, 4)), torch.randint(2, (6,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
""",
        repair=(("LambdaLR(optimizer, [self.rate])", "LambdaLR(optimizer, self.rate)"),),
        line=("LambdaLR(optimizer, [self.rate])", 'return [{"params": decayed,'),
        says=("group", "2|two", "self.rate|one function|single function|list|each"),
    ),
)
