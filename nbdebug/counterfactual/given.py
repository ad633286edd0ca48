"""A sample, a model and training data as a table: columns that a search may change, and a decision to be changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from nbdebug.attribution.given import count, inputs_of, with_leaves
from nbdebug.attribution.parts import Listener, column_of, is_integer
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.rows import has_rows
from nbdebug.counterfactual.columns import Columns, Floats, columns_of
from nbdebug.exceptions import SetupError
from nbdebug.setup import Batch
from nbdebug.setup.trees import tensors

MOST = 5_000  # training samples that are looked at
ACT = "Look at explain's heat map or its nearest training samples instead"


@dataclass(frozen=True, eq=False)
class Tabular:
    """A problem whose inputs are columns: ``start`` is the sample, ``columns`` what it may become."""

    problem: Problem
    start: Floats
    columns: Columns

    def outputs(self, points: Floats) -> Floats:
        """What the model gives for rows of columns, rows × outputs."""
        found: Tensor = self.problem.all_outputs(self.batch(points))
        return found.to("cpu", torch.float64).numpy()

    def batch(self, points: Floats) -> Batch:
        """Rows of columns as the model takes them."""
        changed, at = {}, 0
        for number, (_, leaf) in enumerate(inputs_of(self.problem.batch)):
            if has_rows(leaf):
                width = leaf[0].numel()
                values = torch.from_numpy(np.ascontiguousarray(points[:, at : at + width]))
                changed[number] = values.reshape(len(points), *leaf.shape[1:]).to(leaf.dtype).to(leaf.device)
                at += width
        return with_leaves(self.problem.batch, changed)


def tabular(problem: Problem, feature_names: Sequence[str] | None = None) -> Tabular:
    """The problem as a table; raises SetupError for pictures, tokens, several samples and missing training data."""
    if problem.size != 1:
        raise SetupError(f"inputs has {problem.size} samples; expected one to be changed. Pass x[:1].")
    if problem.background is None or count(problem.background) < 2:
        raise SetupError(
            "background is None or one sample; expected training samples, which tell what values there are. "
            "Pass background=x_train."
        )
    leaves = [(name, leaf) for name, leaf in inputs_of(problem.batch) if has_rows(leaf)]
    for name, leaf in leaves:
        refuse_others(name, leaf)
    chosen = looked_up(problem)
    seen = [leaf for _, leaf in inputs_of(problem.background) if has_rows(leaf)]
    rows = np.concatenate([flat(leaf) for leaf in seen], 1)
    rows = rows[np.isfinite(rows).all(1)]
    if len(rows) < 2:
        raise SetupError("background has no two samples of finite numbers; expected them. Fill or drop the others.")
    start = np.concatenate([flat(leaf) for _, leaf in leaves], 1)[0]
    return Tabular(problem, start, columns_of(rows, named(problem, leaves, feature_names), chosen))


def flat(leaf: Tensor) -> Floats:
    """A leaf as rows of columns."""
    found: Floats = leaf.detach().reshape(len(leaf), -1).to("cpu", torch.float64).numpy()
    return found


def refuse_others(name: str, leaf: Tensor) -> None:
    """Raises SetupError for a picture, a series or a text."""
    if leaf.dim() > 2 and leaf[0].numel() > max(leaf.shape[1:]):
        said = " × ".join(map(str, leaf.shape[1:]))
        raise SetupError(f"{name} is {said} numbers a sample; expected columns of a table. {ACT}.")


def looked_up(problem: Problem) -> list[int]:
    """The columns that embeddings take, which are kinds; raises SetupError where one takes a whole row of tokens."""
    found, at = [], 0
    listener = Listener(problem.model) if isinstance(problem.model, nn.Module) else None
    if listener is not None and listener.embeddings and any(is_integer(one) for one in tensors(problem.batch.inputs)):
        with torch.no_grad(), listener.listening():
            problem.call(problem.batch)
    for name, leaf in inputs_of(problem.batch):
        if not has_rows(leaf):
            continue
        places = {column_of(ids, leaf) for _, _, ids, _ in listener.seen} if listener and is_integer(leaf) else set()
        if -1 in places and leaf[0].numel() > 1:
            raise SetupError(f"{name} is a row of {leaf[0].numel()} tokens; expected columns of a table. {ACT}.")
        found += [at + max(place, 0) for place in places if place is not None]
        at += leaf[0].numel()
    return found


def named(problem: Problem, leaves: list[tuple[str, Tensor]], given: Sequence[str] | None) -> list[str]:
    """A name for each column; raises SetupError where those given are of another number."""
    names = list(given) if given is not None else list(problem.names[1] or [])
    width = sum(leaf[0].numel() for _, leaf in leaves)
    if len(names) == width:
        return [str(one) for one in names]
    if given is not None:
        raise SetupError(f"feature_names has {len(names)} names; expected {width}, one a column. Pass them all.")
    found = []
    for name, leaf in leaves:
        own = names if len(names) == leaf[0].numel() else [str(j) for j in range(leaf[0].numel())]
        begin = "" if len(leaves) == 1 or own is names else f"{name} "
        found += [f"{begin}{one}" if not one.isdigit() or begin else f"feature {one}" for one in own]
    return found
