"""The attribute paths of the notebook that hold an object, such as ``trainer.state.optimizer``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

_LEVELS = 2  # trainer.state.optimizer


def find_path(item: object, variables: Mapping[str, Any], preferred: str = "") -> str:
    """Return the shortest name or attribute path that holds an object, ``preferred`` if it does; empty if none does."""
    if variables.get(preferred) is item:
        return preferred
    level = list(variables.items())
    for _ in range(_LEVELS + 1):
        if path := next((path for path, value in level if value is item), ""):
            return path
        level = [(f"{path}.{name}", value) for path, owner in level for name, value in _attributes(owner)]
    return ""


def value_at(path: str, variables: Mapping[str, Any]) -> Any:
    """Return the object that a name or attribute path holds; None if it holds none."""
    name, *rest = path.split(".")
    value = variables.get(name)
    for name in rest:
        value = dict(_attributes(value)).get(name)
    return value


def _attributes(owner: object) -> Iterator[tuple[str, Any]]:
    """Yield the attributes that an object of the user stores itself, without calling code of the user."""
    package = type(owner).__module__.partition(".")[0]
    if isinstance(owner, (ModuleType, type)) or package == "nbdebug":
        return
    try:
        stored = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return
    for part in (stored, stored.get("_modules")):
        if isinstance(part, dict):
            yield from ((n, v) for n, v in part.items() if n.isidentifier() and not n.startswith("_"))
