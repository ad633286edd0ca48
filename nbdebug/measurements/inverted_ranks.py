"""Targets that list which sample has each rank, where the rank of each sample is meant: ``argsort`` taken as ranks."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.baselines.reference_learner import Targets
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.reference import Reference
from nbdebug.measurements.registry import slow_measurement
from nbdebug.setup import Setup
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.assignments import own_statements
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, file_nodes, search_files, syntax_tree

_MIN_GROUP, _MIN_GAIN, _MAX_SPACING_ERROR = 4, 0.3, 1e-3
_Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class InvertedRanks:
    """How well targets are predicted as they are, and as the ranks that they give if each group is inverted."""

    group: int
    metric: str
    score: float
    inverted_score: float
    rows: int
    line: SourceLine | None


@slow_measurement
def inverted_ranks(setup: Setup, tables: dict[str, SplitTable], reference: Reference) -> InvertedRanks | None:
    """The groups of training targets that are predicted only if the list of who has each rank is made into ranks."""
    table = tables.get("train")
    if table is None or not table.is_complete or len(table.targets) != 1:
        raise NotChecked("the training samples cannot all be read")
    inverted = _invert_groups(np.asarray(table.targets[0].double().reshape(len(table), -1)), table.indices)
    if inverted is None:
        return None
    ranks, values = inverted
    rows = reference.rows("train")
    score = rows.learner.kernel_ridge.score
    if score - rows.targets.constant_score > _MIN_GAIN or rows.targets.kind == "labels":
        return None
    own = ranks[rows.indices]
    is_class = rows.targets.kind == "classes"
    columns = np.eye(rows.targets.columns.shape[1])[values[own].astype(int)] if is_class else values[own][:, None]
    learner = rows.learner.with_targets(Targets(rows.targets.kind, columns.astype(np.float32)))
    inverted_score = learner.kernel_ridge.score
    if inverted_score - learner.targets.constant_score <= _MIN_GAIN:
        return None
    return InvertedRanks(len(values), rows.targets.metric, score, inverted_score, len(own), _sorting_line(setup))


def _invert_groups(
    targets: NDArray[np.float64], indices: object
) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
    """Return the rank of each sample by the inverse of its group, and the value of each rank.

    A group are as many consecutive samples as there are values, which must be evenly spaced and occur once in each;
    None for other targets.
    """
    order = np.argsort(np.asarray(indices))
    if targets.shape[1] != 1 or not np.array_equal(np.asarray(indices)[order], np.arange(len(order))):
        return None
    values, ranks = np.unique(targets[order, 0], return_inverse=True)
    steps = np.diff(values)
    if len(values) < _MIN_GROUP or len(order) % len(values) or np.ptp(steps) > _MAX_SPACING_ERROR * steps.mean():
        return None
    groups = ranks.reshape(-1, len(values))
    if (np.sort(groups, axis=1) != np.arange(len(values))).any():
        return None
    return np.argsort(groups, axis=1).reshape(-1), values


def _sorting_line(setup: Setup) -> SourceLine | None:
    """Return the only line with the indices of a sort in a function that does not sort them again."""
    lines: set[SourceLine] = set()
    for file in search_files(user_written_objects(setup)):
        tree = syntax_tree(file)
        functions = [node for node in file_nodes(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        scopes: list[_Scope] = [*functions, *([tree] if tree else [])]
        for scope in scopes:
            calls = [call for statement in own_statements(scope) for call in _sortings(statement)]
            lines |= {SourceLine(file, calls[0].lineno, getattr(scope, "name", ""))} if len(calls) == 1 else set()
    return lines.pop() if len(lines) == 1 else None


def _sortings(statement: ast.stmt) -> list[ast.Call]:
    """Return the calls in a statement itself, not in those inside it, that give the indices of a sort."""
    parts = [node for node in ast.iter_child_nodes(statement) if isinstance(node, ast.expr)]
    nodes = [node for part in parts for node in ast.walk(part) if isinstance(node, ast.Call)]
    return [node for node in nodes if call_name(node) == "argsort" or _sorts_numbers(node)]


def _sorts_numbers(call: ast.Call) -> bool:
    """Check for ``sorted(range(n), key=…)`` or a sort of a tensor, which returns indices too."""
    of_numbers = call_name(call) == "sorted" and any(call_name(argument) == "range" for argument in call.args)
    return of_numbers or (call_name(call) == "sort" and not any(k.arg == "key" for k in call.keywords))
