"""Tests of D117 with datasets that keep their samples, after or before a random transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.measurements import Measurements
from nbdebug.rule_engine import rule_registry
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

_COUNT, _LENGTH = 120, 40


class Recordings(Dataset[Any]):
    """Stored waves of two kinds; subclasses transform and keep them."""

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        phases = generator.uniform(0, 6, (_COUNT, 3, 1))
        self.waves = np.sin(np.arange(1, 4)[:, None] * np.linspace(0, 9, _LENGTH) / 3 + phases).sum(1)
        self.kinds = (np.arange(_COUNT) % 2).tolist()
        self.kept: dict[int, Tensor] = {}
        self.slots: list[Tensor | None] = [None] * _COUNT
        self.random = np.random.default_rng(1)

    def __len__(self) -> int:
        return _COUNT

    def load(self, index: int) -> Tensor:
        return torch.from_numpy(self.waves[index]).float()

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.wave(index), self.kinds[index]

    def wave(self, index: int) -> Tensor:
        return self.load(index)


def with_noise(wave: Tensor) -> Tensor:
    return wave * (0.8 + 0.4 * torch.rand(())) + 0.2 * torch.randn(_LENGTH)


class KeptAfterNoise(Recordings):
    def wave(self, index: int) -> Tensor:
        if index not in self.kept:
            self.kept[index] = with_noise(self.load(index))
        return self.kept[index]


class KeptInSlots(Recordings):
    def wave(self, index: int) -> Tensor:
        if self.slots[index] is None:
            self.slots[index] = with_noise(self.load(index)).roll(int(np.random.randint(3)))
        return self.slots[index]  # type: ignore[return-value]


class KeptWithOwnGenerator(Recordings):
    def wave(self, index: int) -> Tensor:
        if index not in self.kept:
            noise = self.random.normal(0, 0.3, _LENGTH)
            self.kept[index] = self.load(index) + torch.from_numpy(noise).float()
        return self.kept[index]


class KeptBeforeNoise(Recordings):
    def wave(self, index: int) -> Tensor:
        if index not in self.kept:
            self.kept[index] = self.load(index)
        return with_noise(self.kept[index])


class KeptUnchanged(Recordings):
    def wave(self, index: int) -> Tensor:
        return self.kept.setdefault(index, self.load(index) / 2)


class Generated(Recordings):
    """Waves that are made for each index, and kept."""

    def wave(self, index: int) -> Tensor:
        if index not in self.kept:
            self.kept[index] = torch.randn(_LENGTH).cumsum(0) * (1 + self.kinds[index])
        return self.kept[index]


def setup_of(dataset: Dataset[Any], **options: Any) -> Setup:
    loader = DataLoader(dataset, 20, shuffle=True, **options)
    return Setup(nn.Linear(_LENGTH, 2), loader, loss_fn=nn.CrossEntropyLoss())


@pytest.mark.parametrize("kind", [KeptAfterNoise, KeptInSlots, KeptWithOwnGenerator])
@pytest.mark.parametrize("is_filled", [False, True])
def test_samples_kept_after_their_random_transform_are_a_warning(
    kind: Callable[[], Recordings], *, is_filled: bool
) -> None:
    dataset = kind()
    if is_filled:
        _ = [dataset[index] for index in range(_COUNT)]
    kept, slots, state = dict(dataset.kept), [*dataset.slots], dataset.random.bit_generator.state
    _ = Measurements(setup_of(dataset))["frozen_augmentation"]
    assert dataset.kept.keys() == kept.keys()
    assert all(dataset.kept[index] is sample for index, sample in kept.items())
    assert all(one is other for one, other in zip(dataset.slots, slots, strict=True))
    assert dataset.random.bit_generator.state == state
    (finding,) = rule_findings(setup_of(dataset), "D117")
    assert finding.where is not None
    assert (finding.where.source or "").strip().startswith(("self.kept[index] =", "self.slots[index] ="))
    assert f"{finding.evidence['samples']} inspected samples" in finding.message


@pytest.mark.parametrize("kind", [Recordings, KeptBeforeNoise, KeptUnchanged, Generated])
def test_samples_kept_before_a_transform_or_made_by_design_are_quiet(kind: Callable[[], Recordings]) -> None:
    assert rule_findings(setup_of(kind()), "D117") == []


@pytest.mark.parametrize("persistent", [False, True])
def test_samples_that_each_worker_keeps_for_one_epoch_are_quiet(*, persistent: bool) -> None:
    setup = setup_of(KeptAfterNoise(), num_workers=2, persistent_workers=persistent)
    findings = rule_registry.find_rule("D117")(Measurements(setup))
    assert len(findings) == persistent
