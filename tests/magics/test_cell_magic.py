"""Tests of ``%%watch`` in an IPython shell and in a kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from torch.optim import Optimizer

from nbdebug import magics

SETUP = """
%load_ext nbdebug
from nbdebug.debugger import Debugger
from nbdebug.rules.examples import classifier
dbg = Debugger.of(classifier())
model, optimizer, loss_fn = dbg.setup.model, dbg.setup.optimizers[0], dbg.setup.loss_fn
"""
LOOP = """
losses = []
for x, y in dbg.train_loader:
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
COLORS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    interactive = InteractiveShell.instance()
    interactive.reset(new_session=False)
    interactive.run_cell(SETUP).raise_error()
    yield interactive
    interactive.run_cell("%unload_ext nbdebug")
    interactive.reset(new_session=False)


def run(shell: InteractiveShell, text: str) -> ExecutionResult:
    """Run a cell with an execution count, as a notebook does."""
    return shell.run_cell(text, store_history=True)


def test_watch_cell_keeps_names_last_value_and_watch(shell: InteractiveShell) -> None:
    execution = run(shell, f"%%watch dbg{LOOP}losses")
    assert execution.success
    assert execution.result == shell.user_ns["_"] == shell.user_ns["losses"]
    result = shell.user_ns["run"].result
    assert result.steps == len(execution.result) == 4
    assert [value for _, value in result.loss] == pytest.approx(execution.result)


@pytest.mark.parametrize(
    ("cell", "output"),
    [
        ("%%watch dbg\n6 * 7", "42"),
        ("%%watch dbg\n6 * 7;", ""),
        ("%%watch dbg\nx = 6 * 7", ""),
        ("%%watch\n'''a\n  b'''", "'a\\n  b'"),
        ("\n%%watch dbg\n%%capture\nprint(1)", ""),
        ("%%capture\n%%watch dbg\nprint(1)", ""),
        ("%%watch dbg", ""),
        ("%%watch dbg\n", ""),
        ("%%watch dbg\n# nothing", ""),
        ("get_ipython().run_cell_magic('watch', 'dbg', '6 * 7')", "42"),
    ],
)
def test_watch_cell_displays_last_value_like_plain_cell(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], cell: str, output: str
) -> None:
    run(shell, cell).raise_error()
    assert COLORS.sub("", capsys.readouterr().out).partition(": ")[2].strip() == output


def test_watch_cell_supports_top_level_await(shell: InteractiveShell) -> None:
    cell = f"%%watch dbg\nimport asyncio\nbefore = await asyncio.sleep(0, 'there'){LOOP}await asyncio.sleep(0, before)"
    assert run(shell, cell).result == "there"
    assert shell.user_ns["run"].result.steps == 4


def test_watch_cell_with_error_shows_traceback_of_plain_cell(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{LOOP}\ndef wrong():\n    1 / 0\n\nfor epoch in range(3):\n    wrong()\n"
    tracebacks = []
    for head in ("# plain", "%%watch dbg"):
        execution = run(shell, head + text)
        assert isinstance(execution.error_in_exec, ZeroDivisionError)
        tracebacks.append(COLORS.sub("", capsys.readouterr().out).replace(f"In[{execution.execution_count}]", "In[n]"))
    assert "Cell In[n], line 14\n" in tracebacks[1]
    assert "Cell In[n], line 11, in wrong()\n" in tracebacks[1]
    assert tracebacks[1] == tracebacks[0]
    assert shell.user_ns["run"].result.steps == 4


def test_watch_cell_with_syntax_error_does_not_run(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    execution = run(shell, "%%watch dbg\nreached = True\nfor\n")
    assert isinstance(execution.error_before_exec, SyntaxError)
    assert execution.error_before_exec.lineno == 3
    assert "reached" not in shell.user_ns
    assert "run" not in shell.user_ns


@pytest.mark.filterwarnings("ignore:To exit")
@pytest.mark.parametrize("exception", ["KeyboardInterrupt", "SystemExit"])
def test_interrupted_watch_cell_raises_and_keeps_result(shell: InteractiveShell, exception: str) -> None:
    execution = run(shell, f"%%watch dbg{LOOP}    if len(losses) == 3:\n        raise {exception}")
    assert type(execution.error_in_exec).__name__ == exception
    assert shell.user_ns["run"].result.steps == 3
    assert shell.user_ns["run"].result.interrupted == (exception == "KeyboardInterrupt")
    optimizer: Optimizer = shell.user_ns["optimizer"]
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks


def test_watch_cell_passes_options_to_watch(shell: InteractiveShell) -> None:
    cell = f'%%watch dbg --every 2 --budget=0.5 --match "2*" --stop-on warning{LOOP}'
    run(shell, cell).raise_error()
    watch = shell.user_ns["run"]
    assert watch.record.series("gradient.norm", "2.weight")[0].tolist() == [1, 3]
    assert watch.record.tensors("gradient.norm") == ["2.weight", "2.bias"]
    assert (watch.time_budget.budget, watch.controls.stop_on) == (0.5, "warning")


def test_stop_ends_watch_cell_without_error(shell: InteractiveShell) -> None:
    execution = run(
        shell, f"%%watch dbg{LOOP}    if len(losses) == 2:\n        run.controls.stop_reason = 'a test'\nnever = 1"
    )
    assert execution.success
    assert len(shell.user_ns["losses"]) == 2
    assert "never" not in shell.user_ns
    assert shell.user_ns["run"].record.events[-1].text == "stopped by a test"


def test_finding_in_watch_cell_locates_cell_and_line(shell: InteractiveShell) -> None:
    text = f"for epoch in range(2):{LOOP}".replace("\n", "\n    ").replace("optimizer.zero_grad()", "pass")
    locations = []
    for head in ("with dbg.watch() as run:\n  if 1:\n   ", "%%watch dbg\nif 1:\n  if 1:\n   "):
        execution = run(shell, head + text)
        execution.raise_error()
        (finding,) = [entry for entry in shell.user_ns["run"].result.report if entry.code == "O505"]
        locations.append((finding.where.cell, finding.where.line))
        assert finding.where.cell == execution.execution_count
        assert finding.where.source.strip() == "loss.backward()"
    assert locations[1] == (locations[0][0] + 1, locations[0][1] + 1)


def test_finding_in_watch_cell_shows_magic_as_written(shell: InteractiveShell) -> None:
    loop = "for x, y in dbg.train_loader:\n    loss_fn(model(x), y).backward(); optimizer.step()"
    run(shell, f"%%watch dbg --every 3\n{loop}").raise_error()
    (finding,) = [entry for entry in shell.user_ns["run"].result.report if entry.code == "O505"]
    written = enumerate(["%%watch dbg --every 3", *loop.splitlines()], 1)
    assert finding.where.context == tuple(written)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "--evry 3",
            "option of %%watch is '--evry'; expected one of --every, --budget, --match, --stop-on. Did you mean",
        ),
        ("--budget much", "--budget is 'much'; expected a number"),
        ("nobody", "'nobody' is not a Debugger; expected dbg"),
        ("dbg dbg", "%%watch got 2 names"),
    ],
)
def test_watch_cell_with_invalid_line_raises_and_does_not_run(shell: InteractiveShell, line: str, message: str) -> None:
    execution = run(shell, f"%%watch {line}\nreached = True")
    assert type(execution.error_in_exec).__name__ == "UsageError"
    assert message in str(execution.error_in_exec)
    assert "reached" not in shell.user_ns


@pytest.mark.parametrize(
    ("line", "choices"),
    [
        ("%%wat", ["%%watch"]),
        ("%%watch ", ["--budget", "--every", "--match", "--stop-on", "dbg"]),
        ("%%watch d", ["dbg"]),
        ("%%watch dbg --stop-on ", ["error", "warning"]),
    ],
)
def test_completion_of_watch_line_offers_valid_words(shell: InteractiveShell, line: str, choices: list[str]) -> None:
    assert [word for word in sorted(shell.complete(None, line, len(line))[1]) if "/" not in word] == choices


def test_watch_magic_prints_help_and_terminal_waits_for_cell_body(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    run(shell, "%%watch?")
    assert "--stop-on" in capsys.readouterr().out
    for text in ("{}\n", "{}\nx = 1", "{}\nx = 1\n\n"):
        assert shell.check_complete(text.format("%%watch dbg")) == shell.check_complete(text.format("%%time"))


def test_unload_ipython_extension_removes_cell_transformations() -> None:
    shell = InteractiveShell.instance()
    lines = shell.input_transformer_manager.line_transforms
    before = [*lines], [*shell.ast_transformers], dict(shell.magics_manager.magics["cell"])
    for _ in range(2):
        magics.load_ipython_extension(shell)
    assert len(lines) == len(before[0]) + 1
    magics.unload_ipython_extension(shell)
    assert (lines, shell.ast_transformers, shell.magics_manager.magics["cell"]) == before


def test_kernel_displays_watch_once_and_traceback_without_package(kernel: Any) -> None:
    messages: list[dict[str, Any]] = []
    kernel.execute_interactive(SETUP, timeout=120)
    cell = f"%%watch dbg{LOOP}import asyncio\nawait asyncio.sleep(0)\nprint(len(losses))\n1 / 0"
    reply = kernel.execute_interactive(cell, timeout=120, output_hook=messages.append)["content"]
    assert reply["ename"] == "ZeroDivisionError"
    types = [message["msg_type"] for message in messages]
    assert types.count("display_data") == types.count("update_display_data") == types.count("error") == 1
    (display,) = [message["content"]["data"] for message in messages if message["msg_type"] == "update_display_data"]
    assert "nbdebug watch: 4 steps" in display["text/plain"]
    (traceback,) = [message["content"]["traceback"] for message in messages if message["msg_type"] == "error"]
    text = COLORS.sub("", "\n".join(traceback))
    assert text.count("Cell In[2], line 12") == 1
    assert "nbdebug" not in text
