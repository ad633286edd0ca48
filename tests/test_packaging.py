"""What is shipped, what an import costs, and the rules of the house that a machine can hold."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from nbdebug.rule_engine import rule_registry
from tests.rule_table import expected_table, written_table

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = sorted((ROOT / "nbdebug").rglob("*.py"))
BROWSER = sorted((ROOT / "nbdebug").rglob("*.js"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
TUTORIALS = sorted((ROOT / "notebooks").glob("*.ipynb"))
WORD_LISTS = ("vocabulary.md", "CONTRIBUTING.md", "rules.md")  # these quote retired words, or the pages of rules
HEAVY = ("pandas", "matplotlib", "shap", "anywidget", "ipywidgets", "IPython", "sklearn", "scipy", "torch")


def test_an_import_brings_nothing_heavy() -> None:
    code = f"import nbdebug, sys; print([name for name in {HEAVY} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_checkup_in_a_script_brings_nothing_of_the_notebook() -> None:
    code = (
        "import sys; from nbdebug.debugger import Debugger; from nbdebug.rules.examples import classifier;"
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
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 450
    assert not re.fullmatch(r"(utils?|helpers?|common|misc|manager|base_cls)", path.stem)


@pytest.mark.parametrize("path", PACKAGE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_python_3_10(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10))


def test_the_browser_code_names_no_remote_address() -> None:
    assert [path.name for path in BROWSER if re.search(r"https?://", path.read_text(encoding="utf-8"))] == []


def test_the_documentation_lists_every_rule() -> None:
    assert written_table() == expected_table(), (
        f"run python -m tests.rule_table; the table should be\n{expected_table()}"
    )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_the_documentation_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"", text)
    for target, _, anchor in (("".join(link)).partition("#") for link in links):
        page = (path.parent / target).resolve() if target else path
        assert page.exists(), target
        assert not anchor or anchor in headings(page), f"{target}#{anchor}"


def headings(page: Path) -> set[str]:
    """Return the anchors of a page: its headings in lower case, with hyphens for spaces."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_the_readme_leads_to_every_page_and_tutorial_and_names_the_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "notebooks").glob("*.ipynb")]
    assert [path.name for path in pages if f"({path.relative_to(ROOT).as_posix()})" not in readme] == []
    assert [command for command in ("\nmake demo ", "\nmake test ", "`make lab`") if command not in readme] == []
    assert f"{len(rule_registry.load_rules())} rules" in readme


@pytest.mark.parametrize("path", [page for page in PAGES if page.name not in WORD_LISTS], ids=lambda path: path.name)
def test_the_documentation_uses_no_retired_word(path: Path) -> None:
    assert retired_words_in(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.name)
def test_the_tutorials_use_no_retired_word(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    prose = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    assert retired_words_in("\n".join(prose)) == []


def test_the_package_uses_no_retired_word() -> None:
    paths = [path for suffix in ("py", "js") for path in (ROOT / "nbdebug").rglob(f"*.{suffix}")]
    retired = {path.name: retired_words_in(path.read_text(encoding="utf-8")) for path in paths}
    assert len(paths) > 400
    assert {name: words for name, words in retired.items() if words} == {}


def retired_words_in(text: str) -> list[str]:
    """Return the words of the list in docs/vocabulary.md that a text uses, whatever its line breaks."""
    vocabulary = (ROOT / "docs/vocabulary.md").read_text(encoding="utf-8")
    listed = vocabulary.partition("<!-- retired: begin -->")[2].partition("<!-- retired: end -->")[0]
    words = re.findall(r"^\| `([^`]+)` \|", listed, re.MULTILINE)
    assert words
    return [word for word in words if re.search(rf"\b{re.escape(word)}\b", " ".join(text.split()), re.IGNORECASE)]
