"""R901: a generator that holds bits of the operating system is named; one with a seed is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Generator

from nbdebug.rules.examples import classifier
from nbdebug.rules.repro.unseeded import shuffled_setup
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        yield


def drawn(generator: Generator) -> Generator:
    generator.manual_seed(2**40)
    return generator


def test_the_global_generator_is_named() -> None:
    torch.manual_seed(2**40)
    (found,) = rule_findings(classifier(), "R901")
    assert "CPU" in found.message


def test_the_generator_of_a_loader_is_named() -> None:
    (found,) = rule_findings(shuffled_setup(drawn(Generator())), "R901")
    assert found.evidence["source"] == "the generator of train_loader"


def test_the_generator_of_the_validation_loader_is_named() -> None:
    setup = classifier()
    setup.val_loader = shuffled_setup(drawn(Generator())).train_loader
    (found,) = rule_findings(setup, "R901")
    assert found.evidence["source"] == "the generator of val_loader"


@pytest.mark.parametrize("seed", [0, 1, 42, 2**32 - 1])
def test_seeds_given_by_hand_are_left_alone(seed: int) -> None:
    torch.manual_seed(seed)
    assert rule_findings(classifier(), "R901") == []
    assert rule_findings(with_seed(seed), "R901") == []


def with_seed(seed: int) -> Setup:
    return shuffled_setup(Generator().manual_seed(seed))
