"""The numbers in the message of a finding that its evidence does not contain."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import Rule

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])(?P<percent>\s?%| points)?")
PATHS = r"\b[\w.]*[a-zA-Z_][\w.]*\.\d+\b|\b\d+\.[a-zA-Z_][\w.]*|\bmodule [\d.]+\b"
SHAPES = r"\[[\d, ]*\]|\b\d+-bit\b"  # also indices of parts
CODE = re.compile(rf"`[^`]*`|'[^']*'|{PATHS}|{SHAPES}|\band \d+ more\b")
PROSE = frozenset({0.0, 1.0, 2.0})  # "two dimensions", "sum to 1", "between 0 and 1"


def unsupported_numbers(finding: Finding, rule: Rule) -> list[str]:
    """Return the numbers of a message that are neither evidence, rounded as printed, nor constants.

    Lengths of lists in the evidence and the place of the finding count as evidence. Constants are 0, 1 and 2 and the
    options of the rule. Numbers in code, in paths of modules, in shapes and indices in brackets, and those of list
    entries that are left out ("and 3 more") are no claims.
    """
    message = CODE.sub(" ", finding.message)
    where = [finding.where.step, finding.where.sample, finding.where.line, finding.where.cell]
    known = [*PROSE, *_numbers(finding.evidence), *_numbers(where), *_numbers([*rule.options.values()])]
    return [match.group() for match in NUMBER.finditer(message) if not _is_known(match, known)]


def _is_known(match: re.Match[str], known: Iterable[float]) -> bool:
    """Check whether a number is the rounded form of a known one, or of its hundredfold with a percent sign."""
    text = match.group().replace(",", "").rstrip("% points")
    value, unit = float(text), _last_digit(text)
    factors = (1.0, 100.0) if match["percent"] else (1.0,)
    return any(abs(abs(factor * number) - abs(value)) <= 0.5001 * unit for number in known for factor in factors)


def _last_digit(text: str) -> float:
    """Return the value of one in the last printed digit."""
    mantissa, _, exponent = text.partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals)


def _numbers(value: Any) -> Iterator[float]:
    """Yield the numbers in a nested value, with the lengths of its sequences."""
    if isinstance(value, str):
        yield from (float(match.group().replace(",", "").rstrip("% points")) for match in NUMBER.finditer(value))
    elif isinstance(value, Mapping):
        yield len(value)
        for key, item in value.items():
            yield from _numbers(key)
            yield from _numbers(item)
    elif isinstance(value, Sequence) or hasattr(value, "tolist"):
        items = list(value) if isinstance(value, Sequence) else value.tolist()
        yield from [len(items)] if isinstance(items, list) else []
        for item in items if isinstance(items, list) else [items]:
            yield from _numbers(item)
    elif isinstance(value, (int, float)) and math.isfinite(value):
        yield float(value)
