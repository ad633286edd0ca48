"""The tiny batch: a few examples, made once, the very same tensors at every step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.graph.reader import read
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup, loaders, losses
from nbdebug.setup.losses import Kind
from nbdebug.setup.task import Task, infer
from nbdebug.setup.trees import tensors, transform
from nbdebug.setup.users_code import users_code

LOOK = 4


@dataclass(frozen=True)
class Look:
    """The tiny batch with what model and loss made of it before any training, in the modes they train in."""

    batch: Batch
    output: Any
    loss: float
    size: int
    kind: Kind
    task: Task


def materialize(setup: Setup, count: int) -> Look:
    """About ``count`` examples on which model and loss run, of more than one class where the first batches have them.

    They are taken by index through the loader's own collate function where that can be, else cut out of the first
    batch, else the first batch is used whole. Raises SetupError that repeats what model or loss raised.
    """
    failure: Exception | None = None
    for batch in candidates(setup, count):
        try:
            return look(setup, batch)
        except SetupError:
            raise
        except Exception as error:
            failure = error
    if failure is None:
        raise SetupError("train_loader gave no batch; expected at least one. Check len(dataset) and drop_last.")
    with users_code(lambda: "in the first pass of the overfit test"):
        raise failure


def look(setup: Setup, batch: Batch) -> Look:
    """One pass of a batch through model and loss, after which the model is as it was."""
    with Preserve(*setup.owned), torch.enable_grad():
        to_train_mode(setup)
        output, loss = setup.run(batch)
        output = transform(output, lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf)
        kind = kind_of(setup, loss)
        return Look(batch, output, float(loss.detach()), batch.size or 1, kind, task_of(setup, batch, output, kind))


def kind_of(setup: Setup, loss: Tensor) -> Kind:
    """Which of torch's losses is used, by its name or by the nearest loss operation behind its value."""
    kind = losses.named(setup.loss_fn)
    if kind != "other":
        return kind
    names = (node.name for node in read(loss.grad_fn, []).nodes)
    return next((losses.NODES[name] for name in names if name in losses.NODES), "other")


def task_of(setup: Setup, batch: Batch, output: Any, kind: Kind) -> Task:
    """The task as given, else as loss and targets tell it."""
    return setup.task or infer(batch, output, kind)


def to_train_mode(setup: Setup) -> None:
    """Train mode for a model that was left in eval mode; parts that are frozen in it beside others stay so."""
    if not any(module.training for module in setup.eager.modules()):
        setup.eager.train()


def candidates(setup: Setup, count: int) -> Iterator[Batch]:
    """Tiny batches, the best one first."""
    pool: list[Batch] = []
    for batch in setup.batches(LOOK):
        pool.append(batch)
        if sum(one.size for one in pool) >= count and len(set(labels(pool))) > 1:
            break
    if not pool:
        return
    yield from by_index(setup, pool, count)
    if pool[0].size > count:
        with suppress(NotChecked, RuntimeError, IndexError):
            yield pool[0].take(chosen(labels(pool[:1]), count))
    yield pool[0]


def by_index(setup: Setup, pool: Sequence[Batch], count: int) -> Iterator[Batch]:
    """The chosen samples, read once more and collated as the loader does it, where it has indices."""
    loader = setup.train_loader
    if not loaders.is_indexed(loader) or loader.batch_sampler is None:
        return
    indices = [index for batch in pool for index in batch.indices or ()]
    found = labels(pool)
    if len(found) != len(indices):
        return
    picked = tuple(indices[row] for row in chosen(found, count))
    yield setup.split(loaders.take(loader, picked), picked)


def labels(pool: Sequence[Batch]) -> list[Any]:
    """The class of each sample, or its number where targets are no classes."""
    found: list[Any] = []
    for batch in pool:
        target = next(iter(tensors(batch.targets)), None)
        start = len(found)
        if target is not None and target.shape == (batch.size,) and not target.is_floating_point():
            found += target.tolist()
        else:
            found += [(row,) for row in range(start, start + batch.size)]
    return found


def chosen(found: Sequence[Any], count: int) -> list[int]:
    """The first ``count`` rows as they come; where these are all of one class, half of them of others."""
    rows = list(range(min(count, len(found))))
    if len({found[row] for row in rows}) > 1:
        return rows
    others = list(islice((row for row in range(len(found)) if found[row] != found[0]), len(rows) // 2))
    return rows[: len(rows) - len(others)] + others
