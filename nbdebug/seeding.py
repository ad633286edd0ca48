"""Seed every generator of a program, choose deterministic algorithms, and undo both."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch.utils.data import DataLoader, get_worker_info

from nbdebug.exceptions import SetupError
from nbdebug.options import check_option_names
from nbdebug.preserve import seed_all
from nbdebug.preserve.object_snapshots import SettingSnapshot, Snapshot, ValueSnapshot
from nbdebug.preserve.process_snapshots import GeneratorSnapshot, global_generators, global_settings
from nbdebug.preserve.traversal import Traversal
from nbdebug.result import TextRepr
from nbdebug.validation import argument_error, as_index, describe_type

Determinism = Literal["warn"] | bool
_MAX_SEED = 2**32 - 1  # the largest that NumPy accepts
_CUBLAS = "CUBLAS_WORKSPACE_CONFIG"
_CUBLAS_CONFIG = ":4096:8"  # documentation of cuBLAS: eight buffers of 4 MiB give the same results in each run
_LOADER_ATTRIBUTES = ("generator", "worker_init_fn", "_iterator")
_COSTS = (
    "operations without a deterministic algorithm {act}",
    "index_add, scatter_add and the gradient of indexing use deterministic algorithms, which are slower on a GPU",
    "cuDNN does not time its algorithms, and uses only deterministic ones, so convolutions on a GPU can be slower",
    "cuBLAS keeps a workspace of 32 MiB on each GPU stream",
    "torch.empty() fills its memory with NaN or the largest integer, one more write for each call",
)


@dataclass(frozen=True)
class Seeding(TextRepr):
    """The seeded generators, the changed settings, and the cost of these settings.

    ``settings`` has the name, the previous and the present value of each. As a context manager, it restores all of them
    at the end of the block; ``restore()`` does so at once.
    """

    seed: int
    generators: tuple[str, ...]
    settings: tuple[tuple[str, str, str], ...] = ()
    costs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    _snapshots: list[Snapshot] = field(default_factory=list, repr=False, compare=False)

    def __enter__(self) -> Seeding:
        return self

    def __exit__(self, *exception: object) -> None:
        self.restore()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_snapshots": []}

    def restore(self) -> None:
        """Restore the generators and the settings as they were before; a second call does nothing."""
        while self._snapshots:
            self._snapshots.pop().restore()

    def to_text(self) -> str:
        """The seed, the generators, the settings with their previous values, the costs and the notes."""
        lines = [f"nbdebug seed: {len(self.generators)} generators are seeded with {self.seed}."]
        lines += [f"  seeded: {name}" for name in self.generators]
        lines += [f"  set: {name} = {after} (was {before})" for name, before, after in self.settings]
        lines += [f"  cost: {cost}" for cost in self.costs]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


class _WorkerSeed:
    """A ``worker_init_fn`` that seeds the generators of the dataset in each worker, then calls the previous one.

    A worker receives a copy of the dataset with its generators. Without new seeds, all workers draw the same numbers.
    """

    def __init__(self, seed: int, previous: Any = None) -> None:
        self.seed, self.previous = seed, previous

    def __call__(self, worker: int) -> None:
        """Seed the generators of this worker's dataset."""
        information = get_worker_info()
        dataset = getattr(information, "dataset", None)
        for number, (_, generator) in enumerate(_dataset_generators(dataset)):
            seed_generator(generator, _derived_seed(self.seed, worker, number))
        if self.previous is not None:
            self.previous(worker)


@check_option_names()
def seed(seed: int = 0, *, deterministic: Determinism = False, loaders: Any = ()) -> Seeding:
    """Seed Python, NumPy and torch on every device, and on request choose deterministic algorithms.

    The result says what was set and what that costs; ``restore()`` of the result, or the end of a ``with`` block,
    undoes it. Raises SetupError for a seed or an option that cannot be used.

    Args:
        seed: The seed, from 0 to 2³² - 1.
        deterministic: True for deterministic algorithms only, so that an operation without one raises an error; "warn"
            to be warned instead.
        loaders: A DataLoader or several. Their generators, those of their samplers and datasets, and those of their
            workers are seeded too, so that their batches do not depend on what else draws random numbers.
    """
    number = as_index(seed)
    if number is None or not 0 <= number <= _MAX_SEED:
        raise argument_error("seed", seed, f"a whole number from 0 to {_MAX_SEED}", "Use 0")
    if deterministic not in (True, False, "warn"):
        raise argument_error("deterministic", deterministic, "True, False or 'warn'")
    loader_list = _as_loaders(loaders)
    snapshots = [snapshot for _, snapshot in global_generators()]
    names = ["random", "numpy.random", *_torch_names()]
    settings: list[tuple[str, str, str]] = []
    try:
        seed_all(number)
        for position, loader in enumerate(loader_list):
            names += _seed_loader(loader, number, f"loader {position}" if len(loader_list) > 1 else "loader", snapshots)
        if deterministic:
            settings = _choose_deterministic(deterministic == "warn", snapshots)
    except BaseException:
        Seeding(number, (), _snapshots=snapshots).restore()
        raise
    costs = _costs(deterministic == "warn") if deterministic else ()
    return Seeding(number, tuple(names), tuple(settings), costs, _notes(bool(deterministic)), snapshots)


def _as_loaders(loaders: Any) -> list[DataLoader[Any]]:
    items = [loaders] if isinstance(loaders, DataLoader) or not isinstance(loaders, Iterable) else list(loaders)
    for item in items:
        if not isinstance(item, DataLoader):
            raise SetupError(f"loaders has {describe_type(item)}; expected DataLoaders. Pass torch's own loaders.")
    return items


def _torch_names() -> list[str]:
    names = ["torch on the CPU"]
    names += (
        [f"torch on cuda:{index}" for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    )
    return names + (["torch on mps"] if torch.backends.mps.is_available() else [])


def _seed_loader(loader: DataLoader[Any], seed: int, name: str, snapshots: list[Snapshot]) -> list[str]:
    """Seed the generators of a loader, and return their names; the snapshots restore what is changed."""
    for attribute in _LOADER_ATTRIBUTES:
        snapshots.append(_attribute_snapshot(loader, attribute))
    names = [f"generator of {name}", f"workers of {name}"] if loader.num_workers else [f"generator of {name}"]
    loader.generator = torch.Generator().manual_seed(_derived_seed(seed, 0, 0))
    if loader.num_workers:
        loader.worker_init_fn = _WorkerSeed(seed, loader.worker_init_fn)
    vars(loader)["_iterator"] = None  # persistent workers have generators that were copied before
    sampler = getattr(loader.batch_sampler, "sampler", None) or loader.sampler
    if hasattr(sampler, "generator") and sampler.generator is None:
        snapshots.append(_attribute_snapshot(sampler, "generator"))
        sampler.generator = torch.Generator().manual_seed(_derived_seed(seed, 0, 1))
        names.append(f"sampler of {name}")
    own = {id(loader.generator), id(getattr(sampler, "generator", None))}
    for number, (path, generator) in enumerate(_loader_generators(loader)):
        if id(generator) not in own:
            snapshots.append(GeneratorSnapshot(generator))
            seed_generator(generator, _derived_seed(seed, 1, number))
            names.append(f"{name}{path}")
    return names


def _attribute_snapshot(owner: Any, name: str) -> Snapshot:
    return ValueSnapshot(partial(vars(owner).get, name), partial(vars(owner).__setitem__, name))


def _derived_seed(seed: int, *numbers: int) -> int:
    """Return a seed for one generator, independent of those of the others."""
    return int(np.random.SeedSequence([seed, *numbers]).generate_state(1)[0])


def _loader_generators(loader: Any) -> Iterator[tuple[str, Any]]:
    """Yield the generators that a loader refers to, with their paths."""
    traversal = Traversal()
    traversal.take_loader_snapshot(loader)
    yield from _generators_in(traversal)


def _dataset_generators(dataset: Any) -> Iterator[tuple[str, Any]]:
    """Yield the generators that a dataset and its transforms refer to, with their paths."""
    traversal = Traversal()
    traversal.take_loader_snapshot(dataset)
    yield from _generators_in(traversal)


def _generators_in(traversal: Traversal) -> Iterator[tuple[str, Any]]:
    for path, snapshot in traversal.snapshots:
        if isinstance(snapshot, GeneratorSnapshot) and snapshot.state is not None:
            yield str(path).partition(".")[1] + str(path).partition(".")[2], snapshot.original


def seed_generator(generator: Any, seed: int) -> None:
    """Seed a generator of Python, NumPy or torch in place."""
    if isinstance(generator, torch.Generator):
        generator.manual_seed(seed)
    elif isinstance(generator, (random.Random, np.random.RandomState)):
        generator.seed(seed)
    else:
        bits: Any = generator.bit_generator if isinstance(generator, np.random.Generator) else generator
        bits.state = type(bits)(seed).state


def _choose_deterministic(warn_only: bool, snapshots: list[Snapshot]) -> list[tuple[str, str, str]]:
    """Choose deterministic algorithms, and return the settings with their values before and after."""
    own: list[tuple[str, SettingSnapshot, Callable[[], object]]] = [
        (
            _CUBLAS,
            SettingSnapshot(partial(os.environ.get, _CUBLAS), _set_cublas_config),
            partial(os.environ.setdefault, _CUBLAS, _CUBLAS_CONFIG),
        ),
        (
            "fill_uninitialized_memory",
            SettingSnapshot(_fills_memory, _set_filling),
            partial(_set_filling, True),
        ),
    ]
    read = {name: (snapshot, snapshot.original) for name, snapshot in global_settings()}
    before = {"determinism": read["determinism"][1], "cudnn.benchmark": read["cudnn.benchmark"][1]}
    before |= {"cudnn.deterministic": read["cudnn.deterministic"][1]}
    snapshots += [read[name][0] for name in before] + [snapshot for _, snapshot, _ in own]
    for _, _, choose in own:
        choose()
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True
    after = {name: snapshot.original for name, snapshot in global_settings()}
    rows = [(name, value, after[name]) for name, value in before.items()]
    rows += [(name, snapshot.original, snapshot.read()) for name, snapshot, _ in own]
    return [(_SETTING_NAMES[name], _value_text(name, old), _value_text(name, new)) for name, old, new in rows]


_SETTING_NAMES = {
    "determinism": "torch.use_deterministic_algorithms",
    "cudnn.benchmark": "torch.backends.cudnn.benchmark",
    "cudnn.deterministic": "torch.backends.cudnn.deterministic",
    _CUBLAS: _CUBLAS,
    "fill_uninitialized_memory": "torch.utils.deterministic.fill_uninitialized_memory",
}
_DEBUG_MODES = ("off", "warn", "on")  # torch.get_deterministic_debug_mode()


def _value_text(name: str, value: Any) -> str:
    return _DEBUG_MODES[value] if name == "determinism" else "not set" if value is None else str(value)


def _fills_memory() -> bool:
    return bool(torch.utils.deterministic.fill_uninitialized_memory)  # type: ignore[attr-defined]


def _set_filling(fills: bool) -> None:
    torch.utils.deterministic.fill_uninitialized_memory = fills  # type: ignore[attr-defined]


def _set_cublas_config(value: str | None) -> None:
    if value is None:
        os.environ.pop(_CUBLAS, None)
    else:
        os.environ[_CUBLAS] = value


def _costs(warn_only: bool) -> tuple[str, ...]:
    act = "print a warning" if warn_only else "raise an error"
    costs = [cost.format(act=act) for cost in _COSTS]
    return tuple(costs if torch.cuda.is_available() else (costs[0], costs[-1]))


def _notes(deterministic: bool) -> tuple[str, ...]:
    notes = []
    if os.environ.get("PYTHONHASHSEED", "random") == "random":
        notes.append(
            "the hashes of strings differ between processes, and so does the order of sets; sort sets, or set "
            "PYTHONHASHSEED=0 before Python starts"
        )
    if deterministic and torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        notes.append(f"CUDA was in use already; {_CUBLAS} has an effect only if it is set before the first call")
    return tuple(notes)
