"""Whether the random numbers that a data set draws begin anew for every sample, or in every worker."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import TensorDataset

from nbdebug.evidence.ledger import slow_measurement
from nbdebug.preserve import Preserve
from nbdebug.preserve.random_state import GENERATORS, KeptGenerator
from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_indexed

SEEDS: dict[str, tuple[Callable[[int], Any], Callable[[], Any]]] = {
    "np.random": (np.random.seed, lambda: numpy_state()),
    "random": (random.seed, random.getstate),
    "torch": (torch.default_generator.manual_seed, lambda: torch.get_rng_state().numpy().tobytes()),
}


@dataclass(frozen=True)
class Repeated:
    """The generators that each sample seeds with the same number, and those of which each worker gets a copy."""

    seeded: tuple[str, ...]
    copied: tuple[str, ...]


@slow_measurement
def reseeded(setup: Setup) -> Repeated:
    """What the training data set does to the generators of Python, NumPy and torch, and which ones it keeps itself."""
    loader = setup.train_loader
    if not is_indexed(loader) or not hasattr(loader.dataset, "__len__") or isinstance(loader.dataset, TensorDataset):
        return Repeated((), ())
    held = {name: one for name, one in getattr(loader.dataset, "__dict__", {}).items() if isinstance(one, GENERATORS)}
    try:
        with Preserve(loader.dataset):
            seeded = tuple(name for name in SEEDS if is_seeded(loader.dataset, name))
            copied = tuple(name for name, one in held.items() if loader.num_workers and draws(loader.dataset, one))
    except Exception:
        return Repeated((), ())
    return Repeated(seeded, copied)


def numpy_state() -> tuple[Any, ...]:
    """The state of NumPy's global generator, to be compared."""
    state: Any = np.random.get_state()
    return state[1].tobytes(), *state[2:]


def is_seeded(dataset: Any, name: str) -> bool:
    """Whether a generator is left in the same state by any sample, whatever state it was in before."""
    seed, state = SEEDS[name]
    left: list[Any] = []
    for number, index in ((1, 0), (2, 0), (3, len(dataset) - 1)):
        seed(number)
        before = state()
        dataset[index]
        left.append(state())
        if left[-1] == before:
            return False
    return len(set(left)) == 1


def draws(dataset: Any, generator: Any) -> bool:
    """Whether reading a sample moves a generator that the data set keeps."""
    before = str(KeptGenerator(generator).state)
    dataset[0]
    return str(KeptGenerator(generator).state) != before
