"""Which attempts are made, in which order, with how many steps each."""

from __future__ import annotations

from dataclasses import dataclass

from torch.optim import Optimizer

from nbdebug.setup import Setup
from nbdebug.tools.overfit.trainee import Trainee


@dataclass(frozen=True)
class Planned:
    """An attempt to come: its name, whether with the user's own optimizers, and its bound of steps."""

    name: str
    own: bool
    steps: int

    def optimizers(self, trainee: Trainee, setup: Setup) -> list[Optimizer]:
        """Fresh optimizers over what is trained."""
        return users(trainee, setup) if self.own else [trainee.adam()] if trainee.trainable else []


def planned(setup: Setup, steps: int) -> tuple[list[Planned], str]:
    """The user's settings with half of the steps, then Adam; and why the user's settings cannot be tried, if so."""
    probe = Trainee(setup, {})
    rate = f"Adam, lr {probe.adam().param_groups[0]['lr']:g}" if probe.trainable else "no optimizer"
    if not setup.optimizers:
        return [Planned(rate, False, steps)], "no optimizer was given: only Adam was tried"
    try:
        name = " and ".join(map(called, users(probe, setup)))
    except Exception as error:
        why = f"{type(setup.optimizers[0]).__name__} could not be built anew ({error}): only Adam was tried"
        return [Planned(rate, False, steps)], why
    half = steps // 2
    return [Planned(f"your {name}", True, half), Planned(rate, False, steps - half)], ""


def users(trainee: Trainee, setup: Setup) -> list[Optimizer]:
    """The user's optimizers anew, over what is trained in place of the user's tensors."""
    return trainee.users_optimizers(setup.optimizers, scheduled=setup.scheduler is not None)


def called(optimizer: Optimizer) -> str:
    """The class of an optimizer with its learning rates."""
    rates = dict.fromkeys(f"{float(group['lr']):.3g}" for group in optimizer.param_groups if "lr" in group)
    return type(optimizer).__name__ + (f", lr {' and '.join(rates)}" if rates else "")
