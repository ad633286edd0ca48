"""The nearest training samples for and against, and those that pull the most."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.arguments import whole
from nbdebug.attribution.given import as_batch, count
from nbdebug.exceptions import SetupError
from nbdebug.influence.residuals import residuals
from nbdebug.influence.result import Example, Examples
from nbdebug.influence.trained import Trained, met, no_pull, own_loss
from nbdebug.influence.trained import trained as pass_over
from nbdebug.neighbors.search import Floats, Metric, nearest
from nbdebug.predictions.classes import Predictions
from nbdebug.setup import Setup
from nbdebug.setup.losses import named
from nbdebug.setup.names import class_name

TWIN = 1e-6  # distance, as a share of the usual one, below which samples are the same to the model
ODD = 0.75  # of its neighbors with another label, a label is suspicious that the model does not believe either
Rows = NDArray[np.int64]


def examples(
    setup: Setup,
    inputs: Any,
    *,
    rival: int | str | None = None,
    truth: int | None = None,
    key: int | None = None,
    k: int = 6,
    layer: Any = None,
    metric: Metric = "cosine",
    trained: Trained | None = None,
) -> Examples:
    """The training samples that speak for what the model says of one sample, and those against it.

    Near is what the last linear layer is given alike, or what ``layer`` gives. Against are samples of the class
    ``rival``: without it of the true class where the model is wrong, else of the runner-up. How samples pull is the
    inner product of the gradients of two losses by the last layer, (residual · residual)(input · input + 1): the last
    checkpoint's part of TracIn (Pruthi et al. 2020, arXiv:2002.08484), whose terms are those of representer points
    (Yeh et al. 2018, arXiv:1811.09720). The sample counts as labeled with what the model says of it. ``key`` is its
    place where it is a training sample itself. ``trained`` holds an earlier pass over the training data. Nothing of
    the user's changes. Raises SetupError for classes that there are not, and tasks without classes or numbers.
    """
    begun = time.perf_counter()
    if not isinstance(setup, Setup):
        raise SetupError(
            f"setup is a {type(setup).__name__}; expected a Setup with a training loader. Pass Debugger's."
        )
    batch = as_batch(inputs, setup.eager)
    if count(batch) != 1:
        raise SetupError(f"inputs has {count(batch)} samples; expected one. Pass x[:1].")
    k = whole("k", k, act="Pass more")
    found = trained or pass_over(setup, layer, metric)
    points, outputs = met(found, batch)
    search = Search(found, points, outputs, found.row(key), k)
    return search.of_classes(rival, truth, begun) if found.classes else search.of_numbers(begun)


@dataclass(frozen=True, eq=False)
class Search:
    """A sample among training samples; ``own`` is its row there, or -1."""

    found: Trained
    points: Floats
    outputs: Tensor
    own: int
    k: int

    def of_classes(self, rival: int | str | None, truth: int | None, begun: float) -> Examples:
        """Those of the class that was said, and those of the rival."""
        table = self.found.table
        assert isinstance(table, Predictions)
        ours, theirs = self.sides(rival, truth)
        pulls, notes = self.pulls(torch.tensor([ours]))
        for name in dict.fromkeys((ours, theirs)):
            if not len(self.others(table.target == name)):
                notes.append(f"no training sample is labeled {self.name(name)}")
        pairs = [self.others(table.target == one) for one in (ours, theirs)]
        near = self.found.reference.near(self.points, own=np.array([self.own]))
        labeled = table.target[near.places[0]]
        agree = float((labeled == ours)[labeled >= 0].mean()) if (labeled >= 0).any() else None
        return self.told(self.name(ours), self.name(theirs), pairs, pulls, notes, agree, begun)

    def of_numbers(self, begun: float) -> Examples:
        """Those with a target at or above what was said, and those below."""
        said = float(self.outputs[0, 0])
        target = np.asarray(self.found.table.target).reshape(len(self.found.points))
        pulls, notes = self.pulls(None)
        pairs = [self.others(target >= said), self.others(target < said)]
        return self.told(f"{said:.4g} or more", f"less than {said:.4g}", pairs, pulls, notes, None, begun)

    def told(
        self, said: str, rival: str, pairs: list[Rows], pulls: Tensor | None, notes: list[str], agree: Any, begun: float
    ) -> Examples:
        """The four lists."""
        lists = [self.nearest(rows) for rows in pairs]
        lists += [np.zeros(0, np.int64) if pulls is None else self.strongest(pulls, sign) for sign in (1, -1)]
        near_for, near_against, pull_for, pull_against = (self.listed(rows, pulls) for rows in lists)
        reference = self.found.reference
        farther = float(reference.near(self.points, own=np.array([self.own])).farther[0])
        return Examples(
            said, rival, near_for, near_against, pull_for, pull_against, self.found.layer, len(self.found.points),
            reference.k, farther, agree, tuple(one for one in notes if one), time.perf_counter() - begun,
        )  # fmt: skip

    def sides(self, rival: int | str | None, truth: int | None) -> tuple[int, int]:
        """The class that was said and the one against it; raises SetupError for one that there is not."""
        scores = self.outputs[0]
        if len(scores) == 1:
            ours = int(scores[0] > (0.5 if self.probable else 0.0))
            order = [ours, 1 - ours]
        else:
            order = [int(one) for one in scores.argsort(descending=True)]
        if rival is None:
            wrong = truth is not None and truth != order[0] and 0 <= truth < len(order)
            return order[0], int(truth) if wrong and truth is not None else order[1]
        names = list(self.found.table.classes)  # type: ignore[union-attr]
        number = names.index(rival) if rival in names else rival
        if number == order[0] or not isinstance(number, int) or not 0 <= number < len(order):
            said = f"rival is {rival!r}, which the model says itself" if number == order[0] else f"rival is {rival!r}"
            raise SetupError(f"{said}; expected another class, 0 to {len(order) - 1}. Pass one of these.")
        return order[0], number

    @property
    def probable(self) -> bool:
        """Whether a single output is a probability."""
        return named(self.found.setup.loss_fn) == "bce"

    def name(self, number: int) -> str:
        """A class by its name."""
        return class_name(self.found.table.classes, number)  # type: ignore[union-attr]

    def others(self, among: NDArray[np.bool_]) -> Rows:
        """Rows of training samples, without the sample itself."""
        rows = np.nonzero(among)[0]
        return np.asarray(rows[rows != self.own])

    def nearest(self, rows: Rows) -> Rows:
        """The nearest of some training samples."""
        if not len(rows):
            return rows
        _, places = nearest(self.points, self.found.points[rows], min(self.k, len(rows)), self.found.metric)
        return np.asarray(rows[places[0]])

    def pulls(self, said: Tensor | None) -> tuple[Tensor | None, list[str]]:
        """The pull of each training sample, and a word where it cannot be told; of numbers it is upward."""
        found = self.found
        why = no_pull(found, self.points, self.outputs)
        if why:
            return None, [why]
        scores = found.scores(self.points)
        mine = -torch.ones_like(scores) if said is None else residuals(found.setup.loss_fn, scores, said)
        alike = torch.as_tensor(found.points).double() @ torch.as_tensor(self.points[0]).double()
        has_bias = found.last is not None and found.last.bias is not None
        return (found.residuals @ mine[0]) * (alike + has_bias), [own_loss(found)]

    def strongest(self, pulls: Tensor, sign: int) -> Rows:
        """The training samples that pull the most in one direction."""
        signed = (pulls * sign).numpy().copy()
        if self.own >= 0:
            signed[self.own] = -np.inf
        order = np.argsort(-signed, kind="stable")[: self.k]
        return np.asarray(order[signed[order] > 0])

    def listed(self, rows: Rows, pulls: Tensor | None) -> tuple[Example, ...]:
        """Some training samples with all that is said of them."""
        if not len(rows):
            return ()
        table, reference = self.found.table, self.found.reference
        distances, order = nearest(self.points, self.found.points[rows], len(rows), self.found.metric)
        apart = dict(zip(order[0].tolist(), distances[0].tolist(), strict=True))
        usual = float(np.median(reference.usual)) or 1.0
        odd = self.odd(rows)
        whole = float(pulls.abs().sum()) if pulls is not None else 0.0
        found = []
        for at, row in enumerate(rows):
            said = table.said(int(row))
            pull = None if pulls is None else float(pulls[row])
            share = None if pull is None or not whole else abs(pull) / whole
            twin = apart[at] <= TWIN * usual
            words = said.get("target", ""), said.get("prediction", "")
            found.append(Example(self.found.key(int(row)), *words, apart[at], pull, share, twin, bool(odd[at])))
        return tuple(found)

    def odd(self, rows: Rows) -> NDArray[np.bool_]:
        """Which of some training samples have a label that neither their neighbors have nor the model gives them."""
        table = self.found.table
        if not isinstance(table, Predictions):
            return np.zeros(len(rows), bool)
        labels = table.target[rows]
        near = self.found.reference.near(self.found.points[rows], labels, own=rows)
        assert near.others is not None
        lonely = np.nan_to_num(near.others) >= ODD
        return np.asarray(lonely & (table.prediction[rows] != labels) & (labels >= 0))
