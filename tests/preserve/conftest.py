"""A trained program for the tests of Preserve."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from nbdebug.preserve import restore
from tests.programs import PROGRAMS, Program, train


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def program() -> Iterator[Program]:
    """A perceptron after two steps, so that there are gradients and optimizer state; no block is left open."""
    program = PROGRAMS["mlp"]()
    train(program, program.loader(), 2)
    yield program
    assert restore() == 0
