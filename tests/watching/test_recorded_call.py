"""Tests of the rules on models that are asked with the arguments of the loop, which the loader does not show."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug import Debugger
from nbdebug.finding import Finding

WORDS, LENGTH = 11, 7
_Step = Callable[[nn.Module, Tensor, Tensor], Tensor]


@pytest.fixture(autouse=True)
def no_compiled_code() -> None:
    """Forget what other tests have compiled, since a step is traced only if nothing is."""
    torch._dynamo.reset()


class Translator(nn.Module):
    """An encoder and a decoder; without a mask, the decoder reads the words that it predicts."""

    def __init__(self, batch_first: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.batch_first = batch_first
        self.embedding = nn.Embedding(WORDS, 16)
        self.positions = nn.Parameter(0.3 * torch.randn(LENGTH + 1, 16))
        self.encoder = nn.GRU(16, 16, batch_first=batch_first)
        layer = nn.TransformerDecoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, 1)
        self.head = nn.Linear(16, WORDS)

    def forward(self, source: Tensor, words: Tensor, mask: Tensor | None = None) -> Tensor:
        memory, _ = self.encoder(self.embedding(source))
        embedded = self.embedding(words) + self.positions[: words.shape[1]]
        return self.head(self.decoder(embedded, memory, tgt_mask=mask))  # type: ignore[no-any-return]


def pairs() -> DataLoader[Any]:
    torch.manual_seed(1)
    source = torch.randint(1, WORDS, (48, LENGTH))
    return DataLoader(TensorDataset(source, torch.cat([torch.zeros(48, 1).long(), source.flip(1)], 1)), batch_size=16)


def shifted_loss(scores: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(scores.reshape(-1, WORDS), target[:, 1:].reshape(-1))


def without_mask(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    return shifted_loss(model(source, target[:, :-1]), target)


def with_mask(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
    return shifted_loss(model(source, target[:, :-1], mask), target)


def findings_after(model: nn.Module, batches: DataLoader[Any], step: _Step, **options: Any) -> dict[str, Finding]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    debugger = Debugger(model, batches, optimizer=optimizer, **options)
    if debugger.setup.loss_fn is not None:
        debugger.checkup()
    with debugger.watch() as run:
        for parts in batches:
            optimizer.zero_grad()
            step(model, *parts).backward()
            optimizer.step()
    assert not run.error_summary
    return {finding.code: finding for finding in debugger.findings if finding.severity != "note"}


@pytest.mark.parametrize("options", [{}, {"loss_fn": nn.CrossEntropyLoss()}], ids=["watch only", "after a checkup"])
def test_missing_mask_of_the_loops_call_is_found_at_the_decoder(options: dict[str, Any]) -> None:
    finding = findings_after(Translator(), pairs(), without_mask, **options)["M305"]
    assert finding.where.module is not None
    assert finding.where.module.startswith("decoder.layers.0")


def test_mask_of_the_loops_call_is_respected() -> None:
    assert not {"M304", "M305", "M306"} & findings_after(Translator(), pairs(), with_mask).keys()


def test_layer_that_reads_along_the_batch_is_found_behind_a_second_input() -> None:
    assert "M304" in findings_after(Translator(batch_first=False), pairs(), with_mask)


class LanguageModel(nn.Module):
    """A model of words that is not causal unless its caller passes a mask."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(WORDS, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, WORDS)

    def forward(self, words: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.head(self.layer(self.embedding(words), mask))  # type: ignore[no-any-return]


def token_loss(scores: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(scores.transpose(1, 2), target)


def next_words() -> DataLoader[Any]:
    words = torch.randint(0, WORDS, (48, LENGTH + 1), generator=torch.Generator().manual_seed(0))
    return DataLoader(TensorDataset(words[:, :-1], words[:, 1:]), batch_size=16)


@pytest.mark.parametrize("masked", [True, False])
def test_loop_that_passes_a_mask_overrules_the_checkup(masked: bool) -> None:
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH) if masked else None

    def step(model: nn.Module, words: Tensor, target: Tensor) -> Tensor:
        return token_loss(model(words, mask), target)

    assert ("M305" in findings_after(LanguageModel(), next_words(), step, loss_fn=token_loss)) is not masked


class TwoViews(nn.Module):
    """A model with batch normalization and dropout, whose output meets no target in a loss of torch."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 4))

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        return self.layers(first), self.layers(second)


def test_call_without_a_known_loss_leaves_model_and_random_state_as_they_are() -> None:
    def train(watched: bool) -> tuple[dict[str, Tensor], Tensor]:
        torch.manual_seed(0)
        model, x = TwoViews(), torch.randn(64, 6)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        with (
            Debugger(model, DataLoader(TensorDataset(x), 16), optimizer=optimizer).watch() if watched else nullcontext()
        ):
            for (rows,) in DataLoader(TensorDataset(x), 16):
                optimizer.zero_grad()
                first, second = model(rows, rows + 0.1)
                (first - second).square().mean().backward()
                optimizer.step()
        return model.state_dict(), torch.get_rng_state()

    (watched, watched_state), (plain, plain_state) = train(True), train(False)
    assert all(torch.equal(watched[name], plain[name]) for name in plain)
    assert torch.equal(watched_state, plain_state)
