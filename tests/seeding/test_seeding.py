"""Tests of nbdebug.seed: what it seeds, what it sets, and that it can be undone."""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import nbdebug
from nbdebug.seeding import Seeding


class Noisy(Dataset[Tensor]):
    """A dataset with a generator of its own, which was never seeded."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng()

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor(self.generator.normal())


def draw_all() -> list[float]:
    return [random.random(), float(np.random.rand()), float(torch.rand(()))]


def settings() -> list[Any]:
    return [
        torch.get_deterministic_debug_mode(),
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
        torch.utils.deterministic.fill_uninitialized_memory,
        os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
    ]


@pytest.fixture(autouse=True)
def _unset_cublas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)


def test_equal_seeds_give_equal_numbers_and_other_seeds_others() -> None:
    numbers = []
    for number in (3, 3, 4):
        with nbdebug.seed(number):
            numbers.append(draw_all())
    assert numbers[0] == numbers[1]
    assert all(a != b for a, b in zip(numbers[0], numbers[2], strict=True))


def test_numbers_are_those_of_the_usual_seeding_calls() -> None:
    with nbdebug.seed(5):
        numbers = draw_all()
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    assert numbers == draw_all()


def test_restore_returns_to_the_numbers_that_would_have_come() -> None:
    with nbdebug.seed(1):
        draw_all()
        with nbdebug.seed(2):
            pass
        inner = draw_all()
    with nbdebug.seed(1):
        draw_all()
        assert draw_all() == inner


@pytest.mark.parametrize(("deterministic", "mode"), [(True, 2), ("warn", 1), (False, 0)])
def test_deterministic_sets_the_settings_and_undoes_them(deterministic: Any, mode: int) -> None:
    before = settings()
    seeding = nbdebug.seed(0, deterministic=deterministic)
    try:
        assert torch.get_deterministic_debug_mode() == mode
        assert bool(seeding.costs) == bool(seeding.settings) == bool(deterministic)
        if deterministic:
            assert settings()[1:] == [False, True, True, ":4096:8"]
    finally:
        seeding.restore()
    assert settings() == before
    seeding.restore()
    assert settings() == before


def test_settings_are_restored_after_an_exception() -> None:
    before, numbers = settings(), torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), nbdebug.seed(0, deterministic=True):
        torch.rand(3)
        raise ZeroDivisionError
    assert settings() == before
    assert torch.equal(torch.get_rng_state(), numbers)


def test_an_existing_cublas_setting_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    with nbdebug.seed(0, deterministic=True):
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


@pytest.mark.parametrize("workers", [0, 2])
def test_loader_repeats_its_batches_whatever_else_draws(workers: int) -> None:
    loader = DataLoader(Noisy(), batch_size=3, shuffle=True, num_workers=workers)
    epochs = []
    for draws in (0, 7):
        seeding = nbdebug.seed(0, loaders=loader)
        torch.rand(draws)
        epochs.append(torch.cat(list(loader)))
    assert torch.equal(*epochs)
    assert any("generator" in name for name in seeding.generators)
    assert len(epochs[0].unique()) == 12, "workers draw different numbers"


def test_workers_with_previous_init_function_still_call_it() -> None:
    loader = DataLoader(Noisy(), batch_size=3, num_workers=1, worker_init_fn=_seed_dataset)
    with nbdebug.seed(0, loaders=[loader]):
        assert torch.cat(list(loader))[0] == np.random.default_rng(99).normal()
    assert loader.worker_init_fn is _seed_dataset


def _seed_dataset(worker: int) -> None:
    torch.utils.data.get_worker_info().dataset.generator = np.random.default_rng(99)


def test_loader_is_as_before_after_restore() -> None:
    loader = DataLoader(Noisy(), batch_size=3, shuffle=True, num_workers=1)
    dataset: Any = loader.dataset
    before = {**vars(loader)}, dataset.generator.bit_generator.state, loader.sampler.generator
    with nbdebug.seed(0, loaders=loader):
        list(loader)
    assert ({**vars(loader)}, dataset.generator.bit_generator.state, loader.sampler.generator) == before


def test_text_lists_generators_settings_and_costs() -> None:
    with nbdebug.seed(7, deterministic=True) as seeding:
        text = str(seeding)
    assert text.startswith("nbdebug seed: 3 generators are seeded with 7.")
    assert "set: torch.use_deterministic_algorithms = on (was off)" in text
    assert "cost: operations without a deterministic algorithm raise an error" in text
    assert repr(seeding).startswith("<Seeding: ")


def test_pickled_copy_restores_nothing() -> None:
    with nbdebug.seed(0) as seeding:
        copy: Seeding = pickle.loads(pickle.dumps(seeding))
        state = torch.get_rng_state()
        copy.restore()
        assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nbdebug.seed(-1), "seed is -1; expected a whole number"),
        (lambda: nbdebug.seed(2**32), "seed is 4294967296; expected a whole number"),
        (lambda: nbdebug.seed(0.5), "seed is 0.5; expected a whole number"),
        (lambda: nbdebug.seed(0, deterministic="yes"), "deterministic is 'yes'; expected True, False or 'warn'"),
        (lambda: nbdebug.seed(0, loaders=[[1]]), "loaders has a list; expected DataLoaders"),
        (lambda: nbdebug.seed(0, loader=1), "option of seed is 'loader'.*'loaders'"),
    ],
)
def test_unusable_argument_raises_and_changes_nothing(call: Callable[[], Any], message: str) -> None:
    state = torch.get_rng_state()
    with pytest.raises(nbdebug.SetupError, match=message):
        call()
    assert torch.equal(state, torch.get_rng_state())
