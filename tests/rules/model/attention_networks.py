"""Small Transformers in three writings, and functions that put a mistake into one of their steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup

Change = Callable[[Tensor], Tensor]
WRITINGS = ("products", "einsum", "torch")
TOKENS = torch.randint(0, 12, (64, 6), generator=torch.Generator().manual_seed(0))


def same(value: Tensor) -> Tensor:
    return value


class Attention(nn.Module):
    """Self-attention with four heads of width four; ``changes`` are applied to the values of that name."""

    def __init__(self, writing: str, changes: Mapping[str, Change], fused: bool = False) -> None:
        super().__init__()
        self.writing, self.changes, self.fused = writing, dict(changes), fused
        self.projections = nn.Linear(16, 48) if fused else nn.ModuleList(nn.Linear(16, 16) for _ in range(3))
        self.output = nn.Linear(16, 16)

    def change(self, name: str, value: Tensor) -> Tensor:
        return self.changes.get(name, same)(value)

    def project(self, x: Tensor) -> list[Tensor]:
        if isinstance(self.projections, nn.Linear):
            parts = self.projections(x).chunk(3, dim=-1)
        else:
            parts = [layer(x) for layer in self.projections]
        heads = (part.unflatten(-1, (4, 4)).transpose(1, 2) for part in parts)
        return [self.change(name, part) for name, part in zip(("query", "key", "value"), heads, strict=True)]

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.project(x)
        if self.writing == "torch":
            mixed = F.scaled_dot_product_attention(query, key, value)
        else:
            is_einsum = self.writing == "einsum"
            scores = torch.einsum("bhqd,bhkd->bhqk", query, key) if is_einsum else query @ key.transpose(2, 3)
            weights = self.change("weights", self.change("scores", scores))
            mixed = torch.einsum("bhqk,bhkd->bhqd", weights, value) if is_einsum else weights @ value
        mixed = self.change("mixed", mixed)
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return result


def scaled_softmax(scores: Tensor) -> Tensor:
    return torch.softmax(scores / math.sqrt(4), dim=-1)


class Classifier(nn.Module):
    """Two blocks over six tokens; ``attend`` and ``feed`` add what a part returns to its input."""

    def __init__(
        self,
        writing: str = "products",
        changes: Mapping[str, Change] | None = None,
        attend: Callable[[Tensor, Tensor], Tensor] = torch.add,
        feed: Callable[[Tensor, Tensor], Tensor] = torch.add,
        fused: bool = False,
        post_norm: bool = False,
    ) -> None:
        super().__init__()
        self.attend, self.feed, self.post_norm = attend, feed, post_norm
        self.embed, self.place = nn.Embedding(12, 16), nn.Embedding(6, 16)
        all_changes = {"weights": scaled_softmax, **(changes or {})}
        self.attentions = nn.ModuleList(Attention(writing, all_changes, fused) for _ in range(2))
        self.ups, self.downs = (nn.ModuleList(nn.Linear(*size) for _ in range(2)) for size in ((16, 32), (32, 16)))
        self.norms, self.head = nn.ModuleList(nn.LayerNorm(16) for _ in range(4)), nn.Linear(16, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1]))
        for index, (attention, up, down) in enumerate(zip(self.attentions, self.ups, self.downs, strict=True)):
            first, second = self.norms[2 * index], self.norms[2 * index + 1]
            if self.post_norm:
                x = first(self.attend(x, attention(x)))
                x = second(self.feed(x, down(F.gelu(up(x)))))
            else:
                x = self.attend(x, attention(first(x)))
                x = self.feed(x, down(torch.relu(up(second(x)))))
        scores: Tensor = self.head(x.mean(1))
        return scores


def attention_setup(*args: Any, **options: Any) -> Setup:
    """Setup of a ``Classifier`` with these arguments, with the same weights each time."""
    torch.manual_seed(0)
    return minimal_setup(Classifier(*args, **options), TOKENS, TOKENS[:, 0] % 3, nn.CrossEntropyLoss())
