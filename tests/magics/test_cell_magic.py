"""``%%watch`` around the user's own training cell, in a real IPython and in a real kernel."""

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
    found = InteractiveShell.instance()
    found.reset(new_session=False)
    found.run_cell(SETUP).raise_error()
    yield found
    found.run_cell("%unload_ext nbdebug")
    found.reset(new_session=False)


def run(shell: InteractiveShell, text: str) -> ExecutionResult:
    """A cell, counted as a notebook counts it."""
    return shell.run_cell(text, store_history=True)


def test_a_watched_cell_leaves_its_names_its_last_value_and_the_watch(shell: InteractiveShell) -> None:
    done = run(shell, f"%%watch dbg{LOOP}losses")
    assert done.success
    assert done.result == shell.user_ns["_"] == shell.user_ns["losses"]
    watched = shell.user_ns["run"].result
    assert watched.steps == len(done.result) == 4
    assert [value for _, value in watched.loss] == pytest.approx(done.result)


@pytest.mark.parametrize(
    ("cell", "said"),
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
def test_values_are_shown_as_without_the_magic(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], cell: str, said: str
) -> None:
    run(shell, cell).raise_error()
    assert COLORS.sub("", capsys.readouterr().out).partition(": ")[2].strip() == said


def test_await_works_at_the_top_of_a_watched_cell(shell: InteractiveShell) -> None:
    cell = f"%%watch dbg\nimport asyncio\nbefore = await asyncio.sleep(0, 'there'){LOOP}await asyncio.sleep(0, before)"
    assert run(shell, cell).result == "there"
    assert shell.user_ns["run"].result.steps == 4


def test_an_error_shows_the_traceback_that_it_has_without_the_magic(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{LOOP}\ndef wrong():\n    1 / 0\n\nfor epoch in range(3):\n    wrong()\n"
    shown = []
    for head in ("# plain", "%%watch dbg"):
        done = run(shell, head + text)
        assert isinstance(done.error_in_exec, ZeroDivisionError)
        shown.append(COLORS.sub("", capsys.readouterr().out).replace(f"In[{done.execution_count}]", "In[n]"))
    assert "Cell In[n], line 14\n" in shown[1]
    assert "Cell In[n], line 11, in wrong()\n" in shown[1]
    assert shown[1] == shown[0]
    assert shell.user_ns["run"].result.steps == 4


def test_an_error_of_syntax_is_said_before_anything_runs(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(shell, "%%watch dbg\nreached = True\nfor\n")
    assert isinstance(done.error_before_exec, SyntaxError)
    assert done.error_before_exec.lineno == 3
    assert "reached" not in shell.user_ns
    assert "run" not in shell.user_ns


@pytest.mark.filterwarnings("ignore:To exit")
@pytest.mark.parametrize("kind", ["KeyboardInterrupt", "SystemExit"])
def test_an_interrupt_passes_and_what_was_seen_is_kept(shell: InteractiveShell, kind: str) -> None:
    done = run(shell, f"%%watch dbg{LOOP}    if len(losses) == 3:\n        raise {kind}")
    assert type(done.error_in_exec).__name__ == kind
    assert shell.user_ns["run"].result.steps == 3
    assert shell.user_ns["run"].result.interrupted == (kind == "KeyboardInterrupt")
    optimizer: Optimizer = shell.user_ns["optimizer"]
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks


def test_options_reach_the_watch(shell: InteractiveShell) -> None:
    cell = f'%%watch dbg --every 2 --budget=0.5 --match "2*" --stop-on warning{LOOP}'
    run(shell, cell).raise_error()
    watch = shell.user_ns["run"]
    assert watch.record.series("gradient.norm", "2.weight")[0].tolist() == [1, 3]
    assert watch.record.tensors("gradient.norm") == ["2.weight", "2.bias"]
    assert (watch.time_budget.budget, watch.controls.stop_on) == (0.5, "warning")


def test_a_stop_ends_the_cell_without_an_error(shell: InteractiveShell) -> None:
    done = run(
        shell, f"%%watch dbg{LOOP}    if len(losses) == 2:\n        run.controls.stop_reason = 'a test'\nnever = 1"
    )
    assert done.success
    assert len(shell.user_ns["losses"]) == 2
    assert "never" not in shell.user_ns
    assert shell.user_ns["run"].record.events[-1].text == "stopped by a test"


def test_a_finding_names_the_cell_and_the_line(shell: InteractiveShell) -> None:
    text = f"for epoch in range(2):{LOOP}".replace("\n", "\n    ").replace("optimizer.zero_grad()", "pass")
    places = []
    for head in ("with dbg.watch() as run:\n  if 1:\n   ", "%%watch dbg\nif 1:\n  if 1:\n   "):
        done = run(shell, head + text)
        done.raise_error()
        (finding,) = [one for one in shell.user_ns["run"].result.report if one.code == "O505"]
        places.append((finding.where.cell, finding.where.line))
        assert finding.where.cell == done.execution_count
        assert finding.where.source.strip() == "loss.backward()"
    assert places[1] == (places[0][0] + 1, places[0][1] + 1)


@pytest.mark.parametrize(
    ("line", "words"),
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
def test_wrong_use_is_refused_and_the_cell_does_not_run(shell: InteractiveShell, line: str, words: str) -> None:
    done = run(shell, f"%%watch {line}\nreached = True")
    assert type(done.error_in_exec).__name__ == "UsageError"
    assert words in str(done.error_in_exec)
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
def test_completion_offers_what_can_stand_there(shell: InteractiveShell, line: str, choices: list[str]) -> None:
    assert [one for one in sorted(shell.complete(None, line, len(line))[1]) if "/" not in one] == choices


def test_help_is_shown_and_a_terminal_waits_for_the_body(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    run(shell, "%%watch?")
    assert "--stop-on" in capsys.readouterr().out
    for text in ("{}\n", "{}\nx = 1", "{}\nx = 1\n\n"):
        assert shell.check_complete(text.format("%%watch dbg")) == shell.check_complete(text.format("%%time"))


def test_unloading_takes_the_transformations_away() -> None:
    shell = InteractiveShell.instance()
    lines = shell.input_transformer_manager.line_transforms
    before = [*lines], [*shell.ast_transformers], dict(shell.magics_manager.magics["cell"])
    for _ in range(2):
        magics.load_ipython_extension(shell)
    assert len(lines) == len(before[0]) + 1
    magics.unload_ipython_extension(shell)
    assert (lines, shell.ast_transformers, shell.magics_manager.magics["cell"]) == before


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_a_kernel_shows_the_result_once_and_the_users_own_error(kernel: Any) -> None:
    found: list[dict[str, Any]] = []
    kernel.execute_interactive(SETUP, timeout=120)
    cell = f"%%watch dbg{LOOP}import asyncio\nawait asyncio.sleep(0)\nprint(len(losses))\n1 / 0"
    reply = kernel.execute_interactive(cell, timeout=120, output_hook=found.append)["content"]
    assert reply["ename"] == "ZeroDivisionError"
    kinds = [one["msg_type"] for one in found]
    assert kinds.count("display_data") == kinds.count("update_display_data") == kinds.count("error") == 1
    (shown,) = [one["content"]["data"] for one in found if one["msg_type"] == "update_display_data"]
    assert "nbdebug watch: 4 steps" in shown["text/plain"]
    (error,) = [one["content"]["traceback"] for one in found if one["msg_type"] == "error"]
    text = COLORS.sub("", "\n".join(error))
    assert text.count("Cell In[2], line 12") == 1
    assert "nbdebug" not in text
