"""Trials of a fix: a forward pass of a changed copy, or a whole step of it where the setup is known."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nbdebug.crashes.crash import Crash
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.meta import copy_model
from nbdebug.crashes.model_copies import apply_to_copy, find_model_call
from nbdebug.setup import Batch, Setup

FORWARD_RUNS = "the forward pass of a copy of the model runs with it"
STEP_RUNS = "forward pass, loss and backward pass of a copy run with it"


def try_fix(crash: Crash, explanation: CrashCause) -> str:
    """Return what a trial of a fix has shown; "" if it could not be tried, or did not run."""
    try:
        if crash.setup is not None and crash.batch is not None:
            return STEP_RUNS if _step_runs(explanation, crash.setup, crash.batch) else ""
        return FORWARD_RUNS if _forward_runs(crash, explanation) else ""
    except Exception:  # a finding is worth more than its trial
        return ""


def _is_about_model(explanation: CrashCause) -> bool:
    return bool(explanation.modules or explanation.edits)


def _forward_runs(crash: Crash, explanation: CrashCause) -> bool:
    """Check that the copy raises as the model did, and no longer raises with the fix."""
    call = find_model_call(crash)
    if call is None or not _is_about_model(explanation):
        return False
    try:
        call.run(copy_model(call.model))
        return False
    except Exception as error:
        if type(error) is not type(crash.error):
            return False
    changed = copy_model(call.model, explanation.modules)
    if not explanation.modules and not apply_to_copy(changed, explanation.edits):
        return False
    call.run(changed)
    return True


def _step_runs(explanation: CrashCause, setup: Setup, batch: Batch) -> bool:
    """Check that a copy of the model runs a step with the fix; the user's objects are inside a Preserve block."""
    if not _is_about_model(explanation):
        return False
    changed = copy_model(setup.eager_model, explanation.modules, _clone)
    if not explanation.modules and not apply_to_copy(changed, explanation.edits):
        return False
    with torch.enable_grad():
        _, loss = setup.output_and_loss(batch, changed)
        loss.backward()  # type: ignore[no-untyped-call]
    return True


def _clone(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value
