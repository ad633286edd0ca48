"""Tests of M310 on outputs for each position of padded series: effects on all of them, and near the padding."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings


class Labeler(nn.Module):
    """A number for each step of a series (samples, steps, 2)."""

    def __init__(self, layer: nn.Module, mix: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.widen, self.layer, self.narrow, self.mix = nn.Linear(2, 12), layer, nn.Linear(12, 1), mix

    def forward(self, series: Tensor) -> Tensor:
        number: Tensor = self.narrow(self.mix(self.layer, torch.tanh(self.widen(series))))
        return number


def along_steps(layer: nn.Module, states: Tensor) -> Tensor:
    mixed: Tensor = layer(states.transpose(1, 2)).transpose(1, 2)
    return states + mixed


def attended(layer: nn.Module, states: Tensor) -> Tensor:
    mixed: Tensor = layer(states, states, states, need_weights=False)[0]
    return states + mixed


def centered(layer: nn.Module, states: Tensor) -> Tensor:
    mixed: Tensor = layer(states - states.mean(1, keepdim=True))
    return mixed


def recurrent(layer: nn.Module, states: Tensor) -> Tensor:
    mixed: Tensor = layer(states)[0]
    return mixed


def dilated() -> nn.Module:
    convolutions = [nn.Conv1d(12, 12, 5, padding=2 * step, dilation=step) for step in (1, 2)]
    return nn.Sequential(convolutions[0], nn.ReLU(), convolutions[1], nn.ReLU())


def padded_positions_findings(model: Labeler, *, label: float | None = None) -> int:
    """Return the number of findings; ``label`` is that of padded positions, and all of them are whole numbers."""
    generator = torch.Generator().manual_seed(4)
    lengths = torch.randint(6, 40, (80,), generator=generator).tolist()
    series = [torch.randn(length, 2, generator=generator) for length in lengths]

    def collate(samples: list[Tensor]) -> tuple[Tensor, Tensor]:
        padded = pad_sequence(samples, batch_first=True)
        if label is None:
            return padded, padded.sum(2, keepdim=True)
        tags = pad_sequence([(one.sum(1) > 0).long() for one in samples], batch_first=True, padding_value=label)
        return padded, tags

    def loss_of_tags(output: Tensor, tags: Tensor) -> Tensor:
        return nn.functional.binary_cross_entropy_with_logits(output[:, :, 0][tags >= 0], tags[tags >= 0].float())

    loader: DataLoader[Tensor] = DataLoader(series, 20, collate_fn=collate)  # type: ignore[arg-type]
    loss_fn = nn.MSELoss() if label is None else loss_of_tags
    return len(rule_findings(Setup(model, loader, loss_fn=loss_fn), "M310"))


@pytest.mark.parametrize(
    ("layer", "mix", "count"),
    [
        (lambda: nn.MultiheadAttention(12, 2, batch_first=True), attended, 1),
        (lambda: nn.InstanceNorm1d(12), along_steps, 1),
        (lambda: nn.Linear(12, 12), centered, 1),
        (dilated, along_steps, 0),
        (lambda: nn.Conv1d(12, 12, 7, padding=3), along_steps, 0),
        (lambda: nn.GRU(12, 12, batch_first=True), recurrent, 0),
    ],
    ids=["attention", "normalization", "mean", "dilated convolutions", "convolution", "forward recurrence"],
)
def test_padding_counts_for_outputs_of_positions_if_it_changes_nearly_all_of_them(
    layer: Callable[[], nn.Module], mix: Callable[[nn.Module, Tensor], Tensor], count: int
) -> None:
    torch.manual_seed(0)
    assert padded_positions_findings(Labeler(layer(), mix)) == count


def packed(layer: nn.Module, states: Tensor) -> Tensor:
    """Pack the states by the padding that the widened zeros show."""
    lengths = (states != states[:, -1:]).any(2).sum(1).clamp(min=1)
    ordered = pack_padded_sequence(states, lengths, batch_first=True, enforce_sorted=False)
    mixed: Tensor = pad_packed_sequence(layer(ordered)[0], batch_first=True, total_length=states.shape[1])[0]
    return mixed


@pytest.mark.parametrize(
    ("layer", "mix", "label", "count"),
    [
        (lambda: nn.GRU(12, 6, batch_first=True, bidirectional=True), recurrent, -100, 1),
        (lambda: nn.LSTM(12, 6, batch_first=True, bidirectional=True), recurrent, -1, 1),
        (lambda: nn.GRU(12, 6, batch_first=True, bidirectional=True), recurrent, 0, 0),
        (lambda: nn.GRU(12, 6, batch_first=True, bidirectional=True), packed, -100, 0),
        (lambda: nn.GRU(12, 12, batch_first=True), recurrent, -100, 0),
        (lambda: nn.Conv1d(12, 12, 7, padding=3), along_steps, -100, 0),
    ],
    ids=["both directions", "LSTM", "label of padding is unknown", "packed", "forward", "convolution"],
)
def test_padding_that_a_backward_recurrence_reads_first_is_reported_if_labels_mark_it(
    layer: Callable[[], nn.Module], mix: Callable[[nn.Module, Tensor], Tensor], label: float, count: int
) -> None:
    torch.manual_seed(0)
    assert padded_positions_findings(Labeler(layer(), mix), label=label) == count
