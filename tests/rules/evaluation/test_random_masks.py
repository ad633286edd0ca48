"""Tests of E701 on dropout written by hand: always active, following the mode, and randomness that is no dropout."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup

X, Y = points()
Middle = Callable[[nn.Module, Tensor], Tensor]


class HiddenFunction(nn.Module):
    """A network with a function of its hidden values."""

    def __init__(self, middle: Middle, outputs: int = 3) -> None:
        super().__init__()
        self.body, self.head, self.middle = nn.Linear(4, 8), nn.Linear(8, outputs), middle

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.middle(self, self.body(x)))


class WordDropout(nn.Module):
    """An embedding of words, some of which are replaced by the unknown word."""

    def __init__(self, always: bool) -> None:
        super().__init__()
        self.table, self.head, self.always = nn.Embedding(20, 8), nn.Linear(8, 3), always

    def forward(self, words: Tensor) -> Tensor:
        if self.always or self.training:
            words = words.clone()
            words[torch.rand(words.shape) < 0.3] = 1
        return self.head(self.table(words).mean(1))


def words_setup(always: bool) -> Setup:
    return minimal_setup(WordDropout(always), torch.randint(2, 20, (64, 6)), Y, nn.CrossEntropyLoss())


def setup_of(middle: Middle) -> Setup:
    return minimal_setup(HiddenFunction(middle), X, Y, nn.CrossEntropyLoss())


def reconstruction(middle: Middle) -> Setup:
    return minimal_setup(HiddenFunction(middle, 4), X, X, nn.MSELoss())


def e701_findings(setup: Setup) -> list[Finding]:
    report = Debugger.of(setup).checkup(select=["E701"])
    assert not report.not_checked
    return list(report)


def scaled_mask(model: nn.Module, x: Tensor) -> Tensor:
    mask = torch.rand(x.shape) > 0.4
    return x * mask / 0.6


def mask_with_scale(model: nn.Module, x: Tensor) -> Tensor:
    return x * (torch.bernoulli(torch.full((x.shape[1],), 0.5)) / 0.5)


def filled_in_place(model: nn.Module, x: Tensor) -> Tensor:
    x = x.clone()
    return x.masked_fill_(torch.rand_like(x) < 0.3, 0.0)


def mask_of_python_numbers(model: nn.Module, x: Tensor) -> Tensor:
    return x * torch.tensor([random.random() > 0.5 for _ in range(x.shape[1])])


def mask_in_training(model: nn.Module, x: Tensor) -> Tensor:
    return scaled_mask(model, x) if model.training else x


def seeded_mask(model: nn.Module, x: Tensor) -> Tensor:
    return x * (torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) > 0.5)


def sampled_latent(model: nn.Module, x: Tensor) -> Tensor:
    mean, scale = x[:, :4], x[:, 4:].exp()
    return torch.cat([mean + scale * torch.randn_like(mean), mean], 1)


def sampled_units(model: nn.Module, x: Tensor) -> Tensor:
    return torch.bernoulli(x.sigmoid())


FAULTS: dict[str, tuple[Callable[[], Setup], str]] = {
    "mask times values": (lambda: setup_of(scaled_mask), "torch.rand(x.shape) > 0.4"),
    "mask with scale": (lambda: setup_of(mask_with_scale), "torch.bernoulli"),
    "in place": (lambda: setup_of(filled_in_place), "x.masked_fill_"),
    "numbers of Python": (lambda: setup_of(mask_of_python_numbers), "random.random()"),
    "words": (lambda: words_setup(True), "torch.rand(words.shape)"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_evaluating_in_train_mode_of_own_dropout_is_an_error_at_its_line(name: str) -> None:
    build, line = FAULTS[name]
    (finding,) = e701_findings(build())
    assert finding.severity == "error"
    assert line in (finding.where.source or "")


HEALTHY: dict[str, Callable[[], Setup]] = {
    "in train mode only": lambda: setup_of(mask_in_training),
    "words in train mode only": lambda: words_setup(False),
    "the same mask at each call": lambda: setup_of(seeded_mask),
    "latent sample": lambda: setup_of(sampled_latent),
    "stochastic units": lambda: setup_of(sampled_units),
    "masked autoencoder": lambda: reconstruction(scaled_mask),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_evaluating_in_train_mode_of_other_randomness_is_at_most_a_note(name: str) -> None:
    assert {finding.severity for finding in e701_findings(HEALTHY[name]())} <= {"note"}


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("is_packed", [False, True])
def test_evaluating_in_train_mode_of_recurrent_dropout_is_an_error(kind: type[nn.RNNBase], is_packed: bool) -> None:
    recurrent = kind(8, 8, 2, dropout=0.5, batch_first=True)

    def run(model: nn.Module, x: Tensor) -> Tensor:
        sequence = x.unsqueeze(1).expand(-1, 3, -1)
        if not is_packed:
            return recurrent(sequence)[0][:, -1]
        packed = nn.utils.rnn.pack_padded_sequence(sequence, torch.full((len(x),), 3), batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(recurrent(packed)[0], batch_first=True)[0][:, -1]

    (finding,) = e701_findings(setup_of(run))
    assert finding.severity == "error"
    recurrent.eval()
    assert e701_findings(setup_of(run)) == []
