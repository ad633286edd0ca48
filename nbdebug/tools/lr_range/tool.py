"""The tool: sweeps over seeds, what they suggest, what is recommended and what is said of the present value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbdebug.setup import Setup
from nbdebug.tools.lr_range import picture
from nbdebug.tools.lr_range.plan import Plan, chosen
from nbdebug.tools.lr_range.result import LrRange
from nbdebug.tools.lr_range.trial import Trial
from nbdebug.views.screen import show

Log = Callable[[str], None] | None


def lr_range(setup: Setup, *, optimizer: Any = None, log: Log = None, **asked: Any) -> LrRange:
    """What each learning rate from ``start`` to ``end`` does to the loss, from the same weights, over several seeds.

    ``asked`` are the fields of ``Plan``. The user's own objects are trained and put back after each sweep. An interrupt
    in a notebook is a Stop and gives what there is; elsewhere it is raised. Raises SetupError for what cannot be run.
    Smith 2017, arXiv:1506.01186.
    """
    return swept(setup, Plan(**asked), optimizer, log)


def momentum_range(setup: Setup, *, optimizer: Any = None, log: Log = None, **asked: Any) -> LrRange:
    """What each momentum does to the loss at the present learning rate; the first beta for Adam's kind.

    Smith 2018, arXiv:1803.09820, section 4.3.
    """
    default: dict[str, Any] = {"start": 0.5, "end": 0.99, "mode": "linear", "groups": "same"}
    return swept(setup, Plan("momentum", **{**default, **asked}), optimizer, log)


def weight_decay_range(setup: Setup, *, optimizer: Any = None, log: Log = None, **asked: Any) -> LrRange:
    """What each weight decay does to the loss at the present learning rate; groups without any stay so.

    Smith 2018, arXiv:1803.09820, section 4.4.
    """
    default: dict[str, Any] = {"start": 1e-6, "end": 1.0}
    return swept(setup, Plan("weight_decay", **{**default, **asked}), optimizer, log)


def swept(setup: Setup, plan: Plan, optimizer: Any, log: Log) -> LrRange:
    """The sweeps of a plan, shown while they run."""
    trial = Trial(setup, plan, chosen(setup, optimizer), log)
    with show(picture.view(trial.result(), live=True)) as screen:
        trial.run(screen)
        result = trial.result()
        screen.finish(result)
    return result
