"""Packages that a benchmark compares with, where they are installed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def missing_packages(packages: Iterable[str]) -> list[str]:
    """Return the packages that are not installed."""
    return [package for package in packages if find_spec(package) is None]


def skip_text(packages: Iterable[str]) -> str:
    """Return the reason for skipping a comparison, or "" if all packages are installed."""
    missing = missing_packages(packages)
    return f"skipped: {', '.join(missing)} is not installed" if missing else ""


def import_data_module(module: str, package: str) -> Any:
    """Import a module that contains data; exit with the install command if its package is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        raise SystemExit(f"{package} is not installed; expected it for its data. Run pip install {package}.") from error
