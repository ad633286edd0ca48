"""Checkup and watch of healthy programs of unusual kinds: no rule may report an error or a warning."""

from __future__ import annotations

import importlib
import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from nbdebug.exceptions import SetupError
from tests.rules.rule_findings import broken_rules
from tests.rules.unusual.catalog import PROGRAMS

for file in sorted((Path(__file__).parent / "unusual").glob("*.py")):
    importlib.import_module(f"tests.rules.unusual.{file.stem}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_checkup_and_watch_of_unusual_program_have_no_faults(name: str) -> None:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    debugger, train = PROGRAMS[name]()
    with suppress(SetupError):  # a loop whose loss the setup does not show
        debugger.checkup()
    with debugger.watch() as watch:
        train()
    assert watch.result is not None
    assert watch.result.errors == ""
    for report in (*debugger.reports.values(), debugger.findings):
        assert [str(finding) for finding in report.faults] == []
        assert broken_rules(report) == []
