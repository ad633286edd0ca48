"""Registry of mutation operators.

An operator is a generator over a ``ProgramSource`` that yields mutations, each with one mistake. It also states

accepts    codes of rules, each of which is a right name of the cause; the first is the best
tolerates  codes of rules that are true side effects, beside the symptoms that any mistake may have
fact       the exact fact that makes the mutant a mistake even where no number becomes worse (``judge.py`` lists them)
data       validation data that tell whether the mutant is worse: of the unmutated program, or the mutant's "own"
placed     False if no line and no module can be named
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from benchmarks.mutants.program_source import ProgramSource
from benchmarks.mutants.source import Mutation

Finder = Callable[[ProgramSource], Iterator[Mutation]]
SYMPTOMS = frozenset(
    [f"T{number}" for number in (601, 602, 603, 604, 605, 606, 607, 608, 609, 610, 611, 614)]
    + [f"E{number}" for number in (702, 703, 704, 705, 706, 707, 709)]
    + [f"G{number}" for number in (401, 402, 403, 404, 405, 406, 409, 410, 411, 412, 414, 415, 416)]
    + ["L208", "L218", "M306", "M307", "M314", "O501", "O502"]
)


@dataclass(frozen=True)
class Operator:
    """A mutation operator and the right answers to its mutants."""

    name: str
    find: Finder
    accepts: tuple[str, ...]
    tolerates: frozenset[str]
    fact: str | None
    data: Literal["unmutated", "own"]
    placed: bool
    family: str


OPERATORS: dict[str, Operator] = {}


def operator(
    accepts: str,
    tolerates: str = "",
    *,
    fact: str | None = None,
    data: Literal["unmutated", "own"] = "unmutated",
    placed: bool = True,
) -> Callable[[Finder], Finder]:
    """Register a generator function as an operator; codes are separated by spaces."""

    def register(find: Finder) -> Finder:
        name = getattr(find, "__name__", "")
        family = find.__module__.rpartition(".")[2]
        tolerated = SYMPTOMS | set(tolerates.split())
        OPERATORS[name] = Operator(name, find, tuple(accepts.split()), tolerated, fact, data, placed, family)
        return find

    return register
