"""The stages of a triage, in the order of their cost, and the rules that each of them can answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nbdebug.measurements.registry import is_slow
from nbdebug.report import Report
from nbdebug.rule_engine import rule_registry

_OF_RUN = frozenset(("loop", "record", "incident"))
STAGE_TEXTS = {
    "earlier": "the results so far",
    "quick": "rules that need one pass of one batch",
    "standard": "rules that need several passes or the data",
    "overfit": "training on a tiny batch",
    "treatments": "training copies with one change each",
    "other quick": "all other rules of one pass",
    "other standard": "all other rules of several passes or the data",
    "watch": "your own loop inside `with dbg.watch():`",
    "errors": "the predictions on the validation samples",
}
_BY_MEASUREMENT = {"overfit": "overfit", "treatments": "treatments", "errors": "errors"}
_ACTS = {
    "watch": "with dbg.watch():   # around your own training loop, then dbg.triage() again",
    "errors": "dbg.errors()   # then dbg.triage() again",
    "treatments": "dbg.treatments()   # then dbg.triage() again",
    "overfit": "dbg.overfit()   # then dbg.triage() again",
}
COST_ORDER = ("quick", "standard", "overfit", "treatments")


@dataclass(frozen=True)
class Stage:
    """One stage: its name, and the function that returns the report on the rules of some codes."""

    name: str
    run: Callable[[Sequence[str]], Report]


@dataclass(frozen=True)
class StageRecord:
    """What a stage did: the codes that were asked, the seconds that it took, and why it was left out, if it was."""

    name: str
    asked: tuple[str, ...]
    seconds: float
    skipped: str = ""


def expand_codes(prefixes: Iterable[str]) -> list[str]:
    """Return the codes of all rules that start with one of the prefixes, in the order of the prefixes."""
    codes = rule_registry.load_rules()
    return list(dict.fromkeys(code for prefix in prefixes for code in codes if code.startswith(prefix)))


def stage_of(code: str) -> str:
    """Return the name of the cheapest stage that can check a rule."""
    rule = rule_registry.load_rules()[code]
    needs = set(rule.needs) - rule.optional
    for measurement, name in _BY_MEASUREMENT.items():
        if measurement in needs:
            return name
    if needs & _OF_RUN or (reads_run(code) and code[0] in "TP"):
        return "watch"
    return "standard" if any(map(is_slow, needs)) else "quick"


def has_slow_parts(code: str) -> bool:
    """Return whether a quick checkup leaves out what a rule could also read."""
    return any(map(is_slow, rule_registry.load_rules()[code].needs))


def reads_run(code: str) -> bool:
    """Return whether a watched run shows a rule more faults; those on data, loss and model only gain certainty."""
    return bool(_OF_RUN & set(rule_registry.load_rules()[code].needs)) and code[0] not in "DLM"


def test_of_stage(name: str) -> str:
    """Return the call that makes a stage possible; "" for one that a triage runs by itself."""
    return _ACTS.get(name, "")
