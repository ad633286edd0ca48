"""Arguments of tools, refused by name and in one form where they are of no use."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping
from math import isfinite
from numbers import Real
from typing import Any

from nbdebug.exceptions import SetupError

OUT = "Leave it out"
LONGEST = 60  # letters of a value in a message


def told(value: Any) -> str:
    """A value in a message: itself where that is short and plain, else what it is."""
    plain = isinstance(value, (str, bytes, int, float, list, tuple, dict, set, type(None)))
    text = repr(value) if plain else ""
    return text if text and len(text) <= LONGEST else f"of type {type(value).__name__}"


def refusal(name: str, value: Any, expected: str, act: str = OUT) -> SetupError:
    """The error in its one form."""
    return SetupError(f"{name} is {told(value)}; expected {expected}. {act}.")


def index(value: Any) -> int | None:
    """A whole number of any kind as an int, None for anything else, True and False among it."""
    if isinstance(value, (bool, type)) or bool(getattr(value, "ndim", False)):
        return None
    try:
        return operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def whole(name: str, value: Any, least: int = 1, act: str = OUT) -> int:
    """A whole number; raises SetupError for another thing, and for a smaller one."""
    found = index(value)
    if found is None or found < least:
        raise refusal(name, value, f"a whole number of {least} or more", act)
    return found


def number(name: str, value: Any, act: str = OUT) -> float:
    """A finite number; raises SetupError for another thing."""
    if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value):
        raise refusal(name, value, "a finite number", act)
    return float(value)


def one_of(name: str, value: Any, known: Iterable[str], act: str = "Choose one") -> str:
    """One of some words; raises SetupError for anything else."""
    words = list(known)
    if not isinstance(value, str) or value not in words:
        raise refusal(name, value, f"one of {', '.join(words)}", act)
    return value


def a_class(name: str, value: Any) -> int | str:
    """A class by number or name, as far as that can be told without the model; raises SetupError for another thing."""
    found = value if isinstance(value, str) else index(value)
    if found is None:
        raise refusal(name, value, "one class, by its number or its name", "Pass one")
    return found


def function(name: str, value: Any, of: str, act: str) -> None:
    """Raises SetupError for what cannot be called, None aside."""
    if value is not None and not callable(value):
        raise refusal(name, value, f"a function of {of}", act)


def names(name: str, value: Any) -> list[str]:
    """Some names as a list; raises SetupError for one text, and for what is no sequence."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise refusal(name, value, "a list of names", "Pass one for each")
    return [str(one) for one in value]


def known_only(given: Collection[str], known: Collection[str], what: str) -> None:
    """Raises SetupError for a keyword that there is not."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise SetupError(f"{what} has no {unknown[0]!r}; expected {', '.join(known)}. {OUT}.")
