"""Find what makes training fail: a change, samples, a checkpoint, or what differs from a known-good model or data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.finding import Finding
from nbdebug.setup import Setup
from nbdebug.tools.bisect.changes import bisect_changes, bisect_configurations
from nbdebug.tools.bisect.known_good import bisect_data, bisect_layers
from nbdebug.tools.bisect.result import Bisection, Subject, build_view
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
    reference: Any = None,
    configs: Sequence[Mapping[str, Any]] | None = None,
    configure: Callable[[Any, dict[str, Any]], Any] | None = None,
    fails: Callable[[TreatedSetup], bool] | None = None,
    score: Callable[[TreatedSetup], float] | None = None,
    steps: int = 150,
    runs: int = 40,
) -> Bisection:
    """Find the change, the key, the samples, the checkpoint or the modules that make a copy of the setup fail.

    Nothing of the user's is changed. Raises SetupError unless exactly one of ``changes``, ``samples``, ``checkpoints``,
    ``reference`` and ``configs`` is passed, and for a setup that cannot be run.
    """
    count = sum((samples, *(item is not None for item in (changes, checkpoints, reference, configs))))
    if count != 1:
        raise SetupError(
            f"bisect got {count} of changes, samples, checkpoints, reference and configs; expected one. Pass a list of "
            "changes, samples=True, checkpoints=paths, reference=a known-good model or dataset, or configs=(good, bad)."
        )
    if configure is not None and configs is None:
        raise SetupError("configs is None; expected two dictionaries for configure=. Pass configs=(good, bad).")
    check_whole_number("runs", runs, _MIN_RUNS, _MAX_RUNS)
    check_whole_number("steps", steps, 1, 100_000)
    validate_callable("fails", fails, "the copy of the setup that returns True or False", "Leave it out")
    log = RunLog(_subject(changes, samples, reference, configs), runs)
    with show_view(build_view(log.result("stopped", ""), "starting")) as screen:
        log.screen = screen
        try:
            if changes is not None:
                result = bisect_changes(setup, changes, findings, log, score, steps)
            elif configs is not None:
                result = bisect_configurations(setup, configs, configure, log, score, steps)
            elif samples:
                result = bisect_samples(setup, log, fails, steps)
            elif log.over == "modules":
                result = bisect_layers(setup, reference, log, fails)
            elif log.over == "known-good samples":
                result = bisect_data(setup, reference, log, fails, steps)
            else:
                result = bisect_checkpoints(setup, list(checkpoints or ()), log, fails)
        except KeyboardInterrupt:
            if not isinstance(screen, LiveScreen):
                raise
            result = log.result("stopped", "Stopped before there was a result.")
        screen.finish(result)
    return result


def _subject(changes: Any, samples: bool, reference: Any, configs: Any) -> Subject:
    """Return over what to bisect; a reference that is no model, state dictionary or path is data."""
    if reference is not None:
        return "modules" if isinstance(reference, (nn.Module, Mapping, str, Path)) else "known-good samples"
    if configs is not None:
        return "keys"
    return "changes" if changes is not None else "samples" if samples else "checkpoints"
