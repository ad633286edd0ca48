"""M301 and M306 of a module that receives a state: the recurrent call that starts from zeros, or its forward."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

_WIDTH = 8


class Decoder(nn.Module):
    """Reads a sequence, from a state (samples × width) that it gets, if ``reads``."""

    def __init__(self, reads: bool) -> None:
        super().__init__()
        self.reads = reads
        self.build()

    def build(self) -> None:
        self.cell: nn.Module = nn.GRU(3, _WIDTH, batch_first=True)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        start = state[None] if self.reads else None
        hidden: Tensor = self.cell(x, start)[0]  # here
        return hidden[:, -1]


class WithZeros(Decoder):
    """Makes zeros in the place of the state."""

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        start = state if self.reads else x.new_zeros(state.shape)
        hidden: Tensor = self.cell(x, start[None])[0]  # here
        return hidden[:, -1]


class Lstm(Decoder):
    """Two states."""

    def build(self) -> None:
        self.cell = nn.LSTM(3, _WIDTH, batch_first=True)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        start = (state[None], torch.zeros_like(state)[None]) if self.reads else None
        hidden: Tensor = self.cell(x, start)[0]  # here
        return hidden[:, -1]


class Cell(Decoder):
    """A cell in a loop over the steps."""

    def build(self) -> None:
        self.cell = nn.GRUCell(3, _WIDTH)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        hidden = state if self.reads else x.new_zeros(len(x), _WIDTH)
        for step in x.unbind(1):
            hidden = self.cell(step, hidden)  # here
        return hidden


class Plain(Decoder):
    """A recurrent layer with a tanh, in a deeper block."""

    def build(self) -> None:
        self.cell, self.mix = nn.RNN(3, _WIDTH, batch_first=True), nn.Linear(_WIDTH, _WIDTH)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        last = self.cell(x, state[None])[1] if self.reads else self.cell(x)[1]  # here
        return torch.relu(self.mix(last[0]))


class TwoLayers(Decoder):
    """Two recurrent layers: it is not known which of them should start from the state."""

    def build(self) -> None:
        self.cell, self.second = (nn.GRU(size, _WIDTH, batch_first=True) for size in (3, _WIDTH))

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        hidden = self.cell(x, state[None] if self.reads else None)[0]
        hidden = self.second(hidden)[0]
        return hidden[:, -1]


class OtherWidth(Decoder):
    """A layer whose state is wider than the argument, which is joined to its result."""

    def build(self) -> None:
        self.cell, self.mix = nn.GRU(3, 12, batch_first=True), nn.Linear(12 + _WIDTH, _WIDTH)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        last = self.cell(x)[1][0]
        return self.mix(torch.cat([last, state if self.reads else x.new_zeros(state.shape)], 1))


class LearnedStart(Decoder):
    """A layer that starts from a parameter."""

    def build(self) -> None:
        super().build()
        self.start = nn.Parameter(torch.randn(_WIDTH))

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        start = self.start.expand(1, len(x), -1).contiguous()
        return self.cell(x, start)[1][0] + (state if self.reads else 0)


class OtherStart(Decoder):
    """A layer that starts from the first step."""

    def build(self) -> None:
        super().build()
        self.first = nn.Linear(3, _WIDTH)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        last = self.cell(x, self.first(x[:, 0])[None])[1][0]
        return last * state if self.reads else last


class NotRecurrent(Decoder):
    """A block without a recurrent layer."""

    def build(self) -> None:
        self.cell = nn.Linear(3, _WIDTH)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        mean: Tensor = self.cell(x.mean(1))
        return mean + state if self.reads else mean


class Pair(nn.Module):
    """A model of two sequences: the decoder gets what the encoder made of the other one."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder, self.head = nn.Linear(5, _WIDTH), decoder, nn.Linear(_WIDTH, 2)

    def forward(self, asked: Tensor, context: Tensor) -> Tensor:
        scores: Tensor = self.head(self.decoder(asked, torch.tanh(self.encoder(context))))
        return scores


def _pair_setup(decoder: Callable[[bool], nn.Module], reads: bool) -> Setup:
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 6, 3), torch.randn(64, 5), torch.arange(64) % 2)
    return Setup(Pair(decoder(reads)), DataLoader(data, batch_size=16), loss_fn=nn.CrossEntropyLoss())


_CLEAR, _UNCLEAR = (
    (Decoder, WithZeros, Lstm, Cell, Plain),
    (TwoLayers, OtherWidth, LearnedStart, OtherStart, NotRecurrent),
)


@pytest.mark.parametrize("code", ["M301", "M306"])
@pytest.mark.parametrize("decoder", _CLEAR)
def test_finding_stands_at_the_recurrent_call_without_its_state(decoder: type[Decoder], code: str) -> None:
    (finding,) = rule_findings(_pair_setup(decoder, False), code)
    assert "# here" in str(finding.where.source)
    assert "starts from a state of zeros" in finding.cause
    assert "Pass state to this layer as its first state" in finding.fix


@pytest.mark.parametrize("code", ["M301", "M306"])
@pytest.mark.parametrize("decoder", _UNCLEAR)
def test_finding_stands_at_the_forward_where_no_call_is_clearly_without_state(
    decoder: type[Decoder], code: str
) -> None:
    (finding,) = rule_findings(_pair_setup(decoder, False), code)
    assert "def forward(self, x: Tensor, state: Tensor)" in str(finding.where.source)


@pytest.mark.parametrize("decoder", [*_CLEAR, *_UNCLEAR])
def test_decoder_that_reads_its_state_is_quiet(decoder: type[Decoder]) -> None:
    assert not rule_findings(_pair_setup(decoder, True), "M301")
