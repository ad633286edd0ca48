"""Tests of the benchmark of crashes: its form, and what it reads from a finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.crashes.__main__ import _explain, _score
from benchmarks.crashes.case import Crash, half
from benchmarks.crashes.check import _problems_of_form
from benchmarks.crashes.corpus import FOLDERS, load


def test_corpus_has_no_problem_of_form_and_each_crash_is_in_its_half() -> None:
    crashes = {name: load(name) for name in FOLDERS}
    assert _problems_of_form([case for cases in crashes.values() for case in cases]) == []
    assert all(half(case) == name for name, cases in crashes.items() for case in cases)


def test_fix_that_a_trial_has_shown_to_run_counts_as_tried(tmp_path: Path) -> None:
    case = _case("net = nn.Linear(3, 1)\nfor _ in range(2):\n    net(torch.randn(2, 4)).mean().backward()\n")
    score = _score(case, tmp_path)
    assert score.codes[0] == "X1001"
    assert score.named
    assert score.placed
    assert score.runs
    assert score.tried


def test_fix_that_no_trial_can_show_does_not_count_as_tried(tmp_path: Path) -> None:
    case = _case("w = torch.ones(2, requires_grad=True)\nloss = w.sum().detach()\nloss.backward()\n")
    score = _score(case, tmp_path)
    assert score.codes[0] == "X1019"
    assert not score.tried


@pytest.mark.parametrize("program", ["1 / 0", "raise ValueError('of mine')", "x = 1"])
def test_program_without_an_error_of_torch_has_no_codes(tmp_path: Path, program: str) -> None:
    assert _explain(program, tmp_path / "program.py").codes == ()


def _case(program: str) -> Crash:
    source = f"import torch\nfrom torch import nn\n\n{program}"
    line = source.splitlines()[3]
    return Crash(
        "of_a_test", "", "linear_size", "script", "", source, source, (line,), ("3",) if "net" in source else ()
    )
