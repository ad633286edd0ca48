"""Cases of the clinic: a program that trains well, the faults planted in it, and hints; read from files.

A file has lines ``# field: value`` at its top, and the cells of the repaired twin, divided by lines ``# %%``. Each
triple of the fields ``right``, ``wrong`` and ``codes`` is a fault.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from nbdebug.validation import validate_choice

WARDS = ("data", "loss", "wiring", "loop", "optimizer", "dynamics", "evaluation", "speed")
_FIELD = re.compile(r"^# (\w+): (.*)\n", re.M)
_CELL_MARK = "# %%\n"
_PACKAGE_FOLDER = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class PlantedFault:
    """The text of the twin, the text that stands for it in the broken notebook, and the rules that name the fault."""

    right: str
    wrong: str
    codes: frozenset[str]


@dataclass(frozen=True)
class ClinicCase:
    """A broken notebook; ``reach`` is a score that the repaired twin exceeds.

    ``hints`` say where to look, which probe to use, and which line is at fault. The cells of the twin define the
    objects of the Debugger, ``train()`` and ``evaluate()``.
    """

    name: str
    ward: str
    title: str
    complaint: str
    reach: float
    hints: tuple[str, ...]
    faults: tuple[PlantedFault, ...]
    twin: tuple[str, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        """The cells of the broken notebook."""
        source = _CELL_MARK.join(self.twin)
        for fault in self.faults:
            source = source.replace(fault.right, fault.wrong)
        return tuple(source.split(_CELL_MARK))


def clinic_folder() -> Path:
    """Return the folder with the notebooks and the cases, in the installed package or in a checkout."""
    candidates = [_PACKAGE_FOLDER / "notebooks" / "clinic", _PACKAGE_FOLDER.parent / "notebooks" / "clinic"]
    return next(path for path in candidates if path.exists())


def case_names() -> list[str]:
    """Return the names of all cases."""
    return sorted(path.stem for path in (clinic_folder() / "cases").glob("*.py"))


def load_case(name: str) -> ClinicCase:
    """Return a case by its name. Raises SetupError for an unknown name."""
    validate_choice("case", name, case_names())
    head, *cells = (clinic_folder() / "cases" / f"{name}.py").read_text(encoding="utf-8").split(_CELL_MARK)
    fields = defaultdict(list)
    for field, value in _FIELD.findall(head):
        fields[field].append(value.replace("\\n", "\n"))
    codes = [frozenset(value.split()) for value in fields["codes"]]
    return ClinicCase(
        name=name,
        ward=fields["ward"][0],
        title=fields["title"][0],
        complaint=fields["complaint"][0],
        reach=float(fields["reach"][0]),
        hints=tuple(fields["hint"]),
        faults=tuple(map(PlantedFault, fields["right"], fields["wrong"], codes)),
        twin=tuple(cells),
    )
