"""Tests of the wheel, of the cost of imports and of the source files."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted((ROOT / "nbdebug").rglob("*.py"))
SCRIPTS = sorted((ROOT / "nbdebug").rglob("*.js"))
HEAVY_PACKAGES = ("pandas", "matplotlib", "shap", "anywidget", "ipywidgets", "IPython", "sklearn", "scipy", "torch")


def test_import_of_package_loads_no_heavy_package() -> None:
    code = f"import nbdebug, sys; print([name for name in {HEAVY_PACKAGES} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_checkup_in_script_loads_no_notebook_or_plotting_package() -> None:
    code = (
        "import sys; from nbdebug.debugger import Debugger; from nbdebug.rules.examples import classifier;"
        "Debugger.of(classifier()).checkup();"
        f"print([name for name in {HEAVY_PACKAGES[:6]} if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_watch_in_script_loads_no_other_tool() -> None:
    tools = ["predictions", "slices", "tools.overfit", "tools.lr_range", "tools.errors", "attribution"]
    code = (
        "import nbdebug, sys, torch; model = torch.nn.Linear(2, 2)\n"
        "with nbdebug.watch(model, torch.optim.SGD(model.parameters(), 0.1)):\n"
        "    model(torch.ones(1, 2)).sum().backward()\n"
        f"print([name for name in {tools} if f'nbdebug.{{name}}' in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()[-1] == "[]"


def test_wheel_contains_package_scripts_styles_and_tutorials(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.check_call([*command, str(tmp_path), str(ROOT)])
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {str(path.relative_to(ROOT)) for path in [*MODULES, *SCRIPTS]} <= set(names)
    assert {"nbdebug/py.typed", "nbdebug/views/nbdebug.css"} <= set(names)
    assert {f"nbdebug/notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb")} <= set(names)
    assert not [name for name in names if not name.startswith(("nbdebug/", "nbdebug_torch-"))]
    assert wheel.stat().st_size < 6_000_000


def test_modules_parse_as_python_3_10() -> None:
    for path in MODULES:
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 10))


def test_scripts_contain_no_remote_address() -> None:
    assert [path.name for path in SCRIPTS if re.search(r"https?://", path.read_text(encoding="utf-8"))] == []
