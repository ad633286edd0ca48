"""Modules as pages carry them: shorter, and saying the same."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from nbdebug.views.page import LOCAL_IMPORT, PACKAGE_FOLDER, inline_module

ENTRIES = sorted(path for path in PACKAGE_FOLDER.rglob("*.js") if "export default" in path.read_text())
DECLARED = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", re.M)


def test_texts_inside_texts_keep_their_spaces(tmp_path: Path) -> None:
    line = 'const said=`a, ${b?`, c + d ${e} ; f`:"g ; h"} i`;'
    (tmp_path / "one.js").write_text(f"// why\n  {line.replace('?', ' ? ').replace('=', ' = ')}\n")
    assert inline_module(tmp_path / "one.js").strip() == line.replace("?", " ? ")


def reached(path: Path) -> set[Path]:
    """A module with all that it is inlined with."""
    found, waiting = set[Path](), [path]
    while waiting:
        here = waiting.pop()
        found.add(here)
        near = ((here.parent / name).resolve() for name in LOCAL_IMPORT.findall(here.read_text()))
        waiting += [one for one in near if one not in found]
    return found


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda path: path.name)
def test_no_two_modules_of_a_page_give_one_name(entry: Path) -> None:
    names = Counter(name for path in reached(entry) for name in DECLARED.findall(path.read_text()))
    assert not [name for name, times in names.items() if times > 1]
