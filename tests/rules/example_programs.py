"""The examples of the rules as programs of their own, so that their lines are the user's and can be changed."""

from __future__ import annotations

import ast
import inspect
from types import ModuleType

from nbdebug.rule_engine.rule_registry import Rule
from nbdebug.rules import examples


def example_source(rule: Rule, *names: str) -> str:
    """Return a program with some functions of a rule's example, and all that they use of its file and of the kit."""
    kit, own = _statements(examples), _statements(rule.module)
    used: dict[str, ast.stmt] = {}
    missing = [*names]
    while missing:
        name = missing.pop()
        statement = own.get(name, kit.get(name))
        if isinstance(statement, ast.ImportFrom) and statement.module == examples.__name__:
            statement = kit[name]
        if name not in used and statement is not None:
            used[name] = statement
            missing += [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
    imports = [ast.unparse(_only(name, item)) for name, item in used.items() if _is_import(item)]
    lines = {item for item in used.values() if not _is_import(item)}
    order = [item for item in [*kit.values(), *own.values()] if item in lines]
    texts = [_text(examples if item in kit.values() else rule.module, item) for item in dict.fromkeys(order)]
    return "\n".join(["from __future__ import annotations", *sorted(imports), *texts])


def _statements(module: ModuleType) -> dict[str, ast.stmt]:
    """Return the statement that defines or imports each name of a module."""
    found: dict[str, ast.stmt] = {}
    for statement in ast.parse(inspect.getsource(module)).body:
        parts = statement.body if isinstance(statement, ast.If) else [statement]  # imports for types only
        for part in parts:
            found |= dict.fromkeys(_defined(part), part)
    return found


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    return [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def _is_import(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Import, ast.ImportFrom))


def _only(name: str, statement: ast.stmt) -> ast.stmt:
    """Return an import of one name out of several."""
    assert isinstance(statement, (ast.Import, ast.ImportFrom))
    kept = [alias for alias in statement.names if name in (alias.asname, alias.name.partition(".")[0])]
    if isinstance(statement, ast.Import):
        return ast.Import(kept)
    return ast.ImportFrom(statement.module, kept, statement.level)


def _text(module: ModuleType, statement: ast.stmt) -> str:
    return ast.get_source_segment(inspect.getsource(module), statement) or ""
