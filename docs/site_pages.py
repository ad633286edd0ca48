"""The sources of the site: the written pages, and those of rules, symptoms and names that the package describes.

`python -m docs.site_pages FOLDER` writes them all to an empty folder, from which Sphinx builds the site.
"""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import nbdebug
from docs.rule_pictures import run_sections
from nbdebug.rule_engine.rule_registry import Rule, load_rules
from nbdebug.triage.pattern import SymptomCause, SymptomPattern, load_patterns

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = {
    "bad": "Bad example",
    "good": "Good example",
    "bad_loop": "Bad example in a loop",
    "good_loop": "Good example in a loop",
}


def write_pages(folder: Path, runs: Mapping[str, str] | None = None) -> None:
    """Replace a folder by the sources of the site; ``runs`` are sections for the pages of rules, by code."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "rules").mkdir(parents=True)
    for path in [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]:
        (folder / path.name).write_text(move_links(path.read_text(encoding="utf-8")), encoding="utf-8")
    notebooks = ROOT / "notebooks"
    for path in [*notebooks.glob("*.ipynb"), *notebooks.glob("clinic/*.ipynb")]:
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(move_links_of_notebook(path.read_text(encoding="utf-8")), encoding="utf-8")
    shutil.copytree(notebooks / "pictures", folder / "extra/notebooks/pictures")
    shutil.copy(ROOT / "LICENSE", folder)
    generated = {"api.md": api_page(), "faq.md": symptom_page()}
    generated |= {
        f"rules/{code}.md": rule_page(rule, (runs or {}).get(code, "")) for code, rule in load_rules().items()
    }
    for name, text in generated.items():
        (folder / name).write_text(text, encoding="utf-8")
    with (folder / "rules.md").open("a", encoding="utf-8") as page:
        page.write("\n```{toctree}\n:hidden:\n:glob:\n\nrules/*\n```\n")
    with (folder / "clinic.md").open("a", encoding="utf-8") as page:
        page.write("\n```{toctree}\n:hidden:\n:glob:\n\nnotebooks/clinic/*\n```\n")


def move_links(text: str) -> str:
    """Return a page with its links as they are on the site, where docs/ is the root; rows of rules link their pages."""
    text = re.sub(r"\]\((?:\.\./|docs/)", "](", text)
    return re.sub(r"^\| ([A-Z]\d{3,4}) \|", r"| [\1](rules/\1.md) |", text, flags=re.MULTILINE)


def move_links_of_notebook(text: str) -> str:
    """Return a notebook with its links to docs/ as they are on the site, where docs/ is the root."""
    return re.sub(r"\]\(((?:\.\./)+)docs/", r"](\1", text)


def rule_page(rule: Rule, run: str = "") -> str:
    """Return the page of a rule as `nbdebug rule` prints it, what a run of its examples shows, and their source."""
    parts = [f"# {rule.full_page}", *filter(None, [run])]
    for name, title in EXAMPLES.items():
        if hasattr(rule.module, name):
            parts.append(f"## {title}\n\n```python\n{example_source(rule.module, name)}\n```")
    return "\n\n".join(parts) + "\n"


def example_source(module: ModuleType, name: str) -> str:
    """Return the source of a function, with the definitions of its module that it uses, in their order."""
    source = inspect.getsource(module)
    definitions = dict(_definitions(source))
    used, open_names = {name}, [name]
    while open_names:
        names = {node.id for node in ast.walk(definitions[open_names.pop()]) if isinstance(node, ast.Name)}
        open_names += (names & definitions.keys()) - used
        used |= names & definitions.keys()
    lines = source.splitlines()
    return "\n\n\n".join(_source_lines(lines, node) for key, node in definitions.items() if key in used)


def _definitions(source: str) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the functions, classes and constants of a module by name."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Assign):
            yield from ((target.id, node) for target in node.targets if isinstance(target, ast.Name))


def _source_lines(lines: list[str], node: ast.stmt) -> str:
    """Return the lines of a definition, from its first decorator on."""
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
    return "\n".join(lines[first - 1 : node.end_lineno])


def symptom_page() -> str:
    """Return the FAQ: each symptom of triage with its causes, the most common first, and their rules."""
    head = (
        "# FAQ by symptom\n\n"
        "Each symptom has the causes that [triage](triage.md) checks, the most common first. "
        "`dbg.triage()` runs the checks on your own setup and names the cause.\n"
    )
    return head + "\n".join(_symptom_section(pattern) for pattern in load_patterns())


def _symptom_section(pattern: SymptomPattern) -> str:
    causes = sorted(pattern.causes, key=lambda cause: -cause.prior)
    rows = "\n".join(f"| {cause.name} | {_checks(cause)} |" for cause in causes)
    call = f'```python\ndbg.triage("{pattern.name}")\n```'
    return f"\n## {pattern.symptom}\n\n{call}\n\n| cause | check |\n|---|---|\n{rows}\n"


def _checks(cause: SymptomCause) -> str:
    """Return the rules of a cause as links, and its test by hand."""
    rules = [rule for code, rule in load_rules().items() if cause.codes and code.startswith(cause.codes)]
    links = [f"[{rule.code} {rule.name}](rules/{rule.code}.md)" for rule in rules]
    test = f"`{cause.test}`" if cause.test.startswith("dbg.") else cause.test
    return ", ".join([*links, *([test] if test else [])]).replace("|", "\\|")


def api_page() -> str:
    """Return the page of the public names, with a directive of autodoc for each."""
    classes = [name for name in nbdebug.__all__ if inspect.isclass(getattr(nbdebug, name))]
    functions = [name for name in nbdebug.__all__ if name not in classes]
    members = "   :members:\n   :inherited-members: Exception\n"
    parts = ["# Public names\n\n## Classes"]
    parts += [f"```{{eval-rst}}\n.. autoclass:: nbdebug.{name}\n{members}```" for name in classes]
    parts += ["## Functions", *(f"```{{eval-rst}}\n.. autofunction:: nbdebug.{name}\n```" for name in functions)]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]), run_sections(load_rules()))
