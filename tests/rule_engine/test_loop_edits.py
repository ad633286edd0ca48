"""Tests of edits that move a statement of a loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdebug.rule_engine.loop_edits import move_after
from nbdebug.source.edits import apply_edits
from nbdebug.source.location import SourceLine

TRAIN = """\
def train(loader, optimizer, scheduler):
    for epoch in range(3):
        for x in loader:
            optimizer.step()
        scheduler.step()  # once
        print(epoch)
"""
MOVED = """\
def train(loader, optimizer, scheduler):
    for epoch in range(3):
        for x in loader:
            optimizer.step()
            scheduler.step()
        print(epoch)
"""
ALONE = TRAIN.replace("        scheduler.step()  # once\n", "        if epoch:\n            scheduler.step()\n")
TWO_LINES = TRAIN.replace("scheduler.step()  # once", "scheduler.step(\n        )")


def moved(folder: Path, text: str, moved_line: int, target: int, function: str = "train") -> str:
    file = folder / "loop.py"
    file.write_text(text, encoding="utf-8")
    lines = SourceLine(str(file), moved_line, "train"), SourceLine(str(file), target, function)
    return apply_edits(text, move_after(*lines))


def test_statement_moves_behind_another_statement_with_its_indentation(tmp_path: Path) -> None:
    assert moved(tmp_path, TRAIN, 5, 4) == MOVED


@pytest.mark.parametrize(
    ("text", "moved_line", "function"),
    [(TRAIN, 5, "step"), (ALONE, 6, "train"), (TWO_LINES, 5, "train")],
    ids=["another function", "only statement of a block", "two lines"],
)
def test_statement_that_cannot_move_stays(tmp_path: Path, text: str, moved_line: int, function: str) -> None:
    assert moved(tmp_path, text, moved_line, 4, function) == text
