"""The form of one crash: a program that raises, the same program repaired, and what a right explanation names."""

from __future__ import annotations

import difflib
import re
import zlib
from dataclasses import dataclass
from typing import Literal

Half = Literal["development", "held-out"]

STYLES = (
    "script",
    "trainer",
    "functional",
    "lightning_like",
    "notebook_cells",
    "custom_parts",
    "typed",
    "hand_written_model",
    "reshape_by_hand",
)

_CELL_MARK = "# %%\n"


@dataclass(frozen=True)
class Crash:
    """A program that raises inside torch, beside its repaired twin.

    ``line`` holds pieces of text: each stands in exactly one line of ``faulty``, and each of these lines is an
    acceptable answer to "which line is to be changed". A right explanation contains every entry of ``says``;
    where an entry has alternatives, they are separated by ``|`` and one of them is enough. An entry that is a number
    has to stand there as a whole number: 6 is not part of 16.
    """

    id: str
    title: str
    kind: str
    style: str
    source: str
    faulty: str
    fixed: str
    line: tuple[str, ...]
    says: tuple[str, ...]

    @property
    def line_numbers(self) -> frozenset[int]:
        """The numbers (from 1) of the lines of ``faulty`` that are acceptable as the cause."""
        lines = enumerate(self.faulty.splitlines(), start=1)
        return frozenset(number for number, line in lines if any(text in line for text in self.line))

    @property
    def repaired_line_numbers(self) -> frozenset[int]:
        """The numbers (from 1) of the lines of ``faulty`` that the repair changes, or before which it puts lines.

        This is stricter than ``line_numbers``: other repairs may be as good.
        """
        matcher = difflib.SequenceMatcher(None, self.faulty.splitlines(), self.fixed.splitlines(), autojunk=False)
        numbers: set[int] = set()
        for tag, start, end, _, _ in matcher.get_opcodes():
            if tag != "equal":
                numbers.update(range(start + 1, max(end, start + 1) + 1))
        return frozenset(numbers)

    @property
    def cells(self) -> tuple[str, ...]:
        """The faulty program as the cells of a notebook; one cell where it is not split."""
        return tuple(self.faulty.split(_CELL_MARK))

    @property
    def fixed_cells(self) -> tuple[str, ...]:
        """The fixed program as the cells of a notebook; one cell where it is not split."""
        return tuple(self.fixed.split(_CELL_MARK))

    def is_explained_by(self, text: str) -> bool:
        """Whether an explanation names the cause of this crash."""
        lowered = text.lower()
        return all(any(_stands_in(word, lowered) for word in entry.split("|")) for entry in self.says)


@dataclass(frozen=True)
class OtherError:
    """A cell that raises for a reason that is not torch's; an explainer of torch's errors is silent there."""

    id: str
    title: str
    source: str
    raises: str


def crash(
    id: str,
    title: str,
    *,
    kind: str,
    style: str,
    source: str,
    program: str,
    repair: tuple[tuple[str, str], ...],
    says: tuple[str, ...],
    line: str | tuple[str, ...] = (),
) -> Crash:
    """Make a crash from the faulty program and its repair.

    Args:
        id: The name of the crash, which also decides to which half it belongs.
        title: What is wrong, in a few words.
        kind: The family of the crash; also the name of the module that holds it.
        style: One of ``STYLES``.
        source: The kind of public thread that the mistake is taken from.
        program: The faulty program; ``# %%`` separates the cells of a notebook.
        repair: Pairs of a text of the program and its replacement. Each text stands in the program once.
        says: What a right explanation contains.
        line: Texts of the acceptable lines; the line of the first repair where none is given.
    """
    faulty = program.lstrip("\n")
    fixed = faulty
    for old, new in repair:
        if fixed.count(old) != 1:
            raise ValueError(f"crash {id}: the text {old!r} stands {fixed.count(old)} times in the program, not once")
        fixed = fixed.replace(old, new)
    if isinstance(line, str):
        line = (line,)
    if not line:
        start = faulty.index(repair[0][0])
        line = (faulty[faulty.rfind("\n", 0, start) + 1 :].split("\n")[0].strip(),)
    return Crash(
        id=id,
        title=title,
        kind=kind,
        style=style,
        source=source,
        faulty=faulty,
        fixed=fixed,
        line=line,
        says=says,
    )


def _stands_in(word: str, text: str) -> bool:
    if re.fullmatch(r"-?\d+", word):
        return re.search(rf"(?<!\d){word}(?!\d)", text) is not None
    return word in text


def half(case: Crash) -> Half:
    """The half of the corpus to which a crash belongs, by the checksum of its name."""
    return "development" if zlib.crc32(case.id.encode()) % 2 == 0 else "held-out"
