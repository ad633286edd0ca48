"""Modules and programs made from source text."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any


def load_module(path: Path, text: str) -> ModuleType:
    """Write a module and import it, without registering it."""
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_program(path: Path, text: str) -> dict[str, Any]:
    """Write a program, run it, and return its variables."""
    path.write_text(text, encoding="utf-8")
    variables: dict[str, Any] = {"__name__": path.stem}
    exec(compile(text, str(path), "exec"), variables)
    return variables
