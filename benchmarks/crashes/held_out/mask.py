"""Crashes: masks of a wrong shape or dtype."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "causal_mask_of_maximum_length",
        "the causal mask has the maximum length, the batch is shorter",
        kind="mask",
        style="typed",
        source="GitHub issue, shape of the 2D attn_mask",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class GPTConfig:
    vocab: int = 30
    dim: int = 16
    heads: int = 2
    max_len: int = 64


class LanguageModel(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.embed = nn.Embedding(config.vocab, config.dim)
        self.layer = nn.TransformerEncoderLayer(config.dim, config.heads, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(config.dim, config.vocab)
        self.register_buffer("causal", nn.Transformer.generate_square_subsequent_mask(config.max_len))

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        x = self.layer(self.embed(tokens), src_mask=self.causal)
        return self.head(x)


torch.manual_seed(0)
config = GPTConfig()
model = LanguageModel(config)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    tokens = torch.randint(config.vocab, (3, 21))
    loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("src_mask=self.causal)", "src_mask=self.causal[:length, :length])"),),
        line=("src_mask=self.causal)",),
        says=("mask", "64", "20"),
    ),
)
