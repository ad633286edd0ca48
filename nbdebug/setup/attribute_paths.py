"""The paths of the notebook that hold an object: attributes and items, such as ``trainer.models["teacher"]``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from torch import nn

_LEVELS = 2  # trainer.state.optimizer
_MAX_ITEMS = 100  # a container with more of them holds data
_STEPS = re.compile(r'\.\w+|\[-?\d+\]|\["(?:\\.|[^"\\])*"\]')
_NUMBERED_MODULES = (nn.ModuleList, nn.Sequential)


def member_code(path: str) -> str:
    """Return the expression of a module or a parameter of a model: ``model.layers[0].weight`` for layers.0.weight."""
    return "model" + "".join(f"[{name}]" if name.isdecimal() else f".{name}" for name in path.split(".") if name)


def find_path(item: object, variables: Mapping[str, Any], preferred: str = "") -> str:
    """Return the shortest name or path that holds an object, ``preferred`` if it does; empty if none does."""
    if variables.get(preferred) is item:
        return preferred
    level = list(variables.items())
    for _ in range(_LEVELS + 1):
        if path := next((path for path, value in level if value is item), ""):
            return path
        level = [(f"{path}{step}", value) for path, owner in level for step, value in _parts(owner)]
    return ""


def value_at(path: str, variables: Mapping[str, Any], earlier: object = None) -> Any:
    """Return the object that a name or path holds; None if it holds none.

    A list that still has the ``earlier`` object holds that one, as its items may have moved.
    """
    steps = _STEPS.findall(path)
    value = variables.get(path.removesuffix("".join(steps)))
    for step in steps:
        parts = dict(_parts(value))
        has_moved = isinstance(value, list) and any(part is earlier for part in parts.values())
        value = earlier if has_moved else parts.get(step)
    return value


def _parts(owner: object) -> Iterator[tuple[str, Any]]:
    """Yield the attributes and items that an object of the user stores itself, without calling code of the user."""
    package = type(owner).__module__.partition(".")[0]
    if isinstance(owner, (ModuleType, type)) or package == "nbdebug":
        return
    yield from _items(owner)
    try:
        stored = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return
    modules = None if isinstance(owner, (nn.ModuleDict, *_NUMBERED_MODULES)) else stored.get("_modules")
    for part in (stored, modules):
        if isinstance(part, dict):
            yield from ((f".{n}", v) for n, v in part.items() if n.isidentifier() and not n.startswith("_"))


def _items(owner: object) -> Iterator[tuple[str, Any]]:
    """Yield the items of a short list or dictionary, or of a container of modules."""
    items: list[tuple[object, Any]] = []
    if isinstance(owner, dict) and dict.__len__(owner) <= _MAX_ITEMS:
        items = list(dict.items(owner))
    elif isinstance(owner, list) and list.__len__(owner) <= _MAX_ITEMS:
        items = list(enumerate(list.__iter__(owner)))
    elif isinstance(owner, nn.ModuleDict):
        items = list(owner._modules.items())
    elif isinstance(owner, _NUMBERED_MODULES):
        items = list(enumerate(owner._modules.values()))
    for key, value in items:
        if type(key) is str:
            yield f"[{json.dumps(key, ensure_ascii=False)}]", value
        elif type(key) is int:
            yield f"[{key}]", value
