"""Tests of M304: recurrent layers that get a matrix and take its rows, the samples, for the steps of one sequence."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings

TABLE = torch.randn(96, 5, generator=torch.Generator().manual_seed(0))


class TableReader(nn.Module):
    """A recurrent layer on rows of five numbers, and a head on what ``read`` takes of its result."""

    def __init__(self, layer: nn.RNNBase, prepare: Callable[[Tensor], Tensor], read: Callable[..., Tensor]) -> None:
        super().__init__()
        self.layer, self.prepare, self.read, self.head = layer, prepare, read, nn.Linear(layer.hidden_size, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.prepare(x)
        result = self.layer(x)
        return self.head(self.read(*result)).squeeze(-1)


def unchanged(x: Tensor) -> Tensor:
    return x


def as_one_step(x: Tensor) -> Tensor:
    return x.unsqueeze(1)


def all_states(states: Tensor, _: object) -> Tensor:
    return states


def last_state(_: Tensor, state: Tensor) -> Tensor:
    return state[-1]


def last_of_pair(_: Tensor, pair: tuple[Tensor, Tensor]) -> Tensor:
    return pair[0][-1]


def mean_state(states: Tensor, _: object) -> Tensor:
    return states.mean(0)


def reader_setup(
    layer: nn.RNNBase, prepare: Callable[[Tensor], Tensor], read: Callable[..., Tensor], *, shuffle: bool = True
) -> Setup:
    loader = DataLoader(TensorDataset(TABLE, TABLE[:, 0].abs()), batch_size=32, shuffle=shuffle)
    return Setup(TableReader(layer, prepare, read), loader, loss_fn=nn.MSELoss())


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize(
    ("layer", "read", "shuffle", "severity"),
    [
        (nn.LSTM(5, 4, batch_first=True), last_of_pair, True, "error"),
        (nn.GRU(5, 4), last_state, False, "error"),
        (nn.RNN(5, 4, batch_first=True), mean_state, True, "error"),
        (nn.GRU(5, 4), all_states, True, "error"),
        (nn.LSTM(5, 4, bidirectional=True, proj_size=2), lambda states, _: states @ torch.ones(4, 4), True, "error"),
        (nn.GRU(5, 4, batch_first=True), all_states, False, "note"),  # rows in order may be the steps of a sequence
    ],
)
def test_batch_mixing_names_the_recurrent_layer_that_gets_a_matrix(
    layer: nn.RNNBase, read: Callable[..., Tensor], shuffle: bool, severity: str
) -> None:
    (finding,) = checkup_findings(reader_setup(layer, unchanged, read, shuffle=shuffle), "M304")
    assert (finding.severity, finding.where.module) == (severity, "layer")
    assert "result = self.layer(x)" in (finding.where.source or "")
    assert "two axes" in finding.cause
    assert f"x.unsqueeze({int(layer.batch_first)})" in finding.fix


@pytest.mark.parametrize("read", [last_state, lambda states, _: states[:, -1]])
def test_batch_mixing_is_quiet_for_rows_of_one_step(read: Callable[..., Tensor]) -> None:
    assert checkup_findings(reader_setup(nn.GRU(5, 4, batch_first=True), as_one_step, read), "M304") == []


def test_batch_mixing_is_quiet_for_a_sequence_without_an_effect_on_other_samples() -> None:
    setup = reader_setup(nn.GRU(5, 4, batch_first=True), unchanged, lambda states, _: 0 * states)
    assert checkup_findings(setup, "M304") == []
