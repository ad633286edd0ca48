"""The notebooks of the clinic, their measured scores, and the tables of its pages, from the files of the cases.

`python -m tests.clinic_notebooks` writes them. With names of cases, it measures only these.
"""

from __future__ import annotations

import json
import linecache
import math
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nbdebug.clinic.cases import (
    WARDS,
    ClinicCase,
    case_names,
    clinic_folder,
    load_case,
    load_measured_run,
    measured_file,
)

_DOCS = Path(__file__).resolve().parents[1] / "docs"
_TUTORIALS = {  # that a ward practices
    "data": "8",
    "loss": "1, 2",
    "wiring": "2",
    "loop": "1, 3",
    "optimizer": "2, 9",
    "dynamics": "3, 4",
    "evaluation": "5, 6",
    "speed": "10",
}

_INTRODUCTION = """# {title}

*{ward} ward.* {story} {complaint}

Find the fault, repair it in its cell, and run all cells again. Use any tool of nbdebug in a cell of your own, on `dbg`.
`nbdebug.clinic.hint()` helps in three steps: where to look, which probe to use, which line. `nbdebug.clinic.check()` at
the end judges the repair: nbdebug finds no fault any more, and the score is that of the repaired twin."""
_START = """import nbdebug

nbdebug.clinic.start("{name}")"""
_RUN = """dbg = nbdebug.Debugger(model, train_loader, val_loader, loss_fn=loss_fn, optimizer=optimizer)
with nbdebug.clinic.monitor(dbg):  # records the run for check(), and shows nothing
    train()
score = evaluate()
print(f"score: {score:.3f}")"""
_CHECK = "nbdebug.clinic.check()"
_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebook_cells(case: ClinicCase, *, repaired: bool = False) -> list[str]:
    """Return the code cells of a notebook, broken or repaired."""
    cells = case.twin if repaired else case.broken
    return [_START.format(name=case.name), *(cell.strip("\n") for cell in cells), _RUN, _CHECK]


def notebook_json(case: ClinicCase) -> str:
    """Return the broken notebook as the text of its file, without outputs."""
    text = _INTRODUCTION.format(
        title=case.title, ward=case.ward.capitalize(), story=case.story, complaint=case.complaint
    )
    markdown = {"cell_type": "markdown", "id": "introduction", "metadata": {}, "source": _lines(text)}
    cells = [markdown, *(_code_cell(source, number) for number, source in enumerate(notebook_cells(case), 1))]
    notebook = {"cells": cells, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def _code_cell(source: str, number: int) -> dict[str, object]:
    about: dict[str, object] = {"cell_type": "code", "execution_count": None, "id": f"code-{number}", "metadata": {}}
    return {**about, "outputs": [], "source": _lines(source)}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def expected_notebooks() -> dict[str, str]:
    """Return the text of each notebook by its file name."""
    return {f"{name}.ipynb": notebook_json(load_case(name)) for name in case_names()}


def run_cells(case: ClinicCase, folder: Path, *, repaired: bool) -> dict[str, Any]:
    """Run the cells of a notebook before the last one in one namespace, and return it. ``folder`` gets their source."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, source in enumerate(notebook_cells(case, repaired=repaired)[:-1]):
        path = folder / f"{case.name}-{number}.py"
        path.write_text(source, encoding="utf-8")
        linecache.checkcache(str(path))
        exec(compile(source, str(path), "exec"), names)
    return names


def measure(case: ClinicCase) -> dict[str, float]:
    """Return the scores of the broken notebook and of its twin, and the CPU time of the first in seconds."""
    with TemporaryDirectory() as folder:
        started = time.process_time()
        broken = run_cells(case, Path(folder), repaired=False)["score"]
        seconds = time.process_time() - started
        twin = run_cells(case, Path(folder), repaired=True)["score"]
    return {"broken_score": round(broken, 4), "twin_score": round(twin, 4), "seconds": round(seconds, 1)}


def case_table() -> str:
    """Return a row for each case, ward by ward: its notebook, its title and the complaint."""
    cases = sorted(map(load_case, case_names()), key=lambda case: (WARDS.index(case.ward), case.name))
    rows = [f"| {_link(case, case.name)} | {case.title} | {case.complaint} |" for case in cases]
    return "\n".join(["| notebook | title | complaint |", "|---|---|---|", *rows]) + "\n"


def _link(case: ClinicCase, text: str) -> str:
    return f"[{text}](../notebooks/clinic/{case.name}.ipynb)"


def ward_table() -> str:
    """Return a row for each ward: the tutorials that it practices, its cases, and their CPU time."""
    rows = []
    for ward in WARDS:
        cases = [case for case in map(load_case, case_names()) if case.ward == ward]
        seconds = sum(load_measured_run(case.name).seconds for case in cases)
        links = ", ".join(_link(case, case.name.removeprefix(f"{ward}_")) for case in cases)
        rows.append(f"| {ward} | {_TUTORIALS[ward]} | {links} | {math.ceil(seconds)} s |")
    return "\n".join(["| ward | practices tutorial | cases | runs for |", "|---|---|---|---|", *rows]) + "\n"


def expected_pages() -> dict[Path, str]:
    """Return the text of each page with its table as it must be."""
    tables = {"clinic.md": ("cases", case_table()), "course.md": ("wards", ward_table())}
    return {_DOCS / page: _with_table(_DOCS / page, *named) for page, named in tables.items()}


def _with_table(page: Path, name: str, table: str) -> str:
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    return before + begin + table + end + rest.partition(end)[2]


def main(names: list[str]) -> None:
    """Measure the cases, and write their scores, their notebooks, and the tables of the pages."""
    measure(load_case(case_names()[0]))  # the imports of a first run are not the time of a case
    measured = json.loads(measured_file().read_text(encoding="utf-8"))
    measured |= {name: measure(load_case(name)) for name in names or case_names()}
    kept = {name: measured[name] for name in case_names()}
    measured_file().write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    notebooks = {clinic_folder() / name: text for name, text in expected_notebooks().items()}
    for path, text in (notebooks | expected_pages()).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
