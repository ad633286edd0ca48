"""Checkups of healthy programs from many fields: no rule may report an error or a warning."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

from tests.rules.real.catalog import PROGRAMS
from tests.rules.rule_findings import broken_rules

for file in sorted((Path(__file__).parent / "real").glob("*.py")):
    importlib.import_module(f"tests.rules.real.{file.stem}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_checkup_of_real_program_has_no_faults(name: str) -> None:
    torch.manual_seed(0)
    report = PROGRAMS[name]().checkup()
    assert [str(finding) for finding in report.faults] == []
    assert broken_rules(report) == []
    assert len(report.checked_rules) > 10
