"""Tests that hold the instructions for coding assistants to the commands and the API."""

from __future__ import annotations

import inspect
import re
import shlex

import pytest

import nbdebug
from nbdebug import cli
from nbdebug.commands.pages import SKILL_FILE
from nbdebug.rule_engine import rule_registry
from nbdebug.watching.watch import Watch

TEXT = SKILL_FILE.read_text(encoding="utf-8")
OWNERS = {"dbg": nbdebug.Debugger, "nbdebug": nbdebug, "run": Watch}
COMMANDS = re.findall(r"`(?:git bisect run )?(nbdebug [^`]+)`", TEXT)
CALLS = re.findall(r"\b(dbg|nbdebug|run)\.(\w+)\(([^()]*)\)", TEXT)


def test_skill_command_prints_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["skill"]) == 0
    assert capsys.readouterr().out == TEXT
    assert TEXT.startswith("---\nname: nbdebug\ndescription: ")


def test_skill_names_commands_and_calls() -> None:
    assert len(COMMANDS) >= 5
    assert len(CALLS) >= 20


@pytest.mark.parametrize("command", COMMANDS)
def test_command_of_skill_parses(command: str) -> None:
    options = cli.parse(shlex.split(command)[1:])
    assert callable(options.run)
    assert getattr(options, "arguments", []) in ([], ["--epochs", "1"])


@pytest.mark.parametrize(("owner", "name", "arguments"), CALLS)
def test_call_of_skill_fits_signature(owner: str, name: str, arguments: str) -> None:
    function = getattr(OWNERS[owner], name)
    values = [part.strip() for part in re.sub(r"\{[^}]*\}", "curves", arguments).split(",") if part.strip()]
    keywords = {part.partition("=")[0]: None for part in values if "=" in part}
    positional = [part for part in values if "=" not in part]
    own = [None] if inspect.isfunction(function) and owner != "nbdebug" else []
    inspect.signature(function).bind(*own, *positional, **keywords)


def test_codes_and_keys_of_skill_exist() -> None:
    codes = set(re.findall(r"\b[A-Z]\d{3,4}\b", TEXT))
    assert codes <= rule_registry.load_rules().keys()
    attributes = set(re.findall(r"\bdbg\.(\w+)", TEXT))
    assert all(hasattr(nbdebug.Debugger, name) for name in attributes)
