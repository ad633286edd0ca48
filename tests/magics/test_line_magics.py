"""The magics in a real IPython, and in a real kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from nbdebug import magics
from nbdebug.magics.arguments import OPTIONS
from nbdebug.magics.line_magics import MAGICS

SETUP = """
from nbdebug.debugger import Debugger
from nbdebug.rules.examples import classifier
import torch
dbg = Debugger.of(classifier(torch.nn.Softmax(1)))
"""


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    found = InteractiveShell.instance()
    found.run_cell("%load_ext nbdebug")
    found.run_cell(SETUP)
    yield found
    found.run_cell("%unload_ext nbdebug")
    found.reset(new_session=False)


def run(shell: InteractiveShell, text: str) -> Any:
    """The value of a cell; raises what it raised."""
    done = shell.run_cell(text)
    done.raise_error()
    return done.result


def refused(shell: InteractiveShell, text: str) -> str:
    """What a cell says of its wrong use."""
    done = shell.run_cell(text)
    assert type(done.error_in_exec).__name__ == "UsageError"
    return str(done.error_in_exec)


def offered(shell: InteractiveShell, text: str) -> list[str]:
    """What completion offers at the end of a line."""
    return list(shell.complete(None, text, len(text))[1])


def test_checkup_and_overfit_take_the_only_debugger(shell: InteractiveShell) -> None:
    assert [one.code for one in run(shell, "%checkup")] == ["L201"]
    assert run(shell, "%overfit").verdict == "fail"


def test_the_range_test_takes_options(shell: InteractiveShell) -> None:
    found = run(shell, "%lr_range --start 1e-4 --end=1 --steps 12 --seeds 2 --mode linear --max-norm 0.5 --confirm 20")
    assert [(len(one.losses), one.values[0]) for one in found.sweeps] == [(12, 1e-4)] * 2
    assert found.mode == "linear"
    assert "expected a number" in refused(shell, "%lr_range --end high")
    assert offered(shell, "%lr_range --mode ") == ["exp", "linear"]
    assert offered(shell, "%lr_range --se") == ["--seeds"]


def test_the_summary_takes_a_debugger_or_the_only_one(shell: InteractiveShell) -> None:
    assert (
        run(shell, "%nbdebug summary").model_row.parameters
        == run(shell, "%nbdebug summary dbg").model_row.parameters
        > 0
    )
    assert offered(shell, "%nbdebug summary d") == ["dbg"]


def test_the_contest_and_the_batch_size_finder_take_options(shell: InteractiveShell) -> None:
    found = run(shell, "%compare --optimizers yours,LBFGS --schedules constant,step --steps 10 --seeds 1")
    assert {len(one.runs) for one in found.entries} == {1}
    assert len(found.entries) == 4
    assert "expected names" in refused(shell, "%compare --schedules")
    assert offered(shell, "%compare --optimizers sg") == []
    assert offered(shell, "%compare --optimizers SGD") == ["SGD", "SGD+momentum"]
    assert [one.size for one in run(shell, "%batch_size dbg --start 4 --most=16").sizes] == [4, 8, 16]
    assert "expected a whole number" in refused(shell, "%batch_size --most all")


def test_the_error_browser_takes_a_split(shell: InteractiveShell) -> None:
    table = run(shell, "%errors dbg --loader train").table
    assert len(table) == len(shell.user_ns["dbg"].train_loader.dataset)
    assert sorted(offered(shell, "%errors --loader ")) == ["train", "val"]
    done = shell.run_cell("%errors dbg --loader test")
    assert "expected 'val', 'train' or a loader" in str(done.error_in_exec)


def test_the_explanation_takes_a_place(shell: InteractiveShell) -> None:
    found = run(shell, "%explain 3 dbg --loader train --target 1 --method saliency")
    assert found.keys == (3,)
    assert found.attribution.method == "saliency"
    assert found.attribution.classes.tolist() == [1]
    assert run(shell, "%explain 3,4 --method saliency").keys == (3, 4)
    assert "saliency" in offered(shell, "%explain 3 --method ")
    assert offered(shell, "%explain 3 --background z") == ["zeros"]
    assert "expected one such as 17" in refused(shell, "%explain dbg")
    assert "got 2 indices" in refused(shell, "%explain 3 4")


def test_options_reach_the_tools(shell: InteractiveShell) -> None:
    assert run(shell, "%checkup dbg --select D,O --ignore D103 --budget quick").findings == ()
    result = run(shell, "%overfit dbg --examples=8 --steps 20 --seed 3")
    assert len(result.examples) == 8
    assert result.steps == 20


def test_a_magic_works_in_an_assignment(shell: InteractiveShell) -> None:
    assert run(shell, "report = %checkup dbg\nreport[0].code") == "L201"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%checkup --budjet quick", "expected one of --select, --ignore, --budget. Did you mean --budget?"),
        ("%checkup nobody", "'nobody' is not a Debugger; expected dbg"),
        ("%checkup dbg dbg", "%checkup got 2 names"),
        ("%checkup --select", "--select is ''; expected codes"),
        ("%overfit --examples many", "--examples is 'many'; expected a whole number"),
        ("%overfit --select L", "expected one of --examples, --steps, --seed"),
        ("%overfit 'dbg", "expected closed quotes"),
        ("%nbdebug rul L201", "expected one of summary, rule, rules, restore, help. Did you mean rule?"),
        ("%nbdebug rule", "expected one code or name"),
        ("%nbdebug summary dbg dbg", "expected one Debugger"),
        ("%nbdebug summary nobody", "'nobody' is not a Debugger; expected dbg"),
        ("%nbdebug rule L999", "rule is 'L999'"),
    ],
)
def test_wrong_use_is_refused_with_the_choices(shell: InteractiveShell, line: str, words: str) -> None:
    assert words in refused(shell, line)


def test_none_and_several_debuggers_are_told_apart(shell: InteractiveShell) -> None:
    run(shell, "same = dbg")
    assert len(run(shell, "%checkup")) == 1
    run(shell, "other = Debugger.of(classifier())")
    assert "there are several Debuggers: dbg, same, other; expected one. Add dbg." in refused(shell, "%overfit")
    run(shell, "del dbg, same, other")
    assert "there is no Debugger" in refused(shell, "%checkup")
    assert "Create one" in refused(shell, "%checkup dbg")


def test_the_rulebook_is_printed(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "%nbdebug rule softmax-before-cross-entropy")
    assert "## How to fix" in capsys.readouterr().out
    run(shell, "%nbdebug rules")
    assert "T608  error    cannot-overfit" in capsys.readouterr().out
    run(shell, "%nbdebug")
    said = capsys.readouterr().out
    assert all(f"%{name}" in said for name in MAGICS)
    assert all(option in said for options in OPTIONS.values() for option in options)


def test_restore_puts_back_what_is_open(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "%nbdebug restore")
    assert capsys.readouterr().out == "nothing to restore\n"
    run(shell, "from nbdebug.preserve import Preserve\nopen_one = Preserve(dbg.setup.model).__enter__()")
    run(shell, "dbg.setup.model[0].bias.data.zero_()")
    capsys.readouterr()
    run(shell, "%nbdebug restore")
    assert capsys.readouterr().out == "restored 1 open block\n"
    assert run(shell, "bool(dbg.setup.model[0].bias.any())")


def test_help_is_shown_for_a_question_mark(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "%checkup?")
    assert "--budget" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "choices"),
    [
        ("%checkup ", ["--budget", "--ignore", "--select", "dbg"]),
        ("%checkup dbg --b", ["--budget"]),
        ("%checkup --budget ", ["quick", "standard", "thorough"]),
        ("%checkup --budget t", ["thorough"]),
        ("%checkup --select T608", ["T608"]),
        ("%checkup --ignore L201,T608", ["T608"]),
        ("%overfit --examples 8 --s", ["--seed", "--steps"]),
        ("overfit d", ["dbg"]),
        ("%nbdebug r", ["restore", "rule", "rules"]),
        ("%nbdebug rule L201", ["L201"]),
    ],
)
def test_completion_offers_what_can_stand_there(shell: InteractiveShell, line: str, choices: list[str]) -> None:
    assert sorted(offered(shell, line)) == choices


def state(shell: InteractiveShell) -> dict[str, Any]:
    """All of a shell that an extension may touch."""
    completers = shell.strdispatchers["complete_command"].strs
    return {
        "line": dict(shell.magics_manager.magics["line"]),
        "cell": dict(shell.magics_manager.magics["cell"]),
        "completers": {key: list(chain) for key, chain in completers.items()},
        "events": {name: list(found) for name, found in shell.events.callbacks.items()},
        "transformers": [list(shell.input_transformers_cleanup), list(shell.ast_transformers)],
        "matchers": list(shell.Completer.custom_matchers),
    }


def test_unloading_leaves_nothing_behind() -> None:
    shell = InteractiveShell.instance()
    before = state(shell)
    for _ in range(2):
        magics.load_ipython_extension(shell)
    assert state(shell) != before
    magics.unload_ipython_extension(shell)
    assert state(shell) == before
    magics.unload_ipython_extension(shell)


def test_loading_twice_offers_nothing_twice(shell: InteractiveShell) -> None:
    magics.load_ipython_extension(shell)
    assert offered(shell, "%checkup --b") == ["--budget"]


def test_a_debugger_of_a_reloaded_class_is_known(shell: InteractiveShell) -> None:
    run(shell, "import importlib, nbdebug.debugger\nbefore = Debugger")
    run(shell, "%reload_ext nbdebug")
    run(shell, "importlib.reload(nbdebug.debugger)\nassert nbdebug.debugger.Debugger is not before")
    assert [one.code for one in run(shell, "%checkup dbg")] == ["L201"]


def test_autoreload_does_not_take_the_magics_away(shell: InteractiveShell) -> None:
    run(shell, "%load_ext autoreload\n%autoreload 2")
    try:
        assert [one.code for one in run(shell, "%checkup")] == ["L201"]
        assert run(shell, "%overfit --steps 20").steps == 20
    finally:
        run(shell, "%autoreload 0\n%unload_ext autoreload")


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def outputs(kernel: Any, text: str) -> tuple[str, list[dict[str, Any]]]:
    """The status of a cell run in a kernel, and what it displayed."""
    found: list[dict[str, Any]] = []
    reply = kernel.execute_interactive(text, timeout=120, output_hook=lambda message: found.append(message))
    kinds = ("display_data", "execute_result", "update_display_data")
    return reply["content"]["status"], [one["content"]["data"] for one in found if one["header"]["msg_type"] in kinds]


def test_a_kernel_shows_the_result_once_and_completes(kernel: Any) -> None:
    assert outputs(kernel, "%load_ext nbdebug\n" + SETUP)[0] == "ok"
    page = outputs(kernel, "%nbdebug rule L201")[1][0]["text/markdown"]
    assert page.startswith("#### L201 softmax-before-cross-entropy (error)\n")
    assert "\n**How to fix**\n" in page
    status, shown = outputs(kernel, "%overfit dbg")
    assert status == "ok"
    pages = [one for one in shown if "overfit: fail" in one.get("text/plain", "")]
    assert len(pages) == 1
    assert "text/html" in pages[0]
    reply = kernel.complete("%checkup --select L20", reply=True, timeout=60)
    assert "L201" in reply["content"]["matches"]
    for text, offered in (
        ("%checkup dbg --", ["--budget", "--ignore", "--select"]),
        ("%nbdebug ru", ["rule", "rules"]),
    ):
        reply = kernel.complete(text, reply=True, timeout=60)
        assert sorted(reply["content"]["matches"]) == offered, "and no words of Python"
    reply = kernel.complete("errors = le", reply=True, timeout=60)
    assert "len" in reply["content"]["matches"], "a name that is that of a magic too"


INTERRUPTED = """
import os, signal
class Interrupting(torch.nn.Module):
    calls = 0
    def forward(self, x):
        Interrupting.calls += 1
        if Interrupting.calls == 30:
            os.kill(os.getpid(), signal.SIGINT)
        return x
late = Debugger.of(classifier(Interrupting(), torch.nn.Softmax(1)))
weight = late.setup.model[0].weight.clone()
result = %overfit late
assert result.stopped and 10 < result.steps < 30, result
assert torch.equal(weight, late.setup.model[0].weight)
"""


def test_an_interrupt_in_a_kernel_keeps_what_was_seen(kernel: Any) -> None:
    assert outputs(kernel, "%load_ext nbdebug\n" + SETUP)[0] == "ok"
    status, shown = outputs(kernel, INTERRUPTED)
    assert status == "ok"
    assert any("Stopped at loss" in one.get("text/plain", "") for one in shown)
