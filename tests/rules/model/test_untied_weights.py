"""M317: weights that were tied and are not any more, and copies that are copies by design."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup
from nbdebug.rules.model.untied_weights import TiedTagger

WORDS = torch.randint(0, 12, (64, 5), generator=torch.Generator().manual_seed(0))


def found(model: nn.Module) -> list[Finding]:
    setup = minimal_setup(model, WORDS, (WORDS + 1) % 12, nn.CrossEntropyLoss())
    return [one for one in Debugger.of(setup).checkup(select=["M317"]) if one.code == "M317"]


class Words(nn.Module):
    """An embedding and a head, tied or copied by a function."""

    def __init__(self, tie: Callable[[nn.Embedding, nn.Linear], None]) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(12, 8), nn.Linear(8, 12)
        tie(self.embed, self.head)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.embed(x).tanh())
        return scores.transpose(1, 2)


def tied(embed: nn.Embedding, head: nn.Linear) -> None:
    head.weight = embed.weight


def copied(embed: nn.Embedding, head: nn.Linear) -> None:
    head.weight.data = embed.weight.data.clone()


def wrapped(embed: nn.Embedding, head: nn.Linear) -> None:
    head.weight = nn.Parameter(embed.weight.clone())


def same_memory(embed: nn.Embedding, head: nn.Linear) -> None:
    head.weight = nn.Parameter(embed.weight.data)


def constant(embed: nn.Embedding, head: nn.Linear) -> None:
    nn.init.constant_(embed.weight, 0.1)
    nn.init.constant_(head.weight, 0.1)


def apart(embed: nn.Embedding, head: nn.Linear) -> None:
    pass


@pytest.mark.parametrize("tie", [copied, wrapped])
def test_a_copy_where_a_tie_was_meant(tie: Callable[[nn.Embedding, nn.Linear], None]) -> None:
    (one,) = found(Words(tie))
    assert "embed.weight and head.weight are two tensors of 96 values" in one.message
    assert one.severity == "warning"


@pytest.mark.parametrize("tie", [tied, same_memory, constant, apart])
def test_one_tensor_one_memory_or_nothing_in_common_is_quiet(tie: Callable[[nn.Embedding, nn.Linear], None]) -> None:
    assert not found(Words(tie))


def test_a_tie_that_was_broken_afterwards_is_found_with_the_line_that_made_it() -> None:
    model = TiedTagger()
    model.embed = copy.deepcopy(model.embed)
    nn.init.normal_(model.embed.weight)
    (one,) = found(model)
    assert one.where.source is not None
    assert "self.head.weight = self.embed.weight" in one.where.source


class Optional(Words):
    """A tie behind an ``if``."""

    def __init__(self, tie: bool) -> None:
        super().__init__(apart)
        if tie:
            self.head.weight = self.embed.weight


@pytest.mark.parametrize("tie", [True, False])
def test_a_tie_behind_a_choice_is_not_taken_at_its_word(tie: bool) -> None:
    assert not found(Optional(tie))


def test_a_copied_model_stays_tied() -> None:
    assert not found(copy.deepcopy(TiedTagger()))


def test_a_head_of_another_size_replaces_the_tied_one_on_purpose() -> None:
    model = TiedTagger()
    model.head = nn.Linear(8, 20)
    assert not found(model)


class Undoing(nn.Module):
    """An autoencoder whose decoder starts as the encoder, turned around."""

    def __init__(self, share: bool) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(12, 4), nn.Linear(4, 12)
        turned = self.encoder.weight.t()
        self.decoder.weight = nn.Parameter(turned.detach() if share else turned.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        back: Tensor = self.decoder(torch.tanh(self.encoder(nn.functional.one_hot(x, 12).float())))
        return back.transpose(1, 2)


def test_a_decoder_that_only_began_as_its_encoder() -> None:
    (one,) = found(Undoing(share=False))
    assert one.severity == "note"
    assert not found(Undoing(share=True))


class Layers(nn.Module):
    """Layers that begin equal, as torch's Transformer copies them, and a pair of equal square layers side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(12, 8), nn.Linear(8, 12)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.left = nn.Linear(8, 8)
        self.right = copy.deepcopy(self.left)

    def forward(self, x: Tensor) -> Tensor:
        states = self.encoder(self.embed(x))
        scores: Tensor = self.head(self.left(states) * self.right(states))
        return scores.transpose(1, 2)


def test_copies_of_layers_are_quiet() -> None:
    assert not found(Layers())


def test_hugging_face_says_in_its_configuration_what_is_tied() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=12, n_positions=8, n_embd=8, n_layer=1, n_head=2)
    model = transformers.GPT2LMHeadModel(config)
    assert not found_by_configuration(model)
    model.lm_head.weight = nn.Parameter(torch.randn(12, 8))
    (one,) = found_by_configuration(model)
    assert "tie_word_embeddings" in one.message


def found_by_configuration(model: nn.Module) -> list[Finding]:
    debugger = Debugger(
        model,
        [{"input_ids": WORDS[:16], "labels": WORDS[:16]}],
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
    )
    return [one for one in debugger.checkup(select=["M317"]) if one.code == "M317"]
