"""The sources of differences between two runs: how to hold each constant, how to vary it, and how to cure it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from nbdebug.tools.repeatable.environment import Environment

Block = AbstractContextManager[Any]


@dataclass(frozen=True)
class Source:
    """A source: what the step reads, and the code or sentence that cures it.

    ``fixed`` opens a block in which the source is the same in each run, ``varied`` one in which it is not. Either is
    None if it cannot be controlled so.
    """

    name: str
    description: str
    cure: str
    fixed: Callable[[Environment], Block] | None = None
    varied: Callable[[Environment], Block] | None = None
    applies: Callable[[Environment], bool] = lambda _: True


def _has_workers(environment: Environment) -> bool:
    return bool(getattr(environment.setup.train_loader, "num_workers", 0))


def _yields_out_of_order(environment: Environment) -> bool:
    return _has_workers(environment) and not getattr(environment.setup.train_loader, "in_order", True)


SOURCES: tuple[Source, ...] = (
    Source(
        "clock",
        "code that reads the clock",
        "Compute with step numbers instead of the time, and seed with a fixed number.",
        Environment.stopped_clock,
        Environment.shifted_clock,
    ),
    Source(
        "entropy",
        "a random generator without a seed, which starts from random bits of the operating system",
        "rng = np.random.default_rng(0)   # a fixed seed",
        Environment.fixed_entropy,
    ),
    Source(
        "process number",
        "the number of the process",
        "Seed with a fixed number instead of os.getpid(); in a worker, with torch.initial_seed() or its number.",
        lambda environment: environment.process_number(4321),
        lambda environment: environment.process_number(9876),
    ),
    Source(
        "batch order of the workers",
        "batches in the order in which the workers finish them",
        "train_loader = DataLoader(..., in_order=True)",
        Environment.ordered_workers,
        applies=_yields_out_of_order,
    ),
    Source(
        "hash order",
        "the order of a set, or the hash of a text, which differ between processes",
        "for item in sorted(items): ...   # or set PYTHONHASHSEED=0 before Python starts",
        lambda environment: environment.set_order(False),
        lambda environment: environment.set_order(True),
    ),
    Source(
        "file order",
        "the order in which the operating system lists files",
        "files = sorted(os.listdir(folder))",
        lambda environment: environment.file_order(False),
        lambda environment: environment.file_order(True),
    ),
    Source(
        "uninitialized memory",
        "memory that torch.empty() or np.empty() does not initialize",
        "torch.zeros(...)   # instead of torch.empty(...), and np.zeros(...) instead of np.empty(...)",
        lambda environment: environment.filled_memory(0.0),
        lambda environment: environment.filled_memory(77.0),
    ),
    Source(
        "Python threads",
        "the order in which threads of Python finish",
        "Collect the results in the order of submission: [future.result() for future in futures].",
        Environment.no_python_threads,
    ),
    Source(
        "threads",
        "an operation whose result depends on how several threads share its work",
        "nbdebug.seed(0, deterministic=True)   # or torch.set_num_threads(1)",
        Environment.single_thread,
    ),
    Source(
        "nondeterministic operation",
        "an operation without a fixed order of its sums",
        "nbdebug.seed(0, deterministic=True)",
        Environment.deterministic,
    ),
    Source(
        "workers",
        "what only the worker processes of the loader do",
        "nbdebug.seed(0, loaders=train_loader)",
        Environment.no_workers,
        applies=_has_workers,
    ),
)
