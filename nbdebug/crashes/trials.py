"""Trials of a fix: a forward pass of a changed copy and what follows it, or a whole step where the setup is known."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.crashes.candidate_changes import changed_inputs, changed_operands
from nbdebug.crashes.continuation import continues, continues_after_call
from nbdebug.crashes.crash import Crash
from nbdebug.crashes.evaluation import is_of_meta_device
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.meta import copy_model
from nbdebug.crashes.model_copies import apply_to_copy, find_model_call
from nbdebug.setup import Batch, Setup

FORWARD_RUNS = "the forward pass of a copy of the model runs with it"
STEP_RUNS = "forward pass, loss and backward pass of a copy run with it"
STATEMENTS_RUN = "by the shapes, the rest of the code runs with it"
_SECONDS_OF_SEARCH = 0.1  # the block below a traceback should appear within 0.3 s


def choose_explanation(crash: Crash, candidates: Iterable[CrashCause]) -> tuple[CrashCause, str] | None:
    """Return the first explanation whose fix runs in a trial, and what the trial has shown.

    If none runs, the first with a fix that could not be tried is returned; else the first, with a change of an input or
    an operand that runs, or without a fix.
    """
    explanations = list(candidates)
    verdicts = []
    for explanation in explanations:
        verdict, text = _try_fix(crash, explanation)
        if verdict:
            return explanation, text
        verdicts.append(verdict)
    untried = [e for e, verdict in zip(explanations, verdicts, strict=True) if verdict is None]
    if not explanations or any(explanation.edits for explanation in untried):
        return next(((explanation, "") for explanation in untried if explanation.edits), None)
    first = next(iter(untried), None) or replace(explanations[0], edits=(), modules={})
    return _find_change_that_runs(crash, first) or (first, "")


def _find_change_that_runs(crash: Crash, explanation: CrashCause) -> tuple[CrashCause, str] | None:
    """Return an explanation with a change of an input or an operand that runs in a trial, within a limit of time."""
    if not _is_about_shapes(crash):
        return None
    end = time.perf_counter() + _SECONDS_OF_SEARCH
    for changed in itertools.chain(changed_inputs(crash, explanation), changed_operands(crash, explanation)):
        verdict, text = _try_fix(crash, changed)
        if verdict:
            return changed, text
        if time.perf_counter() > end:
            break
    return None


def _is_about_shapes(crash: Crash) -> bool:
    """Return whether the operation also raises for tensors without values, so that a trial by shapes can tell."""
    return continues(crash, ()) is False


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
        return continues(crash, explanation.edits) if _is_about_shapes(crash) else None, STATEMENTS_RUN
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
        original = error
    is_other_error = type(original) is not type(crash.error) or is_of_meta_device(original)
    if is_other_error or _is_made_several_times(call.model, explanation.modules):
        return None
    changed = copy_model(call.model, explanation.modules)
    if not explanation.modules and not apply_to_copy(changed, explanation.edits):
        return None
    try:
        output = call.run(changed)
    except Exception as error:
        # The same exception: the change is in code that the call of the model does not run.
        is_unchanged = str(error) == str(original)
        return continues(crash, explanation.edits) if is_unchanged or is_of_meta_device(error) else False
    return call.frame is None or continues_after_call(crash, call.frame, output) is not False


def _is_made_several_times(model: nn.Module, replaced: Iterable[nn.Module]) -> bool:
    """Return whether the line that makes a module also makes others, which a copy with one replaced does not change."""
    parts, counts = set(replaced), Counter(type(module) for module in model.modules())
    owners = [module for module in model.modules() if not parts.isdisjoint(module.children())]
    return any(counts[type(owner)] > 1 and not type(owner).__module__.startswith("torch.") for owner in owners)


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
