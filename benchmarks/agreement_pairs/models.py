"""Models, and ports of them to other code with other names."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Cnn(nn.Module):
    """Two convolutional blocks and a head."""

    def __init__(self, channels: int = 6) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.conv2, self.bn2 = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.pool, self.drop = nn.MaxPool2d(2), nn.Dropout(0.2)
        self.fc = nn.Linear(channels * 4, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores of images of 8 × 8."""
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = self.pool(F.relu(self.bn2(self.conv2(x))))
        return self.fc(self.drop(x.flatten(1)))


class PortedCnn(nn.Module):
    """The same network as nested Sequentials."""

    def __init__(self, channels: int = 6) -> None:
        super().__init__()
        block = lambda i: nn.Sequential(
            nn.Conv2d(i, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.features = nn.Sequential(block(1), block(channels))
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(channels * 4, 5))

    def forward(self, x: Tensor) -> Tensor:
        """Class scores."""
        return self.classifier(self.features(x))


class Attention(nn.Module):
    """Self-attention by hand, with three projections."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.heads, self.causal = heads, causal

    def split(self, x: Tensor) -> Tensor:
        """Return the heads, of shape (batch, heads, length, width)."""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the scaled scores, masked if the attention is causal."""
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if self.causal:
            mask = torch.ones(scores.shape[-2:]).triu(1).bool()
            scores = scores.masked_fill(mask, float("-inf"))
        return scores

    def forward(self, x: Tensor) -> Tensor:
        """Mix the positions."""
        q, k, v = (self.split(layer(x)) for layer in (self.q, self.k, self.v))
        mixed = self.scores(q, k).softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))


class FusedAttention(nn.Module):
    """The same attention with one projection and torch's function."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.causal = heads, causal
        self.scale: float | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Mix the positions."""
        n, length, width = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, scale=self.scale)
        return self.proj(mixed.transpose(1, 2).reshape(n, length, width))


class Block(nn.Module):
    """A transformer block with the norm first."""

    def __init__(self, attention: nn.Module, width: int, activation: Any = None) -> None:
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(width), attention, nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), activation or nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Mix positions, then features."""
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """A small language model."""

    def __init__(self, attention: Any = Attention, layers: int = 2, width: int = 12, causal: bool = True) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Embedding(20, width), nn.Parameter(torch.randn(10, width) * 0.1)
        self.blocks = nn.ModuleList(Block(attention(width, 3, causal), width) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 20, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of the next token at each position."""
        x = self.embedding(tokens) + self.positions[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def fuse(model: Transformer) -> Transformer:
    """Return a port of a transformer to the fused attention, with the same weights."""
    port = Transformer(FusedAttention, len(model.blocks), model.positions.shape[1], model.blocks[0].attention.causal)
    state = {k: v for k, v in model.state_dict().items() if ".attention." not in k}
    for i, block in enumerate(model.blocks):
        a, prefix = block.attention, f"blocks.{i}.attention"
        state[f"{prefix}.qkv.weight"] = torch.cat([a.q.weight, a.k.weight, a.v.weight]).detach()
        state[f"{prefix}.qkv.bias"] = torch.cat([a.q.bias, a.k.bias, a.v.bias]).detach()
        state |= {f"{prefix}.proj.weight": a.out.weight.detach(), f"{prefix}.proj.bias": a.out.bias.detach()}
    port.load_state_dict(state)
    return port


class Gru(nn.Module):
    """A recurrent classifier on torch's GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(4, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores of a series."""
        return self.head(self.gru(x)[0][:, -1])


class CellGru(nn.Module):
    """The same with a cell and a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.GRUCell(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores of a series."""
        h = x.new_zeros(len(x), 6)
        for step in x.unbind(1):
            h = self.cell(step, h)
        return self.out(h)


class Norm(nn.Module):
    """Layer normalization by hand."""

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.scale, self.shift, self.eps = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width)), eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the last axis."""
        centered = x - x.mean(-1, keepdim=True)
        return centered / (centered.square().mean(-1, keepdim=True) + self.eps).sqrt() * self.scale + self.shift


class Mlp(nn.Module):
    """Three layers with a residual connection."""

    def __init__(self, norm: Any = nn.LayerNorm, width: int = 16) -> None:
        super().__init__()
        self.inp, self.hidden, self.norm, self.out = (
            nn.Linear(7, width),
            nn.Linear(width, width),
            norm(width),
            nn.Linear(width, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """One number for each sample."""
        x = torch.tanh(self.inp(x))
        x = x + F.silu(self.hidden(self.norm(x)))
        return self.out(x)


class Two(nn.Module):
    """Two inputs that are encoded apart and joined."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.table, self.join = nn.Conv1d(2, 4, 3), nn.Linear(5, 8), nn.Linear(16, 2)

    def forward(self, series: Tensor, row: Tensor) -> dict[str, Tensor]:
        """Scores and the joint representation."""
        joint = torch.cat([F.relu(self.image(series)).flatten(1)[:, :8], F.elu(self.table(row))], dim=1)
        return {"scores": self.join(joint), "joint": joint}


def copy_in_order(source: nn.Module, target: nn.Module) -> None:
    """Copy the parameters and buffers of a model to a port in the order in which both define them."""
    with torch.no_grad():
        for kind in ("parameters", "buffers"):
            for a, b in zip(getattr(source, kind)(), getattr(target, kind)(), strict=True):
                b.copy_(a)
