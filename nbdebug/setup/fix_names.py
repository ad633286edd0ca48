"""Write the code of a fix for the user's namespace: with the names of the user's objects, and with its imports."""

from __future__ import annotations

import ast
import sys
from typing import Any

from nbdebug.finding import is_code
from nbdebug.setup.attribute_paths import find_path
from nbdebug.setup.fix_text import IMPORTS, free_names, missing_imports
from nbdebug.setup.notebook_names import user_variables
from nbdebug.setup.setup import Setup


def name_objects(fix: str, setup: Setup) -> str:
    """Return a fix in which the objects of a setup have the names or attribute paths of the notebook.

    The objects are found by identity. A fix that is not Python code, and an object that the notebook does not hold,
    stay as they are.
    """
    variables = user_variables()
    if not variables:
        return fix
    try:
        tree = ast.parse(fix)
    except SyntaxError:
        return fix
    parameters = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id not in parameters]
    roles = {role: item for role, item in setup_objects(setup).items() if any(node.id == role for node in nodes)}
    paths = {role: find_path(item, variables, role) for role, item in roles.items()}
    lines = [line.encode() for line in fix.split("\n")]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        if path := paths.get(node.id, ""):
            line = lines[node.lineno - 1]
            lines[node.lineno - 1] = line[: node.col_offset] + path.encode() + line[node.end_col_offset :]
    return b"\n".join(lines).decode()


def add_imports(fix: str, setup: Setup) -> str:
    """Return a fix with the imports that it needs and that the user's notebook or script lacks."""
    return "\n".join([*missing_imports(fix, _user_namespace(setup).keys()), fix]) if is_code(fix) else fix


def has_known_names(fix: str, setup: Setup) -> bool:
    """Return whether the code of a fix reads only the objects of a setup and what it imports.

    In a notebook, the objects must be in a variable, or in an attribute of one.
    """
    names, variables, objects = free_names(ast.parse(fix)) - IMPORTS.keys(), user_variables(), setup_objects(setup)
    return all(role in objects and (not variables or find_path(objects[role], variables, role)) for role in names)


def _user_namespace(setup: Setup) -> dict[str, Any]:
    """Return the variables of the notebook, else those of the files that created the setup or run its loop."""
    modules = [item for item in [*sys.modules.values()] if getattr(item, "__file__", None) in setup.files]
    return user_variables() or {name: value for module in modules for name, value in vars(module).items()}


def object_path(item: object) -> str:
    """Return the shortest name or attribute path of the notebook that holds an object; "" in a script."""
    return find_path(item, user_variables())


def setup_objects(setup: Setup) -> dict[str, Any]:
    """Return the objects of a setup by the names that fixes use for them; of several optimizers none is meant."""
    roles = {name: getattr(setup, name) for name in ("model", "loss_fn", "train_loader", "val_loader")}
    for role, items in (("optimizer", setup.optimizers), ("scheduler", setup.schedulers)):
        roles[role] = items[0] if len(items) == 1 else None
    return {role: item for role, item in roles.items() if item is not None}
