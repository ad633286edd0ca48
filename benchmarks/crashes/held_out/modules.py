"""Crashes: modules, their attributes, containers, buffers and norms."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "lazy_sizes_summed",
        "the parameters of a lazy model are counted before it has seen a batch",
        kind="modules",
        style="notebook_cells",
        source="GitHub issue, Can't access the shape of an uninitialized parameter or buffer",
        program="""
import torch
from torch import nn


def count(model):
    return sum(p.numel() for p in model.parameters() if p.requires_grad)

# %%
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
images, labels = torch.rand(12, 1, 9, 9), torch.randint(10, (12,))
# %%
print(f"{count(model)} parameters")
# %%
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(('print(f"{count(model)} parameters")', 'model(images[:1])\nprint(f"{count(model)} parameters")'),),
        line=('print(f"{count(model)} parameters")', "nn.LazyLinear(10))"),
        says=("lazylinear|model[3]|3.weight", "forward|batch|dry run|model(|call"),
    ),
    crash(
        "norm_of_tokens_gets_channels",
        "a convolution moves the features of a token to the second axis, LayerNorm takes the last",
        kind="modules",
        style="reshape_by_hand",
        source="Stack Overflow, Given normalized_shape=[16], expected input with shape [*, 16]",
        program="""
import torch
from torch import nn


class ConvBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)

    def forward(self, x):
        return self.conv(x.transpose(1, 2)).relu()


class Text(nn.Module):
    def __init__(self, vocab=30, dim=16):
        super().__init__()
        self.embed, self.block = nn.Embedding(vocab, dim), ConvBlock(dim)
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 2)

    def forward(self, words):
        x = self.block(self.embed(words))
        return self.head(self.norm(x).mean(dim=1))


torch.manual_seed(0)
model = Text()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.randint(30, (4, 10))), torch.randint(2, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "return self.conv(x.transpose(1, 2)).relu()",
                "return self.conv(x.transpose(1, 2)).relu().transpose(1, 2)",
            ),
        ),
        line=(
            "return self.conv(x.transpose(1, 2)).relu()",
            "self.head(self.norm(x).mean(dim=1))",
            "x = self.block(self.embed(words))",
        ),
        says=("16", "10", "transpose|permute|movedim|.mt|swapaxes"),
    ),
)
