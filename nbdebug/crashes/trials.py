"""Trials of a fix: a forward pass of a changed copy and what follows it, or a whole step where the setup is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from nbdebug.crashes.continuation import continues, continues_after_call
from nbdebug.crashes.crash import Crash
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.meta import copy_model
from nbdebug.crashes.model_copies import apply_to_copy, find_model_call
from nbdebug.setup import Batch, Setup

FORWARD_RUNS = "the forward pass of a copy of the model runs with it"
STEP_RUNS = "forward pass, loss and backward pass of a copy run with it"
STATEMENTS_RUN = "by the shapes, the rest of the code runs with it"


def choose_explanation(crash: Crash, candidates: Iterable[CrashCause]) -> tuple[CrashCause, str] | None:
    """Return the first explanation whose fix runs in a trial, and what the trial has shown.

    If none runs, the first that could not be tried is returned; if all fail, the first, without its fix.
    """
    untried: CrashCause | None = None
    failed: CrashCause | None = None
    for candidate in candidates:
        verdict, text = _try_fix(crash, candidate)
        if verdict:
            return candidate, text
        if verdict is None:
            untried = untried or candidate
        else:
            failed = failed or candidate
    if untried is not None:
        return untried, ""
    return (replace(failed, edits=(), modules={}), "") if failed is not None else None


def _try_fix(crash: Crash, explanation: CrashCause) -> tuple[bool | None, str]:
    """Return whether a fix runs, None if it cannot be tried, and what the trial has shown."""
    if not explanation.edits and not explanation.modules:
        return None, ""
    try:
        if crash.setup is not None and crash.batch is not None:
            return _step_runs(explanation, crash.setup, crash.batch), STEP_RUNS
        runs = _forward_runs(crash, explanation)
        if runs is not None:
            return runs, FORWARD_RUNS
        return continues(crash, explanation.edits), STATEMENTS_RUN
    except Exception:  # a finding is worth more than its trial
        return None, ""


def _forward_runs(crash: Crash, explanation: CrashCause) -> bool | None:
    """Run a changed copy of the model, and what follows its call; None unless a copy raises as the model did."""
    call = find_model_call(crash)
    if call is None:
        return None
    try:
        call.run(copy_model(call.model))
        return None
    except Exception as error:
        if type(error) is not type(crash.error):
            return None
    changed = copy_model(call.model, explanation.modules)
    if not explanation.modules and not apply_to_copy(changed, explanation.edits):
        return None
    try:
        output = call.run(changed)
    except Exception:
        return False
    return call.frame is None or continues_after_call(crash, call.frame, output) is not False


def _step_runs(explanation: CrashCause, setup: Setup, batch: Batch) -> bool | None:
    """Check that a copy of the model runs a step with the fix; the user's objects are inside a Preserve block."""
    changed = copy_model(setup.eager_model, explanation.modules, _clone)
    if not explanation.modules and not apply_to_copy(changed, explanation.edits):
        return None
    try:
        with torch.enable_grad():
            _, loss = setup.output_and_loss(batch, changed)
            loss.backward()  # type: ignore[no-untyped-call]
    except Exception:
        return False
    return True


def _clone(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value
