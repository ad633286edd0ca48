"""Random generators: those that objects hold, and the global ones of Python, numpy and every device of torch."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from nbdebug.preserve.kept import Kept, KeptValue


def _set_state(generator: Any, state: Any) -> None:
    generator.state = state


_READ_WRITE: tuple[tuple[type, Callable[[Any], Any], Callable[[Any, Any], object]], ...] = (
    (random.Random, random.Random.getstate, random.Random.setstate),
    (torch.Generator, torch.Generator.get_state, torch.Generator.set_state),
    (np.random.Generator, lambda one: one.bit_generator.state, lambda one, state: _set_state(one.bit_generator, state)),
    (np.random.BitGenerator, lambda one: one.state, _set_state),
    (np.random.RandomState, lambda one: one.get_state(legacy=False), np.random.RandomState.set_state),
)
GENERATORS = tuple(kind for kind, _, _ in _READ_WRITE)


class KeptGenerator(Kept):
    """A random generator by its state. One that draws from the operating system has none to keep."""

    def __init__(self, thing: Any) -> None:
        super().__init__(thing)
        self.read, self.write = next((read, write) for kind, read, write in _READ_WRITE if isinstance(thing, kind))
        self.state = None if isinstance(thing, random.SystemRandom) else self.read(thing)

    def restore(self) -> None:
        """Write the state back."""
        if self.state is not None:
            self.write(self.thing, self.state)


def global_generators() -> Iterator[tuple[str, Kept]]:
    """The global generators, each with its name."""
    yield "random", KeptValue(random.getstate, random.setstate)
    yield "numpy.random", KeptValue(lambda: np.random.get_state(legacy=False), np.random.set_state)
    yield "torch's CPU generator", KeptValue(torch.get_rng_state, torch.set_rng_state)
    if _cuda_is_awake():
        yield "torch's CUDA generators", KeptValue(torch.cuda.get_rng_state_all, torch.cuda.set_rng_state_all)
    else:
        yield "torch's CUDA generators", KeptValue(lambda: None, _seed_new_cuda)
    if torch.backends.mps.is_available():
        yield "torch's MPS generator", KeptValue(torch.mps.get_rng_state, torch.mps.set_rng_state)


def seed_all(number: int) -> None:
    """Seed Python, numpy and torch, on the CPU and on devices that are in use.

    ``torch.manual_seed`` would also queue a seed, with its traceback, for a CUDA device that nobody has used yet.
    """
    random.seed(number)
    np.random.seed(number)
    torch.default_generator.manual_seed(number)
    if _cuda_is_awake():
        torch.cuda.manual_seed_all(number)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(number)


def _seed_new_cuda(_: None) -> None:
    """Seed devices that the block woke up as they would have been: ``torch.manual_seed`` gives all devices one seed."""
    if _cuda_is_awake():
        torch.cuda.manual_seed_all(torch.initial_seed())


def _cuda_is_awake() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
