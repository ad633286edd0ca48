"""Notebooks of real style, each with the text of one mistake that can be planted in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
_FIELD = re.compile(r"^# (mistake|right|wrong|debugger): (.*)$", re.M)


@dataclass(frozen=True)
class PlantedNotebook:
    """A notebook that trains well, and one replacement in its source that is a mistake.

    ``codes`` are the rules that name the mistake; ``arguments`` are those of the Debugger. The last cell but one
    trains, and the last one computes ``score``, of which more is better.
    """

    name: str
    source: str
    codes: tuple[str, ...]
    right: str
    wrong: str
    arguments: str

    @property
    def style(self) -> str:
        """How the loop is written: cells, trainer, functions, tqdm or loops."""
        return self.name.partition("_")[0]

    def cells(self, *, planted: bool) -> list[str]:
        """Return the cells, with or without the mistake."""
        source = self.source.replace(self.right, self.wrong) if planted else self.source
        return [cell.strip("\n") for cell in source.split("# %%\n")[1:]]


def load_notebooks(style: str = "") -> Iterator[PlantedNotebook]:
    """Yield the notebooks of one style, or all.

    Raises ValueError if the text to replace does not occur exactly once.
    """
    for path in sorted(PROGRAMS.glob(f"{style}*.py")):
        text = path.read_text()
        fields = {name: value.replace("\\n", "\n") for name, value in _FIELD.findall(text)}
        source = _FIELD.sub("", text)
        if source.count(fields["right"]) != 1:
            raise ValueError(
                f"{path.name} has {fields['right']!r} {source.count(fields['right'])} times; expected one."
            )
        codes = tuple(fields["mistake"].split())
        yield PlantedNotebook(path.stem, source, codes, fields["right"], fields["wrong"], fields["debugger"])
