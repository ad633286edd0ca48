"""The notebooks of the clinic. `python -m tests.clinic_notebooks` writes them from the files of the cases."""

from __future__ import annotations

from nbdebug.clinic.cases import case_names, clinic_folder, load_case
from nbdebug.clinic.notebook import notebook_json


def expected_notebooks() -> dict[str, str]:
    """Return the text of each notebook by its file name."""
    return {f"{name}.ipynb": notebook_json(load_case(name)) for name in case_names()}


if __name__ == "__main__":
    for file_name, text in expected_notebooks().items():
        (clinic_folder() / file_name).write_text(text, encoding="utf-8")
