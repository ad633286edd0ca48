"""Tests of fixes that change the user's lines: the program runs again with and without them."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from nbdebug.exceptions import SetupError
from nbdebug.finding import Edit, Finding
from nbdebug.source.edited_functions import exchanged_code, find_edited_code
from nbdebug.source.edits import insert_before
from nbdebug.source.location import SourceLine
from nbdebug.tools.try_fix.change import parse_change
from nbdebug.tools.try_fix.own_program import CellProgram
from nbdebug.tools.try_fix.program import started_program

HEAD = """\
import torch
from torch import nn
from nbdebug.debugger import Debugger
from tests.tools.try_fix.programs import blobs, sgd
"""
PROGRAM = (
    HEAD
    + """
def build():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer, loader = sgd(0.3)(model.parameters()), torch.utils.data.DataLoader(blobs(96, 0), 8, shuffle=True)
    debugger = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    return debugger, lambda: fit(model, loader, optimizer)

def fit(model, loader, optimizer):
    for epoch in range(4):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
"""
)
CELLS = (
    HEAD,
    "model = nn.Linear(8, 2)\nloader = torch.utils.data.DataLoader(blobs(96, 0), 8)",
    "optimizer = sgd(0.1)(model.parameters())\nother = open('no such file')",
    "for group in optimizer.param_groups: group['lr'] = 0.2",
    "dbg = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)\ndbg.checkup()",
    "with dbg.watch():\n    for x, y in loader:\n        loss = dbg_loss(model(x), y)\n        loss.backward()\n"
    "        optimizer.step()\nprint(undefined)",
    "dbg_loss = nn.functional.cross_entropy",
)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[ModuleType]:
    path = tmp_path / "own_program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    spec = spec_from_file_location("own_program", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["own_program"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["own_program"]


def test_fix_of_a_loop_is_tried_in_the_program_and_nothing_stays_changed(program: ModuleType) -> None:
    dbg, train = program.build()
    with dbg.watch(final_tests=False):
        train()
    weights, code = [p.clone() for p in dbg.setup.model.parameters()], program.fit.__code__
    random_state = torch.get_rng_state()
    result = dbg.try_fix("O505", steps=20, seeds=3, checkup=None, build=program.build)
    assert [max(run.steps) for run in (*result.before, *result.after)] == [20] * 6
    assert all(first.scores[0] == second.scores[0] for first, second in zip(result.before, result.after, strict=True))
    assert result.before[0].scores != result.after[0].scores
    assert "zero_grad" in result.code
    assert program.fit.__code__ is code
    assert torch.equal(torch.get_rng_state(), random_state)
    assert all(torch.equal(p, weight) for p, weight in zip(dbg.setup.model.parameters(), weights, strict=True))
    with pytest.raises(SetupError, match=r"Pass build="):
        dbg.try_fix("O505")
    with pytest.raises(SetupError, match="changes no line"):
        dbg.try_fix("weight decay=0.1", build=program.build)
    with pytest.raises(SetupError, match="build returned an int"):
        dbg.try_fix("O505", build=lambda: 3)


def test_code_is_exchanged_within_the_block_only(program: ModuleType) -> None:
    line = next(n for n, text in enumerate(PROGRAM.splitlines(), 1) if "for epoch" in text)
    edit = insert_before(str(program.__file__), line, "return 'changed'")
    codes = find_edited_code([edit])
    assert codes is not None
    with pytest.raises(KeyError), exchanged_code(codes):
        assert program.fit(None, None, None) == "changed"
        raise KeyError
    with pytest.raises(TypeError):
        program.fit(torch.nn.Identity(), [(1, 2)], None)
    assert find_edited_code([insert_before(str(program.__file__), 1, "import math")]) is None


def cell_program() -> tuple[CellProgram, dict[str, Any]]:
    """The program of cells of which the last one ran before the others, and one has raised at its end."""
    files = [f"<cell {number} of a program>" for number in range(len(CELLS))]
    for file, source in zip(files, CELLS, strict=True):
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    variables: dict[str, Any] = {}
    order = [files[-1], *files[1:-1]]
    for file in (files[0], *order):
        source = "".join(linecache.getlines(file))
        for part in ("other = open('no such file')", "print(undefined)", "dbg.checkup()"):  # must not run again
            source = source.replace(part, "")
        exec(compile(source, file, "exec"), variables)
    return CellProgram((files[0], *order), "dbg", SourceLine(files[5], 1), variables), variables


def test_cells_run_again_as_far_as_the_debugger_and_its_loop_need_them() -> None:
    program, variables = cell_program()
    weight = variables["model"].weight.detach().clone()
    edit = Edit(program.files[-1], 4, 0, 4, 0, "        loss = 0 * loss\n")
    outcomes = []
    for edits in ((), (edit,)):
        with started_program(program, edits, 0) as (setup, train):
            assert setup.optimizers[0].param_groups[0]["lr"] == 0.2
            before = setup.eager_model.weight.detach().clone()
            assert train is not None
            train()
            outcomes.append((before, setup.eager_model.weight.detach()))
    (start, trained), (start_again, unchanged) = outcomes
    assert torch.equal(start, start_again)
    assert torch.equal(start_again, unchanged)
    assert not torch.equal(start, trained)
    assert torch.equal(variables["model"].weight, weight)
    with (
        pytest.raises(SetupError, match="your notebook imports"),
        started_program(program, [Edit("other.py", 1, 0, 1, 0, "")], 0),
    ):
        pass


def test_copies_refuse_a_change_of_lines() -> None:
    change = parse_change(Finding("m", code="O505", edits=(Edit("a.py", 1, 0, 1, 0, ""),)))
    with pytest.raises(SetupError, match="Pass build="):
        change.apply(None)  # type: ignore[arg-type]
