"""Rules by code. A rule is a generator function whose positional parameters name the evidence it needs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from types import ModuleType
from typing import Any

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.finding import Finding, Severity

Judge = Callable[..., Iterator[Finding]]
RULES: dict[str, Rule] = {}


@dataclass(frozen=True)
class Rule:
    """One rule: its code, its page, what it needs and what may be set.

    Of what it needs, ``optional`` may be missing; the rule is then given the reason in its place.
    """

    code: str
    name: str
    severity: Severity
    page: str
    needs: tuple[str, ...]
    options: dict[str, Any]
    judge: Judge
    optional: frozenset[str] = frozenset()

    def __call__(self, evidence: Mapping[str, Any], **options: Any) -> list[Finding]:
        """The findings of this rule on ``evidence``, stamped with its code, name and severity."""
        found = self.judge(*(self.read(evidence, name) for name in self.needs), **options)
        return [replace(one, code=self.code, name=self.name, severity=one.severity or self.severity) for one in found]

    def read(self, evidence: Mapping[str, Any], name: str) -> Any:
        """One value, or why there is none where the rule can do without it."""
        try:
            return evidence[name]
        except NotChecked as reason:
            if name in self.optional:
                return reason
            raise

    @property
    def module(self) -> ModuleType:
        """The file of this rule, where ``bad()`` and ``good()`` stand beside it."""
        return importlib.import_module(self.judge.__module__)


def rule(code: str, severity: Severity) -> Callable[[Judge], Judge]:
    """Registers a generator function as the rule ``code``; its docstring is the page, its name the rule's name."""

    def register(judge: Judge) -> Judge:
        parameters = inspect.signature(judge).parameters.values()
        RULES[code] = Rule(
            code=code,
            name=judge.__name__.replace("_", "-"),
            severity=severity,
            page=inspect.getdoc(judge) or "",
            needs=tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD),
            options={p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY},
            judge=judge,
            optional=frozenset(p.name for p in parameters if "| NotChecked" in str(p.annotation)),
        )
        return judge

    return register


def load() -> dict[str, Rule]:
    """All rules, by code."""
    import_all("nbdebug.rules")
    return dict(sorted(RULES.items()))


@cache
def import_all(name: str) -> None:
    """Imports every file under a package, once, which is what registers the rules or the evidence in them."""
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, f"{name}."):
        importlib.import_module(module.name)


def find(code: str) -> Rule:
    """The rule of one code, or of one name; raises SetupError with the closest ones otherwise."""
    rules = load()
    named = {one.name: one for one in rules.values()}
    if one := rules.get(code.upper()) or named.get(code.lower()):
        return one
    close = " or ".join(get_close_matches(code, [*rules, *named], n=3, cutoff=0.5))
    act = f"Did you mean {close}?" if close else "List them by: nbdebug rule."
    raise SetupError(f"rule is {code!r}; expected one of {', '.join(rules)}. {act}")


def select(chosen: Iterable[str] | None = None, ignored: Iterable[str] = ()) -> list[Rule]:
    """The rules whose code starts with one of ``chosen`` (all of them by default) and with none of ``ignored``."""
    rules = load()
    for prefix in [*(chosen or ()), *ignored]:
        if not any(code.startswith(prefix) for code in rules):
            find(prefix)
    wanted = tuple(chosen) if chosen is not None else ("",)
    return [one for code, one in rules.items() if code.startswith(wanted) and not code.startswith(tuple(ignored))]
