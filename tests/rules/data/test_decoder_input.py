"""Tests of D126 for encoder-decoders whose decoder reads the target itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.rules.data.targets_not_shifted import token_cross_entropy
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings

SOURCE = torch.randint(0, 10, (64, 6), generator=torch.Generator().manual_seed(0))
TARGET = SOURCE.sort(1).values
LISTS = TensorDataset(SOURCE, TARGET, TARGET)


class Lists(Dataset[tuple[Tensor, Tensor, Tensor]]):
    def __len__(self) -> int:
        return len(SOURCE)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        ordered = TARGET[index]
        return SOURCE[index], ordered, ordered


class Decoder(nn.Module):
    """A decoder with an encoder, or with a second number beside each token."""

    def __init__(self, tokens: int, reads_whole: bool) -> None:
        super().__init__()
        self.source, self.embed, self.reads_whole = nn.Embedding(10, 8), nn.Embedding(tokens, 8), reads_whole
        self.encoder, self.body = nn.GRU(8, 8, batch_first=True), nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, 11)

    def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
        source, states = self.source(source), self.embed(tokens)
        if self.reads_whole:
            return self.head(self.body(states, self.encoder(source)[1])[0])
        return self.head(self.body(states + source)[0])


class PassingDecoder(Decoder):
    def feed(self, tokens: Tensor) -> Tensor:
        fed = tokens  # unchanged
        return fed

    def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
        return super().forward(source, self.feed(tokens))


def cut_twice(samples: list[tuple[Tensor, ...]]) -> tuple[Tensor, Tensor, Tensor]:
    source, marks = (torch.stack(part) for part in list(zip(*samples, strict=True))[:2])
    told, wanted = marks[:, 1:], marks[:, 1:]
    return source, told, wanted


CASES = {
    "samples": (Lists(), 11, "return SOURCE[index], torch.cat([torch.tensor([10]), ordered[:-1]]), ordered", [10]),
    "arrays": (LISTS, 11, "torch.cat([torch.full((len(target), 1), 10), target[:, :-1]], dim=1)", [10]),
    "no unused row": (Lists(), 10, "torch.cat([torch.tensor([start]), ordered[:-1]])", []),
}


def setup_of(data: Dataset[tuple[Tensor, ...]], model: nn.Module) -> Setup:
    return Setup(model, DataLoader(data, batch_size=32, shuffle=True), loss_fn=token_cross_entropy)


@pytest.mark.parametrize("name", CASES)
def test_decoder_input_that_equals_the_target_gets_a_start_token_on_the_axis_of_its_place(name: str) -> None:
    data, tokens, fix, unused = CASES[name]
    (finding,) = checkup_findings(setup_of(data, Decoder(tokens, reads_whole=True)), "D126")
    assert fix in finding.fix
    assert finding.evidence["unused tokens"] == unused
    assert len(finding.edits) == (name == "samples")


@pytest.mark.parametrize(
    ("model", "collate", "source"),
    [
        (PassingDecoder(11, reads_whole=True), None, "fed = tokens  # unchanged"),
        (Decoder(11, reads_whole=True), cut_twice, "told, wanted = marks[:, 1:], marks[:, 1:]"),
        (Decoder(11, reads_whole=True), None, "return SOURCE[index], ordered, ordered"),
    ],
    ids=["function of the model", "collate function", "dataset"],
)
def test_decoder_input_is_placed_where_it_is_not_shifted(model: nn.Module, collate: Any, source: str) -> None:
    data = Lists() if collate is None else TensorDataset(SOURCE, TARGET)
    setup = Setup(model, DataLoader(data, batch_size=32, collate_fn=collate), loss_fn=token_cross_entropy)
    (finding,) = checkup_findings(setup, "D126")
    assert source in (finding.where.source or "")


def test_second_number_of_each_token_makes_no_encoder() -> None:
    (finding,) = checkup_findings(setup_of(Lists(), Decoder(11, reads_whole=False)), "D126")
    assert "unused tokens" not in finding.evidence
