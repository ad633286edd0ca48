"""What is shipped, what an import costs, and the rules of the house that a machine can hold."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from nbdebug import registry

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = sorted((ROOT / "nbdebug").rglob("*.py"))
BROWSER = sorted((ROOT / "nbdebug").rglob("*.js"))
HEAVY = ("pandas", "matplotlib", "shap", "anywidget", "ipywidgets", "IPython", "sklearn", "scipy", "torch")


def test_an_import_brings_nothing_heavy() -> None:
    code = f"import nbdebug, sys; print([name for name in {HEAVY} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_checkup_in_a_script_brings_nothing_of_the_notebook() -> None:
    code = (
        "import sys; from nbdebug.debugger import Debugger; from nbdebug.rules.programs import classifier;"
        "Debugger.of(classifier()).checkup();"
        f"print([name for name in {HEAVY[:6]} if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_watch_brings_no_tool_that_it_does_not_use() -> None:
    tools = ["predictions", "slices", "tools.overfit", "tools.lr_range", "tools.errors", "attribution"]
    code = (
        "import nbdebug, sys, torch; model = torch.nn.Linear(2, 2)\n"
        "with nbdebug.watch(model, torch.optim.SGD(model.parameters(), 0.1)):\n"
        "    model(torch.ones(1, 2)).sum().backward()\n"
        f"print([name for name in {tools} if f'nbdebug.{{name}}' in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()[-1] == "[]"


def test_the_wheel_holds_the_package_its_browser_code_and_the_tutorial(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.check_call([*command, str(tmp_path), str(ROOT)])
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {str(path.relative_to(ROOT)) for path in [*PACKAGE, *BROWSER]} <= set(names)
    assert {"nbdebug/py.typed", "nbdebug/views/nbdebug.css"} <= set(names)
    assert {f"nbdebug/notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb")} <= set(names)
    assert not [name for name in names if not name.startswith(("nbdebug/", "nbdebug-"))]
    assert wheel.stat().st_size < 3_500_000


@pytest.mark.parametrize("path", [*PACKAGE, *BROWSER], ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_short_and_named_for_what_it_holds(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 300
    assert not re.fullmatch(r"(utils?|helpers?|common|misc|manager|base_cls)", path.stem)


@pytest.mark.parametrize("path", PACKAGE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_python_3_10(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10))


def test_the_browser_code_names_no_remote_address() -> None:
    assert [path.name for path in BROWSER if re.search(r"https?://", path.read_text(encoding="utf-8"))] == []


def test_the_readme_lists_every_rule() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.partition("<!-- rules: begin -->\n")[2].partition("<!-- rules: end -->")[0]
    rows = [
        f"| {one.code} | {one.name} | {one.severity} | {one.page.splitlines()[0]} |" for one in registry.load().values()
    ]
    wanted = "\n".join(["| code | name | severity | says |", "|---|---|---|---|", *rows]) + "\n"
    assert table == wanted, f"the table should be\n{wanted}"
