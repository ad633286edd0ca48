"""The tutorials with the outputs of a run, and their CPU times in the table of the course.

`python -m tests.tutorial_notebooks` runs and saves all of them; with numbers such as `01 05`, it runs only these.
"""

from __future__ import annotations

import math
import re
import resource
import sys
from pathlib import Path
from typing import Any

import nbformat

from nbdebug import demo

COURSE = Path(__file__).resolve().parents[1] / "docs/course.md"
WORDS_PER_MINUTE = 150
MINUTES_PER_CODE_CELL = 0.5
_WIDGET = "application/vnd.jupyter.widget-view+json"
# A row of the course: number, title and link, subject, seconds, minutes, and quick check.
_ROW = re.compile(r"^(\| \d+ \| \[[^]]+\]\(\.\./notebooks/([^)]+)\) \| [^|]+ \|) \d+ s \| \d+ min \|", re.MULTILINE)


def tutorial_paths() -> list[Path]:
    """Return the tutorials in their order."""
    return sorted(demo.tutorial_path().parent.glob("*.ipynb"))


def execute_and_save(path: Path) -> None:
    """Run a tutorial, and save its outputs and the seconds of CPU time of its kernel."""
    saved: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    before = _cpu_seconds_of_ended_processes()
    executed = demo.execute_notebook(path)
    saved.metadata["nbdebug"] = {"seconds": round(_cpu_seconds_of_ended_processes() - before)}
    for cell, run in zip(saved.cells, executed.cells, strict=True):
        if cell.cell_type == "code":
            cell.execution_count, cell.outputs = run.execution_count, _static_outputs(run.outputs)
    nbformat.write(saved, path)  # type: ignore[no-untyped-call]


def _cpu_seconds_of_ended_processes() -> float:
    """Return the CPU time of all processes that this one started and that have ended, such as kernels."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _static_outputs(outputs: list[Any]) -> list[Any]:
    """Return the outputs without those that only a kernel can draw, and with one text for what one stream printed."""
    static: list[Any] = []
    for output in outputs:
        if output.output_type == "error":  # without the folders of one machine
            output.traceback = [re.sub(r"[~/][^\s:]*/site-packages/", "", line) for line in output.traceback]
        if _WIDGET in output.get("data", {}) and set(output.data) <= {_WIDGET, "text/plain"}:
            continue
        if static and output.output_type == "stream" == static[-1].output_type and output.name == static[-1].name:
            static[-1].text += output.text
        else:
            static.append(output)
    return static


def expected_course() -> str:
    """Return the text of the course with the times of the saved tutorials."""
    return _ROW.sub(lambda row: f"{row[1]} {_times(row[2])} |", COURSE.read_text(encoding="utf-8"))


def _times(name: str) -> str:
    """Return the cells of a tutorial's row with its seconds, rounded up to five, and its minutes with reading."""
    notebook: Any = nbformat.read(demo.tutorial_path().with_name(name), as_version=4)  # type: ignore[no-untyped-call]
    lesson = [cell for cell in notebook.cells if not cell.id.startswith("exercise")]
    words = sum(len(cell.source.split()) for cell in lesson if cell.cell_type == "markdown")
    code_cells = sum(cell.cell_type == "code" for cell in lesson)
    seconds = notebook.metadata["nbdebug"]["seconds"]
    minutes = words / WORDS_PER_MINUTE + code_cells * MINUTES_PER_CODE_CELL + seconds / 60
    return f"{5 * math.ceil(seconds / 5)} s | {math.ceil(minutes)} min"


def main(numbers: list[str]) -> None:
    """Run and save the tutorials with these numbers, or all, and write the course."""
    for path in tutorial_paths():
        if not numbers or path.name[:2] in numbers:
            execute_and_save(path)
    COURSE.write_text(expected_course(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
