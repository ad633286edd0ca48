"""Learning rate finders with their defaults: nbdebug, torch-lr-finder, fastai and Lightning.

torch-lr-finder starts at the rate of the optimizer, 1e-7 as in its documentation, and ends at 10. fastai sweeps from
1e-7 to 10 and suggests its "valley". Lightning sweeps from 1e-8 to 1. Each of them takes 100 steps. nbdebug takes 100
steps in each of three sweeps; with ``confirm=200`` it also trains at the recommended rate and at rates on both sides,
200 steps each, at a constant rate and as one-cycle.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import StringIO
from tempfile import TemporaryDirectory
from typing import Any

import torch
from lr_problems import OptimizerGrid, Problem
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SWEEP_STEPS, CONFIRMATION_STEPS = 100, 200


@dataclass(frozen=True)
class Trial:
    """The objects of a user before the first step: a fresh model, its loss, its loader and its optimizer."""

    problem: Problem
    optimizer_grid: OptimizerGrid
    model: nn.Module
    loader: DataLoader[Any]

    @classmethod
    def create(cls, problem: Problem, optimizer_grid: OptimizerGrid, seed: int) -> Trial:
        """Return a trial with the initial weights that training with this seed has."""
        torch.manual_seed(seed)
        model, data, generator = problem.model(), problem.data(), torch.Generator().manual_seed(seed)
        samples = TensorDataset(data.x, data.y)
        loader = DataLoader(samples, problem.batch_size, shuffle=True, drop_last=True, generator=generator)
        return cls(problem, optimizer_grid, model, loader)

    def create_optimizer(self, rate: float) -> torch.optim.Optimizer:
        """Return the optimizer with a learning rate."""
        return self.optimizer_grid.create(self.model.parameters(), lr=rate)

    def create_debugger(self) -> Any:
        """Return a Debugger of the trial."""
        from nbdebug import Debugger

        optimizer = self.create_optimizer(1e-3)
        return Debugger(self.model, self.loader, loss_fn=self.problem.loss_fn, optimizer=optimizer)


@dataclass(frozen=True)
class Suggestion:
    """The suggested learning rate, None without a suggestion, and the number of training steps taken."""

    rate: float | None
    steps: int = SWEEP_STEPS


@dataclass(frozen=True)
class Finder:
    """A tool: ``suggest(trial, end=...)`` returns its suggestion; ``end`` is the highest learning rate."""

    name: str
    suggest: Callable[..., Suggestion]
    packages: tuple[str, ...] = ()


@contextmanager
def hide_output() -> Iterator[None]:
    """Hide progress bars, logs and warnings during the block."""
    logging.disable(logging.WARNING)
    with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


def suggest_with_nbdebug(trial: Trial, end: float = 10, confirm: int = 0) -> Suggestion:
    """Return the recommended rate of nbdebug."""
    result = trial.create_debugger().lr_range(end=end, confirm=confirm)
    return Suggestion(result.suggestion, result.steps)


def run_confirmation(trial: Trial, end: float = 10) -> Suggestion:
    """Run one confirmation run of nbdebug at the rate ``end``; it suggests nothing."""
    from nbdebug.tools.lr_range.sweep import SweepPlan, choose_optimizers
    from nbdebug.tools.lr_range.tool import RangeTest
    from nbdebug.views.live import Screen

    setup = trial.create_debugger().setup
    range_test = RangeTest(setup, SweepPlan(confirm=CONFIRMATION_STEPS), choose_optimizers(setup, None), None)
    range_test.confirm_rate(end, Screen())
    return Suggestion(None, range_test.steps)


def suggest_with_torch_lr_finder(trial: Trial, end: float = 10) -> Suggestion:
    """Return the rate with the steepest descent of the smoothed curve."""
    from matplotlib import pyplot
    from torch_lr_finder import LRFinder

    finder = LRFinder(trial.model, trial.create_optimizer(1e-7), trial.problem.loss_fn, device="cpu")
    with hide_output():
        finder.range_test(trial.loader, end_lr=end, num_iter=SWEEP_STEPS)
        figure, axes = pyplot.subplots()
        plot = finder.plot(ax=axes)
        finder.reset()
    pyplot.close(figure)
    return Suggestion(float(plot[1]) if isinstance(plot, tuple) else None)


def suggest_with_fastai(trial: Trial, end: float = 10) -> Suggestion:
    """Return the "valley" of fastai."""
    from fastai.callback import schedule  # noqa: F401 - adds lr_find to Learner
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner
    from fastai.optimizer import OptimWrapper

    with TemporaryDirectory() as folder, hide_output():
        create_optimizer = partial(OptimWrapper, opt=trial.optimizer_grid.create)
        loaders = DataLoaders(trial.loader, trial.loader)
        learner = Learner(loaders, trial.model, trial.problem.loss_fn, opt_func=create_optimizer, path=folder)
        with learner.no_bar():
            return Suggestion(float(learner.lr_find(end_lr=end, show_plot=False).valley))


def suggest_with_lightning(trial: Trial, end: float = 1) -> Suggestion:
    """Return the suggestion of the tuner of Lightning."""
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.tuner import Tuner

    class Module(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.lr = trial.model, 1e-3

        def training_step(self, batch: Any, index: int) -> Any:
            return trial.problem.loss_fn(self.model(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return trial.optimizer_grid.create(self.parameters(), lr=self.lr)

    silent = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    with TemporaryDirectory() as folder, hide_output():
        options = {"enable_model_summary": False, "accelerator": "cpu", "default_root_dir": folder}
        tuner = Tuner(Trainer(max_epochs=-1, **silent, **options))
        result = tuner.lr_find(Module(), train_dataloaders=trial.loader, max_lr=end, update_attr=False)
        return Suggestion(None if result is None else result.suggestion())


NBDEBUG = Finder("nbdebug", suggest_with_nbdebug)
NBDEBUG_CONFIRM = Finder("nbdebug, confirm", partial(suggest_with_nbdebug, confirm=CONFIRMATION_STEPS))
CONFIRMATION_RUN = Finder("confirmation run", run_confirmation)
FINDERS = (
    NBDEBUG,
    NBDEBUG_CONFIRM,
    Finder("torch-lr-finder", suggest_with_torch_lr_finder, packages=("torch_lr_finder",)),
    Finder("fastai", suggest_with_fastai, packages=("fastai",)),
    Finder("Lightning", suggest_with_lightning, packages=("lightning",)),
)
