"""Crashes: attention heads that do not divide the width."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "heads_do_not_divide_width",
        "the width of the attention is not a multiple of its heads",
        kind="attention_heads",
        style="script",
        source="Stack Overflow, embed_dim must be divisible by num_heads",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.TransformerEncoderLayer(d_model=100, nhead=8, dim_feedforward=64, batch_first=True)
head = nn.Linear(100, 3)
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()])
for _ in range(2):
    x, y = torch.randn(4, 6, 100), torch.randint(3, (4,))
    loss = nn.functional.cross_entropy(head(model(x).mean(1)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("nhead=8", "nhead=5"),),
        says=("100", "8", "divi|multiple"),
    ),
    crash(
        "split_heads_by_hand",
        "the heads are split by hand with a width that they do not divide",
        kind="attention_heads",
        style="reshape_by_hand",
        source="discuss.pytorch.org, multi-head attention from scratch",
        program="""
import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def split(self, x):
        b, n, d = x.shape
        return x.reshape(b, n, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, dim=-1))
        weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, dim=-1)
        mixed = (weights @ v).transpose(1, 2).reshape(x.shape)
        return x + self.out(mixed)


torch.manual_seed(0)
net = nn.Sequential(SelfAttention(30, heads=4), nn.LayerNorm(30), nn.Linear(30, 1))
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    x = torch.randn(5, 8, 30)
    loss = (net(x).squeeze(-1) - x.mean(-1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("SelfAttention(30, heads=4)", "SelfAttention(30, heads=5)"),),
        line=("SelfAttention(30, heads=4)", "return x.reshape(b, n, self.heads, d // self.heads)"),
        says=("30", "4", "divi|multiple"),
    ),
    crash(
        "encoder_of_seven_columns",
        "the number of columns is used as the width of a transformer with two heads",
        kind="attention_heads",
        style="lightning_like",
        source="discuss.pytorch.org, transformer for time series",
        program="""
import torch
from torch import nn


class Forecaster(nn.Module):
    def __init__(self, n_columns):
        super().__init__()
        self.attention = nn.MultiheadAttention(n_columns, num_heads=2, batch_first=True)
        self.head = nn.Linear(n_columns, 1)

    def forward(self, window):
        mixed, _ = self.attention(window, window, window, need_weights=False)
        return self.head(mixed[:, -1])

    def training_step(self, batch):
        window, future = batch
        return nn.functional.huber_loss(self(window), future)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


torch.manual_seed(0)
module = Forecaster(n_columns=7)
optimizer = module.configure_optimizers()
for _ in range(3):
    loss = module.training_step((torch.randn(8, 24, 7), torch.randn(8, 1)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("num_heads=2", "num_heads=1"),),
        line=("num_heads=2", "Forecaster(n_columns=7)"),
        says=("7", "2", "divi|multiple"),
    ),
)
