"""Tests of edits that move a statement of a loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdebug.rule_engine.loop_edits import (
    divide_loss,
    move_after,
    move_after_loop,
    owner_of_call,
    repeat_outermost_loop,
    stack_collected_losses,
)
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


LISTED = """\
def train(model, loader, loss_fn):
    for epoch in range(epochs):
        losses = []
        for x, y in loader:
            losses.append(loss_fn(model(x), y).item())
        loss = torch.tensor(losses, requires_grad=True).mean()
        loss.backward()
"""


COMPREHENSION = """\
def train(model, batches, loss_fn):
    for x, y in batches:
        losses = [
            loss_fn(model(x), part).item() for part in y
        ]
        loss = torch.tensor(losses, requires_grad=True).mean()
        loss.backward()
"""


def test_statement_of_the_inner_loop_moves_behind_it(tmp_path: Path) -> None:
    file = tmp_path / "loop.py"
    file.write_text(MOVED, encoding="utf-8")
    edits = move_after_loop(SourceLine(str(file), 5, "train"))
    assert apply_edits(MOVED, edits) == TRAIN.replace("  # once", "")
    assert move_after_loop(SourceLine(str(file), 6, "train")) == ()


@pytest.mark.parametrize(("rounds", "expected"), [("2", "10"), ("epochs", "5 * epochs"), ("1, 2", "1, 2")])
def test_rounds_of_the_outermost_loop_are_multiplied(rounds: str, expected: str, tmp_path: Path) -> None:
    text, file = TRAIN.replace("range(3)", f"range({rounds})"), tmp_path / "loop.py"
    file.write_text(text, encoding="utf-8")
    edits = repeat_outermost_loop(SourceLine(str(file), 4, "train"), 5)
    assert apply_edits(text, edits) == text.replace(f"range({rounds})", f"range({expected})")


@pytest.mark.parametrize(
    ("values", "tensor"),
    [("losses", "torch.stack(losses)"), ("sum(losses) / 2", "(sum(losses) / 2)"), ("np.mean(losses)", "")],
)
@pytest.mark.parametrize("listed", [LISTED, COMPREHENSION])
def test_losses_are_collected_as_tensors(listed: str, values: str, tensor: str, tmp_path: Path) -> None:
    maker, file = f"torch.tensor({values}, requires_grad=True)", tmp_path / "loop.py"
    text = listed.replace("torch.tensor(losses, requires_grad=True)", maker)
    file.write_text(text, encoding="utf-8")
    edits = stack_collected_losses(SourceLine(str(file), 6, "train"))
    assert apply_edits(text, edits) == (text.replace(".item()", "").replace(maker, tensor) if tensor else text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("loss.backward()\n", "(loss / 4).backward()\n"),
        ("(loss + penalty).backward()\n", "((loss + penalty) / 4).backward()\n"),
        ("fabric.backward(loss + penalty)\n", "fabric.backward((loss + penalty) / 4)\n"),
    ],
)
def test_whole_loss_is_divided(text: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "loss.py"
    file.write_text(text, encoding="utf-8")
    assert apply_edits(text, divide_loss(SourceLine(str(file), 1), 4)) == expected


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ("self.optimizers[0].step()", "self.optimizers[0]"),
        ("get_optimizer().step()", None),
        ("a.step(), b.step()", None),
    ],
)
def test_owner_of_a_call_is_what_the_user_wrote(text: str, owner: str | None, tmp_path: Path) -> None:
    file = tmp_path / "step.py"
    file.write_text(text, encoding="utf-8")
    assert owner_of_call(SourceLine(str(file), 1), "step") == owner
