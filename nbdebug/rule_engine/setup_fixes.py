"""Fixes that change the setup rather than the user's loop, so that a copy can be trained with them."""

from __future__ import annotations

import ast

from nbdebug.finding import Edit, Finding, is_code
from nbdebug.rule_engine.fix_edits import removed_module, setting_of_creation
from nbdebug.rule_engine.fix_trials import FixTrial
from nbdebug.setup import Setup
from nbdebug.setup.fix_names import setup_objects
from nbdebug.setup.fix_text import IMPORTS, free_names, is_part_of_fix, names_place

CHANGED_METHODS = "changed methods"  # the fix is in the edits of the finding
_SETTINGS_OF = ("optimizer", "train_loader", "val_loader")


def find_setup_fix(setup: Setup, finding: Finding, edits: tuple[Edit, ...], trial: FixTrial) -> str:
    """Return the fix of a finding in the names of the setup, for ``try_fix``; "" if it does not change the setup.

    ``finding`` is as the rule reports it; a rule whose fix is in other names or lines states one with the same effect.
    ``trial`` is the outcome of the fix on a copy of the setup.
    """
    fix, stated = finding.fix, finding.setup_fix
    if trial.is_quiet is False or trial.changes_setup is False:
        return stated
    if removed_module(fix):
        return fix
    if setting := setting_of_creation(fix):
        return fix if setting[0] in _SETTINGS_OF else stated
    if is_code(fix) and _is_whole(fix, trial) and _names(fix) <= setup_objects(setup).keys() | IMPORTS.keys():
        return fix
    return CHANGED_METHODS if edits and trial.is_quiet else stated


def _is_whole(fix: str, trial: FixTrial) -> bool:
    """Return whether code is the whole fix, wherever it stands."""
    return not is_part_of_fix(fix) and bool(trial.is_quiet or not names_place(fix))


def _names(fix: str) -> set[str]:
    return free_names(ast.parse(fix))
