"""D117 finds seeds in the middle of the data; seeds that make data up, and generators of the process, are left."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset

from nbdebug.rules.examples import network
from nbdebug.setup import Setup
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


def by_index(x: Tensor, index: int) -> Tensor:
    np.random.seed(index)
    return torch.from_numpy(np.random.randn(4)).float()


def free(x: Tensor, index: int) -> Tensor:
    return x + random.random() * torch.randn(4) * float(np.random.rand())


def still(x: Tensor, index: int) -> Tensor:
    return x


class Changed(Dataset[Any]):
    """Points that go through a function."""

    def __init__(self, change: Callable[[Tensor, int], Tensor]) -> None:
        self.change, self.x = change, torch.randn(64, 4)

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.change(self.x[index], index), index % 3


class Inline(Changed):
    """A seed in the class itself."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        torch.manual_seed(3)
        return self.x[index] + torch.randn(4), index % 3


class Own(Changed):
    """Noise from a generator of its own."""

    def __init__(self, generator: Any) -> None:
        super().__init__(still)
        self.generator = generator

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.x[index] + torch.from_numpy(self.generator.normal(size=4)).float(), index % 3


def loaded(data: Any, **given: Any) -> Setup:
    return Setup(network(3), DataLoader(data, 16, **given), loss_fn=nn.CrossEntropyLoss())


@pytest.mark.parametrize("change", [seeded_numpy, seeded_torch, seeded_python])
def test_a_seed_for_each_sample_is_found(change: Callable[[Tensor, int], Tensor]) -> None:
    assert len(fault_messages(loaded(Changed(change)), "D117")) == 1


@pytest.mark.parametrize("data", [Inline(still), Subset(Inline(still), range(40))], ids=["plain", "a part of it"])
def test_its_line_is_named(data: Any) -> None:
    (found,) = rule_findings(loaded(data), "D117")
    assert found.where.source == "        torch.manual_seed(3)"


@pytest.mark.parametrize("generator", [np.random.RandomState(0), np.random.default_rng(0)], ids=["old", "new"])
def test_a_generator_that_workers_copy_is_found(generator: Any) -> None:
    assert len(fault_messages(loaded(Own(generator), num_workers=2), "D117")) == 1
    assert fault_messages(loaded(Own(generator)), "D117") == []


@pytest.mark.parametrize("change", [by_index, free, still])
def test_data_that_are_made_up_or_drawn_freely_are_left_alone(change: Callable[[Tensor, int], Tensor]) -> None:
    assert fault_messages(loaded(Changed(change), num_workers=2), "D117") == []


def test_generators_are_as_they_were() -> None:
    data = Own(np.random.default_rng(0))
    before = str(data.generator.bit_generator.state), random.getstate(), torch.get_rng_state()
    rule_findings(loaded(data, num_workers=2), "D117")
    assert (str(data.generator.bit_generator.state), random.getstate()) == before[:2]
    assert torch.equal(torch.get_rng_state(), before[2])
