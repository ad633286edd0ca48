"""A checkup leaves nothing behind: no tensor, no object, no open file."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from tests.rules.real.attention import encoder_with_padding_mask
from tests.rules.real.generative import wasserstein_critic_with_gradient_penalty

SETUPS: dict[str, Callable[[], Setup]] = {
    "a classifier": classifier,
    "a Transformer": lambda: encoder_with_padding_mask().setup,
    "a step_fn with two backward passes": lambda: wasserstein_critic_with_gradient_penalty().setup,
}
DESCRIPTORS = Path("/proc/self/fd")


def alive() -> Counter[type]:
    """How many objects of each type there are that the garbage collector knows and cannot free."""
    gc.collect()
    return Counter(type(one) for one in gc.get_objects())


def tensors() -> int:
    """How many tensors there are, on the side of Python."""
    gc.collect()
    return sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())


def files() -> int:
    """How many files are open, where the system tells."""
    return len(os.listdir(DESCRIPTORS)) if DESCRIPTORS.exists() else 0


@pytest.mark.parametrize("name", SETUPS)
def test_checkups_leave_no_tensor_no_object_and_no_file_behind(name: str) -> None:
    setup = SETUPS[name]()
    for _ in range(2):
        Debugger.of(setup).checkup()
    before, held, opened = alive(), tensors(), files()
    for _ in range(100 if name == "a classifier" else 10):
        Debugger.of(setup).checkup()
    more = {kind.__name__: count for kind, count in (alive() - before).items() if count > 5}
    assert more == {}
    assert tensors() == held
    assert files() == opened
