"""One change of a copy of the setup, and how it is written: a name, a finding or a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.finding import Edit, Finding
from nbdebug.setup import Setup
from nbdebug.tools.treatments.catalog import TREATMENTS
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.tools.try_fix.catalog import NAMED_CHANGES
from nbdebug.tools.try_fix.finding_fix import apply_finding_fix
from nbdebug.validation import describe_type


@dataclass(frozen=True)
class SetupChange:
    """One change of a setup; ``apply`` changes a copy, and returns False if that does not have what it changes.

    ``apply`` may return another setup, which is then trained instead. ``code`` is what to write for the same effect.
    ``edits`` are the same change of the user's source, if it can be written so. A change that ``needs_program`` is only
    that: ``apply`` raises SetupError.
    """

    name: str
    apply: Callable[[TreatedSetup], bool | Setup]
    code: str = ""
    edits: tuple[Edit, ...] = ()
    needs_program: bool = False


def parse_change(change: Any, findings: Iterable[Finding] = ()) -> SetupChange:
    """Return the change that a name, a finding, the code of one of ``findings``, or a function stands for.

    Raises SetupError for several changes, for an unknown name, and for a finding whose fix is not in the setup.
    """
    if isinstance(change, SetupChange):
        return change
    if isinstance(change, Finding):
        return _finding_change(change)
    if isinstance(change, str):
        return _named_change(change, list(findings))
    if isinstance(change, (list, tuple, set, dict)):
        raise SetupError(
            f"change is {len(change)} changes; expected one, since the effects of several cannot be told apart. "
            "Pass one at a time, or use ablation(changes)."
        )
    if callable(change):
        return SetupChange(_function_name(change), lambda treated: _call_function(change, treated))
    raise SetupError(
        f"change is {describe_type(change)}; expected a name, a finding, its code, or a function of the setup's copy. "
        'Pass "learning rate=0.01", for example.'
    )


def _named_change(text: str, findings: Sequence[Finding]) -> SetupChange:
    finding = next((finding for finding in findings if finding.code == text.upper()), None)
    if finding is not None:
        return _finding_change(finding)
    treatment = next((item for item in TREATMENTS if item.name == text), None)
    if treatment is not None:
        return SetupChange(treatment.name, treatment.apply, treatment.fix)
    name, has_value, value = (part.strip() for part in text.partition("="))
    if name not in NAMED_CHANGES:
        codes = sorted({finding.code for finding in findings if finding.setup_fix or finding.edits})
        choices = ", ".join((*NAMED_CHANGES, *(item.name for item in TREATMENTS), *codes))
        raise SetupError(
            f"change is {text!r}; expected one of {choices}, a finding, or a function. "
            "The page try_fix lists them; the code of a finding is known after checkup() or watch()."
        )
    named = NAMED_CHANGES[name]
    chosen = named.parse(name, value if has_value else named.default)
    shown = f"{name} {value or named.default}".strip()
    return SetupChange(shown, lambda treated: named.apply(treated, chosen), named.code_for(value or named.default))


def _finding_change(finding: Finding) -> SetupChange:
    name, fix, edits = f"fix of {finding.code}", finding.setup_fix, finding.edits
    if not fix and not edits:
        instead = finding.fix or finding.cause or finding.message
        raise SetupError(
            f"the fix of {finding.code} is not a change of the setup; expected one that is. Change your code as the "
            f"finding says, or pass a function that does so with a copy of the setup: {instead}"
        )
    if not fix:
        return SetupChange(name, partial(_refuse_copy, finding), finding.fix_text, edits, needs_program=True)
    if fix.partition("=")[0] in NAMED_CHANGES or any(fix == treatment.name for treatment in TREATMENTS):
        return SetupChange(name, _named_change(fix, ()).apply, finding.fix_text, edits)
    return SetupChange(name, lambda treated: apply_finding_fix(treated, fix, edits), finding.fix_text, edits)


def _refuse_copy(finding: Finding, treated: TreatedSetup) -> bool:
    raise SetupError(
        f"the fix of {finding.code} changes lines of your program, which copies of the setup do not run; "
        "expected the program. Pass build=, a function that creates the setup and returns debugger, train."
    )


def _function_name(function: Any) -> str:
    name = str(getattr(function, "__name__", type(function).__name__))
    return "your function" if name == "<lambda>" else name.replace("_", " ")


def _call_function(function: Callable[[TreatedSetup], Any], treated: TreatedSetup) -> bool | Setup:
    """Return what a function returns: None and True mean that it has changed the copy."""
    value = function(treated)
    setup = getattr(value, "setup", value)  # of a Debugger
    if isinstance(setup, Setup):
        return setup
    if value is None or isinstance(value, bool):
        return value is not False
    raise SetupError(
        f"the function of the change returned {describe_type(value)}; expected None, or a Debugger to train instead. "
        "Set the attributes of the copy, such as setup.optimizer."
    )
