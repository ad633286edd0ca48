"""What a checkup takes for granted about the user's loop: that model and loss receive the values as they come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from nbdebug.finding import Finding
from nbdebug.loop_monitor.conclusions import (
    INPUTS_UNCHANGED,
    LABELS_OUT_OF_RANGE,
    LOSS_OPERANDS_MISMATCH,
    LOSS_RAISES,
    LOSS_TARGETS_MISMATCH,
    MODEL_RAISES,
    OPERAND_VALUES_UNCHANGED,
    OUTPUT_VALUES_UNCHANGED,
    TARGET_VALUES_UNCHANGED,
)
from nbdebug.setup import Setup
from nbdebug.setup.loop_calls import changed_arguments
from nbdebug.setup.losses import is_from_torch
from nbdebug.source.notebook_cells import current_cells

ASPECT_OTHER_OUTPUT = "other output"  # of an output that the loss of the setup cannot take
_OUTPUT, _TARGET = 0, 1
# The positions of the arguments of the loss whose change in the loop disproves an assumption.
_POSITIONS: Mapping[str, frozenset[int]] = {
    **dict.fromkeys((LOSS_RAISES, LOSS_OPERANDS_MISMATCH, LABELS_OUT_OF_RANGE), frozenset({_OUTPUT, _TARGET})),
    OUTPUT_VALUES_UNCHANGED: frozenset({_OUTPUT}),
    **dict.fromkeys((TARGET_VALUES_UNCHANGED, LOSS_TARGETS_MISMATCH), frozenset({_TARGET})),
    OPERAND_VALUES_UNCHANGED: frozenset({_OUTPUT, _TARGET}),
}
_OF_MODEL = frozenset({INPUTS_UNCHANGED, MODEL_RAISES})
# A loop that has not run yet often converts what these are about: classes from 1, columns of labels, images to flatten.
_QUESTIONED = frozenset({*_POSITIONS, MODEL_RAISES}) - {OPERAND_VALUES_UNCHANGED}
_UNLESS_LOSS = "Your loop may convert the output or the target first: no cell with a call of the loss has run yet."
_UNLESS_OTHER = "Your loop may use this output in another loss. Run the loop inside `with dbg.watch():`."
_UNLESS_MODEL = "Your loop may convert the inputs first: no cell with a call of the model has run yet."


class LoopAssumptions:
    """Judges what the findings of a checkup assume about a loop, by the user's code and by a watched run.

    ``disproved`` are the assumptions that a watched run has disproved.
    """

    def __init__(self, setup: Setup, disproved: Mapping[str, str]) -> None:
        self._setup, self.disproved = setup, disproved

    @cached_property
    def _changed_in_loss(self) -> frozenset[int] | None:
        """The positions that each call of the loss changes; None if the code shows no call."""
        setup = self._setup
        if setup.loss_fn is None or setup.step_fn is not None or not is_from_torch(setup.loss_fn):
            return frozenset()  # a loss of the user's own takes output and target as they are
        return self._changed_arguments(setup.loss_fn)

    @cached_property
    def _changed_in_model(self) -> frozenset[int] | None:
        """The positions that each call of the model changes; None if the code shows no call."""
        setup = self._setup
        has_adapter = any(option is not None for option in (setup.forward, setup.unpack, setup.step_fn))
        return frozenset() if has_adapter else self._changed_arguments(setup.eager_model)

    def _changed_arguments(self, called: Any) -> frozenset[int] | None:
        try:
            return changed_arguments(called, self._setup)
        except Exception:  # a finding is worth more than what its source may say against it
            return frozenset()

    def is_changed(self, assumption: str) -> bool:
        """Return whether the loop is known to pass other values than an assumption says."""
        if assumption in self.disproved:
            return True
        if assumption in _OF_MODEL:
            return bool(self._changed_in_model)
        return bool((self._changed_in_loss or frozenset()) & _POSITIONS.get(assumption, frozenset()))

    def is_unknown(self, assumption: str) -> bool:
        """Return whether only cells that have not run yet can show what the loop passes."""
        changed = self._changed_in_model if assumption in _OF_MODEL else self._changed_in_loss
        return changed is None and assumption in _QUESTIONED and bool(current_cells())

    def refutation(self, finding: Finding) -> str:
        """Return why a finding says nothing about the user's loop; empty if it may."""
        if not finding.assumes or not all(map(self.is_changed, finding.assumes)):
            return ""
        if all(assumption in self.disproved for assumption in finding.assumes):
            return "the watched loop passes other values than this rule assumes"
        is_of_model = not _OF_MODEL.isdisjoint(finding.assumes)
        receiver = "inputs before the model" if is_of_model else "output or the target before the loss"
        return f"your loop converts the {receiver}; run the loop inside `with dbg.watch():`"

    def weaken(self, finding: Finding) -> Finding:
        """Return a finding as a note if a loop that has not run yet may convert or use what it is about."""
        if finding.severity == "note" or not (unless := self._exception(finding)):
            return finding
        return replace(finding, severity="note", cause=f"{finding.cause} {unless}".strip())

    def _exception(self, finding: Finding) -> str:
        """Return what a loop that has not run yet may do that makes a finding false; empty without any."""
        if finding.aspect == ASPECT_OTHER_OUTPUT:
            return "" if self.disproved else _UNLESS_OTHER
        assumption = finding.assumes[0] if len(finding.assumes) == 1 else ""
        if not self.is_unknown(assumption):
            return ""
        return _UNLESS_MODEL if assumption in _OF_MODEL else _UNLESS_LOSS
