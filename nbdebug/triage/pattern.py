"""Patterns: a symptom, the words for it, and the causes that it may have, each with the rules that establish it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.validation import argument_error

_FOLDER = Path(__file__).with_name("patterns")


@dataclass(frozen=True)
class Cause:
    """One cause of a symptom.

    Attributes:
        name: The cause as a clause, such as "no step follows the backward pass".
        codes: Codes of the rules, any of which establishes it; a prefix such as "D10" stands for all that start so. A
            cause without codes can only be tested by hand.
        prior: How common the cause is among those of its symptom, as a relative weight.
        test: The cheapest test by hand: a call, or a sentence.
    """

    name: str
    codes: tuple[str, ...] = ()
    prior: float = 1.0
    test: str = ""


@dataclass(frozen=True)
class SymptomPattern:
    """One symptom and its causes.

    Attributes:
        name: A short name, such as "loss-flat".
        symptom: The symptom in one sentence.
        words: Regular expressions, without regard to case, that a description of the symptom matches.
        causes: The causes, the most common first.
        signs: Codes of findings about curves and runs that show this symptom.
    """

    name: str
    symptom: str
    words: tuple[str, ...]
    causes: tuple[Cause, ...]
    signs: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SymptomPattern:
        """Return a pattern of plain data, as its file contains it; raise SetupError for other keys."""
        try:
            causes = tuple(Cause(**{**cause, "codes": tuple(cause.get("codes", ()))}) for cause in data["causes"])
            return cls(data["name"], data["symptom"], tuple(data["words"]), causes, tuple(data.get("signs", ())))
        except (KeyError, TypeError) as error:
            message = f"pattern is not complete ({error}); expected name, symptom, words, causes and signs."
            raise SetupError(f"{message} Compare it with one of nbdebug.triage.load_patterns().") from None

    @classmethod
    def read(cls, path: str | Path) -> SymptomPattern:
        """Return the pattern in a JSON file; raise SetupError if it is none."""
        try:
            return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        except (OSError, json.JSONDecodeError) as error:
            raise SetupError(f"pattern is {str(path)!r}; expected a JSON file ({error}). Check the path.") from None


@cache
def load_patterns() -> tuple[SymptomPattern, ...]:
    """Return the patterns of nbdebug, in the order of their names."""
    return tuple(SymptomPattern.read(path) for path in sorted(_FOLDER.glob("*.json")))


def check_patterns(patterns: Sequence[SymptomPattern]) -> tuple[SymptomPattern, ...]:
    """Return patterns as a tuple; raise SetupError for anything that is none."""
    for item in patterns:
        if not isinstance(item, SymptomPattern):
            raise argument_error("patterns", item, "a list of nbdebug.triage.SymptomPattern", "Pass one or more")
    return tuple(patterns)
