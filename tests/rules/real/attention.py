"""Attention and Transformers of torch, with all kinds of masks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from tests.rules.real.catalog import healthy
from tests.rules.real.datasets import PAD, digits, padded, sentences, split

BOS = 1


class PositionalEmbedding(nn.Module):
    """Token and learned position embeddings."""

    def __init__(self, vocabulary: int, width: int, length: int = 32) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width, padding_idx=PAD), nn.Embedding(length, width)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))


class Seq2Seq(nn.Module):
    def __init__(self, vocabulary: int = 20, width: int = 32) -> None:
        super().__init__()
        self.src, self.tgt = PositionalEmbedding(vocabulary, width), PositionalEmbedding(vocabulary, width)
        self.transformer = nn.Transformer(width, 4, 2, 2, 64, dropout=0.1, batch_first=True)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1]).isinf()
        hidden = self.transformer(
            self.src(src),
            self.tgt(tgt),
            tgt_mask=mask,
            src_key_padding_mask=src == PAD,
            tgt_key_padding_mask=tgt == PAD,
            memory_key_padding_mask=src == PAD,
            tgt_is_causal=True,
        )
        return self.out(hidden)


def token_loss(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1), ignore_index=PAD)


def reversed_pairs() -> tuple[Tensor, Tensor]:
    """Return sentences, and each of them reversed after a start token."""
    words, lengths = padded()
    index = (lengths[:, None] - 1 - torch.arange(words.shape[1])).clamp(min=0)
    reversed_words = words.gather(1, index).masked_fill(words == PAD, PAD)
    return words, torch.cat([torch.full((len(words), 1), BOS), reversed_words], 1)


def teacher_forcing(batch: Any) -> Any:
    """Split a batch into the inputs of encoder and decoder, and the shifted target."""
    src, tgt = batch
    return (src, tgt[:, :-1]), tgt[:, 1:]


@healthy
def encoder_and_decoder() -> Debugger:
    model = Seq2Seq()
    train, val = split(*reversed_pairs())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return Debugger(model, train, val, loss_fn=token_loss, optimizer=optimizer, unpack=teacher_forcing)


@healthy
def encoder_and_decoder_by_step() -> Debugger:
    model = Seq2Seq()
    train, val = split(*reversed_pairs())

    def step(batch: list[Tensor]) -> Tensor:
        src, tgt = batch
        return token_loss(model(src, tgt[:, :-1]), tgt[:, 1:])

    return Debugger(model, train, val, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3), step_fn=step)


class TimeFirstModel(nn.Module):
    """A language model in the default layout of ``nn.Transformer``: time first, batch second."""

    def __init__(self, vocabulary: int = 20, width: int = 32) -> None:
        super().__init__()
        self.embed = PositionalEmbedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(width), enable_nested_tensor=False)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        hidden = self.encoder(self.embed(tokens).transpose(0, 1), mask=mask, is_causal=True)
        return self.out(hidden.transpose(0, 1))


@healthy
def causal_encoder_time_first() -> Debugger:
    words, model = sentences(), TimeFirstModel()
    train, val = split(words[:, :-1], words[:, 1:])
    return Debugger(model, train, val, loss_fn=token_loss, optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))


class MaskedClassifier(nn.Module):
    """A sentence classifier that masks the padding and averages over the words."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = PositionalEmbedding(20, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(width, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.encoder(self.embed(tokens), src_key_padding_mask=tokens == PAD)
        valid = (tokens != PAD).unsqueeze(-1)
        return self.head((hidden * valid).sum(1) / valid.sum(1))


@healthy
def encoder_with_padding_mask() -> Debugger:
    words, _ = padded()
    model = MaskedClassifier()
    train, val = split(words, words[:, 0] % 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)


class QueryPooling(nn.Module):
    """Self-attention over the rows of an image, pooled by a learned query."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.project, self.position = nn.Linear(8, width), nn.Parameter(torch.randn(8, width) * 0.02)
        self.attend = nn.MultiheadAttention(width, 4, batch_first=True)
        self.query = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.pool = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)
        self.register_buffer(
            "near", torch.full((8, 8), float("-inf")).triu(3) + torch.full((8, 8), float("-inf")).tril(-3)
        )

    def forward(self, image: Tensor) -> Tensor:
        rows = self.project(image.squeeze(1)) + self.position
        rows = self.norm(rows + self.attend(rows, rows, rows, attn_mask=self.near, need_weights=False)[0])
        return self.head(self.pool(self.query.expand(len(rows), -1, -1), rows, rows)[0].squeeze(1))


@healthy
def attention_with_masks() -> Debugger:
    model = QueryPooling()
    train, val = split(*digits())
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(), optimizer=torch.optim.Adam(model.parameters()))


class ViT(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.patch = nn.Conv2d(1, width, 2, 2)
        self.cls, self.position = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.randn(1, 17, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True, norm_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 10))

    def forward(self, image: Tensor) -> Tensor:
        tokens = self.patch(image).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls.expand(len(tokens), -1, -1), tokens], 1) + self.position
        return self.head(self.encoder(tokens)[:, 0])


@healthy
def vision_transformer() -> Debugger:
    model = ViT()
    train, val = split(*digits())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.05)
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(label_smoothing=0.1), optimizer=optimizer)
