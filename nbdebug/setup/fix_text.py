"""The text of a fix: the names that its code needs, and code as a sentence where it cannot be run as it is."""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator

IMPORTS = {
    **{name: f"import {name}" for name in ("copy", "math", "random", "torch")},
    **{
        name: f"from torch.utils.data import {name}"
        for name in ("DataLoader", "Subset", "TensorDataset", "WeightedRandomSampler")
    },
    "F": "import torch.nn.functional as F",
    "nn": "from torch import nn",
    "np": "import numpy as np",
    "pd": "import pandas as pd",
    "train_test_split": "from sklearn.model_selection import train_test_split",
}


_PLACE = re.compile(r"# *(?:at|before|after|inside|in) ")
_LEADS_TO_CODE = frozenset({"use", "and", "with", "on"})


def free_names(tree: ast.Module) -> set[str]:
    """Return the names that code reads before it defines them, without those of Python."""
    return _free_names(tree.body, set(vars(builtins)))


def missing_imports(fix: str, names: Collection[str]) -> list[str]:
    """Return the imports of the names that the code of a fix needs and that are not among ``names``."""
    return sorted(IMPORTS[name] for name in free_names(ast.parse(fix)) - set(names) if name in IMPORTS)


def _free_names(statements: Iterable[ast.stmt], defined: set[str]) -> set[str]:
    """Return the free names of statements in their order, and add the names that they define to ``defined``."""
    free: set[str] = set()
    for statement in statements:
        body = [part for part in ast.iter_child_nodes(statement) if isinstance(part, ast.stmt)]
        header = [part for part in ast.iter_child_nodes(statement) if not isinstance(part, ast.stmt)]
        names = [node for part in header for node in ast.walk(part) if isinstance(node, ast.Name)]
        stored = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
        is_updated = isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name)
        inner = set(_inner_names(header)) | (stored if body else set())
        free |= {node.id for node in names if isinstance(node.ctx, ast.Load) or is_updated} - defined - inner
        defined |= stored | {alias.asname or alias.name.partition(".")[0] for alias in _aliases(statement)}
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            defined.add(statement.name)
        free |= _free_names(body, defined | inner)
    return free


def _inner_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the parameters and the variables of comprehensions in some nodes."""
    for node in (child for part in nodes for child in ast.walk(part)):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.comprehension):
            yield from (child.id for child in ast.walk(node.target) if isinstance(child, ast.Name))


def _aliases(node: ast.AST) -> list[ast.alias]:
    return node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else []


def is_part_of_fix(fix: str) -> bool:
    """Return whether a comment on a line of its own says what else to do, so that the code is not the whole fix."""
    return any(line.lstrip().startswith("#") for line in fix.splitlines())


def assigns_itself(fix: str) -> bool:
    """Return whether a fix is one assignment of a variable to itself, so that the line is to be deleted."""
    try:
        statements = ast.parse(fix).body
    except SyntaxError:
        return False
    statement = statements[0] if len(statements) == 1 else None
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == ast.unparse(statement.value)


def names_place(fix: str) -> bool:
    """Return whether a comment says where in the user's code the fix belongs."""
    return bool(_PLACE.search(fix))


def write_as_sentence(fix: str) -> str:
    """Return the code of a fix as a sentence: ``Write `x = torch.relu(x)` (between the two layers).``"""
    text, previous = "", ""
    for kind, part in _parts(fix):
        if kind == "lead":
            text += f"; {part}" if text else f"{part[:1].upper()}{part[1:]}"
        elif kind == "note":
            text += f" ({part})"
        elif previous == "lead":
            text += f"{'' if text.split()[-1] in _LEADS_TO_CODE else ':'} `{part}`"
        elif text:
            text += f", then `{part}`"
        else:
            text = f"{'Use' if isinstance(ast.parse(part).body[0], ast.Expr) else 'Write'} `{part}`"
        previous = kind
    return f"{text.rstrip('.')}."


def _parts(fix: str) -> Iterator[tuple[str, str]]:
    """Yield the statements of a fix except imports, each in one line, and its comments.

    A comment is a note on the statement before it, or leads to the next one if it has its own line.
    """
    lines, tokens = fix.splitlines(), tokenize.generate_tokens(io.StringIO(fix).readline)
    comments = {
        token.start[0]: token.string.strip("# ").rstrip(".:,") for token in tokens if token.type == tokenize.COMMENT
    }
    for first, last in _line_ranges(fix):
        yield from (("lead", comments.pop(line)) for line in sorted(comments) if line < first)
        source = "\n".join(lines[first - 1 : last])
        if not isinstance(ast.parse(source).body[0], (ast.Import, ast.ImportFrom)):
            yield "code", _one_line(source)
        yield from (("note", comments.pop(line)) for line in sorted(comments) if line <= last)
    yield from (("note", comment) for comment in comments.values())


def _line_ranges(source: str) -> list[tuple[int, int]]:
    """Return the first and the last line of each statement; statements that share a line count as one."""
    ranges: list[tuple[int, int]] = []
    for statement in ast.parse(source).body:
        if ranges and statement.lineno <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], statement.end_lineno or statement.lineno)
        else:
            ranges.append((statement.lineno, statement.end_lineno or statement.lineno))
    return ranges


def _one_line(source: str) -> str:
    """Return statements in one line, without comments."""
    lines = [source.partition("#")[0]] if "\n" not in source else ast.unparse(ast.parse(source)).splitlines()
    return "; ".join(line.strip() for line in lines).replace(":; ", ": ")
