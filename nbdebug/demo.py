"""Run the first tutorial and write its report, or open the tutorial in JupyterLab."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from nbdebug.exceptions import SetupError

FIRST_TUTORIAL = "01_my_model_does_not_learn.ipynb"
PACKAGE_FOLDER = Path(__file__).resolve().parent
TIMEOUT_SECONDS = 600


def tutorial_path() -> Path:
    """Return the path of the tutorial, in the installed package or in a checkout."""
    candidates = [PACKAGE_FOLDER / "notebooks" / FIRST_TUTORIAL, PACKAGE_FOLDER.parent / "notebooks" / FIRST_TUTORIAL]
    return next(path for path in candidates if path.exists())


def run(output: Path) -> int:
    """Execute the tutorial, print the results of the debugger, and write the notebook as HTML to ``output``."""
    print(
        f"Running {FIRST_TUTORIAL}: real handwritten digits, one planted mistake. It takes about half a minute.",
        flush=True,
    )
    notebook = execute_notebook(tutorial_path())
    for text in debugger_texts(notebook):
        print(f"\n{text}")
    output.write_text(notebook_html(notebook), encoding="utf-8")
    print(f"\nThe whole notebook, with its charts: {output}")
    print("To run it live in JupyterLab: nbdebug demo --lab   (in a checkout: make lab)")
    return 0


def execute_notebook(path: Path) -> Any:
    """Return the notebook with the outputs of a fresh run by this interpreter."""
    try:
        import nbformat
        from jupyter_client.kernelspec import KernelSpecManager
        from jupyter_client.manager import AsyncKernelManager
        from nbclient import NotebookClient
    except ImportError as error:
        raise _missing_lab_error(error) from error
    notebook: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    # Without kernel directories only one kernel is available: the running interpreter.
    kernel = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    options = {
        "resources": {"metadata": {"path": str(path.parent)}},
        "extra_arguments": ["--log-level=ERROR"],
        "store_widget_state": False,  # a finished live view is a static page
    }
    client = NotebookClient(notebook, km=kernel, timeout=TIMEOUT_SECONDS, **options)
    client.owns_km = True  # otherwise the kernel runs until this process ends
    return client.execute()


def debugger_texts(notebook: Any) -> list[str]:
    """Return the text outputs of the debugger in a notebook, in order, without the line on saved copies."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    texts = (output.get("data", {}).get("text/plain", "") for output in outputs)
    return [re.sub(r"\n.*jupyter trust.*", "", text) for text in texts if text.startswith("nbdebug")]


def notebook_html(notebook: Any) -> str:
    """Return a notebook as one HTML page that loads nothing from the network."""
    try:
        from nbconvert import HTMLExporter
    except ImportError as error:
        raise _missing_lab_error(error) from error
    offline = {name: "" for name in HTMLExporter.class_trait_names() if name.endswith("_url")}
    body, _ = HTMLExporter(**offline).from_notebook_node(notebook)  # type: ignore[no-untyped-call]
    return str(body)


def open_lab() -> int:
    """Open JupyterLab on the first tutorial, after copying all tutorials to the working directory."""
    if shutil.which("jupyter-lab", path=str(Path(sys.executable).parent)) is None:
        raise _missing_lab_error(None)
    for notebook in tutorial_path().parent.glob("*.ipynb"):
        if not (Path.cwd() / notebook.name).exists():
            shutil.copyfile(notebook, Path.cwd() / notebook.name)
    # Jupyter asks for this in a container, where everyone is root.
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return subprocess.call([sys.executable, "-m", "jupyterlab", *as_root, str(Path.cwd() / FIRST_TUTORIAL)])


def _missing_lab_error(error: ImportError | None) -> SetupError:
    """Return the error for a missing JupyterLab, with the command that installs it."""
    missing = error.name if error else "jupyterlab"
    return SetupError(f"{missing} is not installed; expected it for tutorials. Run pip install {missing}.")
