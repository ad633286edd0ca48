"""The tool: examples, floor, attempts, verdict."""

from __future__ import annotations

import time
from dataclasses import replace

from nbdebug.exceptions import SetupError
from nbdebug.preserve import Preserve
from nbdebug.setup import Setup
from nbdebug.tools.overfit import picture
from nbdebug.tools.overfit.examples import materialize
from nbdebug.tools.overfit.result import Overfit
from nbdebug.tools.overfit.trial import Trial
from nbdebug.views.screen import show

FEWEST, MOST = 2, 64
FEWEST_STEPS, MOST_STEPS = 2, 300


def overfit(setup: Setup, *, examples: int = 16, steps: int = MOST_STEPS, seed: int = 0) -> Overfit:
    """Whether a tiny batch can be memorized, with the user's optimizers, then with Adam from the same weights.

    Trains a copy, or the model itself where no copy can stand for it; nothing is changed afterwards. ``examples`` lies
    in 2 to 64, ``steps`` in 2 to 300 over both attempts. An interrupt in a notebook is a Stop: it gives what was found
    so far, marked ``stopped``. Elsewhere it is raised, since there it means the program and not the cell. Raises
    SetupError for a set-up that cannot be run.
    """
    check("examples", examples, FEWEST, MOST)
    check("steps", steps, FEWEST_STEPS, MOST_STEPS)
    started = time.perf_counter()
    with Preserve(*setup.owned, loaders=(setup.train_loader, setup.val_loader)):
        trial = Trial(setup, materialize(setup, examples), examples, steps, seed)
        with show(picture.view(trial.result(), live=True)) as screen:
            trial.run(screen)
            result = replace(trial.result(), seconds=time.perf_counter() - started)
            screen.finish(result)
    return result


def check(name: str, value: int, least: int, most: int) -> None:
    """Refuses a number outside its limits."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        said = f"{name} is {value!r}; expected a whole number from {least} to {most}."
        raise SetupError(f"{said} Leave it out for the default.")
