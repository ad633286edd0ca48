"""Tests of the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nbdebug import cli, demo


def test_rule_command_prints_page_of_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rule", "l201"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("L201 softmax-before-cross-entropy (error)")
    assert "## How to fix" in page


def test_rule_command_without_code_lists_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rule"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == sorted(lines)
    assert any(line.startswith("O503") for line in lines)


def test_rule_command_with_unknown_name_suggests_closest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rule", "softmax-before-loss"]) == 2
    assert "softmax-before-cross-entropy" in capsys.readouterr().err


def test_cli_without_command_fails() -> None:
    run = subprocess.run([sys.executable, "-m", "nbdebug"], capture_output=True, text=True)
    assert run.returncode == 2
    assert "command" in run.stderr


def test_demo_command_prints_finding_and_writes_report_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.html"
    assert cli.main(["demo", "--output", str(report)]) == 0
    output = capsys.readouterr().out
    assert "L201 softmax-before-cross-entropy" in output
    assert "return F.softmax(x, dim=1)" in output
    assert "nbdebug demo --lab" in output
    page = report.read_text(encoding="utf-8")
    assert "softmax-before-cross-entropy" in page
    assert 'src="http' not in page
    assert 'rel="stylesheet" href="http' not in page


def test_tutorial_path_in_git_checkout_is_first_tutorial() -> None:
    assert demo.tutorial_path().name == demo.FIRST_TUTORIAL
