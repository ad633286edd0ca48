"""Edits that move the step of a scheduler into the loop over batches, or behind it, with its condition."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from nbdebug.rule_engine.loop_edits import move_after, move_after_loop
from nbdebug.source.edits import apply_edits
from nbdebug.source.location import SourceLine

EPOCHS = """\
def train(loader, optimizer, scheduler, rhythm):
    for epoch in range(3):
        for x, y in loader:
            optimizer.step()
{inner}
{outer}
"""
PLAIN = "{indent}scheduler.step()"
GUARDED = "{indent}if scheduler is not None:\n{indent}    scheduler.step()"
CHOICE = "{indent}if rhythm:\n{indent}    scheduler.step()\n{indent}else:\n{indent}    pass"


def program(step: str, *, is_inner: bool) -> str:
    inner, outer = step.format(indent=" " * 12), step.format(indent=" " * 8)
    text = EPOCHS.format(inner=inner if is_inner else "", outer="" if is_inner else outer)
    return "".join(f"{line}\n" for line in text.splitlines() if line)


def line_of(file: Path, text: str) -> SourceLine:
    lines = file.read_text(encoding="utf-8").splitlines()
    return SourceLine(str(file), next(i for i, line in enumerate(lines, 1) if text in line), "train")


@pytest.mark.parametrize("step", [PLAIN, GUARDED], ids=["plain", "guarded"])
@pytest.mark.parametrize("is_inner", [True, False], ids=["to the epochs", "to the batches"])
def test_step_moves_with_its_condition(step: str, is_inner: bool, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(program(step, is_inner=is_inner), encoding="utf-8")
    line = line_of(file, "scheduler.step()")
    edits = (
        move_after_loop(line) if is_inner else move_after(line, line_of(file, "optimizer.step()"), with_condition=True)
    )
    moved = apply_edits(file.read_text(encoding="utf-8"), edits)
    assert ast.unparse(ast.parse(moved)) == ast.unparse(ast.parse(program(step, is_inner=not is_inner)))


def test_step_in_a_choice_stays(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(program(CHOICE, is_inner=False), encoding="utf-8")
    assert move_after(line_of(file, "scheduler.step()"), line_of(file, "optimizer.step()"), with_condition=True) == ()
