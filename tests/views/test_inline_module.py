"""Tests of JavaScript modules that are inlined into pages."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from nbdebug.views.page import LOCAL_IMPORT, PACKAGE_FOLDER, inline_module

PAGE_MODULES = sorted(path for path in PACKAGE_FOLDER.rglob("*.js") if "export default" in path.read_text())
DECLARATION = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", re.M)


def test_inline_module_keeps_spaces_in_nested_template_literals(tmp_path: Path) -> None:
    line = 'const text=`a, ${b?`, c + d ${e} ; f`:"g ; h"} i`;'
    (tmp_path / "module.js").write_text(f"// why\n  {line.replace('?', ' ? ').replace('=', ' = ')}\n")
    assert inline_module(tmp_path / "module.js").strip() == line.replace("?", " ? ")


def inlined_modules(path: Path) -> set[Path]:
    """A module and all modules that are inlined into it."""
    modules, pending_modules = set[Path](), [path]
    while pending_modules:
        module = pending_modules.pop()
        modules.add(module)
        imports = ((module.parent / name).resolve() for name in LOCAL_IMPORT.findall(module.read_text()))
        pending_modules += [imported_module for imported_module in imports if imported_module not in modules]
    return modules


@pytest.mark.parametrize("page_module", PAGE_MODULES, ids=lambda path: path.name)
def test_page_modules_declare_unique_names(page_module: Path) -> None:
    names = Counter(name for path in inlined_modules(page_module) for name in DECLARATION.findall(path.read_text()))
    assert not [name for name, count in names.items() if count > 1]
