"""Language models: masked, causal, tied, adapted, mixtures of experts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from nbdebug.debugger import Debugger
from tests.rules.real.catalog import healthy
from tests.rules.real.datasets import padded, sentences, split

MASK, IGNORED = 2, -100


def gpt2(**options: Any) -> Any:
    """A small GPT-2 of Hugging Face with fresh weights."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=20, n_positions=16, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=1, **options
    )
    return transformers.GPT2LMHeadModel(config)


def dict_loader(**columns: Tensor) -> Any:
    """Return batches of dictionaries, as from the collators of Hugging Face."""
    data: Any = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return DataLoader(data, batch_size=16, shuffle=True)


@healthy
def gpt2_with_its_own_loss() -> Debugger:
    words, model = sentences(), gpt2()
    train = dict_loader(input_ids=words, attention_mask=torch.ones_like(words), labels=words)
    return Debugger(model, train, optimizer=torch.optim.AdamW(model.parameters(), lr=5e-4))


@healthy
def gpt2_on_padded_text() -> Debugger:
    words, lengths = padded()
    model = gpt2()
    attention_mask = (torch.arange(words.shape[1]) < lengths[:, None]).long()
    train = dict_loader(
        input_ids=words, attention_mask=attention_mask, labels=words.masked_fill(attention_mask == 0, IGNORED)
    )
    return Debugger(model, train, optimizer=torch.optim.AdamW(model.parameters(), lr=5e-4))


@healthy
def bert_with_masked_words() -> Debugger:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    words, model = sentences(), transformers.BertForMaskedLM(config)
    masked = torch.rand(words.shape, generator=torch.Generator().manual_seed(0)) < 0.2
    train = dict_loader(
        input_ids=words.masked_fill(masked, MASK),
        attention_mask=torch.ones_like(words),
        labels=words.masked_fill(~masked, IGNORED),
    )
    return Debugger(model, train, optimizer=torch.optim.AdamW(model.parameters(), lr=5e-4))


@healthy
def bert_classifier() -> Debugger:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, num_labels=3
    )
    words, lengths = padded()
    attention_mask = (torch.arange(words.shape[1]) < lengths[:, None]).long()
    model = transformers.BertForSequenceClassification(config)
    train = dict_loader(input_ids=words, attention_mask=attention_mask, labels=words[:, 0] % 3)
    return Debugger(model, train, optimizer=torch.optim.AdamW(model.parameters(), lr=5e-5))


class Block(nn.Module):
    """A GPT block: causal attention and a feed-forward network, each with a residual connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def attend(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = (part.view(b, t, 4, c // 4).transpose(1, 2) for part in self.qkv(x).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).contiguous().view(b, t, c))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, width: int = 32, block: Any = Block) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(20, width), nn.Embedding(16, width)
        self.blocks = nn.Sequential(block(width), block(width))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 20, bias=False)
        self.head.weight = self.tokens.weight
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> Any:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        logits = self.head(self.norm(self.blocks(x)))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def token_loss(output: Any, target: Tensor) -> Tensor:
    return F.cross_entropy(output[0].flatten(0, 1), target.flatten())


def adamw_with_matrix_decay(model: nn.Module) -> torch.optim.Optimizer:
    """Weight decay on matrices only."""
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1}]
    groups.append({"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0})
    return torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95))


@healthy
def gpt_by_hand_with_tied_weights() -> Debugger:
    words, model = sentences(), GPT()
    train, val = split(words[:, :-1], words[:, 1:])
    return Debugger(model, train, val, loss_fn=token_loss, optimizer=adamw_with_matrix_decay(model))


@healthy
def gpt_by_step() -> Debugger:
    words, model = sentences(), GPT()
    train, val = split(words[:, :-1], words[:, 1:])
    return Debugger(model, train, val, optimizer=adamw_with_matrix_decay(model), step_fn=lambda batch: model(*batch)[1])


class LoRA(nn.Module):
    """A frozen linear layer with a trained low-rank update that starts at zero."""

    def __init__(self, base: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.01)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + x @ self.a.t() @ self.b.t()


@healthy
def low_rank_adapters() -> Debugger:
    model = GPT().requires_grad_(False)
    for block in model.blocks:
        block.qkv, block.proj = LoRA(block.qkv), LoRA(block.proj)
    words = sentences()
    train, val = split(words[:, :-1], words[:, 1:])
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    return Debugger(model, train, val, loss_fn=token_loss, optimizer=optimizer)


class Experts(nn.Module):
    """A mixture of experts with top-1 routing; some experts may get no token in many batches."""

    def __init__(self, width: int, count: int = 8) -> None:
        super().__init__()
        self.norm, self.gate = nn.LayerNorm(width), nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width)) for _ in range(count)
        )

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.norm(x).flatten(0, 1)
        weight, choice = self.gate(tokens).softmax(-1).max(-1)
        outputs = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            assigned = torch.nonzero(choice == number).squeeze(1)
            if len(assigned):
                outputs = outputs.index_add(0, assigned, expert(tokens[assigned]) * weight[assigned, None])
        return x + outputs.view_as(x)


class ExpertBlock(Block):
    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.mlp = nn.Identity()
        self.ln2 = Experts(width)

    def forward(self, x: Tensor) -> Tensor:
        return self.ln2(x + self.attend(self.ln1(x)))


@healthy
def mixture_of_experts() -> Debugger:
    words, model = sentences(), GPT(block=ExpertBlock)
    train, val = split(words[:, :-1], words[:, 1:])
    return Debugger(model, train, val, loss_fn=token_loss, optimizer=adamw_with_matrix_decay(model))


class BiasedGate(nn.Module):
    """A mixture whose biased gate selects one expert in no batch."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.body, self.head = nn.Embedding(20, 16), Experts(16, 4), nn.Linear(16, 20)
        self.body.gate = nn.Linear(16, 4)
        with torch.no_grad():
            self.body.gate.bias.copy_(torch.tensor([3.0, 3.0, 3.0, -9.0]))

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.body(self.embed(words))).transpose(1, 2)


@healthy
def expert_that_is_never_selected() -> Debugger:
    words, model = sentences(), BiasedGate()
    train, val = split(words[:, :-1], words[:, 1:])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
