"""Tests of D117 on generators that are created or seeded for each sample."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, default_collate

from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from tests.rules.data.transformed_points import TransformedPoints
from tests.rules.rule_findings import rule_faults

SEED = 5
STREAM = np.random.default_rng(SEED)


def shift(x: Tensor, generator: np.random.Generator) -> Tensor:
    return x.roll(int(generator.integers(0, 4)))


def numpy_in_a_variable(x: Tensor, index: int) -> Tensor:
    generator = np.random.default_rng(SEED)
    return shift(x, generator)


def numpy_with_draws_by_sample(x: Tensor, index: int) -> Tensor:
    generator = np.random.default_rng(SEED)
    return x + float(generator.normal(size=1 + index % 5).mean())


def random_state(x: Tensor, index: int) -> Tensor:
    if (state := np.random.RandomState(SEED)).rand() < 2:
        x = x + float(state.rand())
    return x


def python_generator(x: Tensor, index: int) -> Tensor:
    draws: random.Random = random.Random("augment")
    return x * draws.random()


def torch_inline(x: Tensor, index: int) -> Tensor:
    return x + torch.randn(4, generator=torch.Generator().manual_seed(SEED))


def numpy_inline(x: Tensor, index: int) -> Tensor:
    return x + torch.from_numpy(np.random.default_rng(SEED).normal(size=4)).float()


def numpy_inline_by_index(x: Tensor, index: int) -> Tensor:
    return x + torch.from_numpy(np.random.default_rng((SEED, index)).normal(size=4)).float()


def torch_without_seed(x: Tensor, index: int) -> Tensor:
    generator = torch.Generator()
    return x + torch.randn(4, generator=generator)


def numpy_by_index(x: Tensor, index: int) -> Tensor:
    generator = np.random.default_rng([SEED, index])
    return shift(x, generator)


def torch_by_index(x: Tensor, index: int) -> Tensor:
    return x + torch.randn(4, generator=torch.Generator().manual_seed(SEED + index))


def numpy_from_entropy(x: Tensor, index: int) -> Tensor:
    generator = np.random.default_rng()
    return shift(x, generator)


def one_stream(x: Tensor, index: int) -> Tensor:
    generator = STREAM
    return shift(x, generator)


def unused(x: Tensor, index: int) -> Tensor:
    generator = np.random.default_rng(SEED)
    return shift(x, generator) if x.isnan().any() else x


class RebuiltAttribute(TransformedPoints):
    """Points whose generator is an attribute that each read replaces."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.generator = np.random.default_rng(SEED)
        return shift(self.x[index], self.generator), index % 3


class OptionalAttribute(TransformedPoints):
    """Points with a variable that has the name of an attribute, which is None."""

    rng: np.random.Generator | None

    def __init__(self, stored: np.random.Generator | None = None) -> None:
        super().__init__(unchanged)
        self.rng = stored

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        rng = np.random.default_rng(SEED) if self.rng is None else self.rng
        return shift(self.x[index], rng), index % 3


class ReseededAttribute(TransformedPoints):
    """Points whose generator is created once, and seeded in each read."""

    generator = torch.Generator()

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.generator.manual_seed(SEED)
        return self.x[index] + torch.randn(4, generator=self.generator), index % 3


def collate_with_noise(samples: list[Any]) -> Any:
    generator = np.random.default_rng(SEED)
    x, y = default_collate(samples)
    return x + torch.from_numpy(generator.normal(size=x.shape)).float(), y


def unchanged(x: Tensor, index: int) -> Tensor:
    return x


def loader_setup(data: Any, **options: Any) -> Setup:
    return Setup(network(3), DataLoader(data, 16, **options), loss_fn=nn.CrossEntropyLoss())


REPEATED: dict[str, tuple[Callable[[], Setup], str]] = {
    "variable": (
        lambda: loader_setup(TransformedPoints(numpy_in_a_variable)),
        "generator = np.random.default_rng(SEED)",
    ),
    "other draws": (lambda: loader_setup(TransformedPoints(numpy_with_draws_by_sample)), "np.random.default_rng(SEED)"),
    "NumPy, inline": (lambda: loader_setup(TransformedPoints(numpy_inline)), "np.random.default_rng(SEED)"),
    "name of an attribute": (lambda: loader_setup(OptionalAttribute()), "rng = np.random.default_rng(SEED) if"),
    "RandomState": (lambda: loader_setup(TransformedPoints(random_state)), "np.random.RandomState(SEED)"),
    "random.Random": (lambda: loader_setup(TransformedPoints(python_generator)), 'random.Random("augment")'),
    "torch, inline": (lambda: loader_setup(TransformedPoints(torch_inline)), "manual_seed(SEED)"),
    "torch, unseeded": (lambda: loader_setup(TransformedPoints(torch_without_seed)), "generator = torch.Generator()"),
    "attribute": (lambda: loader_setup(RebuiltAttribute(unchanged)), "self.generator = np.random"),
    "seeded attribute": (lambda: loader_setup(ReseededAttribute(unchanged)), "self.generator.manual_seed(SEED)"),
    "collate function": (
        lambda: loader_setup(TransformedPoints(unchanged), collate_fn=collate_with_noise),
        "generator = np.random.default_rng(SEED)",
    ),
}


@pytest.mark.parametrize("name", REPEATED)
def test_repeated_randomness_of_generator_made_per_sample_names_its_line(name: str) -> None:
    build, source = REPEATED[name]
    (finding,) = rule_faults(build(), "D117")
    assert finding.where.source is not None
    assert source in finding.where.source


BY_INDEX = [
    (numpy_by_index, "default_rng([SEED, index])"),
    (numpy_inline_by_index, "default_rng((SEED, index))"),
    (torch_by_index, "manual_seed(SEED + index)"),
]
QUIET = [numpy_from_entropy, one_stream, unused]


class GeneratedPoints(torch.utils.data.Dataset[Any]):
    """Points that are made of a stored center by a generator of their own."""

    def __init__(self) -> None:
        self.centers = torch.arange(64.0)[:, None]

    def __len__(self) -> int:
        return len(self.centers)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        generator = np.random.default_rng([SEED, index])
        return self.centers[index] + torch.from_numpy(generator.normal(size=4)).float(), index % 3


@pytest.mark.parametrize(("transform", "source"), BY_INDEX)
def test_repeated_randomness_of_stored_samples_by_index_names_the_generator(
    transform: Callable[[Tensor, int], Tensor], source: str
) -> None:
    (finding,) = rule_faults(loader_setup(TransformedPoints(transform)), "D117")
    assert finding.where.source is not None
    assert source in finding.where.source


def test_repeated_randomness_of_generated_samples_by_index_is_quiet() -> None:
    assert rule_faults(loader_setup(GeneratedPoints()), "D117") == []


@pytest.mark.parametrize("transform", QUIET)
def test_repeated_randomness_of_other_numbers_per_sample_is_quiet(transform: Callable[[Tensor, int], Tensor]) -> None:
    assert rule_faults(loader_setup(TransformedPoints(transform)), "D117") == []


def test_repeated_randomness_of_a_stored_generator_is_quiet() -> None:
    assert rule_faults(loader_setup(OptionalAttribute(np.random.default_rng(SEED))), "D117") == []
