"""Find what makes training fail: one of several changes, some samples, or the step between two checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.finding import Finding
from nbdebug.setup import Setup
from nbdebug.tools.bisect.changes import bisect_changes
from nbdebug.tools.bisect.result import Bisection, build_view
from nbdebug.tools.bisect.run_log import RunLog
from nbdebug.tools.bisect.states import bisect_checkpoints, bisect_samples
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.validation import check_whole_number, validate_callable
from nbdebug.views.live import LiveScreen, show_view

_MIN_RUNS, _MAX_RUNS = 4, 1000


def bisect(
    setup: Setup,
    changes: Sequence[Any] | None = None,
    findings: Iterable[Finding] = (),
    *,
    samples: bool = False,
    checkpoints: Sequence[Any] | None = None,
    fails: Callable[[TreatedSetup], bool] | None = None,
    score: Callable[[TreatedSetup], float] | None = None,
    steps: int = 150,
    runs: int = 40,
) -> Bisection:
    """Find the change, the samples or the checkpoint from which on a copy of the setup fails.

    Nothing of the user's is changed. Raises SetupError unless exactly one of ``changes``, ``samples`` and
    ``checkpoints`` is passed, and for a setup that cannot be run.
    """
    subjects = [changes is not None, samples, checkpoints is not None]
    if sum(subjects) != 1:
        raise SetupError(
            f"bisect got {sum(subjects)} of changes, samples and checkpoints; expected one. "
            "Pass a list of changes, samples=True, or checkpoints=paths."
        )
    check_whole_number("runs", runs, _MIN_RUNS, _MAX_RUNS)
    check_whole_number("steps", steps, 1, 100_000)
    validate_callable("fails", fails, "the copy of the setup that returns True or False", "Leave it out")
    log = RunLog("changes" if changes is not None else "samples" if samples else "checkpoints", runs)
    with show_view(build_view(log.result("stopped", ""), "starting")) as screen:
        log.screen = screen
        try:
            if changes is not None:
                result = bisect_changes(setup, changes, findings, log, score, steps)
            elif samples:
                result = bisect_samples(setup, log, fails, steps)
            else:
                result = bisect_checkpoints(setup, list(checkpoints or ()), log, fails)
        except KeyboardInterrupt:
            if not isinstance(screen, LiveScreen):
                raise
            result = log.result("stopped", "Stopped before there was a result.")
        screen.finish(result)
    return result
