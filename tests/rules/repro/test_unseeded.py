"""Tests of R901: generators with and without an explicit seed."""

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
def _fixed_seed() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        yield


def with_system_seed(generator: Generator) -> Generator:
    generator.manual_seed(2**40)
    return generator


def test_unseeded_reports_global_generator() -> None:
    torch.manual_seed(2**40)
    (finding,) = rule_findings(classifier(), "R901")
    assert "CPU" in finding.message


def test_unseeded_reports_generator_of_train_loader() -> None:
    (finding,) = rule_findings(shuffled_setup(with_system_seed(Generator())), "R901")
    assert finding.evidence["source"] == "the generator of train_loader"


def test_unseeded_reports_generator_of_val_loader() -> None:
    setup = classifier()
    setup.val_loader = shuffled_setup(with_system_seed(Generator())).train_loader
    (finding,) = rule_findings(setup, "R901")
    assert finding.evidence["source"] == "the generator of val_loader"


@pytest.mark.parametrize("seed", [0, 1, 42, 2**32 - 1])
def test_unseeded_ignores_explicit_seeds(seed: int) -> None:
    torch.manual_seed(seed)
    assert rule_findings(classifier(), "R901") == []
    assert rule_findings(setup_with_seed(seed), "R901") == []


def setup_with_seed(seed: int) -> Setup:
    return shuffled_setup(Generator().manual_seed(seed))
