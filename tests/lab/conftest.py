"""JupyterLab for the whole session, and notebooks made of lines of code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.browser import absent
from tests.lab.server import Lab, serving


@pytest.fixture(scope="session")
def jupyter_lab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A running server."""
    if find_spec("jupyterlab") is None:
        absent("jupyterlab is not installed")
    with serving(browser, tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture
def notebook(jupyter_lab: Lab, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Writes the sources of code cells as a notebook, and gives its name."""

    def written(*sources: str) -> str:
        import nbformat

        made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source.strip()) for source in sources])
        made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        name = f"{request.node.name}.ipynb"
        nbformat.write(made, Path(jupyter_lab.notebooks, name))
        return name

    return written
