"""Tests of M317: weights that are no longer tied, and weights that are copies by design."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup
from nbdebug.rules.model.untied_weights import TiedTagger
from tests.rules.rule_findings import rule_findings

WORDS = torch.randint(0, 12, (64, 5), generator=torch.Generator().manual_seed(0))


def findings(model: nn.Module) -> list[Finding]:
    return rule_findings(minimal_setup(model, WORDS, (WORDS + 1) % 12, nn.CrossEntropyLoss()), "M317")


class WordModel(nn.Module):
    """An embedding and a head, whose weights ``tie`` may tie or copy."""

    def __init__(self, tie: Callable[[nn.Embedding, nn.Linear], None]) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(12, 8), nn.Linear(8, 12)
        tie(self.embed, self.head)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.embed(x).tanh())
        return scores.transpose(1, 2)


def tie_weights(embed: nn.Embedding, head: nn.Linear) -> None:
    head.weight = embed.weight


def copy_data(embed: nn.Embedding, head: nn.Linear) -> None:
    head.weight.data = embed.weight.data.clone()


def copy_parameter(embed: nn.Embedding, head: nn.Linear) -> None:
    head.weight = nn.Parameter(embed.weight.clone())


def share_memory(embed: nn.Embedding, head: nn.Linear) -> None:
    head.weight = nn.Parameter(embed.weight.data)


def initialize_equally(embed: nn.Embedding, head: nn.Linear) -> None:
    nn.init.constant_(embed.weight, 0.1)
    nn.init.constant_(head.weight, 0.1)


def keep_separate(embed: nn.Embedding, head: nn.Linear) -> None:
    pass


@pytest.mark.parametrize("tie", [copy_data, copy_parameter])
def test_untied_weights_of_copied_embedding_is_warning(tie: Callable[[nn.Embedding, nn.Linear], None]) -> None:
    (finding,) = findings(WordModel(tie))
    assert "embed.weight and head.weight are two tensors of 96 values" in finding.message
    assert finding.severity == "warning"


@pytest.mark.parametrize("tie", [tie_weights, share_memory, initialize_equally, keep_separate])
def test_untied_weights_ignores_shared_memory_and_unrelated_weights(
    tie: Callable[[nn.Embedding, nn.Linear], None],
) -> None:
    assert not findings(WordModel(tie))


def test_untied_weights_after_replaced_embedding_points_to_tying_line() -> None:
    model = TiedTagger()
    model.embed = copy.deepcopy(model.embed)
    nn.init.normal_(model.embed.weight)
    (finding,) = findings(model)
    assert finding.where.source is not None
    assert "self.head.weight = self.embed.weight" in finding.where.source


class OptionallyTied(WordModel):
    """Ties its weights only if ``tie``."""

    def __init__(self, tie: bool) -> None:
        super().__init__(keep_separate)
        if tie:
            self.head.weight = self.embed.weight


@pytest.mark.parametrize("tie", [True, False])
def test_untied_weights_ignores_conditional_tie(tie: bool) -> None:
    assert not findings(OptionallyTied(tie))


def model_with_new_head() -> nn.Module:
    model = TiedTagger()
    model.head = nn.Linear(8, 20)
    return model


class MirroredAutoencoder(nn.Module):
    """An autoencoder whose decoder starts as the transposed encoder."""

    def __init__(self, share: bool) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(12, 4), nn.Linear(4, 12)
        transposed = self.encoder.weight.t()
        self.decoder.weight = nn.Parameter(transposed.detach() if share else transposed.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        reconstruction: Tensor = self.decoder(torch.tanh(self.encoder(nn.functional.one_hot(x, 12).float())))
        return reconstruction.transpose(1, 2)


def test_untied_weights_of_decoder_initialized_from_encoder_is_note() -> None:
    (finding,) = findings(MirroredAutoencoder(share=False))
    assert finding.severity == "note"
    assert not findings(MirroredAutoencoder(share=True))


class CopiedLayers(nn.Module):
    """Layers that start equal: the copies in ``nn.TransformerEncoder``, and two parallel square layers."""

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


class WithoutEmbeddings(WordModel):
    """A model whose configuration ties embeddings that it does not have."""

    config = SimpleNamespace(tie_word_embeddings=True)

    def get_input_embeddings(self) -> nn.Module:
        raise NotImplementedError


HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "configuration without embeddings": lambda: WithoutEmbeddings(keep_separate),
    "deep copy of a tied model": lambda: copy.deepcopy(TiedTagger()),
    "new head of another size": model_with_new_head,
    "copied layers": CopiedLayers,
}


@pytest.mark.parametrize("name", HEALTHY)
def test_untied_weights_ignores_copies_and_replacements_by_design(name: str) -> None:
    assert not findings(HEALTHY[name]())


def test_untied_weights_of_hugging_face_model_follows_its_configuration() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=12, n_positions=8, n_embd=8, n_layer=1, n_head=2)
    model = transformers.GPT2LMHeadModel(config)
    assert not hugging_face_findings(model)
    model.lm_head.weight = nn.Parameter(torch.randn(12, 8))
    (finding,) = hugging_face_findings(model)
    assert "tie_word_embeddings" in finding.message


def hugging_face_findings(model: nn.Module) -> list[Finding]:
    debugger = Debugger(
        model,
        [{"input_ids": WORDS[:16], "labels": WORDS[:16]}],
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
    )
    return rule_findings(debugger.setup, "M317")


@pytest.mark.parametrize("unties", [True, False])
def test_untied_weights_after_watched_loop_names_the_weight_that_the_loop_replaced(unties: bool) -> None:
    model = TiedTagger()
    setup = minimal_setup(model, WORDS, (WORDS + 1) % 12, nn.CrossEntropyLoss())
    debugger = Debugger.of(setup)
    with debugger.watch():
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            setup.optimizers[0].step()
        if unties:
            model.head = copy.deepcopy(model.head)
    modules = [finding.where.module for finding in debugger.findings if finding.code == "M317"]
    assert modules == (["head"] if unties else [])
