"""The command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nbdebug import cli, demo


def test_the_page_of_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rule", "l201"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("L201 softmax-before-cross-entropy (error)")
    assert "## How to fix" in page


def test_the_list_of_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rule"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == sorted(lines)
    assert any(line.startswith("O503") for line in lines)


def test_an_unknown_rule_is_refused_with_the_closest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rule", "softmax-before-loss"]) == 2
    assert "softmax-before-cross-entropy" in capsys.readouterr().err


def test_a_command_is_needed() -> None:
    run = subprocess.run([sys.executable, "-m", "nbdebug"], capture_output=True, text=True)
    assert run.returncode == 2
    assert "command" in run.stderr


def test_the_demo_says_what_is_wrong_and_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.html"
    assert cli.main(["demo", "--output", str(report)]) == 0
    said = capsys.readouterr().out
    assert "L201 softmax-before-cross-entropy" in said
    assert "return F.softmax(x, dim=1)" in said
    assert "nbdebug demo --lab" in said
    page = report.read_text(encoding="utf-8")
    assert "softmax-before-cross-entropy" in page
    assert 'src="http' not in page
    assert 'rel="stylesheet" href="http' not in page


def test_the_tutorial_is_found_in_a_checkout() -> None:
    assert demo.tutorial_path().name == demo.FIRST_TUTORIAL
