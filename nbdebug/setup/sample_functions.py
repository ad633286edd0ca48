"""The user's functions that make samples, and the lines in them that change a target."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from torch.utils.data import IterableDataset, Subset
from torch.utils.data.dataset import ConcatDataset

from nbdebug.setup.batch import TARGET_KEYS
from nbdebug.setup.setup import Setup
from nbdebug.source.assignments import covering_statement
from nbdebug.source.location import SourceLine, is_user_code
from nbdebug.source.producers import executed_return, part_steps
from nbdebug.source.scopes import user_function
from nbdebug.source.search import call_name

_MAX_NESTING = 8
Method = tuple[FunctionType, Any]  # a function, and the object of which it is a method


def nested_datasets(dataset: Any) -> Iterator[Any]:
    """Yield a dataset and those inside its subsets, the outermost first."""
    for _ in range(_MAX_NESTING):
        if dataset is None:
            return
        yield dataset
        if isinstance(dataset, ConcatDataset):
            dataset = dataset.datasets[0] if len(dataset.datasets) == 1 else None
        else:
            dataset = dataset.dataset if isinstance(dataset, Subset) else None


def sample_functions(loader: Any, datasets: list[Any]) -> Iterator[Method]:
    """Yield the user's functions that make samples and their objects, the most important first.

    A collate function makes the parts of a sample only if the dataset returns a single part.
    """
    collate = collate_method(loader)
    if collate and not _returns_parts(datasets):
        yield collate
    for dataset in datasets:
        name = "__iter__" if isinstance(dataset, IterableDataset) else "__getitem__"
        method = getattr(type(dataset), name, None)
        if isinstance(method, FunctionType) and is_user_code(method.__code__.co_filename):
            yield method, dataset
    if collate:
        yield collate


def collate_method(loader: Any) -> Method | None:
    """Return the user's function that collates the batches of a loader, and its object; None if it has none.

    It may be a method, or an object with ``__call__``.
    """
    return user_function(getattr(loader, "collate_fn", None))


def collating_object(loader: Any) -> Any:
    """Return the object of which the user's collate function is a method, since it may have a state; else None."""
    method = collate_method(loader)
    return method[1] if method else None


def _returns_parts(datasets: list[Any]) -> bool:
    """Check whether a dataset returns several parts for an index."""
    try:
        sample = datasets[0][0]
    except Exception:  # no dataset, or one without an index
        return False
    return isinstance(sample, (tuple, list, dict)) and len(sample) > 1


def alias_line(setup: Setup) -> SourceLine | None:
    """Return the line that gives another name to the inputs of a sample, under which they become its target."""
    loader = setup.train_loader
    for function in sample_functions(loader, [*nested_datasets(getattr(loader, "dataset", None))]):
        pair = executed_return(*function)
        for step, _ in part_steps(pair, -1, TARGET_KEYS) if pair else ():
            statement = covering_statement(step.line) if isinstance(step.node, ast.Name) else None
            if isinstance(statement, ast.Assign) and statement.value is step.node:
                return step.line
    return None


def added_axis_line(setup: Setup) -> SourceLine | None:
    """Return the line that gives the target of each sample an axis of length 1, by ``unsqueeze`` or ``[None]``."""
    loader = setup.train_loader
    for function in sample_functions(loader, [*nested_datasets(getattr(loader, "dataset", None))]):
        pair = executed_return(*function)
        for step, _ in part_steps(pair, -1, TARGET_KEYS) if pair else ():
            index = getattr(step.node, "slice", None)
            parts = getattr(index, "elts", [index])
            if call_name(step.node) == "unsqueeze" or any(getattr(part, "value", 0) is None for part in parts):
                return step.line
    return None
