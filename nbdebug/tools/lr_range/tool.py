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


def lr_range(
    setup: Setup, plan: Plan | None = None, optimizer: Any = None, log: Callable[[str], None] | None = None
) -> LrRange:
    """What each value of a plan does to the loss, from the same weights, over several seeds, and which one to take.

    Without a plan the learning rate is swept from 1e-7 to 10. The user's own objects are trained, and put back after
    each sweep; ``log`` is told of what ``apply()`` of the result changes later. An interrupt in a notebook is a Stop
    and gives what there is; elsewhere it is raised. Raises SetupError for what cannot be run.
    With ``confirm`` in the plan the recommended rate is then trained at, beside lower ones: ``proof`` of the result.
    Smith 2017, arXiv:1506.01186. Momentum and weight decay, in Smith 2018, arXiv:1803.09820, sections 4.3 and 4.4, are
    swept against a control of the same batches at the user's own value, for the loss falls with time whatever they do.
    """
    plan = plan or Plan()
    trial = Trial(setup, plan, chosen(setup, optimizer), log)
    with show(picture.growing(trial.result(), plan)) as screen:
        trial.run(screen)
        result = trial.result()
        screen.finish(result)
    return result
