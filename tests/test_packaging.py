"""Tests of the wheel, of the cost of imports and of the source files."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted((ROOT / "nbdebug").rglob("*.py"))
SCRIPTS = sorted((ROOT / "nbdebug").rglob("*.js"))
HEAVY_PACKAGES = ("pandas", "matplotlib", "shap", "anywidget", "ipywidgets", "IPython", "sklearn", "scipy", "torch")


TOOLS = ("predictions", "slices", "tools.overfit", "tools.lr_range", "tools.errors", "attribution")
# Prints the packages and tools that the import, then a watch, then a checkup have loaded, each on a line.
SCRIPT = f"""
import contextlib, io, sys

def print_loaded(names):
    print([name for name in names if name in sys.modules], file=sys.__stdout__)

import nbdebug
print_loaded({HEAVY_PACKAGES})
import torch
with contextlib.redirect_stdout(io.StringIO()):
    model = torch.nn.Linear(2, 2)
    with nbdebug.watch(model, torch.optim.SGD(model.parameters(), 0.1)):
        model(torch.ones(1, 2)).sum().backward()
    print_loaded({[*(f"nbdebug.{tool}" for tool in TOOLS), "scipy"]})
    from nbdebug.debugger import Debugger
    from nbdebug.rules.examples import classifier
    Debugger.of(classifier()).checkup()
    print_loaded({HEAVY_PACKAGES[:6]})
"""


@pytest.fixture(scope="module")
def loaded_packages() -> list[str]:
    """What one script has loaded after each of its steps."""
    return subprocess.check_output([sys.executable, "-c", SCRIPT], text=True).splitlines()


def test_import_of_package_loads_no_heavy_package(loaded_packages: list[str]) -> None:
    assert loaded_packages[0] == "[]"


def test_watch_in_script_loads_no_other_tool_and_no_scipy(loaded_packages: list[str]) -> None:
    assert loaded_packages[1] == "[]"


def test_checkup_in_script_loads_no_notebook_or_plotting_package(loaded_packages: list[str]) -> None:
    assert loaded_packages[2] == "[]"


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the source distribution and of the wheel, both built from the sources."""
    folder = tmp_path_factory.mktemp("distributions")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(folder)]
    subprocess.check_call(build, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    """The wheel."""
    return next(distributions.glob("*.whl"))


def install(distribution: Path, site: Path) -> Path:
    """Install a distribution in an empty folder, without its dependencies, and return the folder."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.check_call([*pip, "--no-build-isolation", "--target", str(site), str(distribution)])
    return site


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the wheel is installed."""
    return install(wheel, tmp_path_factory.mktemp("installed") / "site")


def test_wheel_contains_package_scripts_styles_and_tutorials(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {str(path.relative_to(ROOT)) for path in [*MODULES, *SCRIPTS]} <= set(names)
    assert {"nbdebug/py.typed", "nbdebug/views/nbdebug.css"} <= set(names)
    assert {f"nbdebug/notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb")} <= set(names)
    assert not [name for name in names if not name.startswith(("nbdebug/", "nbdebug_torch-"))]
    assert wheel.stat().st_size < 7_500_000


def test_installed_wheel_runs_without_the_sources(site: Path, tmp_path: Path) -> None:
    code = (
        "import nbdebug; from nbdebug.debugger import Debugger; from nbdebug.rules.examples import classifier;"
        "import torch; report = Debugger.of(classifier(torch.nn.Softmax(1))).checkup('quick'); report.to_html();"
        "print(nbdebug.__file__, [finding.code for finding in report.faults])"
    )
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-c", code]
    output = subprocess.check_output(command, cwd=tmp_path, env=environment, text=True, stderr=subprocess.DEVNULL)
    assert output.split("\n")[0] == f"{site}/nbdebug/__init__.py ['L201']"
    script = subprocess.check_output([site / "bin/nbdebug", "rule", "L201"], env=environment, text=True)
    assert script.startswith("L201 softmax-before-cross-entropy")


def test_installed_source_distribution_is_the_installed_wheel(distributions: Path, site: Path, tmp_path: Path) -> None:
    (source,) = distributions.glob("*.tar.gz")
    # RECORD lists the others, and direct_url.json names the file that was installed.
    assert read_installed_files(install(source, tmp_path / "site")) == read_installed_files(site)


def read_installed_files(site: Path) -> dict[str, bytes]:
    """Return the contents of all installed files, by path."""
    files = (path for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc")
    own = (path for path in files if path.name not in ("RECORD", "direct_url.json"))
    return {str(path.relative_to(site)): path.read_bytes() for path in own}


def test_modules_parse_as_python_3_10() -> None:
    for path in MODULES:
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 10))


def test_scripts_contain_no_remote_address() -> None:
    assert [path.name for path in SCRIPTS if re.search(r"https?://", path.read_text(encoding="utf-8"))] == []
