"""Registry of rules by code."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.finding import Finding, Severity, remove_comment_sign
from nbdebug.formatting import format_value
from nbdebug.measurements.registry import import_submodules
from nbdebug.rule_engine.consequences import consequences_of
from nbdebug.rule_engine.measured_rates import describe_measured_rate
from nbdebug.rule_engine.predictions import Prediction
from nbdebug.setup.data_lines import Origin
from nbdebug.setup.setup import Setup
from nbdebug.source.location import SourceLine

Options = Mapping[str, Mapping[str, Any]]  # keyword options of rules by code
_RuleFunction = Callable[..., Iterator[Finding]]
_LineSearch = Callable[[Setup, Finding], SourceLine | None]
_RULES: dict[str, Rule] = {}


@dataclass(frozen=True)
class Rule:
    """One rule: its code, its page, the measurements it needs and its options.

    A measurement in ``optional`` may be unavailable; the rule then gets the NotChecked reason instead of a value.
    ``origin`` is what of the setup is at fault: a finding without a line gets the line that makes it, unless
    ``find_line`` finds another one by its evidence, and again after a run, when the files of the program are known.
    ``prediction`` is what its findings before training say about the run; None if they state facts. ``asked_again``
    tells whether the rule judges a state that training changes, so that a watch asks it again after the run.
    ``affects_learning`` is False for faults of speed and repeatability, which do not explain poor learning.
    """

    code: str
    name: str
    severity: Severity
    page: str
    needs: tuple[str, ...]
    options: dict[str, Any]
    function: _RuleFunction
    optional: frozenset[str] = frozenset()
    origin: Origin | None = None
    find_line: _LineSearch | None = None
    prediction: Prediction | None = None
    asked_again: bool = False
    affects_learning: bool = True

    def __call__(self, measurements: Mapping[str, Any], **options: Any) -> list[Finding]:
        """Return the findings of the rule, labeled with its code, name and severity.

        What the rule finds before something it cannot check is returned: the findings are facts of their own.
        """
        findings: list[Finding] = []
        try:
            for finding in self.function(*(self._read(measurements, name) for name in self.needs), **options):
                findings.append(self._label(finding))
        except NotChecked:
            if not findings:
                raise
        return findings

    def _label(self, finding: Finding) -> Finding:
        severity = finding.severity or self.severity
        return replace(
            finding,
            code=self.code,
            name=self.name,
            severity=severity,
            predicts=finding.predicts or (self.prediction.claim if self.prediction is not None else ""),
            fix=remove_comment_sign(finding.fix),
            explains=tuple(dict.fromkeys((*finding.explains, *consequences_of(self.code, severity)))),
        )

    def _read(self, measurements: Mapping[str, Any], name: str) -> Any:
        """Return one measurement; the reason if it is unavailable and optional."""
        try:
            return measurements[name]
        except (NotChecked, SetupError) as reason:
            if name in self.optional:
                return NotChecked(str(reason))
            raise

    @property
    def full_page(self) -> str:
        """The page under its title, with the options and the measured rate at its end."""
        parts = [f"{self.code} {self.name} ({self.severity})", self.page]
        if self.options:
            parts.append(f"## Options\n\n{self._describe_options()}")
        return "\n\n".join([*parts, f"## Measured rate\n\n{describe_measured_rate(self.code)}"])

    def _describe_options(self) -> str:
        """Return the defaults of the options, and the call that sets one."""
        defaults = ", ".join(f"``{name}`` = {format_value(value)}" for name, value in self.options.items())
        call = f'dbg.checkup(options={{"{self.code}": {{"{next(iter(self.options))}": ...}}}})'
        return f"{defaults}. Set one with ``{call}``."

    @property
    def module(self) -> ModuleType:
        """The module of this rule, which also defines its ``bad()`` and ``good()`` examples."""
        return importlib.import_module(self.function.__module__)


def rule(
    code: str,
    severity: Severity,
    *,
    origin: Origin | None = None,
    find_line: _LineSearch | None = None,
    prediction: Prediction | None = None,
    asked_again: bool = False,
    affects_learning: bool = True,
) -> Callable[[_RuleFunction], _RuleFunction]:
    """Register a generator function as the rule ``code``; its docstring is its page, its name the rule's name."""

    def register(function: _RuleFunction) -> _RuleFunction:
        parameters = inspect.signature(function).parameters.values()
        _RULES[code] = Rule(
            code=code,
            name=function.__name__.replace("_", "-"),
            severity=severity,
            page=inspect.getdoc(function) or "",
            needs=tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD),
            options={p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY},
            function=function,
            optional=frozenset(p.name for p in parameters if "| NotChecked" in str(p.annotation)),
            origin=origin,
            find_line=find_line,
            prediction=prediction,
            asked_again=asked_again,
            affects_learning=affects_learning,
        )
        return function

    return register


def load_rules() -> dict[str, Rule]:
    """Return all rules by code, with those that a program or an installed package has registered."""
    import_submodules("nbdebug.rules")
    _import_rules_of_packages()
    return dict(sorted(_RULES.items()))


@cache
def _import_rules_of_packages() -> None:
    """Import the modules that installed packages name in the group ``nbdebug.rules`` of their entry points."""
    for module in entry_points(group="nbdebug.rules"):
        module.load()


def load_family(package: str, prefix: str) -> list[Rule]:
    """Return the rules of one package by code, without importing the others."""
    import_submodules(package)
    return [rule for code, rule in sorted(_RULES.items()) if code.startswith(prefix)]


def find_rule(code: str) -> Rule:
    """Return the rule with a code or name; raise SetupError with the closest matches if there is none."""
    rules = load_rules()
    by_name = {rule.name: rule for rule in rules.values()}
    if rule := rules.get(code.upper()) or by_name.get(code.lower()):
        return rule
    suggestions = " or ".join(get_close_matches(code, [*rules, *by_name], n=3, cutoff=0.5))
    next_act = f"Did you mean {suggestions}?" if suggestions else "List them by: nbdebug rule."
    raise SetupError(f"rule is {code!r}; expected one of {', '.join(rules)}. {next_act}")


def select_rules(selected: Iterable[str] | None = None, ignored: Iterable[str] = ()) -> list[Rule]:
    """Return the rules whose code starts with one of ``selected`` (all by default) and with none of ``ignored``."""
    rules = load_rules()
    for prefix in [*(selected or ()), *ignored]:
        if not any(code.startswith(prefix) for code in rules):
            find_rule(prefix)
    prefixes = tuple(selected) if selected is not None else ("",)
    return [rule for code, rule in rules.items() if code.startswith(prefixes) and not code.startswith(tuple(ignored))]
