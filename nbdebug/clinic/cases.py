"""Cases of the clinic: a program that trains well, the faults planted in it, and hints; read from files.

A file has lines ``# field: value`` at its top, and the cells of the repaired twin, divided by lines ``# %%``. Each
triple of the fields ``right``, ``wrong`` and ``codes`` is a fault. The scores of both notebooks are measured, and kept
in ``measured.json``.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from nbdebug.validation import validate_choice

WARDS = ("data", "loss", "wiring", "loop", "optimizer", "dynamics", "evaluation", "speed")
_FIELD = re.compile(r"^# (\w+): (.*)\n", re.M)
_CELL_MARK = "# %%\n"
_PACKAGE_FOLDER = Path(__file__).resolve().parents[1]
# A repair reaches the twin if at most a fifth of the difference between both scores is left, or 0.02, which is about
# twice the standard error of an accuracy of 0.98 on 200 samples.
_MAX_SHARE_LEFT = 0.2
_MIN_SLACK = 0.02


@dataclass(frozen=True)
class PlantedFault:
    """The text of the twin, the text that stands for it in the broken notebook, and the rules that name the fault."""

    right: str
    wrong: str
    codes: frozenset[str]


@dataclass(frozen=True)
class MeasuredRun:
    """The scores of the broken notebook and of its twin, and the seconds of CPU time that the broken one takes."""

    broken_score: float
    twin_score: float
    seconds: float

    def is_reached_by(self, score: float) -> bool:
        """Return True if a score is that of the twin, or lies beyond it as seen from the broken notebook."""
        gain = self.twin_score - self.broken_score
        slack = max(_MAX_SHARE_LEFT * abs(gain), _MIN_SLACK)
        return score >= self.twin_score - slack if gain >= 0 else score <= self.twin_score + slack


@dataclass(frozen=True)
class ClinicCase:
    """A broken notebook, its story, and what its author complains of.

    ``hints`` say where to look, which probe to use, and which line is at fault. The cells of the twin define the
    objects of the Debugger, ``train()`` and ``evaluate()``.
    """

    name: str
    ward: str
    title: str
    story: str
    complaint: str
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


def measured_file() -> Path:
    """Return the file with the measured runs of all cases."""
    return clinic_folder() / "cases" / "measured.json"


def load_measured_run(name: str) -> MeasuredRun:
    """Return the measured scores of a case."""
    return MeasuredRun(**json.loads(measured_file().read_text(encoding="utf-8"))[name])


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
        story=" ".join(fields["story"]),
        complaint=fields["complaint"][0],
        hints=tuple(fields["hint"]),
        faults=tuple(map(PlantedFault, fields["right"], fields["wrong"], codes)),
        twin=tuple(cells),
    )
