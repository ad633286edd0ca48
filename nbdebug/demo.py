"""The first tutorial, run without a browser."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from nbdebug.exceptions import SetupError

NAME = "01_my_model_does_not_learn.ipynb"
HERE = Path(__file__).resolve().parent
SECONDS = 600


def tutorial() -> Path:
    """The notebook, as installed with the package or as it lies in a checkout."""
    places = [HERE / "notebooks" / NAME, HERE.parent / "notebooks" / NAME]
    return next(path for path in places if path.exists())


def run(output: Path) -> int:
    """Executes the tutorial, prints what the debugger said in it, and writes it as a page to ``output``."""
    print(f"Running {NAME}: real handwritten digits, one planted mistake. It takes about half a minute.", flush=True)
    notebook = executed(tutorial())
    for text in said(notebook):
        print(f"\n{text}")
    output.write_text(page(notebook), encoding="utf-8")
    print(f"\nThe whole notebook, with its charts: {output}")
    print("To run it live in JupyterLab: nbdebug demo --lab   (in a checkout: make lab)")
    return 0


def executed(path: Path) -> Any:
    """The notebook at ``path`` with the outputs of a fresh run by this interpreter."""
    try:
        import nbformat
        from jupyter_client.kernelspec import KernelSpecManager
        from jupyter_client.manager import AsyncKernelManager
        from nbclient import NotebookClient
    except ImportError as error:
        raise needs_lab(error) from error
    notebook: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    # Without any directory of kernels there is one kernel left: the interpreter that runs this.
    kernel = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    options = {
        "resources": {"metadata": {"path": str(path.parent)}},
        "extra_arguments": ["--log-level=ERROR"],
        "store_widget_state": False,  # what is left of a live view is a static page
    }
    return NotebookClient(notebook, km=kernel, timeout=SECONDS, **options).execute()


def said(notebook: Any) -> list[str]:
    """What the debugger said in a notebook, as text, in order."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    texts = (output.get("data", {}).get("text/plain", "") for output in outputs)
    return [text for text in texts if text.startswith("nbdebug")]


def page(notebook: Any) -> str:
    """A notebook as one HTML page that reads nothing from the network."""
    try:
        from nbconvert import HTMLExporter
    except ImportError as error:
        raise needs_lab(error) from error
    offline = {name: "" for name in HTMLExporter.class_trait_names() if name.endswith("_url")}
    body, _ = HTMLExporter(**offline).from_notebook_node(notebook)  # type: ignore[no-untyped-call]
    return str(body)


def open_lab() -> int:
    """Opens JupyterLab on the first tutorial; copies of all lie in the working directory then."""
    if shutil.which("jupyter-lab", path=str(Path(sys.executable).parent)) is None:
        raise needs_lab(None)
    for notebook in tutorial().parent.glob("*.ipynb"):
        if not (Path.cwd() / notebook.name).exists():
            shutil.copyfile(notebook, Path.cwd() / notebook.name)
    # Jupyter asks for this in a container, where everyone is root.
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return subprocess.call([sys.executable, "-m", "jupyterlab", *as_root, str(Path.cwd() / NAME)])


def needs_lab(error: ImportError | None) -> SetupError:
    """What to say where the notebook tools are not installed."""
    missing = error.name if error else "jupyterlab"
    return SetupError(f"{missing} is not installed; expected the extra lab. Run pip install 'nbdebug[lab]'.")
