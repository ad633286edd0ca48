"""Crashes: views, stacks, concatenations, products and expansions of tensors."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "heads_merged_by_view",
        "the heads are merged by view after a transpose",
        kind="arrangement",
        style="reshape_by_hand",
        source="Stack Overflow, view size is not compatible with input tensor's size and stride",
        program="""
import torch
from torch import nn
from torch.nn import functional as F


def split_heads(x, heads):
    b, t, d = x.shape
    return x.view(b, t, heads, d // heads).permute(0, 2, 1, 3)


def merge_heads(x):
    b, h, t, d = x.shape
    return x.permute(0, 2, 1, 3).view(b, t, h * d)


torch.manual_seed(0)
qkv, out = nn.Linear(12, 36), nn.Linear(12, 12)
optimizer = torch.optim.Adam([*qkv.parameters(), *out.parameters()])
for _ in range(3):
    x = torch.randn(4, 7, 12)
    q, k, v = (split_heads(part, 3) for part in qkv(x).chunk(3, dim=-1))
    mixed = (q @ k.transpose(2, 3)).softmax(-1) @ v
    loss = F.mse_loss(out(merge_heads(mixed)), x.cumsum(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=((".view(b, t, h * d)", ".reshape(b, t, h * d)"),),
        says=("reshape|contiguous()", "permute|transpose"),
    ),
    crash(
        "einsum_misses_heads",
        "the letters of an einsum do not name the axis of heads",
        kind="arrangement",
        style="typed",
        source="GitHub issue, einsum(): the number of subscripts does not match the number of dimensions",
        program="""
import torch
from torch import Tensor, nn


class Linformer(nn.Module):
    def __init__(self, dim: int, heads: int, length: int, rank: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.shorten = nn.Parameter(torch.randn(rank, length) / length)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = map(self.split, self.qkv(x).chunk(3, dim=-1))
        k, v = (torch.einsum("btd,rt->brd", part, self.shorten) for part in (k, v))
        scores = torch.einsum("bhtd,bhrd->bhtr", q, k).softmax(-1)
        return torch.einsum("bhtr,bhrd->bhtd", scores, v).transpose(1, 2).flatten(2)


torch.manual_seed(0)
model = nn.Sequential(Linformer(8, heads=2, length=10, rank=4), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    x = torch.randn(3, 10, 8)
    loss = nn.functional.mse_loss(model(x).mean(dim=1), x.sum(dim=(1, 2)).unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(('"btd,rt->brd"', '"bhtd,rt->bhrd"'),),
        says=("btd|bhtd", "4", "head|axis|axes|letter|part|transpose"),
    ),
    crash(
        "losses_of_heads_concatenated",
        "the losses of several tasks are numbers and are concatenated",
        kind="arrangement",
        style="lightning_like",
        source="Stack Overflow, zero-dimensional tensor (at position 0) cannot be concatenated",
        program="""
import torch
from torch import nn


class MultiTask(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 16), nn.ReLU())
        self.heads = nn.ModuleDict({task: nn.Linear(16, classes) for task, classes in tasks.items()})
        self.weights = nn.Parameter(torch.zeros(len(tasks)))

    def losses(self, x, labels):
        x = self.body(x)
        return [nn.functional.cross_entropy(head(x), labels[task]) for task, head in self.heads.items()]

    def training_step(self, batch):
        losses = torch.cat(self.losses(*batch))
        return (losses * torch.exp(-self.weights) + self.weights).sum()


torch.manual_seed(0)
module = MultiTask({"color": 4, "shape": 3})
optimizer = torch.optim.Adam(module.parameters())
for _ in range(3):
    labels = {"color": torch.randint(4, (10,)), "shape": torch.randint(3, (10,))}
    optimizer.zero_grad()
    module.training_step((torch.randn(10, 5), labels)).backward()
    optimizer.step()
""",
        repair=(("torch.cat(self.losses(*batch))", "torch.stack(self.losses(*batch))"),),
        line=("losses = torch.cat(self.losses(*batch))",),
        says=("stack", "loss"),
    ),
)
