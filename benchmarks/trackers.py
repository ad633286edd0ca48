"""Trackers of a training run: none, nbdebug, W&B and TensorBoard; each is a block around the training steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

from training_run import AfterStep, TrainingRun


@dataclass(frozen=True)
class Variant:
    """A way to train: ``track(run)`` is a block that yields the function to call after each step.

    The number of steps per block is rounded up to a multiple of ``interval``. A ``slow`` variant runs fewer steps.
    """

    name: str
    track: Callable[[TrainingRun], AbstractContextManager[AfterStep]]
    packages: tuple[str, ...] = ()
    interval: int = 1
    slow: bool = False


@contextmanager
def track_nothing(_: TrainingRun) -> Iterator[AfterStep]:
    """Train without a tracker."""
    yield lambda step, loss: None


@contextmanager
def watch_with_nbdebug(run: TrainingRun, **options: Any) -> Iterator[AfterStep]:
    """Record the run with ``nbdebug.watch``."""
    import nbdebug

    with nbdebug.watch(run.model, run.optimizer, **options):
        yield lambda step, loss: None


@contextmanager
def watch_with_wandb(run: TrainingRun, every: int) -> Iterator[AfterStep]:
    """Log histograms of gradients and weights every few steps, and the loss of each step, to W&B in offline mode."""
    os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false"}
    import wandb

    with TemporaryDirectory() as folder:
        settings = wandb.Settings(console="off", x_disable_stats=True)
        session = wandb.init(project="benchmark", dir=folder, settings=settings)
        session.watch(run.model, log="all", log_freq=every)
        try:
            yield lambda step, loss: session.log({"loss": loss})
        finally:
            session.unwatch(run.model)
            session.finish()


@contextmanager
def write_to_tensorboard(run: TrainingRun, every: int) -> Iterator[AfterStep]:
    """Write histograms of gradients and weights every few steps, and the loss of each step."""
    from torch.utils.tensorboard import SummaryWriter

    def after_step(step: int, loss: float) -> None:
        writer.add_scalar("loss", loss, step)
        if step % every == 0:
            for name, parameter in run.model.named_parameters():
                writer.add_histogram(f"weight/{name}", parameter, step)
                writer.add_histogram(f"gradient/{name}", parameter.grad, step)

    with TemporaryDirectory() as folder:
        writer = SummaryWriter(folder)
        try:
            yield after_step
        finally:
            writer.close()


BARE = Variant("bare", track_nothing)
WANDB, TENSORBOARD = ("wandb",), ("tensorboard",)
VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("bare-again", track_nothing),
        Variant("watch", watch_with_nbdebug),
        Variant("watch-1%", partial(watch_with_nbdebug, budget=0.01)),
        Variant("watch-3%", partial(watch_with_nbdebug, budget=0.03)),
        Variant("watch-all", partial(watch_with_nbdebug, every=1)),
        Variant("wandb-100", partial(watch_with_wandb, every=100), WANDB, interval=100),
        Variant("wandb", partial(watch_with_wandb, every=1), WANDB, slow=True),
        Variant("tensorboard-100", partial(write_to_tensorboard, every=100), TENSORBOARD, interval=100),
        Variant("tensorboard", partial(write_to_tensorboard, every=1), TENSORBOARD, slow=True),
    )
}
