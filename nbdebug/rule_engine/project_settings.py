"""The section ``[tool.nbdebug]`` of the ``pyproject.toml`` of a project: rules to run, to skip, and their options."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.validation import describe_value, validate_keywords

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_SECTION = "tool.nbdebug"
_KEYS = ("select", "ignore", "options")


@dataclass(frozen=True)
class _ProjectSettings:
    """Prefixes of the codes to run (None for all) and to skip, and options of rules by code.

    ``file`` is None without such a section. ``trouble`` says why the section cannot be used; the settings are then
    those of a project without one.
    """

    file: Path | None = None
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    trouble: str = ""

    def selects(self, code: str) -> bool:
        """Return whether the project runs the rule with a code."""
        return code.startswith(self.select if self.select is not None else "") and not code.startswith(self.ignore)


def read_project_settings() -> _ProjectSettings:
    """Return the settings of the nearest ``pyproject.toml`` with the section, from the working folder upwards.

    The working folder of a kernel is that of its notebook. A changed file is read again.
    """
    try:
        folder = Path.cwd()
    except FileNotFoundError:  # the folder was deleted while the kernel ran
        return _ProjectSettings()
    for parent in (folder, *folder.parents):
        file = parent / "pyproject.toml"
        try:
            settings = _read_file(file, file.stat().st_mtime_ns)
        except OSError:
            continue
        if settings is not None:
            return settings
    return _ProjectSettings()


@lru_cache(maxsize=32)
def _read_file(file: Path, _changed_ns: int) -> _ProjectSettings | None:
    """Return the settings of one file; None without the section. Files of others may have any mistake."""
    text = file.read_text(encoding="utf-8", errors="replace")
    if _SECTION not in text:
        return None
    try:
        section = tomllib.loads(text).get("tool", {}).get("nbdebug")
        return None if section is None else _parse_section(file, section)
    except tomllib.TOMLDecodeError as error:
        return _ProjectSettings(file, trouble=f"{file} is no valid TOML ({error}); expected TOML. Correct it.")
    except SetupError as error:
        return _ProjectSettings(file, trouble=str(error))


def _parse_section(file: Path, section: Any) -> _ProjectSettings:
    """Return the settings in a section; raise SetupError for an unknown key or a value of another type."""
    _check_type(f"[{_SECTION}]", file, section, dict, "a table")
    validate_keywords(section, _KEYS, f"[{_SECTION}] in {file}")
    codes: dict[str, tuple[str, ...]] = {}
    for key in ("select", "ignore"):
        if (value := section.get(key)) is not None:
            items = [value] if isinstance(value, str) else value
            is_list = isinstance(items, list) and all(isinstance(item, str) for item in items)
            _check_type(key, file, items if is_list else value, list if is_list else (), 'codes such as ["L", "M301"]')
            codes[key] = tuple(items)
    options = section.get("options", {})
    _check_type("options", file, options, dict, "a table for each code")
    for code, rule_options in options.items():
        _check_type(f"options.{code}", file, rule_options, dict, "a table of options")
    return _ProjectSettings(file, codes.get("select"), codes.get("ignore", ()), options)


def _check_type(name: str, file: Path, value: Any, kind: Any, expected: str) -> None:
    if not isinstance(value, kind):
        raise SetupError(f"{name} in {file} is {describe_value(value)}; expected {expected}. Correct the file.")
