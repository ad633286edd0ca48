"""Train learners of growing capacity on the same data, and the user's model on parts of it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from nbdebug.crashes.meta import clone_tensor, copy_model
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.formatting import format_value
from nbdebug.parallel import Backend, Workers, choose_workers
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.statistics.paired_differences import PairedDifference, paired_difference
from nbdebug.tools.ladder.learners import LEARNERS, score_learners
from nbdebug.tools.ladder.networks import HIDDEN_SIZES, network_obstacle, use_network
from nbdebug.tools.ladder.result import YOURS, DataPoint, Ladder, LadderVerdict, Rung, build_view, starting_view
from nbdebug.tools.ladder.smaller_models import SmallerModel, smaller_models
from nbdebug.tools.ladder.teacher import teacher_change
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.tools.try_fix.arms import Arm, ArmRunner
from nbdebug.tools.try_fix.change import SetupChange, parse_change
from nbdebug.tools.try_fix.run_score import RunScore
from nbdebug.tools.try_fix.tool import prepare_experiment
from nbdebug.training.changed_loaders import check_order, keep_samples
from nbdebug.validation import argument_error
from nbdebug.views.late_screen import before_any_result
from nbdebug.views.live import show_view

_SHARES = (0.25, 0.5, 1.0)
_MIN_GAIN = 0.01  # of the score, below which a difference does not count
_MIN_SAMPLES = 8
_LEARNED_SCORE = 0.8  # on the noise-free labels of a teacher


def ladder(
    setup: Setup,
    *,
    models: Mapping[str, nn.Module] | None = None,
    steps: int = 300,
    seeds: int = 3,
    initialize: bool = True,
    workers: int | None = None,
    backend: Backend | None = None,
) -> Ladder:
    """Compare learners of growing capacity with the user's model: where does more capacity stop helping, or more data?

    A constant, a linear model and a kernel ridge regression are fitted; fully connected networks of growing width and
    depth, copies of ``models``, such as the user's model of other sizes, and copies of the user's model are trained,
    for ``steps`` steps with each seed, on the same batches. One more copy learns the labels of a randomly initialized
    one. Copies start from new weights, unless ``initialize`` is False. Nothing of the user's is changed. Raises
    SetupError without a validation loader, and for a setup that cannot be run.
    """
    _check_models(models)
    if setup.val_loader is None:
        raise SetupError("there is no val_loader; expected one, on which the learners are scored. Pass val_loader=.")
    pool_workers = choose_workers(backend, workers)
    run_score, in_place = prepare_experiment(setup, steps, seeds, None, pool_workers)
    preserved = Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader))
    with show_view(starting_view("fitting simple learners")) as screen:
        with (
            before_any_result(screen, "Complexity ladder", starting_view),
            preserved,
            UserCodeErrors(lambda: "before the ladder"),
        ):
            climb = _Climb(setup, run_score, models or {}, steps, seeds, in_place, initialize, pool_workers)
        screen.update(climb.view("starting"))
        climb.runner.run(screen, climb.view)
        result = climb.result()
        screen.finish(result)
    return result


class _Climb:
    """The rungs below, which are fitted at once, and the arms of the networks and of the user's model."""

    def __init__(
        self,
        setup: Setup,
        run_score: RunScore,
        models: Mapping[str, nn.Module],
        steps: int,
        seeds: int,
        in_place: bool,
        initialize: bool,
        workers: Workers | None,
    ) -> None:
        self.setup, self.run_score, self.steps, self.seeds = setup, run_score, steps, seeds
        self.notes: list[str] = []
        _check_loss(setup, run_score.batches[0])
        self.shares = self._find_shares()
        self.points = self._score_learners()
        start = (parse_change("initialization=default"),) if initialize else ()
        self.networks = [self._arm(_network_name(sizes), _network(sizes)) for sizes in self._network_sizes()]
        self.networks += [self._arm(name, _other_model(name, model), *start) for name, model in models.items()]
        sizes = self._own_sizes(in_place, initialize)
        self.networks += [self._arm(size.change.name, *start, size.change) for size in sizes]
        self.own = [self._arm(YOURS, *start, *_subset(share)) for share in self.shares]
        self.student = self._student(start)
        arms = (*self.own, *self.networks, *self.student)
        self.runner = ArmRunner(setup, arms, steps, seeds, in_place, workers)
        self.parameters = {arm.name: self._count_parameters(arm) for arm in (*self.networks, self.own[-1])}
        self.parameters |= {size.change.name: size.parameters for size in sizes}

    def _find_shares(self) -> tuple[float, ...]:
        loader = self.setup.train_loader
        try:
            check_order(loader)
        except SetupError as reason:
            self.notes.append(f"no parts of the data are tried: {str(reason).partition(';')[0]}")
            return (1.0,)
        return tuple(share for share in _SHARES if share * len(loader.dataset) >= _MIN_SAMPLES) or (1.0,)

    def _score_learners(self) -> list[DataPoint]:
        try:
            return list(score_learners(self.setup, self.run_score.meter, self.shares))
        except NotChecked as reason:
            self.notes.append(f"no simple learner is fitted: {reason}")
            return []

    def _network_sizes(self) -> Sequence[tuple[int, ...]]:
        if obstacle := network_obstacle(self.setup, self.run_score.batches[0]):
            self.notes.append(f"no reference network is trained: {obstacle}")
            return ()
        return HIDDEN_SIZES

    def _own_sizes(self, in_place: bool, initialize: bool) -> list[SmallerModel]:
        """Return the smaller sizes of the user's model."""
        if in_place or not initialize:
            reason = "it cannot be copied" if in_place else "its present weights are kept"
            self.notes.append(f"no smaller size of your model is trained: {reason}")
            return []
        sizes = smaller_models(self.setup, self.run_score.batches[0])
        if not sizes:
            self.notes.append("no smaller size of your model is trained: it has no hidden layer of 8 channels or more")
        return sizes

    def _student(self, start: Sequence[SetupChange]) -> list[Arm]:
        """Return the arm of the user's model on a teacher's labels, if there can be one."""
        try:
            change = teacher_change(self.setup, self.run_score.batches, self.run_score.loss_kind)
        except NotChecked as reason:
            self.notes.append(f"no labels of a teacher are learned: {reason}")
            return []
        return [Arm(YOURS, (*start, change), self.run_score.for_change())]

    def _arm(self, name: str, *changes: SetupChange) -> Arm:
        return Arm(name, changes, self.run_score)

    def _count_parameters(self, arm: Arm) -> int:
        with self.runner.changed_copy(arm.changes) as treated:
            return sum(p.numel() for p in treated.model.parameters())

    def view(self, status: str) -> Any:
        """Return the view of what is known so far."""
        return build_view(self.result(), status)

    def result(self) -> Ladder:
        """Return the rungs with the runs so far, and what they show."""
        rungs = self._rungs()
        verdict, suffices = _judge(rungs)
        gain = self._data_gain()
        return Ladder(
            verdict=verdict,
            headline=_headline(rungs, verdict, suffices, gain, self.run_score.metric),
            rungs=tuple(rungs),
            suffices=suffices,
            data_gain=gain,
            student=tuple(run.score for arm in self.student for run in arm.runs),
            metric=self.run_score.metric,
            steps=self.steps,
            seeds=self.seeds,
            total_steps=self.runner.total_steps,
            notes=(*self.notes, *self._improvement_notes(), *self._student_notes()),
            seconds=time.perf_counter() - self.runner.started,
            shares=self.shares,
        )

    def _rungs(self) -> list[Rung]:
        names = [name for name in LEARNERS if any(point.learner == name for point in self.points)]
        below = {name: [point for point in self.points if point.learner == name] for name in names}
        below |= {arm.name: [self._point(arm, 1.0)] for arm in self.networks}
        own = [self._point(arm, share) for arm, share in zip(self.own, self.shares, strict=True)]
        rungs = [
            Rung(name, tuple(points), self.parameters.get(name), _difference(own[-1].scores, points[-1].scores))
            for name, points in below.items()
        ]
        return [*rungs, Rung(YOURS, tuple(own), self.parameters[YOURS])]

    def _point(self, arm: Arm, share: float) -> DataPoint:
        size = getattr(self.setup.train_loader, "dataset", ())
        samples = round(share * len(size)) if hasattr(size, "__len__") else 0
        return DataPoint(arm.name, share, samples, tuple(run.score for run in arm.runs))

    def _improvement_notes(self) -> list[str]:
        """Return a note if the user's model still improves at the end, so that its capacity is not the limit."""
        scores = [run.scores for run in self.own[-1].runs if len(run.scores) >= 4]
        gains = [np.mean(values[-2:]) - np.mean(values[-4:-2]) for values in scores]
        if not gains or np.mean(gains) < _MIN_GAIN:
            return []
        return [f"your model still improves at step {self.steps}: more steps= tell whether its capacity is the limit"]

    def _student_notes(self) -> list[str]:
        """Return what the scores on the labels of a teacher mean."""
        scores = [run.score for arm in self.student for run in arm.runs]
        if not scores:
            return []
        score = float(np.mean(scores))
        means = (
            "your model and its training can learn a function of this kind from these inputs"
            if score >= _LEARNED_SCORE
            else "its training is a limit: learning rate, optimizer or steps, and not the labels"
        )
        return [f"on labels of a randomly initialized copy, your model reaches {format_value(score)}: {means}"]

    def _data_gain(self) -> PairedDifference | None:
        if 0.5 not in self.shares:
            return None
        half, whole = (self.own[self.shares.index(share)] for share in (0.5, 1.0))
        return _difference(*(tuple(run.score for run in arm.runs) for arm in (whole, half)))


def _other_model(name: str, model: nn.Module) -> SetupChange:
    """Return the change that trains a copy of another model."""

    def use_model(treated: TreatedSetup) -> bool:
        copied = copy_model(model, {}, clone_tensor)
        treated.model = copied.to(treated.setup.model_device).train()
        return True

    return SetupChange(name, use_model)


def _check_models(models: Mapping[str, nn.Module] | None) -> None:
    for name, model in (models or {}).items():
        if not isinstance(model, nn.Module):
            raise argument_error(f"models[{name!r}]", model, "a model", 'Pass models={"width 64": Net(64)}')


def _check_loss(setup: Setup, batch: Batch) -> None:
    """Raise SetupError if the loss of the user's model is not a finite number, which no capacity can cure."""
    if setup.step_fn is not None:
        return
    with torch.no_grad():
        loss = float(setup.output_and_loss(batch)[1])
    if not math.isfinite(loss):
        raise SetupError(f"the loss of the first batch is {loss}; expected a finite number. Run dbg.checkup().")


def _network(sizes: tuple[int, ...]) -> SetupChange:
    return SetupChange(_network_name(sizes), lambda treated: use_network(treated, sizes))


def _network_name(sizes: tuple[int, ...]) -> str:
    return f"network {'×'.join(map(str, sizes))}"


def _subset(share: float) -> list[SetupChange]:
    """Return the change that keeps a random share of the training samples, other ones for each seed."""

    def keep_share(treated: TreatedSetup) -> bool:
        loader = treated.train_loader
        indices = torch.randperm(len(loader.dataset))[: round(share * len(loader.dataset))].tolist()
        size = min(loader.batch_size or 1, len(indices))
        treated.train_loader = keep_samples(loader, indices, batch_size=size)
        return True

    return [SetupChange(f"{share:.0%} of the samples", keep_share)] if share < 1 else []


def _difference(first: Sequence[float], second: Sequence[float]) -> PairedDifference:
    """Return the difference of the scores by seed; a learner without randomness has one score for all seeds."""
    pairs = max(len(first), len(second)) if min(len(first), len(second)) else 0
    if 1 not in (len(first), len(second)):
        pairs = min(len(first), len(second))
    return paired_difference(np.resize(first, pairs) - np.resize(second, pairs) if pairs else np.zeros(0))


def _is_better(first: Rung, second: Rung) -> bool:
    """Check whether a rung is better by more than the seeds explain, and by at least 0.01."""
    difference = _difference(first.points[-1].scores, second.points[-1].scores)
    is_certain = difference.sign > 0 or difference.pairs == 1
    return is_certain and difference.value >= _MIN_GAIN


def _judge(rungs: Sequence[Rung]) -> tuple[LadderVerdict, str]:
    """Return the verdict on the user's model, and the first rung that no later one improves on."""
    own = rungs[-1]
    if len(own.points[-1].scores) < 2:
        return "stopped", ""
    suffices = next(
        rung for number, rung in enumerate(rungs) if not any(_is_better(other, rung) for other in rungs[number + 1 :])
    )
    if any(_is_better(rung, own) for rung in rungs[:-1]):
        return "worse", suffices.name
    return ("best" if suffices is own else "smaller suffices"), suffices.name


def _headline(
    rungs: Sequence[Rung], verdict: LadderVerdict, suffices: str, gain: PairedDifference | None, metric: str
) -> str:
    """Return what more capacity and more data do, in two sentences."""
    if verdict == "stopped":
        return "Stopped before two seeds were complete."
    own, below = rungs[-1], {rung.name: rung for rung in rungs[:-1]}
    text = f"Your model reaches a {metric} of {format_value(own.score)}"
    if verdict == "worse":
        better = max(below.values(), key=lambda rung: rung.score)
        text += f"; {better.name} reaches {format_value(better.score)}."
    elif verdict == "best":
        text += ", more than all smaller learners."
    else:
        text += f"; {suffices} reaches {format_value(below[suffices].score)}, and no larger one improves on it."
    if gain is not None and gain.pairs:
        verb = "helps" if gain.sign > 0 and gain.value >= _MIN_GAIN else "shows no clear gain"
        text += f" More data {verb}: from half of the samples to all, the difference is {gain}."
    return text
