"""Write the fix of a finding for the user: as a diff, as code that runs in the notebook, or as a sentence."""

from __future__ import annotations

import ast
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from nbdebug.finding import Edit, Finding, is_code
from nbdebug.measurements import Measurements
from nbdebug.rule_engine.fix_edits import find_edits, removed_module, setting_of_creation
from nbdebug.rule_engine.fix_trials import QUIET, FixTrial, changes_constructor, try_fix
from nbdebug.rule_engine.rule_registry import Options, Rule
from nbdebug.setup import Setup
from nbdebug.setup.fix_names import add_imports, has_known_names, name_objects, setup_objects
from nbdebug.setup.fix_text import IMPORTS, assigns_itself, free_names, is_part_of_fix, names_place, write_as_sentence
from nbdebug.source.edits import line_changes

_CHANGED_METHODS = "changed methods"  # the fix of a copy is in the edits of the finding
_DELETION = "Delete this line."
_SETTINGS_OF = ("optimizer", "train_loader", "val_loader")
_LEAST_SECONDS, _SHARE_OF_CHECKUP = 1.0, 0.2  # that trials may take together


class FixWriter:
    """Writes the fixes of one checkup, and tries them on copies of its setup within a limit of time.

    A fix is code only if it runs with the objects of the setup and changes them, and its rule is quiet afterwards where
    it could be asked again. Quick checkups try nothing.
    """

    def __init__(self, measurements: Measurements, options: Options) -> None:
        self._measurements, self._options = measurements, options
        self._setup = measurements["setup"]
        self._started, self._seconds = time.perf_counter(), 0.0

    def write(
        self, rule: Rule, finding: Finding, *, others: Sequence[Finding] = (), is_of_whole: bool = True
    ) -> Finding:
        """Return a finding whose fix is written for the user; ``is_of_whole`` is False if it is on one of its heads.

        ``others`` are further findings of the rule, which may stay as they are after the fix.
        """
        if not finding.fix or finding.trial:
            return finding
        try:
            edits = find_edits(self._setup, finding)
            trial = self._try(rule, finding, edits, others if is_of_whole else None)
        except Exception:  # a finding is worth more than its fix
            return replace(finding, fix=_as_sentence(finding.fix))
        shown = QUIET if trial.is_quiet else ""
        setup_fix = _find_setup_fix(self._setup, finding, edits, trial)
        finding, raw = replace(finding, setup_fix=setup_fix), finding.fix
        if assigns_itself(raw):
            finding, raw = replace(finding, fix=_DELETION), _DELETION
        if edits and trial.is_quiet is not False:
            return replace(finding, edits=edits, changes=line_changes(edits), trial=shown)
        code = name_objects(raw, self._setup)
        is_offered = trial.changes_setup is not False and trial.is_quiet is not False
        is_whole = is_code(code) and not is_part_of_fix(code) and (trial.is_quiet or not names_place(code))
        if not (is_whole and is_offered and has_known_names(raw, self._setup)):
            return replace(finding, fix=_as_sentence(code))
        return replace(finding, fix=add_imports(code, self._setup), trial=shown)

    def _try(self, rule: Rule, finding: Finding, edits: tuple[Edit, ...], others: Sequence[Finding] | None) -> FixTrial:
        """Return the outcome of a trial; that the rule is quiet is tried only within the limit of time.

        The rule is not asked again without the ``others`` of its findings.
        """
        if self._measurements["budget"] == "quick":
            return FixTrial()
        start = time.perf_counter()
        left = max(_LEAST_SECONDS, _SHARE_OF_CHECKUP * (start - self._started)) - self._seconds
        try:
            if others is None or self._measurements.cost_again(rule.needs) >= left:
                return try_fix(self._setup, finding, edits, None)
            known = {other.message for other in others} - {finding.message}
            return try_fix(self._setup, finding, edits, partial(self._ask, rule, known))
        finally:
            self._seconds += time.perf_counter() - start

    def _ask(self, rule: Rule, known: Collection[str], measurements: Measurements) -> list[Finding]:
        """Return the findings of a rule except those with a known message."""
        findings = rule(measurements, **self._options.get(rule.code, {}))
        return [finding for finding in findings if finding.message not in known]


def _as_sentence(fix: str) -> str:
    return write_as_sentence(fix) if is_code(fix) else fix


def _find_setup_fix(setup: Setup, finding: Finding, edits: tuple[Edit, ...], trial: FixTrial) -> str:
    """Return the fix of a finding in the names of the setup, for ``try_fix``; "" if it does not change the setup.

    ``finding`` is as the rule reports it; a rule whose fix is in other names or lines states one with the same effect.
    ``trial`` is the outcome of the fix on a copy of the setup.
    """
    fix, stated = finding.fix, finding.setup_fix
    if trial.is_quiet is False or trial.changes_setup is False:
        return stated
    if stated and changes_constructor(edits):
        return stated
    if removed_module(fix):
        return fix
    if setting := setting_of_creation(fix):
        return fix if setting[0] in _SETTINGS_OF else stated
    if is_code(fix) and _is_whole(fix, trial) and _names(fix) <= setup_objects(setup).keys() | IMPORTS.keys():
        return fix
    has_changed_methods = edits and trial.is_quiet and trial.changes_setup is None  # else the code of the fix has run
    return _CHANGED_METHODS if has_changed_methods else stated


def _is_whole(fix: str, trial: FixTrial) -> bool:
    """Return whether code is the whole fix, wherever it stands."""
    return not is_part_of_fix(fix) and bool(trial.is_quiet or not names_place(fix))


def _names(fix: str) -> set[str]:
    return free_names(ast.parse(fix))
