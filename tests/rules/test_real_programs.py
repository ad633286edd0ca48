"""Programs as people write them, in every field: a checkup of a sound one draws no error and no warning."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

from tests.rules.real.catalog import PROGRAMS

for file in sorted((Path(__file__).parent / "real").glob("*.py")):
    importlib.import_module(f"tests.rules.real.{file.stem}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_sound_program_draws_no_error_and_no_warning(name: str) -> None:
    torch.manual_seed(0)
    report = PROGRAMS[name]().checkup()
    assert [str(one) for one in report.faults] == []
    assert [one for one in report.not_checked if "broke" in one.why] == []
    assert len(report.checked_rules) > 10
