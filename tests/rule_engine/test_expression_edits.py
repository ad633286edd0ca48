"""Changes of expressions, statements, metrics and orders, applied to a file and run."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.finding import Edit
from nbdebug.rule_engine import expression_edits as expressions
from nbdebug.rule_engine import metric_edits as metrics
from nbdebug.rule_engine import statement_edits as statements
from nbdebug.rule_engine.order_edits import find_reordering
from nbdebug.setup import Setup
from nbdebug.source.edits import apply_edits
from nbdebug.source.location import SourceLine

Edits = Sequence[Edit]
_DROPOUT_FUNCTION = ("dropout",)


def line_in(folder: Path, source: str, number: int) -> SourceLine:
    """Write a file and return one of its lines."""
    path = folder / "program.py"
    path.write_text(source)
    linecache.checkcache(str(path))
    return SourceLine(str(path), number)


def changed(line: SourceLine, edits: Edits) -> str:
    """Return the source of a line's file after some edits."""
    return apply_edits("".join(linecache.getlines(line.file)), edits)


@pytest.mark.parametrize(
    ("source", "edit", "expected"),
    [
        (
            "h = F.dropout(h, 0.5)\n",
            lambda line: expressions.set_option(line, _DROPOUT_FUNCTION, "p", "0.1", 1),
            "h = F.dropout(h, 0.1)\n",
        ),
        (
            "h = F.dropout(h)\n",
            lambda line: expressions.set_option(line, _DROPOUT_FUNCTION, "p", "0.1", 1),
            "h = F.dropout(h, p=0.1)\n",
        ),
        ("p = x.softmax(0)\n", lambda line: expressions.set_axis(line, ("softmax",), "-1"), "p = x.softmax(-1)\n"),
        (
            "p = F.softmax(x, dim=0)\n",
            lambda line: expressions.set_axis(line, ("softmax",), "-1"),
            "p = F.softmax(x, dim=-1)\n",
        ),
        (
            "self.act = nn.Softmax(0)\n",
            lambda line: expressions.set_axis(line, ("Softmax",), "-1"),
            "self.act = nn.Softmax(-1)\n",
        ),
        (
            "p = torch.log(a + b)\n",
            lambda line: expressions.keep_inside_domain("LogBackward0", line),
            "p = torch.log((a + b).clamp_min(1e-8))\n",
        ),
        (
            "d = x.sqrt()\n",
            lambda line: expressions.keep_inside_domain("aten.sqrt", line),
            "d = (x + 1e-12).sqrt()\n",
        ),
        (
            "r = a / b.norm()\n",
            lambda line: expressions.keep_inside_domain("DivBackward0", line),
            "r = a / (b.norm() + 1e-6)\n",
        ),
        ("loss = a.mean() - b\n", expressions.negate_value, "loss = -(a.mean() - b)\n"),
        ("loss = -a.mean()\n", expressions.negate_value, "loss = a.mean()\n"),
        ("loss = a.mean() - beta * b\n", expressions.flip_only_sign, "loss = a.mean() + beta * b\n"),
        ("loss = a - b - c\n", expressions.flip_only_sign, "loss = a - b - c\n"),
        (
            "scores = q @ k.transpose(1, 2)\n",
            lambda line: expressions.scale_product(line, 16),
            "scores = q @ k.transpose(1, 2) / 16 ** 0.5\n",
        ),
        (
            "w = torch.matmul(q, k).softmax(-1)\n",
            lambda line: expressions.scale_product(line, 16),
            "w = (torch.matmul(q, k) / 16 ** 0.5).softmax(-1)\n",
        ),
        (
            "w = (q @ k.mT).softmax(-1)\n",
            lambda line: expressions.scale_product(line, 16),
            "w = (q @ k.mT / 16 ** 0.5).softmax(-1)\n",
        ),
        (
            "scores = (q @ k.mT) * math.sqrt(d)\n",
            lambda line: expressions.scale_product(line, 16),
            "scores = (q @ k.mT) / math.sqrt(d)\n",
        ),
        (
            "h = self.encoder(h, src_key_padding_mask=tokens != 0)\n",
            expressions.invert_padding_mask,
            "h = self.encoder(h, src_key_padding_mask=tokens == 0)\n",
        ),
        (
            "s = s.masked_fill(~mask, -1e9)\n",
            expressions.invert_padding_mask,
            "s = s.masked_fill(mask, -1e9)\n",
        ),
        (
            "hidden = tokens != 0\nh = self.encoder(h, src_key_padding_mask=hidden)\n",
            expressions.invert_padding_mask,
            "hidden = tokens == 0\nh = self.encoder(h, src_key_padding_mask=hidden)\n",
        ),
        (
            "real = tokens != 0\nh = self.attend(h, h, h, key_padding_mask=real)\nh = (h * real).sum(1)\n",
            expressions.invert_padding_mask,
            "real = tokens != 0\nh = self.attend(h, h, h, key_padding_mask=~real)\nh = (h * real).sum(1)\n",
        ),
        (
            "real = tokens != 0\nfor layer in layers:\n    h = layer(h, real)\n",
            expressions.invert_padding_mask,
            "real = tokens == 0\nfor layer in layers:\n    h = layer(h, real)\n",
        ),
        (
            "real = tokens != 0\nh = layer(h, real)\nh = pool(h, real)\n",
            expressions.invert_padding_mask,
            "real = tokens != 0\nh = layer(h, real)\nh = pool(h, real)\n",
        ),
        (
            "s = s.masked_fill(padded[:, None], 1e-9)\n",
            expressions.exclude_by_fill,
            "s = s.masked_fill(padded[:, None], torch.finfo(s.dtype).min)\n",
        ),
        (
            "f = [lambda a, b: loss(a[k], b[k]) for k in names]\n",
            expressions.bind_loop_variables,
            "f = [lambda a, b, k=k: loss(a[k], b[k]) for k in names]\n",
        ),
        ("f = [lambda k: k for k in names]\n", expressions.bind_loop_variables, "f = [lambda k: k for k in names]\n"),
        ("return head(out[:, 0])\n", expressions.take_last_step, "return head(out[:, -1])\n"),
        ("total += loss * n\n", expressions.detach_stored_value, "total += (loss * n).detach()\n"),
        ("losses.append(loss)\n", expressions.detach_stored_value, "losses.append(loss.detach())\n"),
        ("total = total + loss\n", expressions.detach_stored_value, "total = total + loss.detach()\n"),
        ("acc = right / len(loader)\n", metrics.count_rows, "acc = right / len(loader.dataset)\n"),
        ("acc = sum(hits) / len(hits)\n", metrics.count_rows, "acc = sum(hits) / len(hits)\n"),
        ("acc = right / len(loader.dataset)\n", metrics.count_rows, "acc = right / len(loader.dataset)\n"),
    ],
)
def test_expression_of_a_line_is_changed(
    source: str, edit: Callable[[SourceLine], Edits], expected: str, tmp_path: Path
) -> None:
    prefix = "def forward(self, h):\n    " if source.startswith("return") else ""
    line = line_in(tmp_path, prefix + source, 2 if prefix else 1)
    assert changed(line, edit(line)) == prefix + expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("loss_fn = nn.CrossEntropyLoss(ignore_index=0)\n", "loss_fn = nn.CrossEntropyLoss()\n"),
        ("loss = F.nll_loss(a, b, ignore_index=0, weight=w)\n", "loss = F.nll_loss(a, b, weight=w)\n"),
        ("f = Loss(ignore_index=0, weight=w)\n", "f = Loss(weight=w)\n"),
    ],
)
def test_option_is_removed_with_its_comma(source: str, expected: str, tmp_path: Path) -> None:
    line = line_in(tmp_path, source, 1)
    call = expressions.only_call(line, ("CrossEntropyLoss", "nll_loss", "Loss"))
    assert call is not None
    assert changed(line, expressions.remove_option(line.file, call, "ignore_index")) == expected


def test_mode_is_passed_to_a_function_in_a_method_only(tmp_path: Path) -> None:
    line = line_in(tmp_path, "def forward(self, x):\n    return F.dropout(x, 0.5)\n", 2)
    edits = expressions.pass_mode(line, "torch.nn.functional.dropout")
    assert "F.dropout(x, 0.5, training=self.training)" in changed(line, edits)
    line = line_in(tmp_path, "def block(x):\n    return F.dropout(x, 0.5)\n", 2)
    assert expressions.pass_mode(line, "torch.nn.functional.dropout") == ()


LOOP = """def fit(model, loader, optimizer):
    for epoch in range(3):
        torch.manual_seed(0)
        for x, y in loader:
            loss = model(x).sum()
            clip(model)
            loss.backward()
            optimizer.step()
"""


def test_statement_moves_before_another_one(tmp_path: Path) -> None:
    line = line_in(tmp_path, LOOP, 6)
    edits = statements.move_before(line, SourceLine(line.file, 8))
    lines = [text.strip() for text in changed(line, edits).splitlines()]
    assert lines[-4:] == ["loss = model(x).sum()", "loss.backward()", "clip(model)", "optimizer.step()"]
    assert statements.move_before(line, line) == ()


def test_statement_moves_before_all_loops(tmp_path: Path) -> None:
    line = line_in(tmp_path, LOOP, 3)
    text = changed(line, statements.move_before_loops(line))
    assert text.startswith("def fit(model, loader, optimizer):\n    torch.manual_seed(0)\n    for epoch")
    assert text.count("manual_seed") == 1


def test_calls_of_a_loop_are_removed_and_the_block_stays_valid(tmp_path: Path) -> None:
    line = line_in(tmp_path, LOOP, 5)
    text = changed(line, statements.remove_calls_in_loop(line, ("backward", "step", "zero_grad")))
    assert "backward" not in text
    assert "step" not in text
    compile(text, "program.py", "exec")
    single = line_in(tmp_path, "for x in y:\n    if a: z.step()\n", 1)
    text = changed(single, statements.remove_calls_in_loop(single, ("step",)))
    assert text == "for x in y:\n    if a: pass\n"


def test_loop_is_put_into_a_block(tmp_path: Path) -> None:
    line = line_in(tmp_path, LOOP, 5)
    text = changed(line, statements.put_loop_in_block(line, "with torch.no_grad():"))
    assert "        with torch.no_grad():\n            for x, y in loader:\n                loss = " in text
    compile(text, "program.py", "exec")


def test_counters_start_again_before_their_loop(tmp_path: Path) -> None:
    source = "def run(loaders):\n    right = rows = 0\n    for loader in loaders:\n        for x in loader:\n"
    source += "            right += x\n            rows += 1\n        print(right / rows)\n"
    line = line_in(tmp_path, source, 5)
    namespace: dict[str, Any] = {"print": lambda value: results.append(value)}
    results: list[float] = []
    exec(changed(line, metrics.reset_counters(line)), namespace)
    namespace["run"]([[1, 1], [0, 0]])
    assert results == [1.0, 0.0]


MAKE_DATA = """import torch
from torch.utils.data import DataLoader, TensorDataset

def make(x, y):
    order = torch.randperm(len(x))
    {change}
    return SimpleNamespace(train_loader=DataLoader(TensorDataset(x[:24], y[:24]), 8, shuffle=True))
"""


@pytest.mark.parametrize(
    ("change", "is_found"),
    [("x = x[order]", True), ("x, y = x[order], y[order]", False), ("y = y[torch.randperm(len(y))]", True)],
)
def test_reordered_inputs_and_targets_belong_together_afterwards(change: str, is_found: bool, tmp_path: Path) -> None:
    line = line_in(tmp_path, MAKE_DATA.format(change=change), 6)
    namespace: dict[str, Any] = {"SimpleNamespace": SimpleNamespace}
    exec(compile(line_source(line), line.file, "exec"), namespace)
    x = torch.arange(32.0)[:, None]
    made = namespace["make"](x, x.clone())
    model = nn.Linear(1, 1)
    model.forward_code = namespace["make"]  # keeps the file among those of the program
    setup = Setup(model, made.train_loader, loss_fn=namespace_loss(line), optimizers=())
    location, edits = find_reordering(setup)
    assert (location is not None) == is_found
    exec(compile(changed(line, edits), line.file, "exec"), namespace)
    inputs, targets = namespace["make"](x, x.clone()).train_loader.dataset.tensors
    assert torch.equal(inputs, targets)


def line_source(line: SourceLine) -> str:
    """Return the source of the file of a line."""
    return "".join(linecache.getlines(line.file))


def namespace_loss(line: SourceLine) -> Callable[..., Any]:
    """Return a loss whose code is in the file of a line, which is then a file of the user."""
    namespace: dict[str, Any] = {}
    exec(compile("def loss(output, target):\n    return (output - target).mean()\n", line.file, "exec"), namespace)
    loss: Callable[..., Any] = namespace["loss"]
    return loss
