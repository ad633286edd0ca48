"""The rules that run, and their options: those of a call over those of the project."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.rule_engine import rule_registry
from nbdebug.rule_engine.project_settings import read_project_settings
from nbdebug.rule_engine.rule_registry import Options, Rule


def requested_rules(selected: Iterable[str] | None, ignored: Iterable[str], options: Options) -> list[Rule]:
    """Return the rules of a call; raise SetupError for an unknown code or option of the call or of the project.

    A call that selects rules runs them even if the project skips them; what it ignores is skipped besides.
    """
    check_project_settings()
    if selected is not None:
        rules = rule_registry.select_rules(_as_tuple(selected), _as_tuple(ignored))
    else:
        settings = read_project_settings()
        rules = [rule for rule in rule_registry.select_rules(None, _as_tuple(ignored)) if settings.selects(rule.code)]
    _check_options(options, {rule.code: rule for rule in rules}, "")
    return rules


def project_rules() -> list[Rule]:
    """Return the rules that the project selects; never raises, since it is asked in a running loop."""
    settings = read_project_settings()
    return [rule for code, rule in rule_registry.load_rules().items() if settings.selects(code)]


def effective_options(options: Options) -> dict[str, dict[str, Any]]:
    """Return the options of rules by code: those of a call over those of the project."""
    of_project = read_project_settings().options
    return {code: {**of_project.get(code, {}), **options.get(code, {})} for code in {*of_project, *options}}


def check_project_settings() -> None:
    """Raise SetupError if the section of the project has a mistake, or names an unknown rule or option."""
    settings = read_project_settings()
    if settings.trouble:
        raise SetupError(settings.trouble)
    place = f" in {settings.file}"
    for key, codes in (("select", settings.select or ()), ("ignore", settings.ignore)):
        try:
            rule_registry.select_rules(codes)
        except SetupError as error:
            raise SetupError(f"{key}{place}: {error}") from None
    _check_options(settings.options, rule_registry.load_rules(), place)


def _check_options(options: Options, rules: Mapping[str, Rule], place: str) -> None:
    """Raise SetupError for options of a rule that does not run, or that a rule does not have."""
    for code, rule_options in options.items():
        if code not in rules:
            raise SetupError(
                f"options{place} name {code!r}; expected one of {', '.join(rules)}. Give a code that is checked."
            )
        if unknown := sorted(set(rule_options) - set(rules[code].options)):
            names = ", ".join(rules[code].options) or "none"
            raise SetupError(
                f"option of {code}{place} is {unknown[0]!r}; expected one of {names}. Its page says what they do."
            )


def _as_tuple(codes: Iterable[str]) -> tuple[str, ...]:
    return (codes,) if isinstance(codes, str) else tuple(codes)
