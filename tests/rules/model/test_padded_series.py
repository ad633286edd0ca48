"""Tests of M310 and trailing_padding: series of vectors that a collate function pads, without a mask or lengths."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings

Read = Callable[["Network", Tensor], Tensor]


class Network(nn.Module):
    """Scores of a function of a series (samples, steps, 3), with layers to choose from."""

    def __init__(self, read: Read, order: tuple[int, ...] = (0, 1, 2)) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gru, self.lstm = nn.GRU(3, 8, batch_first=True), nn.LSTM(3, 8, batch_first=True)
        self.near, self.far = nn.Conv1d(3, 8, 3, padding=1), nn.Conv1d(8, 8, 3, padding=1)
        self.cell, self.score, self.head = nn.GRUCell(3, 8), nn.Linear(8, 1), nn.Linear(8, 2)
        self.read, self.order = read, order

    def forward(self, batch: Tensor) -> Tensor:
        return self.head(self.read(self, batch.permute(self.order)))


def is_real(x: Tensor) -> Tensor:
    return x.ne(0).any(2)


def last_padded_state(net: Network, x: Tensor) -> Tensor:
    states, _ = net.gru(x)
    return states[:, -1]  # fault


def final_hidden_state(net: Network, x: Tensor) -> Tensor:
    _, (hidden, _) = net.lstm(x)  # fault
    return hidden[-1]


def mean_state(net: Network, x: Tensor) -> Tensor:
    return net.gru(x)[0].mean(1)  # fault


def attention_over_padding(net: Network, x: Tensor) -> Tensor:
    states = net.near(x.transpose(1, 2)).transpose(1, 2)
    weights = F.softmax(net.score(states), 1)  # fault
    return (weights * states).sum(1)


def state_at_the_end(net: Network, x: Tensor) -> Tensor:
    return net.gru(x)[0][torch.arange(len(x)), is_real(x).sum(1) - 1]


def packed_state(net: Network, x: Tensor) -> Tensor:
    lengths = is_real(x).sum(1)
    return net.lstm(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))[1][0][-1]


def held_state(net: Network, x: Tensor) -> Tensor:
    state = x.new_zeros(len(x), 8)
    for step, real in zip(x.unbind(1), is_real(x).unbind(1), strict=True):
        state = torch.where(real[:, None], net.cell(step, state), state)
    return state


def mean_of_real_steps(net: Network, x: Tensor) -> Tensor:
    real = is_real(x).unsqueeze(1)
    states = net.far(F.relu(net.near(x.transpose(1, 2))))
    return (states * real).sum(2) / real.sum(2)


def maximum_over_steps(net: Network, x: Tensor) -> Tensor:
    return F.relu(net.near(x.transpose(1, 2))).amax(2)


def masked_attention(net: Network, x: Tensor) -> Tensor:
    states = net.gru(x)[0]
    scores = net.score(states).squeeze(2).masked_fill(~is_real(x), -torch.inf)
    return torch.einsum("bt,btf->bf", scores.softmax(1), states)


def collate(samples: list[Any], width: int, order: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    series = pad_sequence([x for x, _ in samples], batch_first=True)
    series = F.pad(series, (0, 0, 0, max(width - series.shape[1], 0)))
    return series.permute(order).contiguous(), torch.tensor([y for _, y in samples])


def findings(read: Read, order: tuple[int, ...] = (0, 1, 2), width: int = 0, longest: int = 40) -> list[Finding]:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(3, longest, (96,), generator=generator).tolist()
    data: Any = [(torch.randn(n, 3, generator=generator), n % 2) for n in lengths]
    loader = DataLoader(data, batch_size=8, collate_fn=partial(collate, width=width, order=order))
    inverse = tuple(order.index(axis) for axis in range(3))
    model = Network(read, inverse)
    optimizer = torch.optim.Adam(model.parameters())
    debugger = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    return list(debugger.checkup(select=["M310"]))


@pytest.mark.parametrize("read", [last_padded_state, final_hidden_state, mean_state, attention_over_padding])
@pytest.mark.parametrize("longest", [20, 120])
def test_padding_of_series_that_changes_the_output_is_warning_at_its_line(read: Read, longest: int) -> None:
    (finding,) = findings(read, longest=longest)
    assert finding.severity == "warning"
    assert (finding.where.source or "").endswith("# fault")


@pytest.mark.parametrize("order", [(0, 2, 1), (1, 0, 2)], ids=["features first", "steps first"])
@pytest.mark.parametrize(("read", "count"), [(last_padded_state, 1), (state_at_the_end, 0)])
def test_padding_of_series_is_found_along_other_axes(read: Read, count: int, order: tuple[int, ...]) -> None:
    assert len(findings(read, order)) == count


HEALTHY = [state_at_the_end, packed_state, held_state, mean_of_real_steps, maximum_over_steps, masked_attention]


@pytest.mark.parametrize("read", HEALTHY)
@pytest.mark.parametrize("longest", [20, 120])
def test_padding_of_series_is_quiet_if_it_is_excluded(read: Read, longest: int) -> None:
    assert findings(read, longest=longest) == []


def test_padding_of_series_of_one_width_is_quiet_without_a_mask() -> None:
    assert findings(last_padded_state, width=40) == []


class PackedTagger(Network):
    """A tag for each real step, up to the longest series of the batch."""

    def forward(self, batch: Tensor) -> Tensor:
        packed = pack_padded_sequence(batch, is_real(batch).sum(1), batch_first=True, enforce_sorted=False)
        return self.head(pad_packed_sequence(self.gru(packed)[0], batch_first=True)[0])


def test_padding_of_series_is_quiet_for_outputs_of_different_lengths() -> None:
    data = [(torch.ones(5, 3), 0), (torch.ones(2, 3), 1), (torch.ones(3, 3), 0), (torch.ones(4, 3), 1)] * 3
    tags = torch.arange(4) % 2
    parts = [(collate(data[i : i + 4], 7, (0, 1, 2))[0], tags) for i in range(0, 12, 4)]
    setup = Setup(PackedTagger(mean_state), parts, loss_fn=lambda scores, y: F.cross_entropy(scores.mean(1), y))
    assert checkup_findings(setup, "M310") == []
