"""Recognize a symptom: by name, in words, or from the signs of curves and runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.history import Diagnosis, diagnose
from nbdebug.triage.pattern import Cause, SymptomPattern

_MAX_PATTERNS = 3


@dataclass(frozen=True)
class Symptom:
    """A symptom: the description that was given, and the patterns that it fits, best first; empty if none fits."""

    description: str
    patterns: tuple[SymptomPattern, ...] = ()

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The causes of all patterns, each once, those of the best pattern first."""
        causes: dict[tuple[str, ...] | str, Cause] = {}
        for pattern in self.patterns:
            for cause in pattern.causes:
                causes.setdefault(cause.codes or cause.name, cause)
        return tuple(causes.values())

    @property
    def signs(self) -> frozenset[str]:
        """The codes of findings that show the symptom and are not its cause."""
        return frozenset(code for pattern in self.patterns for code in pattern.signs)


def recognize_symptom(symptom: Any, patterns: Sequence[SymptomPattern], run_codes: Collection[str] = ()) -> Symptom:
    """Return the symptom of a name, a text, a history or a diagnosis; of None, that of the watched run.

    ``run_codes`` are the codes of the findings about the watched run. Raises SetupError for a text of one word that
    fits no pattern, and for a history that cannot be read.
    """
    if symptom is None:
        return _from_codes("the watched run" if run_codes else "not described", run_codes, patterns)
    if isinstance(symptom, str):
        return _from_text(symptom, patterns)
    result = symptom if isinstance(symptom, Diagnosis) else diagnose(symptom)
    codes = [finding.code for finding in result if finding.severity != "note"] or [finding.code for finding in result]
    return _from_codes(f"curves: {result.verdict}", codes, patterns)


def _from_text(text: str, patterns: Sequence[SymptomPattern]) -> Symptom:
    """Return the patterns whose name is the text, else those with the most words in it."""
    by_name = {pattern.name: pattern for pattern in patterns}
    if (pattern := by_name.get(text.strip().lower().replace(" ", "-"))) is not None:
        return Symptom(pattern.symptom, (pattern,))
    scores = {pattern.name: _match_words(pattern, text) for pattern in patterns}
    fitting = (pattern for pattern in patterns if scores[pattern.name] > (0, 0))
    ranked = sorted(fitting, key=lambda pattern: scores[pattern.name], reverse=True)
    if not ranked and len(text.split()) < 2:
        matches = get_close_matches(text, by_name, n=1)
        advice = f"Did you mean {matches[0]!r}?" if matches else "Or describe it in a sentence."
        raise SetupError(f"symptom is {text!r}; expected one of {', '.join(by_name)}. {advice}")
    return Symptom(text, tuple(ranked[:_MAX_PATTERNS]))


def _match_words(pattern: SymptomPattern, text: str) -> tuple[int, int]:
    """Return how many words of a pattern a text contains, and the length of what they match in it."""
    matches = [match for word in pattern.words if (match := re.search(word, text, re.I))]
    return len(matches), sum(match.end() - match.start() for match in matches)


def _from_codes(description: str, codes: Iterable[str], patterns: Sequence[SymptomPattern]) -> Symptom:
    """Return the patterns that the codes are signs of, in the order of the codes."""
    fitting = {pattern.name: pattern for code in codes for pattern in patterns if code in pattern.signs}
    return Symptom(description, tuple(fitting.values())[:_MAX_PATTERNS])
