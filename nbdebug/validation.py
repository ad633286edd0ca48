"""Argument checks with one message format."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from math import isfinite
from numbers import Real
from typing import Any

from nbdebug.exceptions import SetupError, UnknownOption, WrongArguments

_LEAVE_OUT = "Leave it out"
_MAX_VALUE_LENGTH = 60  # characters of a value in a message
_MAX_PARAMETERS, _FIRST_PARAMETERS = 12, 5  # in a message; the first ones of a call are those that are used most


def describe_value(value: Any) -> str:
    """Return a value as text: its repr if short and plain, otherwise its type."""
    is_plain = isinstance(value, (str, bytes, int, float, list, tuple, dict, set, type(None)))
    text = repr(value) if is_plain else ""
    return text if text and len(text) <= _MAX_VALUE_LENGTH else f"of type {type(value).__name__}"


def describe_type(value: Any) -> str:
    """Return what a value is: None, a class by its name, or the type of an instance with its article."""
    if value is None or isinstance(value, type):
        return "None" if value is None else f"the class {value.__name__}, not an instance"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIO' else 'a'} {name}"


def argument_error(name: str, value: Any, expected: str, advice: str = _LEAVE_OUT) -> SetupError:
    """Return the error ``{name} is {value}; expected {expected}. {act}.``"""
    return SetupError(f"{name} is {describe_value(value)}; expected {expected}. {advice}.")


def as_index(value: Any) -> int | None:
    """Return any kind of integer as an int; None for anything else, including booleans."""
    if isinstance(value, (bool, type)) or bool(getattr(value, "ndim", False)):
        return None
    try:
        return operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def validate_int(name: str, value: Any, minimum: int = 1, advice: str = _LEAVE_OUT) -> int:
    """Return a whole number; raise SetupError for anything else, or below ``minimum``."""
    integer = as_index(value)
    if integer is None or integer < minimum:
        raise argument_error(name, value, f"a whole number of {minimum} or more", advice)
    return integer


def check_whole_number(name: str, value: Any, minimum: int, maximum: int) -> None:
    """Raise SetupError unless the value is an int from minimum to maximum, and no bool."""
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        message = f"{name} is {value!r}; expected a whole number from {minimum} to {maximum}."
        raise SetupError(f"{message} Leave it out for the default.")


def validate_number(name: str, value: Any, advice: str = _LEAVE_OUT) -> float:
    """Return a finite number as a float; raise SetupError for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value):
        raise argument_error(name, value, "a finite number", advice)
    return float(value)


def validate_choice(name: str, value: Any, choices: Iterable[str], advice: str = "Choose one") -> str:
    """Return one of the allowed strings; raise SetupError for anything else."""
    words = list(choices)
    if not isinstance(value, str) or value not in words:
        raise argument_error(name, value, f"one of {', '.join(words)}", advice)
    return value


def validate_class(name: str, value: Any) -> int | str:
    """Return a class index or name, without checking it against the model; raise SetupError for anything else."""
    class_or_index = value if isinstance(value, str) else as_index(value)
    if class_or_index is None:
        raise argument_error(name, value, "one class, by its number or its name", "Pass one")
    return class_or_index


def validate_callable(name: str, value: Any, arguments: str, advice: str) -> None:
    """Raise SetupError unless the value is callable or None."""
    if value is not None and not callable(value):
        raise argument_error(name, value, f"a function of {arguments}", advice)


def validate_names(name: str, value: Any) -> list[str]:
    """Return names as a list; raise SetupError for a single string or a value that is no sequence."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise argument_error(name, value, "a list of names", "Pass one for each")
    return [str(item) for item in value]


def validate_keywords(keywords: Collection[str], choices: Collection[str], callee: str) -> None:
    """Raise UnknownOption for an option name that does not exist."""
    for name in sorted(set(keywords) - set(choices)):
        raise unknown_option(callee, name, choices)


def unknown_option(callee: str, name: str, choices: Collection[str]) -> UnknownOption:
    """Return the error for an option name that is none of ``choices``; it names the nearest one."""
    matches = get_close_matches(name, choices, n=1)
    advice = f"Did you mean {matches[0]!r}?" if matches else f"{_LEAVE_OUT}."
    first, others = _most_used(choices)
    names = f"{', '.join(first)} or {others} others in its help()" if others else ", ".join(first)
    return UnknownOption(f"option of {callee} is {name!r}; expected one of {names}. {advice}")


def wrong_arguments(callee: str, problem: str, names: Collection[str]) -> WrongArguments:
    """Return the error for a call that does not fit the parameters of a function."""
    first, others = _most_used(names)
    advice = f"Its help() describes all {len(names)} parameters." if others else "Pass these."
    parameters = ", ".join([*first, *["…"] * bool(others)])
    return WrongArguments(f"call of {callee} is wrong ({problem}); expected {callee}({parameters}). {advice}")


def _most_used(names: Collection[str]) -> tuple[list[str], int]:
    """Return the names if they are few, otherwise the first of them, and how many others there are."""
    first = list(names)[: None if len(names) <= _MAX_PARAMETERS else _FIRST_PARAMETERS]
    return first, len(names) - len(first)
