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
        says=(
            "64",
            "20",
            "causal|length|max_len|[:",
        ),
    ),
    crash(
        "padding_mask_of_length_by_batch",
        "a padding mask of length by batch",
        kind="mask",
        style="trainer",
        source="Stack Overflow, src_key_padding_mask shape",
        program="""
import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, vocab=30, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        layer = nn.TransformerEncoderLayer(dim, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 3)

    def forward(self, tokens):
        padding = (tokens == 0).T
        x = self.encoder(self.embed(tokens), src_key_padding_mask=padding)
        return self.head(x[:, 0])


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())

    def step(self, tokens, labels):
        loss = nn.functional.cross_entropy(self.model(tokens), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
trainer = Trainer(Translator())
for _ in range(3):
    tokens = torch.randint(1, 30, (6, 11))
    tokens[3:, 8:] = 0
    trainer.step(tokens, torch.randint(3, (6,)))
""",
        repair=(("padding = (tokens == 0).T", "padding = tokens == 0"),),
        line=("padding = (tokens == 0).T", "src_key_padding_mask=padding"),
        says=(
            "6",
            "11",
            "padding|transpose|.t",
        ),
    ),
    crash(
        "mask_flattened_on_one_side",
        "the predictions are flattened, the mask of the positives is not",
        kind="mask",
        style="reshape_by_hand",
        source="GitHub issue, The shape of the mask [4, 34125] does not match the indexed tensor",
        program="""
import torch
import torch.nn.functional as F
from torch import nn


def box_loss(predicted, boxes, positive):
    losses = F.smooth_l1_loss(predicted.flatten(0, 1), boxes.flatten(0, 1), reduction="none")
    return losses[positive].sum() / positive.sum().clamp(min=1)


torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    images = torch.rand(2, 3, 9, 9)
    predicted = net(images).permute(0, 2, 3, 1).reshape(2, 81, 4)
    boxes, positive = torch.rand(2, 81, 4), torch.rand(2, 81) < 0.1
    loss = box_loss(predicted, boxes, positive)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("losses[positive].sum()", "losses[positive.flatten()].sum()"),),
        line=("losses[positive].sum()", "losses = F.smooth_l1_loss("),
        says=(
            "162",
            "81",
            "flatten|positive|losses|reshape|view",
        ),
    ),
)
