"""Tests of D117: seeds set while samples are read, and generators that data loader workers copy."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset

from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from tests.rules.data.transformed_points import TransformedPoints
from tests.rules.rule_findings import fault_messages, rule_findings


def seeded_numpy(x: Tensor, index: int) -> Tensor:
    np.random.seed(0)
    return x + torch.from_numpy(np.random.randn(4)).float()


def seeded_torch(x: Tensor, index: int) -> Tensor:
    torch.manual_seed(7)
    return x + torch.randn(4)


def seeded_python(x: Tensor, index: int) -> Tensor:
    random.seed(1)
    return x * random.random()


def make_repeatable() -> None:
    torch.default_generator.manual_seed(5)


def seeded_by_helper(x: Tensor, index: int) -> Tensor:
    make_repeatable()
    return x + torch.randn(4)


def seeded_by_index(x: Tensor, index: int) -> Tensor:
    np.random.seed(index)
    return torch.from_numpy(np.random.randn(4)).float()


def unseeded_noise(x: Tensor, index: int) -> Tensor:
    return x + random.random() * torch.randn(4) * float(np.random.rand())


def unchanged(x: Tensor, index: int) -> Tensor:
    return x


class SeedInGetitem(TransformedPoints):
    """Points whose seed is set in ``__getitem__``."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        torch.manual_seed(3)
        return self.x[index] + torch.randn(4), index % 3


class SeedOfBaseClass(SeedInGetitem):
    """Points of a class that inherits the method with the seed."""


class OwnGenerator(TransformedPoints):
    """Points with noise from a generator that the data set holds."""

    def __init__(self, generator: Any) -> None:
        super().__init__(unchanged)
        self.generator = generator

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.x[index] + torch.from_numpy(self.generator.normal(size=4)).float(), index % 3


class GeneratorOfMethod(TransformedPoints):
    """Points whose generator a method creates."""

    def generator(self) -> Any:
        return np.random.default_rng(3)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        noise = self.generator()
        return self.x[index] + torch.from_numpy(noise.normal(size=4)).float(), index % 3


def loader_setup(data: Any, **options: Any) -> Setup:
    return Setup(network(3), DataLoader(data, 16, **options), loss_fn=nn.CrossEntropyLoss())


@pytest.mark.parametrize(
    ("transform", "line"),
    [
        (seeded_numpy, "np.random.seed(0)"),
        (seeded_torch, "torch.manual_seed(7)"),
        (seeded_python, "random.seed(1)"),
        (seeded_by_helper, "torch.default_generator.manual_seed(5)"),
    ],
)
def test_repeated_randomness_of_fixed_seed_per_sample_names_its_line(
    transform: Callable[[Tensor, int], Tensor], line: str
) -> None:
    (finding,) = rule_findings(loader_setup(TransformedPoints(transform)), "D117")
    assert finding.where.source.strip() == line


@pytest.mark.parametrize(
    "data",
    [SeedInGetitem(unchanged), Subset(SeedInGetitem(unchanged), range(40)), SeedOfBaseClass(unchanged)],
    ids=["data set", "subset", "base class"],
)
def test_repeated_randomness_finding_names_the_seeding_line(data: Any) -> None:
    (finding,) = rule_findings(loader_setup(data), "D117")
    assert finding.where.source == "        torch.manual_seed(3)"


def test_repeated_randomness_finding_names_the_line_in_the_method_that_creates_the_generator() -> None:
    (finding,) = rule_findings(loader_setup(GeneratorOfMethod(unchanged)), "D117")
    assert finding.where.source == "        return np.random.default_rng(3)"


@pytest.mark.parametrize(
    "generator", [np.random.RandomState(0), np.random.default_rng(0)], ids=["RandomState", "default_rng"]
)
def test_repeated_randomness_of_own_generator_is_reported_only_with_workers(generator: Any) -> None:
    assert len(fault_messages(loader_setup(OwnGenerator(generator), num_workers=2), "D117")) == 1
    assert fault_messages(loader_setup(OwnGenerator(generator)), "D117") == []


def seed_numpy_equally(worker: int) -> None:
    np.random.seed(0)


def seed_numpy_by_worker(worker: int) -> None:
    np.random.seed(worker)


def replace_generator(worker: int) -> None:
    info = torch.utils.data.get_worker_info()
    assert info is not None
    info.dataset.generator = np.random.default_rng(info.seed)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("data", "worker_init_fn", "expected_count"),
    [
        (TransformedPoints(unseeded_noise), seed_numpy_equally, 1),
        (TransformedPoints(unseeded_noise), seed_numpy_by_worker, 0),
        (TransformedPoints(unchanged), seed_numpy_equally, 0),
        (OwnGenerator(np.random.default_rng(0)), replace_generator, 0),
        (OwnGenerator(np.random.default_rng(0)), seed_numpy_by_worker, 1),
    ],
    ids=["equal seeds", "seeds by worker", "no draws", "own generator replaced", "own generator kept"],
)
def test_repeated_randomness_is_measured_through_worker_init_fn(
    data: TransformedPoints, worker_init_fn: Callable[[int], None], expected_count: int
) -> None:
    setup = loader_setup(data, num_workers=2, worker_init_fn=worker_init_fn)
    assert len(fault_messages(setup, "D117")) == expected_count


@pytest.mark.parametrize("transform", [seeded_by_index, unseeded_noise, unchanged])
def test_repeated_randomness_of_index_seed_or_unseeded_noise_is_quiet(
    transform: Callable[[Tensor, int], Tensor],
) -> None:
    assert fault_messages(loader_setup(TransformedPoints(transform), num_workers=2), "D117") == []


def test_repeated_randomness_check_restores_all_generators() -> None:
    data = OwnGenerator(np.random.default_rng(0))
    states_before = str(data.generator.bit_generator.state), random.getstate(), torch.get_rng_state()
    rule_findings(loader_setup(data, num_workers=2), "D117")
    assert (str(data.generator.bit_generator.state), random.getstate()) == states_before[:2]
    assert torch.equal(torch.get_rng_state(), states_before[2])
