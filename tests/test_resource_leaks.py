"""Tests that checkups leak no tensor, object or open file."""

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


def count_objects() -> Counter[type]:
    """The number of objects of each type that the garbage collector tracks."""
    gc.collect()
    return Counter(type(item) for item in gc.get_objects())


def count_tensors() -> int:
    """The number of tensors that the garbage collector tracks."""
    gc.collect()
    return sum(issubclass(type(item), torch.Tensor) for item in gc.get_objects())


def count_open_files() -> int:
    """The number of open files, or 0 on systems without /proc."""
    return len(os.listdir(DESCRIPTORS)) if DESCRIPTORS.exists() else 0


@pytest.mark.parametrize("name", SETUPS)
def test_repeated_checkups_leak_no_tensor_object_or_file(name: str) -> None:
    setup = SETUPS[name]()
    for _ in range(2):
        Debugger.of(setup).checkup()
    objects, tensors, files = count_objects(), count_tensors(), count_open_files()
    for _ in range(100 if name == "a classifier" else 10):
        Debugger.of(setup).checkup()
    leaks = {kind.__name__: count for kind, count in (count_objects() - objects).items() if count > 5}
    assert leaks == {}
    assert count_tensors() == tensors
    assert count_open_files() == files


def count_graph_tensors() -> int:
    """The number of tensors with a graph, including those that only a garbage collection would free."""
    return sum(type(item) is torch.Tensor and item.grad_fn is not None for item in gc.get_objects())


@pytest.mark.parametrize("name", SETUPS)
def test_checkup_and_watch_free_all_graphs_without_garbage_collection(name: str) -> None:
    setup = SETUPS[name]()
    gc.collect()
    gc.disable()
    try:
        debugger = Debugger.of(setup)
        before = count_graph_tensors()
        debugger.checkup()
        assert count_graph_tensors() == before
        with debugger.watch(every=1):
            for batch in setup.batches(3):
                setup.optimizers[0].zero_grad()
                setup.output_and_loss(batch)[1].backward()
                setup.optimizers[0].step()
            del batch
        assert count_graph_tensors() == before
    finally:
        gc.enable()
