"""Sequence models: convolutions, attention over an encoder, and models of Hugging Face."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from tests.rules.real.attention import reversed_pairs, teacher_forcing, token_loss
from tests.rules.real.catalog import healthy
from tests.rules.real.datasets import PAD, digits, padded, sentences, split
from tests.rules.real.language_models import dict_loader


class CausalBlock(nn.Module):
    """A block of a temporal convolutional network, padded on the left only."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.left = 2 * dilation
        self.conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(width, width, 3, dilation=dilation))

    def forward(self, x: Tensor) -> Tensor:
        return x + F.dropout(torch.relu(self.conv(F.pad(x, (self.left, 0)))), 0.1, self.training)


class TCN(nn.Module):
    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(20, width), nn.Conv1d(width, 20, 1)
        self.blocks = nn.Sequential(CausalBlock(width, 1), CausalBlock(width, 2), CausalBlock(width, 4))

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.blocks(self.embed(words).transpose(1, 2)))


@healthy
def causal_convolutions() -> Debugger:
    words, model = sentences(), TCN()
    train, val = split(words[:, :-1], words[:, 1:])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)


class Translator(nn.Module):
    """A recurrent encoder, and a decoder with attention over it (Luong and others 2015)."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.src, self.tgt = nn.Embedding(20, width, padding_idx=PAD), nn.Embedding(20, width, padding_idx=PAD)
        self.encoder, self.cell = nn.GRU(width, width, batch_first=True), nn.GRUCell(width, width)
        self.score, self.join = nn.Linear(width, width, bias=False), nn.Linear(2 * width, width)
        self.out = nn.Linear(width, 20)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        states, last = self.encoder(self.src(src))
        state, padding_mask, outputs = last[0], src == PAD, []
        for word in self.tgt(tgt).unbind(1):
            state = self.cell(word, state)
            scores = torch.bmm(states, self.score(state).unsqueeze(2)).squeeze(2).masked_fill(padding_mask, -1e9)
            context = torch.bmm(scores.softmax(1).unsqueeze(1), states).squeeze(1)
            outputs.append(self.out(torch.tanh(self.join(torch.cat([state, context], 1)))))
        return torch.stack(outputs, 1)


@healthy
def recurrent_translation_with_attention() -> Debugger:
    model = Translator()
    train, val = split(*reversed_pairs())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return Debugger(model, train, val, loss_fn=token_loss, optimizer=optimizer, unpack=teacher_forcing)


def hugging_face_model(model_class: str, config: str, **options: Any) -> Any:
    """A small model of Hugging Face with fresh weights."""
    transformers = pytest.importorskip("transformers")
    return getattr(transformers, model_class)(getattr(transformers, config)(**options))


SMALL = {"vocab_size": 20, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


@healthy
def llama() -> Debugger:
    words, model = sentences(), hugging_face_model("LlamaForCausalLM", "LlamaConfig", **SMALL, num_key_value_heads=2)
    train = dict_loader(input_ids=words, attention_mask=torch.ones_like(words), labels=words)
    return Debugger(model, train, optimizer=torch.optim.AdamW(model.parameters(), lr=3e-4))


@healthy
def mixtral() -> Debugger:
    options = {**SMALL, "num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 1}
    words, model = sentences(), hugging_face_model("MixtralForCausalLM", "MixtralConfig", **options)
    train = dict_loader(input_ids=words, attention_mask=torch.ones_like(words), labels=words)
    return Debugger(model, train, optimizer=torch.optim.AdamW(model.parameters(), lr=3e-4))


@healthy
def t5() -> Debugger:
    sizes = {"vocab_size": 20, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    words, lengths = padded()
    model = hugging_face_model("T5ForConditionalGeneration", "T5Config", **sizes, decoder_start_token_id=0)
    attention_mask = (torch.arange(words.shape[1]) < lengths[:, None]).long()
    reversed_words = words.flip(1)
    train = dict_loader(
        input_ids=words, attention_mask=attention_mask, labels=reversed_words.masked_fill(reversed_words == PAD, -100)
    )
    return Debugger(model, train, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3))


@healthy
def hugging_face_vision_transformer() -> Debugger:
    sizes = {**SMALL, "image_size": 8, "patch_size": 2, "num_channels": 1, "num_labels": 10}
    sizes.pop("vocab_size")
    x, y = digits()
    model = hugging_face_model("ViTForImageClassification", "ViTConfig", **sizes)
    return Debugger(
        model, dict_loader(pixel_values=x, labels=y), optimizer=torch.optim.AdamW(model.parameters(), lr=3e-4)
    )
