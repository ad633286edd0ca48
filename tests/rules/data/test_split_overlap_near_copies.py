"""Tests of D108 with near copies and overlapping windows, and with samples that are close by nature."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, random_split

from nbdebug.setup import Setup
from tests.rules.rule_findings import fault_messages, rule_findings

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(300, 8, generator=GENERATOR)
Y = (X.sum(1) > 0).long()
SERIES = torch.randn(500, 1, generator=GENERATOR).cumsum(0)
WINDOWS = torch.stack([SERIES[i : i + 16] for i in range(480)])
CHANNELS = torch.cat([WINDOWS, WINDOWS.square(), WINDOWS.abs()], dim=2).transpose(1, 2)  # channels before time
NEXT = SERIES[16:496]


def noisy_copies(x: Tensor, copies: int = 3) -> Tensor:
    return torch.cat([x + 0.02 * torch.randn(x.shape, generator=GENERATOR) for _ in range(copies)])


def random_split_setup(x: Tensor, y: Tensor, width: int = 8) -> Setup:
    train, val = random_split(TensorDataset(x, y), [0.8, 0.2], generator=torch.Generator().manual_seed(1))
    return two_split_setup(train, val, width, y)


def two_split_setup(train: object, val: object, width: int, y: Tensor) -> Setup:
    model = nn.Sequential(nn.Flatten(), nn.Linear(width, 2 if y.dim() == 1 else 1))
    loss_fn = nn.CrossEntropyLoss() if y.dim() == 1 else nn.MSELoss()
    return Setup(model, DataLoader(train, 20, shuffle=True), DataLoader(val, 20), loss_fn=loss_fn)  # type: ignore[arg-type]


def augmentation_after_split() -> Setup:
    train = TensorDataset(noisy_copies(X[:200]), Y[:200].repeat(3))
    return two_split_setup(train, TensorDataset(X[200:], Y[200:]), 8, Y)


def oversampling_before_split() -> Setup:
    rare_indices = (X[:, 0] > 1.5).nonzero().flatten()
    indices = rare_indices[torch.randint(len(rare_indices), (250,), generator=GENERATOR)]
    noisy_samples = X[indices] + 0.01 * torch.randn(250, 8, generator=GENERATOR)
    return random_split_setup(
        torch.cat([X, noisy_samples]), torch.cat([(X[:, 0] > 1.5).long(), torch.ones(250).long()])
    )


def left_padded_sequences() -> Setup:
    """Sequences of 2 to 12 values, left-padded with zeros; the short sequences are close to each other."""
    steps = 12 - torch.randint(2, 13, (2400, 1), generator=GENERATOR)
    x = torch.randn(2400, 12, generator=GENERATOR) * (torch.arange(12) >= steps)
    return random_split_setup(x, x.sum(1, keepdim=True), 12)


def gaps_written_as_a_far_number() -> Setup:
    """Weeks of five gauges, with a number for missing readings that is far from all others, cut in time."""
    random = torch.Generator().manual_seed(0)
    level = 3 + torch.randn(1800, 5, generator=random)
    gaps = torch.rand(level.shape, generator=random) < 0.02
    readings, y = level.masked_fill(gaps, -999.0), level.sum(1, keepdim=True)
    weeks, y = readings.unfold(0, 7, 1).transpose(1, 2)[:-1], y[7:]
    return two_split_setup(TensorDataset(weeks[:1400], y[:1400]), TensorDataset(weeks[1400:], y[1400:]), 35, y)


def prototypes_with_noise() -> Setup:
    """Samples of 60 kinds, each a prototype with noise; about sixteen training samples are equally close to each."""
    prototypes = torch.randn(60, 16, generator=GENERATOR)
    x = prototypes.repeat(20, 1) + 0.1 * torch.randn(1200, 16, generator=GENERATOR)
    return random_split_setup(x, x.sum(1, keepdim=True), 16)


def inputs_with_zeros_at_random() -> Setup:
    """Readings that depend on three numbers, of which three in ten are replaced by zero, beside flags of these."""
    generator, mixing = torch.Generator().manual_seed(3), torch.randn(3, 10, generator=GENERATOR)

    def readings(count: int) -> TensorDataset:
        values = torch.tanh(torch.randn(count, 3, generator=generator) @ mixing / 1.7)
        hidden = torch.rand(count, 10, generator=generator) < 0.3
        return TensorDataset(torch.cat([values.masked_fill(hidden, 0.0), hidden.float()], 1), values)

    return two_split_setup(readings(1500), readings(500), 20, X)


def rows_beside_a_code(renumbered: bool) -> Setup:
    """Two numbers and the code of a brand, whose frequencies differ; the splits may number the brands differently."""
    generator = torch.Generator().manual_seed(4)
    shares = torch.tensor([0.27, 0.21, 0.16, 0.12, 0.09, 0.07, 0.05, 0.03])

    def table(count: int, codes: Tensor) -> TensorDataset:
        brand = torch.multinomial(shares, count, replacement=True, generator=generator)
        numbers = torch.rand(count, 2, generator=generator) * 2 - 1
        price = shares[brand, None] + numbers.sum(1, keepdim=True)
        return TensorDataset(torch.cat([codes[brand, None].float(), numbers], 1), price)

    train, codes = table(2000, torch.arange(8)), torch.arange(8).flip(0) if renumbered else torch.arange(8)
    return two_split_setup(train, table(500, codes), 3, X)


def windows_split_in_time(windows: Tensor = WINDOWS) -> Setup:
    train, val = TensorDataset(windows[:380], NEXT[:380]), TensorDataset(windows[396:], NEXT[396:])
    return two_split_setup(train, val, windows[0].numel(), NEXT)


FAULTY: dict[str, Callable[[], Setup]] = {
    "augmented before the split": lambda: random_split_setup(noisy_copies(X), Y.repeat(3)),
    "oversampled before the split": oversampling_before_split,
    "repeated before the split": lambda: random_split_setup(X.repeat(4, 1), Y.repeat(4)),
    "windows split at random": lambda: random_split_setup(WINDOWS, NEXT, 16),
    "windows of one channel": lambda: random_split_setup(WINDOWS.transpose(1, 2), NEXT, 16),
    "windows of channels before time": lambda: random_split_setup(CHANNELS, NEXT, 48),
}


def shapes_at_all_angles() -> Setup:
    """Outlines of six shapes that start at a random angle, with noise: each shape is a closed curve among the rows."""
    generator = torch.Generator().manual_seed(3)
    waves, kinds = torch.randn(6, 4, 2, generator=generator), torch.arange(700) % 6
    phases = torch.linspace(0, 6.283, 33)[:-1] + 6.283 * torch.rand(700, 1, generator=generator)
    cosines, sines = (torch.stack([f((k + 1) * phases) for k in range(4)], 1) for f in (torch.cos, torch.sin))
    outlines = (waves[kinds, :, :1] * cosines + waves[kinds, :, 1:] * sines).sum(1)
    return random_split_setup(outlines + 0.05 * torch.randn(outlines.shape, generator=generator), kinds)


HEALTHY: dict[str, Callable[[], Setup]] = {
    "augmented after the split": augmentation_after_split,
    "windows split in time": windows_split_in_time,
    "windows of channels split in time": lambda: windows_split_in_time(CHANNELS),
    "short sequences among zeros": left_padded_sequences,
    "gaps written as a far number": gaps_written_as_a_far_number,
    "prototypes with noise": prototypes_with_noise,
    "rows beside a code": lambda: rows_beside_a_code(renumbered=False),
    "rows beside a renumbered code": lambda: rows_beside_a_code(renumbered=True),
    "zeros at random": inputs_with_zeros_at_random,
    "noise": lambda: random_split_setup(X, Y),
    "points along a line": lambda: random_split_setup(X[:, :1] * torch.ones(8), Y),
    "shapes at all angles": shapes_at_all_angles,
    "points in a plane": lambda: random_split_setup(X[:, :2].repeat(1, 4), Y),
    "large clusters": lambda: random_split_setup(X[:4].repeat(75, 1) + 0.05 * X, torch.arange(4).repeat(75) % 2),
}


@pytest.mark.parametrize("name", FAULTY)
def test_split_overlap_of_near_copies_is_reported(name: str) -> None:
    assert len(fault_messages(FAULTY[name](), "D108")) == 1


@pytest.mark.parametrize("name", HEALTHY)
def test_split_overlap_of_naturally_close_samples_is_quiet(name: str) -> None:
    assert fault_messages(HEALTHY[name](), "D108") == []


def test_split_overlap_of_windows_names_a_pair() -> None:
    finding = rule_findings(FAULTY["windows split at random"](), "D108")[0]
    train_index, val_index = finding.evidence["pairs of train and val"][0]
    assert abs(train_index - val_index) > 0 or train_index == val_index
    assert finding.where.sample == val_index
