"""What may look on while a model trains: nothing, nbdebug, W&B, TensorBoard; each a block around the steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

from models import After, Run

Open = Callable[[Run], AbstractContextManager[After]]


@dataclass(frozen=True)
class Variant:
    """One way to train. ``multiple``: blocks are so many steps, or several times that; ``packages`` must be there."""

    name: str
    open: Open
    packages: tuple[str, ...] = ()
    multiple: int = 1
    slow: bool = False


@contextmanager
def bare(_: Run) -> Iterator[After]:
    """Nobody looks."""
    yield lambda step, loss: None


@contextmanager
def nbdebug_watch(run: Run, **options: Any) -> Iterator[After]:
    """The watch of this package."""
    import nbdebug

    with nbdebug.watch(run.model, run.optimizer, **options):
        yield lambda step, loss: None


@contextmanager
def wandb_watch(run: Run, every: int) -> Iterator[After]:
    """Gradients and weights as histograms, and the loss of each step, without the network."""
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
def tensorboard(run: Run, every: int) -> Iterator[After]:
    """A histogram of each weight and each gradient, and the loss of each step."""
    from torch.utils.tensorboard import SummaryWriter

    def after(step: int, loss: float) -> None:
        writer.add_scalar("loss", loss, step)
        if step % every == 0:
            for name, parameter in run.model.named_parameters():
                writer.add_histogram(f"weight/{name}", parameter, step)
                writer.add_histogram(f"gradient/{name}", parameter.grad, step)

    with TemporaryDirectory() as folder:
        writer = SummaryWriter(folder)
        try:
            yield after
        finally:
            writer.close()


WANDB, TENSORBOARD = ("wandb",), ("tensorboard",)
VARIANTS = {
    one.name: one
    for one in (
        Variant("bare-again", bare),
        Variant("watch", nbdebug_watch),
        Variant("watch-1%", partial(nbdebug_watch, budget=0.01)),
        Variant("watch-3%", partial(nbdebug_watch, budget=0.03)),
        Variant("watch-all", partial(nbdebug_watch, every=1)),
        Variant("wandb-100", partial(wandb_watch, every=100), WANDB, multiple=100),
        Variant("wandb", partial(wandb_watch, every=1), WANDB, slow=True),
        Variant("tensorboard-100", partial(tensorboard, every=100), TENSORBOARD, multiple=100),
        Variant("tensorboard", partial(tensorboard, every=1), TENSORBOARD, slow=True),
    )
}
