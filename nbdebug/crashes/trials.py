"""Trials of a fix: a forward pass of a changed copy and what follows it, or a whole step where the setup is known."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import nn

from nbdebug.crashes.candidate_changes import (
    changed_inputs,
    changed_layers,
    changed_maps,
    changed_operands,
    changed_squeezes,
    changed_statements,
)
from nbdebug.crashes.continuation import continues, continues_after_call, continues_with_modules
from nbdebug.crashes.crash import Crash, read_crash
from nbdebug.crashes.evaluation import is_of_meta_device
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.layer_sizes import fit_layer_to_input
from nbdebug.crashes.meta import clone_tensor, copy_model
from nbdebug.crashes.model_copies import ModelCall, apply_to_copy, find_model_call
from nbdebug.crashes.size_changes import changed_sizes
from nbdebug.crashes.value_producers import move_to_producer
from nbdebug.setup import Batch, Setup

FORWARD_RUNS = "the forward pass of a copy of the model runs with it"
STEP_RUNS = "forward pass, loss and backward pass of a copy run with it"
STATEMENTS_RUN = "by the shapes, the rest of the code runs with it"
_MAX_TRIALS = 80
_MAX_FOLLOWING = 2  # layers that are resized after a change, one after the other
_MAX_SECONDS = 0.2  # of computing, which other programs on the machine do not use up; a last bound


def choose_explanation(crash: Crash, candidates: Iterable[CrashCause]) -> tuple[CrashCause, str] | None:
    """Return the first explanation whose fix runs in a trial, and what the trial has shown.

    If none runs, the first with a fix that could not be tried is returned; else the first, with a change that runs of
    an input, an operand, a layer or a statement, or without a fix.
    """
    choice = _choose(_Trials(crash), list(candidates))
    if choice is None or not choice[0].edits:
        return choice
    explanation, text = choice
    edits = move_to_producer(crash, explanation.edits)
    is_moved = edits != explanation.edits
    return (replace(explanation, edits=edits, line=None), text) if is_moved else choice


def _choose(trials: _Trials, explanations: list[CrashCause]) -> tuple[CrashCause, str] | None:
    if explanations and trials.has_run_before and any(explanation.modules for explanation in explanations):
        changed = trials.first_that_runs(changed_inputs(trials.crash, explanations[0]))
        if changed is not None:
            return changed
    verdicts = []
    for explanation in explanations:
        trial = trials.run(explanation)
        if trial.runs:
            return trial.explanation, trial.text
        verdicts.append(trial.runs)
    untried = [e for e, verdict in zip(explanations, verdicts, strict=True) if verdict is None]
    if not explanations or any(explanation.edits for explanation in untried):
        return next(((explanation, "") for explanation in untried if explanation.edits), None)
    first = next(iter(untried), None) or replace(explanations[0], edits=(), modules={})
    return _find_change_that_runs(trials, first) or (first, "")


def _find_change_that_runs(trials: _Trials, explanation: CrashCause) -> tuple[CrashCause, str] | None:
    """Return an explanation with a change that runs in a trial; the number of trials is limited."""
    if not trials.is_about_shapes:
        return None
    sources = (
        changed_squeezes,
        changed_sizes,
        changed_inputs,
        changed_operands,
        changed_layers,
        changed_maps,
        changed_statements,
    )
    return trials.first_that_runs(
        itertools.chain.from_iterable(source(trials.crash, explanation) for source in sources)
    )


@dataclass(frozen=True)
class _Trial:
    """The outcome of a trial: ``runs`` is None if the fix could not be tried.

    ``explanation`` has the changes of further layers that the fix needs, and ``text`` is what the trial has shown.
    """

    explanation: CrashCause
    runs: bool | None = None
    text: str = ""


@dataclass
class _Trials:
    """The trials of fixes of a crash, on copies of the model of its outermost call."""

    crash: Crash
    _outcomes: dict[Any, _Trial] = field(default_factory=dict)

    @cached_property
    def call(self) -> ModelCall | None:
        """The outermost call of the model."""
        return find_model_call(self.crash)

    @cached_property
    def copy_failure(self) -> Exception | None:
        """The exception of a copy that is called as the model was; None if it raises none, or another."""
        if self.call is None:
            return None
        try:
            self.call.run(copy_model(self.call.model))
        except Exception as error:
            is_other = type(error) is not type(self.crash.error) or is_of_meta_device(error)
            return None if is_other else error
        return None

    @cached_property
    def is_about_shapes(self) -> bool:
        """True if the operation also raises for tensors without values, so that a trial by shapes can tell."""
        return self.copy_failure is not None or continues(self.crash, ()) is False

    @cached_property
    def has_run_before(self) -> bool:
        """True if the model has already run with other inputs, which its gradients and statistics show."""
        root = self.crash.root
        if root is None or "_buffers" not in vars(root):
            return False
        counts = [b for name, b in root.named_buffers() if name.endswith("num_batches_tracked")]
        has_statistics = any(not count.is_meta and int(count) > 0 for count in counts)
        return has_statistics or any(p.grad is not None for p in root.parameters())

    def first_that_runs(self, explanations: Iterable[CrashCause]) -> tuple[CrashCause, str] | None:
        """Return the first explanation with a change that runs; the number of trials is limited."""
        end = time.process_time() + _MAX_SECONDS
        for changed in itertools.islice(explanations, _MAX_TRIALS):
            trial = self.run(changed)
            if trial.runs:
                return trial.explanation, trial.text
            if time.process_time() > end:
                break
        return None

    def run(self, explanation: CrashCause) -> _Trial:
        """Try the fix of an explanation."""
        if not explanation.edits and not explanation.modules:
            return _Trial(explanation)
        key = (tuple(explanation.edits), tuple(map(id, explanation.modules)))
        if key not in self._outcomes:
            try:
                self._outcomes[key] = self._run(explanation)
            except Exception:  # a finding is worth more than its trial
                self._outcomes[key] = _Trial(explanation)
        outcome = self._outcomes[key]
        return replace(outcome, explanation=replace(outcome.explanation, cause=explanation.cause))

    def _run(self, explanation: CrashCause) -> _Trial:
        crash = self.crash
        if crash.setup is not None and crash.batch is not None:
            return _Trial(explanation, _step_runs(explanation, crash.setup, crash.batch), STEP_RUNS)
        if self.copy_failure is not None and self.call is not None:
            return self._run_forward(self.call, self.copy_failure, explanation)
        runs = continues(crash, explanation.edits)
        runs = runs if self.is_about_shapes or runs is False else None
        if runs is None and self.is_about_shapes and explanation.modules:
            runs = continues_with_modules(crash, explanation.modules)
        return _Trial(explanation, runs, STATEMENTS_RUN)

    def _run_forward(self, call: ModelCall, copy_failure: Exception, explanation: CrashCause) -> _Trial:
        """Run a changed copy of the model, and what follows its call; layers behind the change follow its size."""
        for _ in range(_MAX_FOLLOWING + 1):
            if _is_made_several_times(call.model, explanation.modules):
                return _Trial(explanation)
            changed = copy_model(call.model, explanation.modules)
            if not apply_to_copy(changed, explanation.edits, has_modules=bool(explanation.modules)):
                return _Trial(explanation, continues(self.crash, explanation.edits), STATEMENTS_RUN)
            try:
                output = call.run(changed)
            except Exception as error:
                if str(error) == str(copy_failure) or is_of_meta_device(error):
                    # The change is in code that the call of the model does not run.
                    return _Trial(explanation, continues(self.crash, explanation.edits), STATEMENTS_RUN)
                following = self._with_following_layer(explanation, changed, error)
                if following is None:
                    return _Trial(explanation, False, FORWARD_RUNS)
                explanation = following
                continue
            is_last = call.frame is None
            runs = is_last or continues_after_call(self.crash, call.frame, output) is not False  # type: ignore[arg-type]
            return _Trial(explanation, runs, FORWARD_RUNS)
        return _Trial(explanation, False, FORWARD_RUNS)

    def _with_following_layer(self, explanation: CrashCause, model: nn.Module, error: Exception) -> CrashCause | None:
        """Return an explanation that also gives the layer of a copy that raised the size of its input."""
        crash = read_crash(error)
        paths = {id(part): path for path, part in model.named_modules()}
        path = paths.get(id(crash.layer)) if crash is not None else None
        if crash is None or path is None or self.crash.root is None:
            return None
        layer = self.crash.root.get_submodule(path)
        change = fit_layer_to_input(self.crash, layer, crash.layer_input)
        if change is None or layer in explanation.modules:
            return None
        size = crash.layer_input.shape
        cause = f"{explanation.cause} The layer {path} then gets {[*size]}."
        edits, modules = (*explanation.edits, *change.edits), {**explanation.modules, **change.modules}
        return replace(explanation, cause=cause, edits=edits, modules=modules)


def _is_made_several_times(model: nn.Module, replaced: Iterable[nn.Module]) -> bool:
    """Return whether the line that makes a module also makes others, which a copy with one replaced does not change."""
    parts, counts = set(replaced), Counter(type(module) for module in model.modules())
    owners = [module for module in model.modules() if not parts.isdisjoint(module.children())]
    made = Counter(type(owner) for owner in owners)
    return any(counts[kind] > number and not kind.__module__.startswith("torch.") for kind, number in made.items())


def _step_runs(explanation: CrashCause, setup: Setup, batch: Batch) -> bool | None:
    """Check that a copy of the model runs a step with the fix; the user's objects are inside a Preserve block."""
    changed = copy_model(setup.eager_model, explanation.modules, clone_tensor)
    if not explanation.modules and not apply_to_copy(changed, explanation.edits):
        return None
    try:
        with torch.enable_grad():
            _, loss = setup.output_and_loss(batch, changed)
            loss.backward()  # type: ignore[no-untyped-call]
    except Exception:
        return False
    return True
