"""Tests of M304: outputs that depend on the position of a sample in its batch, or on the previous batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import points
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings

SERIES = torch.randn(64, 6, 4, generator=torch.Generator().manual_seed(2))
Y = points()[1]


def setup_of(model: nn.Module, shuffle: bool = True) -> Setup:
    loader = DataLoader(TensorDataset(SERIES, Y), batch_size=16, shuffle=shuffle)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(torch.optim.Adam(model.parameters()),))


class CarriedState(nn.Module):
    """A recurrent network that carries its state from batch to batch."""

    def __init__(self, body: type[nn.RNNBase] = nn.GRU) -> None:
        super().__init__()
        self.body, self.head = body(4, 8, batch_first=True), nn.Linear(8, 3)
        self.state = None

    def forward(self, x: Tensor) -> Tensor:
        if self.state is not None and len(x) != 16:
            self.state = None
        states, state = self.body(x, self.state)
        self.state = tuple(t.detach() for t in state) if isinstance(state, tuple) else state.detach()
        return self.head(states[:, -1])


class ResetState(CarriedState):
    """Resets the state before each batch and keeps the last one for inspection."""

    def forward(self, x: Tensor) -> Tensor:
        self.state = None
        return super().forward(x)


class SampleQueue(nn.Module):
    """Compares samples with a queue of samples from earlier batches."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.queue, self.start = nn.Linear(4, 8), torch.randn(64, 8), 0

    def forward(self, x: Tensor) -> Tensor:
        codes = self.body(x.mean(1))
        scores = codes @ self.queue.t()
        self.queue = self.queue.clone()
        self.queue[self.start : self.start + len(x)] = codes.detach()
        self.start = (self.start + len(x)) % 64
        return scores[:, :3]


class PositionalAttention(nn.Module):
    """Attention with learned positions along the samples (axis 0) or the steps (axis 1)."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis, self.attention = axis, nn.MultiheadAttention(4, 1, batch_first=True)
        self.positions, self.head = nn.Parameter(torch.randn(16, 4)), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.positions[: x.shape[self.axis]].unsqueeze(1 - self.axis)
        return self.head(self.attention(x, x, x)[0].mean(1))


class LatentSampling(nn.Module):
    """Samples a latent code in training and in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        code = self.body(x.mean(1))
        return self.head(code + torch.randn_like(code))


@pytest.mark.parametrize("body", [nn.GRU, nn.LSTM])
def test_batch_mixing_by_state_carried_over_shuffled_batches_is_error_at_its_line(body: type[nn.RNNBase]) -> None:
    (finding,) = checkup_findings(setup_of(CarriedState(body)), "M304")
    assert finding.severity == "error"
    assert "self.state = tuple(" in (finding.where.source or "")


def test_batch_mixing_by_state_carried_over_ordered_batches_is_note() -> None:
    findings = checkup_findings(setup_of(CarriedState(), shuffle=False), "M304")
    assert [finding.severity for finding in findings] == ["note"]


def test_batch_mixing_by_positions_along_batch_axis_is_error_at_its_line() -> None:
    (finding,) = checkup_findings(setup_of(PositionalAttention(0)), "M304")
    assert finding.severity == "error"
    assert "self.positions" in (finding.where.source or "")
    assert "The addition combines sample k of the batch with row k of another tensor" in finding.message
    assert "`" not in finding.fix_text


class SlicedTable(PositionalAttention):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.table[: x.size(0)]
        return self.head(self.attention(x, x, x)[0].mean(1))

    def __init__(self) -> None:
        super().__init__(0)
        self.register_buffer("table", torch.randn(40, 1, 4))


class LengthOfStates(PositionalAttention):
    def forward(self, x: Tensor) -> Tensor:
        states = (2 * x) + self.positions[: len(x)].unsqueeze(1)
        return self.head(self.attention(states, states, states)[0].mean(1))


class EmbeddedPositions(PositionalAttention):
    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(torch.arange(x.shape[0])).unsqueeze(1) + x
        return self.head(self.attention(x, x, x)[0].mean(1))

    def __init__(self) -> None:
        super().__init__(0)
        self.embed = nn.Embedding(40, 4)


SUMS: dict[str, tuple[Callable[[], nn.Module], str, str]] = {
    "buffer": (SlicedTable, "x + self.table[: x.size(1)].transpose(0, 1)", "self.table has shape (40, 1, 4): axis 0"),
    "length": (
        lambda: LengthOfStates(0),
        "(2 * x) + self.positions[: x.size(1)].unsqueeze(0)",
        "self.positions has shape (16, 4): axis 0",
    ),
    "embedding": (
        EmbeddedPositions,
        "self.embed(torch.arange(x.size(1))).unsqueeze(0) + x",
        "runs along the batch axis",
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_batch_mixing_by_positions_is_mended_in_the_sum_with_its_own_operands(name: str) -> None:
    model, fix, cause = SUMS[name]
    (finding,) = checkup_findings(setup_of(model()), "M304")
    assert finding.fix == fix
    assert cause in finding.cause
    assert len(finding.edits) == 1
    assert "the rule no longer reports it" in finding.trial


HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "state that is reset": ResetState,
    "queue": SampleQueue,
    "positions along the sequence": lambda: PositionalAttention(1),
    "random codes": LatentSampling,
}


@pytest.mark.parametrize("name", HEALTHY)
def test_batch_mixing_of_independent_samples_is_at_most_note(name: str) -> None:
    findings = checkup_findings(setup_of(HEALTHY[name]()), "M304")
    assert [finding for finding in findings if finding.severity != "note"] == []


STORE: dict[int, Any] = {}


def detached(state: Any) -> Any:
    return tuple(part.detach() for part in state) if isinstance(state, tuple) else state.detach()


class KeptOutside(nn.Module):
    """A recurrent network whose state is in a dictionary that no module owns, kept by ``keep`` if it fits."""

    def __init__(self, body: nn.Module, keep: Callable[[Any], Any] = detached) -> None:
        super().__init__()
        self.body, self.head, self.keep = body, nn.Linear(8, 3), keep

    def forward(self, x: Tensor) -> Tensor:
        state = STORE.get(id(self))
        first = state[0] if isinstance(state, tuple) else state
        states, state = self.body(x, state if first is not None and first.shape[-2] == len(x) else None)
        STORE[id(self)] = self.keep(state)
        return self.head(states[:, -1])


class Smoothed(nn.Module):
    """A network that subtracts a mean of the samples, kept by its class from the last call; ``resets`` forgets it."""

    center: Tensor | None = None

    def __init__(self, resets: bool = False) -> None:
        super().__init__()
        self.body, self.head, self.resets = nn.Linear(4, 8), nn.Linear(8, 3), resets

    def forward(self, x: Tensor) -> Tensor:
        code = torch.tanh(self.body(x.mean(1)))
        center = Smoothed.center if Smoothed.center is not None and not self.resets else 0.0
        Smoothed.center = code.detach().mean(0)
        return self.head(code - center)


class OwnNoise(nn.Module):
    """Adds numbers of a generator of its own, which no seed resets."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.body, self.head, generator = nn.Linear(4, 8), nn.Linear(8, 3), torch.Generator().manual_seed(1)
        self.draw = lambda: scale * torch.randn(8, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x.mean(1)) + self.draw())


class CachedPositions(OwnNoise):
    """Adds positions that the first call has computed, and noise as of sums in another order."""

    def forward(self, x: Tensor) -> Tensor:
        if id(self) not in STORE:
            STORE[id(self)] = torch.sin(torch.arange(x.shape[1] * 4.0)).view(-1, 4)
        return super().forward(x + STORE[id(self)])


class KeptQueue(nn.Module):
    """Compares samples with a queue of earlier ones that no module owns."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        codes, queue = self.body(x.mean(1)), STORE.get(id(self), torch.ones(64, 8))
        STORE[id(self)] = torch.cat([codes.detach(), queue])[:64]
        return self.head(torch.tanh(codes @ queue.t()))


class CountedCalls(nn.Module):
    """A noise that grows with the number of calls, which is no value of a tensor."""

    def __init__(self, counter: Iterator[int]) -> None:
        super().__init__()
        self.body, self.head, self.count = nn.Linear(4, 8), nn.Linear(8, 3), lambda: next(counter)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x.mean(1)) * (1 + 0.1 * self.count()))


OUTSIDE = {
    "gru": lambda: KeptOutside(nn.GRU(4, 8, batch_first=True)),
    "lstm": lambda: KeptOutside(nn.LSTM(4, 8, batch_first=True)),
    "two layers": lambda: KeptOutside(nn.RNN(4, 8, 2, batch_first=True)),
    "half of the state": lambda: KeptOutside(nn.GRU(4, 8, batch_first=True), lambda state: 0.5 * state.detach()),
    "faint state": lambda: KeptOutside(nn.GRU(4, 8, batch_first=True), lambda state: 1e-3 * state.detach()),
    "faint state of two layers": lambda: KeptOutside(nn.RNN(4, 8, 2, batch_first=True), lambda s: 1e-3 * s.detach()),
    "class attribute": Smoothed,
}
NOT_CARRIED = {
    "state that is replaced": lambda: KeptOutside(nn.GRU(4, 8, batch_first=True), torch.zeros_like),
    "state that is never read": lambda: KeptOutside(nn.GRU(4, 8, batch_first=True), lambda state: None),
    "class attribute without effect": lambda: Smoothed(resets=True),
    "state without effect": lambda: KeptOutside(nn.GRU(4, 8, batch_first=True), lambda state: 1e-9 * state.detach()),
    "generator": OwnNoise,
    "faint noise": lambda: OwnNoise(1e-5),
    "cache and faint noise": lambda: CachedPositions(1e-5),
    "queue": lambda: KeptQueue(),
    "counter": lambda: CountedCalls(count()),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_m304_values_kept_outside_of_the_modules_fire_at_the_call_that_reads_them(name: str) -> None:
    (finding,) = checkup_findings(setup_of(OUTSIDE[name]()), "M304")
    assert finding.severity == "error"
    assert "outside of the modules" in finding.cause
    assert "self.body(x, state" in (finding.where.source or "") or "code - center" in (finding.where.source or "")


@pytest.mark.parametrize("name", NOT_CARRIED)
def test_m304_models_that_read_no_value_of_the_pass_before_are_quiet(name: str) -> None:
    assert checkup_findings(setup_of(NOT_CARRIED[name]()), "M304") == []
