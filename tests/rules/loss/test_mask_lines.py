"""Tests of the place of L214 for masks of padding that a loss reads in the opposite sense: the line that makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

_Target = dict[str, Tensor]
_LENGTHS = torch.randint(4, 13, (48,), generator=torch.Generator().manual_seed(2)).tolist()
_SIGNALS = [torch.randn(n, generator=torch.Generator().manual_seed(n + 3 * i)) for i, n in enumerate(_LENGTHS)]


class Pieces(Dataset[Tensor]):
    """Signals of several lengths."""

    def __len__(self) -> int:
        return len(_SIGNALS)

    def __getitem__(self, index: int) -> Tensor:
        return _SIGNALS[index]


class Filled(Pieces):
    """The same signals, filled with zeros, and where they end."""

    def __getitem__(self, index: int) -> Any:
        signal, length = _SIGNALS[index], len(_SIGNALS[index])
        filled = torch.cat([signal, torch.zeros(12 - length)])
        ended = torch.arange(12) >= length  # here
        return filled, {"signal": filled * 2, "ended": ended}


def after_end(lengths: list[int]) -> Tensor:
    return torch.stack([torch.arange(max(lengths)) >= length for length in lengths])


def before_end(lengths: list[int]) -> Tensor:
    return ~after_end(lengths)


def collating(make_mask: Callable[[list[int]], Tensor]) -> Callable[[list[Tensor]], Any]:
    def collate(signals: list[Tensor]) -> Any:
        padded = pad_sequence(signals, batch_first=True)
        ended = make_mask([len(signal) for signal in signals])  # here
        return padded, {"signal": padded * 2, "ended": ended}

    return collate


class Scale(nn.Module):
    """A factor for each value."""

    def __init__(self) -> None:
        super().__init__()
        self.lift, self.drop = nn.Conv1d(1, 4, 1), nn.Conv1d(4, 1, 1)

    def forward(self, signal: Tensor) -> Tensor:
        scaled: Tensor = self.drop(self.lift(signal.unsqueeze(1)).tanh()).squeeze(1)
        return scaled


def selected(output: Tensor, target: _Target) -> Tensor:
    return (output - target["signal"])[target["ended"]].square().mean()


def weighted(output: Tensor, target: _Target) -> Tensor:
    weight = target["ended"].float()
    return (weight * (output - target["signal"]).abs()).sum() / weight.sum()


def filled(output: Tensor, target: _Target) -> Tensor:
    error = (output - target["signal"]).square()
    return error.masked_fill(target["ended"].logical_not(), 0.0).sum() / target["ended"].sum()  # in the loss


def chosen(output: Tensor, target: _Target) -> Tensor:
    error = (output - target["signal"]).square()
    return torch.where(target["ended"], error, torch.zeros_like(error)).sum()


LOSSES = {"selected": selected, "weighted": weighted, "filled": filled, "chosen": chosen}


def l214_lines(dataset: Dataset[Any], collate: Any, loss_fn: Any) -> list[str]:
    torch.manual_seed(0)
    loader: DataLoader[Any] = DataLoader(dataset, 24, collate_fn=collate)
    return [finding.where.source or "" for finding in rule_faults(Setup(Scale(), loader, loss_fn=loss_fn), "L214")]


@pytest.mark.parametrize("name", LOSSES)
def test_the_loss_of_padding_alone_is_placed_where_the_batch_gets_its_mask(name: str) -> None:
    (source,) = l214_lines(Pieces(), collating(after_end), LOSSES[name])
    assert source.endswith(
        "# in the loss" if name == "filled" else "make_mask([len(signal) for signal in signals])  # here"
    )


@pytest.mark.parametrize("name", ["selected", "weighted", "chosen"])
def test_the_loss_of_padding_alone_is_placed_where_the_sample_gets_its_mask(name: str) -> None:
    (source,) = l214_lines(Filled(), None, LOSSES[name])
    assert source.endswith("ended = torch.arange(12) >= length  # here")


@pytest.mark.parametrize("name", LOSSES)
def test_the_loss_of_data_alone_is_quiet(name: str) -> None:
    assert l214_lines(Pieces(), collating(before_end), LOSSES[name]) == []
