"""Mutants and rewrites as files."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutants.operators import OPERATORS
from benchmarks.mutants.operators.registry import Finder
from benchmarks.mutants.program_source import ProgramSource
from benchmarks.mutants.rewrites import REWRITES
from benchmarks.mutants.source import Mutation, apply_mutation

FOLDER = Path(tempfile.gettempdir()) / "nbdebug-mutants"


@dataclass(frozen=True)
class Mutant:
    """A mutated or rewritten program: its file, and what a debugger may name as the place."""

    program: str
    operator: str
    path: Path
    lines: tuple[int, ...]
    modules: tuple[str, ...]

    @property
    def key(self) -> str:
        """The name of the file."""
        return self.path.stem


def finder(name: str) -> Finder:
    """Return the generator function of an operator or a rewrite."""
    return OPERATORS[name].find if name in OPERATORS else REWRITES[name]


def write_mutant(program: str, source: ProgramSource, name: str, mutation: Mutation, place: int) -> Mutant:
    """Write the file of a mutant."""
    text, lines = apply_mutation(source, mutation)
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{program}__{name}_{place}.py"
    path.write_text(text, encoding="utf-8")
    return Mutant(program, name, path, tuple(lines), tuple(mutation.modules))


def mutants(
    name: str, programs: Iterable[str], source_of: Callable[[str], ProgramSource | None], seed: int = 0
) -> Iterator[Mutant]:
    """Yield the mutants of one operator: programs in a random order, one random place in each."""
    order = random.Random(f"{seed} {name}")
    names = sorted(programs)
    order.shuffle(names)
    for program in names:
        source = source_of(program)
        places = list(finder(name)(source)) if source is not None else []
        if places and source is not None:
            place = order.randrange(len(places))
            yield write_mutant(program, source, name, places[place], place)
