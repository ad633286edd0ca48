"""Tests of D117 with datasets that keep their samples, after or before a random transform."""

from __future__ import annotations

import copy
import functools
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


class KeptInTensor(Recordings):
    """Keeps the waves in rows of a tensor, with flags in an array."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = torch.zeros(_COUNT, _LENGTH)
        self.is_filled = np.zeros(_COUNT, bool)

    def wave(self, index: int) -> Tensor:
        if not self.is_filled[index]:
            self.rows[index] = with_noise(self.load(index))
            self.is_filled[index] = True
        return self.rows[index]


class KeptInEmptyRows(Recordings):
    """Marks empty rows of an array by their values."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = np.full((_COUNT, _LENGTH), np.nan, np.float32)

    def wave(self, index: int) -> Tensor:
        if np.isnan(self.rows[index, 0]):
            self.rows[index] = with_noise(self.load(index)).numpy()
        return torch.from_numpy(self.rows[index])


class KeptWithSet(KeptInTensor):
    """Keeps the indices of the filled rows in a set."""

    def __init__(self) -> None:
        super().__init__()
        self.filled: set[int] = set()

    def wave(self, index: int) -> Tensor:
        if index not in self.filled:
            self.rows[index] = with_noise(self.load(index))
            self.filled.add(index)
        return self.rows[index]


class RowsKeptBeforeNoise(KeptInTensor):
    def wave(self, index: int) -> Tensor:
        if not self.is_filled[index]:
            self.rows[index] = self.load(index)
            self.is_filled[index] = True
        return with_noise(self.rows[index])


class GeneratedRows(KeptInTensor):
    """Waves that are made for each index, and kept in a tensor beside labels alone."""

    def __init__(self) -> None:
        super().__init__()
        self.waves = self.waves[:1]

    def load(self, index: int) -> Tensor:
        seeded = torch.Generator().manual_seed(index)
        return torch.randn(_LENGTH, generator=seeded).cumsum(0)


class CachedMethod(Recordings):
    @functools.lru_cache(maxsize=None)  # noqa: B019, UP033 - the fault
    def wave(self, index: int) -> Tensor:
        return with_noise(self.load(index))


class CachedAttribute(Recordings):
    """Keeps the results of two functions, of which one draws numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.wave = functools.cache(self.augmented)  # type: ignore[method-assign]

    @functools.cache  # noqa: B019 - harmless
    def load(self, index: int) -> Tensor:
        return super().load(index)

    def augmented(self, index: int) -> Tensor:
        return with_noise(self.load(index))


class CachedBeforeNoise(Recordings):
    @functools.cache  # noqa: B019 - harmless
    def load(self, index: int) -> Tensor:
        return super().load(index)

    def wave(self, index: int) -> Tensor:
        return with_noise(self.load(index))


class CachedShortly(Recordings):
    """Keeps fewer samples than the epoch has, so that the next epoch draws again."""

    @functools.lru_cache(maxsize=32)  # noqa: B019 - harmless
    def wave(self, index: int) -> Tensor:
        return with_noise(self.load(index))


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


@pytest.mark.parametrize("kind", [KeptInTensor, KeptInEmptyRows, KeptWithSet])
@pytest.mark.parametrize("is_filled", [False, True])
def test_rows_kept_after_their_random_transform_are_a_warning_and_stay(
    kind: Callable[[], KeptInTensor], *, is_filled: bool
) -> None:
    dataset = kind()
    if is_filled:
        _ = [dataset[index] for index in range(_COUNT)]
    names, copies = dict(vars(dataset)), copy.deepcopy(vars(dataset))
    _ = Measurements(setup_of(dataset))["frozen_augmentation"]
    assert [*vars(dataset)] == [*names]
    assert all(vars(dataset)[name] is value for name, value in names.items())
    assert np.asarray(dataset.rows).tobytes() == np.asarray(copies["rows"]).tobytes()
    assert vars(dataset).get("filled") == copies.get("filled")
    assert np.array_equal(vars(dataset).get("is_filled", ()), copies.get("is_filled", ()))
    (finding,) = rule_findings(setup_of(dataset), "D117")
    assert finding.where is not None
    assert (finding.where.source or "").strip().startswith(("self.rows[index] =", "self.filled.add"))


@pytest.mark.parametrize(("kind", "function"), [(CachedMethod, "wave"), (CachedAttribute, "augmented")])
@pytest.mark.parametrize("read", [0, 3, _COUNT])
def test_results_kept_by_a_cached_function_after_a_random_transform_are_a_warning_and_stay(
    kind: Callable[[], Recordings], function: str, read: int
) -> None:
    dataset = kind()
    samples = [dataset[index][0] for index in range(read)]
    setup = setup_of(dataset)
    wave, info = dataset.wave, dataset.wave.cache_info()  # type: ignore[attr-defined]
    _ = Measurements(setup)["frozen_augmentation"]
    assert dataset.wave == wave
    assert dataset.wave.cache_info() == info  # type: ignore[attr-defined]
    assert all(dataset[index][0] is sample for index, sample in enumerate(samples))
    (finding,) = rule_findings(setup_of(dataset), "D117")
    assert finding.where is not None
    assert "lru_cache" in (finding.where.source or "") or "def augmented" in (finding.where.source or "")
    assert finding.fix.startswith(f"Move the random transform out of {function},")


@pytest.mark.parametrize(
    "kind",
    [
        Recordings,
        KeptBeforeNoise,
        KeptUnchanged,
        Generated,
        RowsKeptBeforeNoise,
        GeneratedRows,
        CachedBeforeNoise,
        CachedShortly,
    ],
)
def test_samples_kept_before_a_transform_or_made_by_design_are_quiet(kind: Callable[[], Recordings]) -> None:
    assert rule_findings(setup_of(kind()), "D117") == []


@pytest.mark.parametrize("persistent", [False, True])
def test_samples_that_each_worker_keeps_for_one_epoch_are_quiet(*, persistent: bool) -> None:
    setup = setup_of(KeptAfterNoise(), num_workers=2, persistent_workers=persistent)
    findings = rule_registry.find_rule("D117")(Measurements(setup))
    assert len(findings) == persistent
