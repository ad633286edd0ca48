"""Tests of D117 on augmentation that is seeded with the index of a sample, and on data that look like it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from numpy.random import RandomState, default_rng
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.measurements import Measurements
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

COUNT, LONG, SHORT, SEED = 90, 64, 32, 7
_epoch_of_program = 0


class Waves(Dataset[Any]):
    """Stored waves, of which each read draws a cut with noise; subclasses create the generator."""

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        rates, phases = generator.uniform(0.1, 1.5, (2, COUNT, 3, 1))
        self.waves = np.sin(rates * np.arange(LONG) + 4 * phases).sum(1)
        self.labels, self.seed = (np.arange(COUNT) % 3).tolist(), SEED
        self.stream = np.random.default_rng(1)

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        return self.cut(index, *self.draw(index)), self.labels[index]

    def cut(self, index: int, start: int, noise: Any) -> Tensor:
        return torch.from_numpy(self.waves[index, start : start + SHORT] + 0.2 * np.asarray(noise)).float()

    def draw(self, index: int) -> tuple[int, Any]:
        return self.from_numpy(np.random.default_rng(self.seed + index))

    def from_numpy(self, generator: Any) -> tuple[int, Any]:
        return int(generator.uniform(0, LONG - SHORT)), generator.normal(size=SHORT)


class ByState(Waves):
    def draw(self, index: int) -> tuple[int, Any]:
        state = np.random.RandomState(index)
        return self.from_numpy(state)


class ByImportedName(Waves):
    def draw(self, index: int) -> tuple[int, Any]:
        generator = default_rng([index, self.seed])
        return self.from_numpy(generator)


class ByImportedState(Waves):
    def draw(self, index: int) -> tuple[int, Any]:
        state = RandomState(self.seed + index)
        return self.from_numpy(state)


class ByGlobalNumpy(Waves):
    def draw(self, index: int) -> tuple[int, Any]:
        np.random.seed(index)
        return self.from_numpy(np.random)


class ByGlobalTorch(Waves):
    def draw(self, index: int) -> tuple[int, Any]:
        torch.manual_seed(self.seed * 1000 + index)
        return int(torch.randint(LONG - SHORT, ())), torch.randn(SHORT)


class ByPython(Waves):
    def draw(self, index: int) -> tuple[int, Any]:
        generator = random.Random(index)
        return generator.randrange(LONG - SHORT), [generator.gauss(0, 1) for _ in range(SHORT)]


class ByTorch(Waves):
    def draw(self, index: int) -> tuple[int, Any]:
        return 5, torch.randn(SHORT, generator=torch.Generator().manual_seed(self.seed + index))


class OfNumbers(Waves):
    """The target is a number."""

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)[0], float(self.waves[index].max())


class Streamed(Waves):
    def draw(self, index: int) -> tuple[int, Any]:
        return self.from_numpy(self.stream)


class ByMethodOfEpoch(Waves):
    def __init__(self) -> None:
        super().__init__()
        self.passes = 0

    def start_pass(self, number: int) -> None:
        self.passes = number

    def draw(self, index: int) -> tuple[int, Any]:
        return self.from_numpy(np.random.default_rng([self.passes, index]))


class ByAttributeOfEpoch(Waves):
    epoch = 0

    def draw(self, index: int) -> tuple[int, Any]:
        return self.from_numpy(np.random.default_rng(self.seed + index + COUNT * self.epoch))


class ByVariableOfEpoch(Waves):
    def draw(self, index: int) -> tuple[int, Any]:
        return self.from_numpy(np.random.default_rng([_epoch_of_program, index]))


class Denoised(Waves):
    """The target is the wave without the noise, which belongs to the data."""

    def draw(self, index: int) -> tuple[int, Any]:
        return 0, super().draw(index)[1]

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)[0], torch.from_numpy(self.waves[index, :SHORT]).float()


class FromParameters(Waves):
    """Each wave is made of four stored numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.waves = self.waves[:, :4]

    def cut(self, index: int, start: int, noise: Any) -> Tensor:
        rate, phase, size, offset = self.waves[index]
        return torch.from_numpy(size * np.sin(rate * np.arange(SHORT) + phase) + offset + 0.2 * noise).float()


class Simulated(Waves):
    """A walk of the generator; the stored waves are another channel, which no read returns."""

    def cut(self, index: int, start: int, noise: Any) -> Tensor:
        return torch.from_numpy(np.cumsum(noise) * (1 + self.labels[index])).float()


class Subset(Waves):
    """Each start is drawn once, when the data are made."""

    def __init__(self) -> None:
        super().__init__()
        self.starts = np.random.default_rng(SEED).integers(0, LONG - SHORT, COUNT).tolist()

    def draw(self, index: int) -> tuple[int, Any]:
        return self.starts[index], np.zeros(SHORT)


class Counted(Waves):
    """Each read of a sample has another seed."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = [0] * COUNT

    def draw(self, index: int) -> tuple[int, Any]:
        self.reads[index] += 1
        return self.from_numpy(np.random.default_rng([index, self.reads[index]]))


def run_epochs(data: ByAttributeOfEpoch) -> None:
    global _epoch_of_program
    for epoch in range(3):
        data.epoch = _epoch_of_program = epoch


def setup_of(data: Dataset[Any]) -> Setup:
    return Setup(nn.Linear(SHORT, 3), DataLoader(data, 15, shuffle=True), loss_fn=nn.CrossEntropyLoss())


REPEATED = {
    Waves: "np.random.default_rng(self.seed + index)",
    ByState: "np.random.RandomState(index)",
    ByImportedName: "default_rng([index, self.seed])",
    ByImportedState: "RandomState(self.seed + index)",
    ByGlobalNumpy: "np.random.seed(index)",
    ByGlobalTorch: "torch.manual_seed(self.seed * 1000 + index)",
    ByPython: "random.Random(index)",
    ByTorch: "manual_seed(self.seed + index)",
    OfNumbers: "np.random.default_rng(self.seed + index)",
}


@pytest.mark.parametrize("kind", REPEATED, ids=lambda kind: kind.__name__)
def test_augmentation_that_is_seeded_with_the_index_is_reported_at_the_seed(kind: type[Waves]) -> None:
    (finding,) = rule_findings(setup_of(kind()), "D117")
    assert "depends only on the index" in finding.message
    assert finding.where is not None
    assert REPEATED[kind] in (finding.where.source or "")


@pytest.mark.parametrize("kind", REPEATED, ids=lambda kind: kind.__name__)
def test_reads_with_other_seeds_leave_the_generators_and_functions_as_they_were(kind: type[Waves]) -> None:
    setup = setup_of(kind())
    states = np.random.get_state(legacy=False), random.getstate(), torch.get_rng_state()
    functions = np.random.default_rng, np.random.seed, np.random.RandomState, default_rng, RandomState
    assert Measurements(setup)["repeated_seeds"].seeded_by_index
    assert repr(np.random.get_state(legacy=False)) == repr(states[0])
    assert random.getstate() == states[1]
    assert torch.equal(torch.get_rng_state(), states[2])
    assert functions == (np.random.default_rng, np.random.seed, np.random.RandomState, default_rng, RandomState)


HEALTHY = [
    Streamed,
    ByMethodOfEpoch,
    ByAttributeOfEpoch,
    ByVariableOfEpoch,
    Denoised,
    FromParameters,
    Simulated,
    Subset,
    Counted,
]


@pytest.mark.parametrize("kind", HEALTHY, ids=lambda kind: kind.__name__)
def test_other_random_numbers_of_samples_are_quiet(kind: type[Waves]) -> None:
    assert rule_findings(setup_of(kind()), "D117") == []
