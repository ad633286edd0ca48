"""Who may suggest a learning rate: nbdebug, torch-lr-finder, fastai, Lightning; each as its own guide says, by default.

torch-lr-finder starts at the rate of the optimizer, which is set to 1e-7 as in its guide; it ends at 10. fastai sweeps
from 1e-7 to 10 and suggests its "valley". Lightning sweeps from 1e-8 to 1. All of them take 100 steps; nbdebug takes as
many in each of its three sweeps, and with ``confirm=200`` trains at the rate and below it, 200 steps each.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from io import StringIO
from tempfile import TemporaryDirectory
from typing import Any

import torch
from lr_problems import Descent, Problem
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SWEEP, CONFIRM = 100, 200


@dataclass(frozen=True)
class Trial:
    """What a user has before the first step: a fresh model, its loss, its loader, and how its optimizer is made."""

    problem: Problem
    descent: Descent
    seed: int
    model: nn.Module
    loader: DataLoader[Any]

    @classmethod
    def fresh(cls, problem: Problem, descent: Descent, seed: int) -> Trial:
        """The model that a training with this seed begins from."""
        torch.manual_seed(seed)
        model, data, source = problem.model(), problem.data(), torch.Generator().manual_seed(seed)
        samples = TensorDataset(data.x, data.y)
        loader = DataLoader(samples, problem.batch, shuffle=True, drop_last=True, generator=source)
        return cls(problem, descent, seed, model, loader)

    def optimizer(self, rate: float) -> torch.optim.Optimizer:
        """The optimizer at a rate."""
        return self.descent.make(self.model.parameters(), lr=rate)


@dataclass(frozen=True)
class Answer:
    """The rate that a tool suggests, None where it suggests none, and the training steps that it took for it."""

    rate: float | None
    steps: int = SWEEP


@dataclass(frozen=True)
class Finder:
    """One tool: what it suggests to a trial, with ``end`` for its highest rate."""

    name: str
    suggest: Callable[..., Answer]
    packages: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """Packages that are not installed."""
        return [package for package in self.packages if find_spec(package) is None]


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing of progress bars, logs and warnings."""
    logging.disable(logging.WARNING)
    with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


def nbdebug(trial: Trial, end: float = 10, confirm: int = 0) -> Answer:
    """The recommended rate."""
    found = debugger(trial).lr_range(end=end, confirm=confirm)
    return Answer(found.suggestion, found.steps)


def debugger(trial: Trial) -> Any:
    """The Debugger of a trial."""
    from nbdebug import Debugger

    return Debugger(trial.model, trial.loader, loss_fn=trial.problem.loss_fn, optimizer=trial.optimizer(1e-3))


def training(trial: Trial, end: float = 10) -> Answer:
    """One training as it confirms a rate, at ``end``."""
    from nbdebug.tools.lr_range.sweep import SweepPlan, choose_optimizers
    from nbdebug.tools.lr_range.tool import RangeTest as Test
    from nbdebug.views.live import Screen

    setup = debugger(trial).setup
    test = Test(setup, SweepPlan(confirm=CONFIRM), choose_optimizers(setup, None), None)
    test.confirm_rate(end, Screen())
    return Answer(None, test.steps)


def torch_lr_finder(trial: Trial, end: float = 10) -> Answer:
    """The steepest descent of its smoothed curve."""
    from matplotlib import pyplot
    from torch_lr_finder import LRFinder

    finder = LRFinder(trial.model, trial.optimizer(1e-7), trial.problem.loss_fn, device="cpu")
    with quiet():
        finder.range_test(trial.loader, end_lr=end, num_iter=SWEEP)
        figure, axes = pyplot.subplots()
        found = finder.plot(ax=axes)
        finder.reset()
    pyplot.close(figure)
    return Answer(float(found[1]) if isinstance(found, tuple) else None)


def fastai(trial: Trial, end: float = 10) -> Answer:
    """Its valley."""
    from fastai.callback import schedule  # noqa: F401 - gives Learner its lr_find
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner
    from fastai.optimizer import OptimWrapper

    with TemporaryDirectory() as folder, quiet():
        wrapped = partial(OptimWrapper, opt=trial.descent.make)
        loaders = DataLoaders(trial.loader, trial.loader)
        learner = Learner(loaders, trial.model, trial.problem.loss_fn, opt_func=wrapped, path=folder)
        with learner.no_bar():
            return Answer(float(learner.lr_find(end_lr=end, show_plot=False).valley))


def lightning(trial: Trial, end: float = 1) -> Answer:
    """What its tuner suggests."""
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.tuner import Tuner

    class Module(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.lr = trial.model, 1e-3

        def training_step(self, batch: Any, index: int) -> Any:
            return trial.problem.loss_fn(self.model(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return trial.descent.make(self.parameters(), lr=self.lr)

    silent = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    with TemporaryDirectory() as folder, quiet():
        options = {"enable_model_summary": False, "accelerator": "cpu", "default_root_dir": folder}
        tuner = Tuner(Trainer(max_epochs=-1, **silent, **options))
        found = tuner.lr_find(Module(), train_dataloaders=trial.loader, max_lr=end, update_attr=False)
        return Answer(None if found is None else found.suggestion())


OURS, CONFIRMED = "nbdebug", "nbdebug, confirm"
CONFIRMING = Finder("its trainings", training)
FINDERS = (
    Finder(OURS, nbdebug),
    Finder(CONFIRMED, partial(nbdebug, confirm=CONFIRM)),
    Finder("torch-lr-finder", torch_lr_finder, packages=("torch_lr_finder",)),
    Finder("fastai", fastai, packages=("fastai",)),
    Finder("Lightning", lightning, packages=("lightning",)),
)
