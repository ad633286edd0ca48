"""The cells of a notebook whose code is current: those that were edited and run again replace their earlier form."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Mapping
from functools import lru_cache


def current_cells() -> list[str]:
    """Return the file names of the cells that were run, without earlier forms of a cell; none in a script."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return without_earlier_forms(getattr(getattr(shell, "compile", None), "_filename_map", {}))


def without_earlier_forms(cells: Mapping[str, int]) -> list[str]:
    """Return the file names of cells, of which the numbers are given, without those that a later cell replaces.

    A later cell replaces one that defines the same variables, functions and classes. Cells that define nothing stay.
    """
    last: dict[frozenset[str], str] = {}
    for file, _ in sorted(cells.items(), key=lambda item: item[1]):
        last[_defined_names("".join(linecache.getlines(file))) or frozenset({file})] = file
    return list(last.values())


@lru_cache(1024)
def _defined_names(source: str) -> frozenset[str]:
    """Return the names that the top level of a cell defines; empty if it is not plain Python."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return frozenset()
    names: set[str] = set()
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(statement.name)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            nodes = (node for target in targets for node in ast.walk(target))
            names |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return frozenset(names)
