"""M304 on what a sample's place in its batch, or the batch before, does to its output."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import points
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings

SERIES = torch.randn(64, 6, 4, generator=torch.Generator().manual_seed(2))
Y = points()[1]


def of(model: nn.Module, shuffle: bool = True) -> Setup:
    loader = DataLoader(TensorDataset(SERIES, Y), batch_size=16, shuffle=shuffle)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(torch.optim.Adam(model.parameters()),))


class KeptState(nn.Module):
    """A recurrent network that begins where the last batch ended."""

    def __init__(self, body: type[nn.RNNBase] = nn.GRU) -> None:
        super().__init__()
        self.body, self.head = body(4, 8, batch_first=True), nn.Linear(8, 3)
        self.state = None

    def forward(self, x: Tensor) -> Tensor:
        states, state = self.body(x, self.state)
        self.state = tuple(t.detach() for t in state) if isinstance(state, tuple) else state.detach()
        return self.head(states[:, -1])


class ResetState(KeptState):
    """The same, which begins anew and keeps its state for the user to look at."""

    def forward(self, x: Tensor) -> Tensor:
        self.state = None
        return super().forward(x)


class Queued(nn.Module):
    """Compares samples with those of earlier batches, a few of which are replaced each time."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.queue, self.at = nn.Linear(4, 8), torch.randn(64, 8), 0

    def forward(self, x: Tensor) -> Tensor:
        codes = self.body(x.mean(1))
        scores = codes @ self.queue.t()
        self.queue = self.queue.clone()
        self.queue[self.at : self.at + len(x)] = codes.detach()
        self.at = (self.at + len(x)) % 64
        return scores[:, :3]


class Positioned(nn.Module):
    """Attention over positions that run along an axis of the batch."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis, self.attention = axis, nn.MultiheadAttention(4, 1, batch_first=True)
        self.places, self.head = nn.Parameter(torch.randn(16, 4)), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.places[: x.shape[self.axis]].unsqueeze(1 - self.axis)
        return self.head(self.attention(x, x, x)[0].mean(1))


class Sampling(nn.Module):
    """Draws a code for each sample, in every mode."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        code = self.body(x.mean(1))
        return self.head(code + torch.randn_like(code))


@pytest.mark.parametrize("body", [nn.GRU, nn.LSTM])
def test_a_state_kept_over_shuffled_batches_is_found_at_its_line(body: type[nn.RNNBase]) -> None:
    (found,) = checkup_findings(of(KeptState(body)), "M304")
    assert found.severity == "error"
    assert "self.state = tuple(" in (found.where.source or "")


def test_a_state_kept_over_batches_in_order_is_a_note() -> None:
    assert [one.severity for one in checkup_findings(of(KeptState(), shuffle=False), "M304")] == ["note"]


def test_positions_along_the_batch_are_found_at_their_line() -> None:
    (found,) = checkup_findings(of(Positioned(0)), "M304")
    assert found.severity == "error"
    assert "self.places" in (found.where.source or "")


QUIET: dict[str, Callable[[], nn.Module]] = {
    "state that is reset": ResetState,
    "queue": Queued,
    "positions along the sequence": lambda: Positioned(1),
    "random codes": Sampling,
}


@pytest.mark.parametrize("name", QUIET)
def test_samples_that_stand_for_themselves_are_left_alone(name: str) -> None:
    assert [one for one in checkup_findings(of(QUIET[name]()), "M304") if one.severity != "note"] == []
