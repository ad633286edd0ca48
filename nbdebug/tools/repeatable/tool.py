"""Run the training step twice from the same state, and name the first difference and its source."""

from __future__ import annotations

import time
from typing import Literal, cast

from nbdebug.setup import PeekableLoader, Setup
from nbdebug.tools.repeatable.diagnosis import Diagnoser, RunDiagnosis
from nbdebug.tools.repeatable.result import Repeatable
from nbdebug.validation import check_whole_number
from nbdebug.views.live import LiveScreen, show_view
from nbdebug.views.progress import ProgressView

_MAX_STEPS = 1000
_ONE_SHOT = "the order of train_loader: it can be read only once, so both runs get the same batches"


def repeatable(setup: Setup, *, steps: int = 20) -> Repeatable:
    """Compare two runs of ``steps`` training steps from the present state, tensor by tensor and bit for bit.

    The runs use the user's own objects and restore them. In a notebook, an interrupt acts as Stop; elsewhere it is
    raised. Raises SetupError for a setup that cannot be run.
    """
    check_whole_number("steps", steps, 1, _MAX_STEPS)
    started = time.perf_counter()
    with show_view(ProgressView("Repeatability", text="starting")) as screen:

        def show(text: str) -> None:
            if screen.stopped:
                raise KeyboardInterrupt
            screen.update(ProgressView("Repeatability", text=text))

        diagnoser = Diagnoser(setup, steps, show)
        try:
            diagnosis = diagnoser.diagnose()
        except KeyboardInterrupt:
            if not isinstance(screen, LiveScreen):
                raise
            diagnosis = RunDiagnosis("stopped")
        result = _result(setup, diagnosis, steps, diagnoser.runner.total_steps, time.perf_counter() - started)
        screen.finish(result)
    return result


def _result(setup: Setup, diagnosis: RunDiagnosis, steps: int, total_steps: int, seconds: float) -> Repeatable:
    difference = diagnosis.difference
    tensor = difference.tensor if difference is not None else None
    unchecked = list(dict.fromkeys(diagnosis.unchecked))
    if isinstance(setup.train_loader, PeekableLoader):
        unchecked.append(_ONE_SHOT)
    if not setup.optimizers:
        unchecked.append("the update: the setup has no optimizer")
    return Repeatable(
        verdict=cast(Literal["repeatable", "not repeatable", "unseeded", "stopped"], diagnosis.verdict),
        headline=_headline(diagnosis, steps),
        steps=steps,
        step=difference.step if difference is not None else None,
        phase=tensor.phase if tensor is not None else None,
        tensor=_tensor_name(diagnosis),
        operation=tensor.operation if tensor is not None else "",
        module=tensor.module if tensor is not None else "",
        line=tensor.line if tensor is not None else None,
        causes=diagnosis.causes,
        unchecked=tuple(unchecked),
        total_steps=total_steps,
        seconds=seconds,
    )


def _tensor_name(diagnosis: RunDiagnosis) -> str:
    if diagnosis.difference is None:
        return ""
    name = diagnosis.difference.tensor.name
    return f"another operation is called, {name}" if diagnosis.difference.is_other_call else name


def _headline(diagnosis: RunDiagnosis, steps: int) -> str:
    if diagnosis.verdict == "stopped":
        return "Stopped before the runs were compared."
    difference = diagnosis.difference
    if difference is None:
        return f"Two runs of {steps} steps from the same state are equal in every bit."
    source = diagnosis.causes[0].description if diagnosis.causes else "a source that was not identified"
    if diagnosis.verdict == "unseeded":
        return f"Runs are equal from the same state, but a new process differs: they depend on {source}."
    return (
        f"Two runs from the same state differ from step {difference.step} on ({difference.phase}), because of {source}."
    )
