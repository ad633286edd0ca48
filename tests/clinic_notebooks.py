"""The notebooks of the clinic. `python -m tests.clinic_notebooks` writes them from the files of the cases."""

from __future__ import annotations

import json

from nbdebug.clinic.cases import ClinicCase, case_names, clinic_folder, load_case

_INTRODUCTION = """# {title}

*{ward} ward.* {complaint}

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
    text = _INTRODUCTION.format(title=case.title, ward=case.ward.capitalize(), complaint=case.complaint)
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


if __name__ == "__main__":
    for file_name, text in expected_notebooks().items():
        (clinic_folder() / file_name).write_text(text, encoding="utf-8")
