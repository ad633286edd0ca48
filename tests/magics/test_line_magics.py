"""Tests of the line magics in an IPython shell and in a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from nbdebug import debugger, magics
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
    interactive = InteractiveShell.instance()
    interactive.run_cell("%load_ext nbdebug")
    interactive.run_cell(SETUP)
    yield interactive
    interactive.run_cell("%unload_ext nbdebug")
    interactive.reset(new_session=False)


def run(shell: InteractiveShell, text: str) -> Any:
    """The value of a cell; raises its error."""
    execution = shell.run_cell(text)
    execution.raise_error()
    return execution.result


def usage_message(shell: InteractiveShell, text: str) -> str:
    """The message of the UsageError of a cell."""
    execution = shell.run_cell(text)
    assert type(execution.error_in_exec).__name__ == "UsageError"
    return str(execution.error_in_exec)


def completions(shell: InteractiveShell, text: str) -> list[str]:
    """The completions at the end of a line."""
    return list(shell.complete(None, text, len(text))[1])


def test_checkup_and_overfit_without_name_use_only_debugger(shell: InteractiveShell) -> None:
    assert [finding.code for finding in run(shell, "%checkup")] == ["L201"]
    assert run(shell, "%overfit").verdict == "fail"


def test_data_parses_number_of_samples_or_all(shell: InteractiveShell) -> None:
    assert run(shell, "%data --samples 8 --seed 3").splits[0].read == 8
    assert run(shell, "%data --samples all").splits[0].is_complete
    assert "expected a whole number or all" in usage_message(shell, "%data --samples few")


def test_lr_range_parses_and_completes_options(shell: InteractiveShell) -> None:
    line = "%lr_range --start 1e-4 --end=1 --steps 12 --seeds 2 --mode linear --max-norm 0.5 --confirm 20"
    result = run(shell, line)
    assert [(len(sweep.losses), sweep.values[0]) for sweep in result.sweeps] == [(12, 1e-4)] * 2
    assert result.mode == "linear"
    assert "expected a number" in usage_message(shell, "%lr_range --end high")
    assert completions(shell, "%lr_range --mode ") == ["exp", "linear"]
    assert completions(shell, "%lr_range --se") == ["--seeds"]


def test_nbdebug_summary_uses_named_or_only_debugger(shell: InteractiveShell) -> None:
    unnamed, named = run(shell, "%nbdebug summary"), run(shell, "%nbdebug summary dbg")
    assert unnamed.model_row.parameters == named.model_row.parameters > 0
    assert completions(shell, "%nbdebug summary d") == ["dbg"]


def test_triage_takes_a_name_or_words(shell: InteractiveShell) -> None:
    assert run(shell, "%triage dbg loss-flat").patterns == ("loss-flat",)
    assert run(shell, "%triage the loss is nan").patterns[0] == "nan"
    assert "loss-flat" in completions(shell, "%triage dbg loss")


def test_compare_and_batch_size_parse_and_complete_options(shell: InteractiveShell) -> None:
    result = run(shell, "%compare --optimizers yours,LBFGS --schedules constant,step --steps 10 --seeds 1")
    assert {len(entry.runs) for entry in result.entries} == {1}
    assert len(result.entries) == 4
    assert "expected names" in usage_message(shell, "%compare --schedules")
    assert completions(shell, "%compare --optimizers sg") == []
    assert completions(shell, "%compare --optimizers SGD") == ["SGD", "SGD+momentum"]
    assert [entry.size for entry in run(shell, "%batch_size dbg --start 4 --most=16").sizes] == [4, 8, 16]
    assert "expected a whole number" in usage_message(shell, "%batch_size --most all")


def test_try_fix_takes_a_change_or_the_code_of_a_finding(shell: InteractiveShell) -> None:
    run(shell, "%checkup")
    assert run(shell, "%try_fix L201 --steps 8 --seeds 2").change == "fix of L201"
    result = run(shell, '%try_fix "learning rate=0.02" dbg --steps 6 --seeds 3')
    assert (result.change, result.steps, len(result.before)) == ("learning rate 0.02", 6, 3)
    assert "got no change; expected the code of a finding" in usage_message(shell, "%try_fix --steps 8")


def test_errors_parses_and_completes_loader(shell: InteractiveShell) -> None:
    table = run(shell, "%errors dbg --loader train").table
    assert len(table) == len(shell.user_ns["dbg"].train_loader.dataset)
    assert sorted(completions(shell, "%errors --loader ")) == ["train", "val"]
    execution = shell.run_cell("%errors dbg --loader test")
    assert "expected 'val', 'train' or a loader" in str(execution.error_in_exec)


def test_explain_parses_sample_index_and_options(shell: InteractiveShell) -> None:
    explanation = run(shell, "%explain 3 dbg --loader train --target 1 --method saliency")
    assert explanation.keys == (3,)
    assert explanation.attribution.method == "saliency"
    assert explanation.attribution.classes.tolist() == [1]
    assert run(shell, "%explain 3,4 --method saliency").keys == (3, 4)
    assert "saliency" in completions(shell, "%explain 3 --method ")
    assert completions(shell, "%explain 3 --background z") == ["zeros"]
    assert "expected one such as 17" in usage_message(shell, "%explain dbg")
    assert "got 2 indices" in usage_message(shell, "%explain 3 4")


def test_checkup_and_overfit_pass_options_to_tools(shell: InteractiveShell) -> None:
    assert run(shell, "%checkup dbg --select D,O --ignore D103 --budget quick").findings == ()
    result = run(shell, "%overfit dbg --examples=8 --steps 20 --seed 3")
    assert len(result.examples) == 8
    assert result.steps == 20


def test_checkup_magic_returns_report_in_assignment(shell: InteractiveShell) -> None:
    assert run(shell, "report = %checkup dbg\nreport[0].code") == "L201"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%checkup --budjet quick", "expected one of --select, --ignore, --budget. Did you mean --budget?"),
        ("%checkup nobody", "'nobody' is not a Debugger; expected dbg"),
        ("%checkup dbg dbg", "%checkup got 2 names"),
        ("%checkup --select", "--select is ''; expected codes"),
        ("%overfit --examples many", "--examples is 'many'; expected a whole number"),
        ("%overfit --select L", "expected one of --examples, --steps, --seed"),
        ("%overfit 'dbg", "expected closed quotes"),
        (
            "%nbdebug rul L201",
            "expected one of summary, runs, rule, rules, restore, errors, models, help. Did you mean rule?",
        ),
        ("%nbdebug rule", "expected one code or name"),
        ("%nbdebug summary dbg dbg", "expected one Debugger"),
        ("%nbdebug summary nobody", "'nobody' is not a Debugger; expected dbg"),
        ("%nbdebug rule L999", "rule is 'L999'"),
    ],
)
def test_magic_with_invalid_line_raises_with_choices(shell: InteractiveShell, line: str, message: str) -> None:
    assert message in usage_message(shell, line)


def test_magic_without_name_and_no_or_several_debuggers_raises(shell: InteractiveShell) -> None:
    run(shell, "same = dbg")
    assert len(run(shell, "%checkup")) == 1
    run(shell, "other = Debugger.of(classifier())")
    assert "there are several Debuggers: dbg, same, other; expected one. Add dbg." in usage_message(shell, "%overfit")
    run(shell, "del dbg, same, other")
    assert "there is no Debugger" in usage_message(shell, "%checkup")
    assert "Create one" in usage_message(shell, "%checkup dbg")


def test_nbdebug_magic_prints_rule_list_and_help(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "%nbdebug rule softmax-before-cross-entropy")
    assert "## How to fix" in capsys.readouterr().out
    run(shell, "%nbdebug rules")
    assert "T608  error    cannot-overfit" in capsys.readouterr().out
    run(shell, "%nbdebug")
    overview = capsys.readouterr().out
    assert all(f"%{name}" in overview for name in MAGICS)
    assert all(option in overview for options in OPTIONS.values() for option in options)


def test_nbdebug_restore_ends_preserve_block(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "%nbdebug restore")
    assert capsys.readouterr().out == "nothing to restore\n"
    run(shell, "from nbdebug.preserve import Preserve\nblock = Preserve(dbg.setup.model).__enter__()")
    run(shell, "dbg.setup.model[0].bias.data.zero_()")
    capsys.readouterr()
    run(shell, "%nbdebug restore")
    assert capsys.readouterr().out == "restored 1 open block\n"
    assert run(shell, "bool(dbg.setup.model[0].bias.any())")


def test_magic_with_question_mark_prints_help(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
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
        ("%nbdebug r", ["restore", "rule", "rules", "runs"]),
        ("%nbdebug rule L201", ["L201"]),
    ],
)
def test_completion_offers_valid_words_only(shell: InteractiveShell, line: str, choices: list[str]) -> None:
    assert sorted(completions(shell, line)) == choices


def extension_state(shell: InteractiveShell) -> dict[str, Any]:
    """All parts of a shell that an extension may change."""
    completers = shell.strdispatchers["complete_command"].strs
    return {
        "line": dict(shell.magics_manager.magics["line"]),
        "cell": dict(shell.magics_manager.magics["cell"]),
        "completers": {key: list(chain) for key, chain in completers.items()},
        "events": {name: list(callbacks) for name, callbacks in shell.events.callbacks.items()},
        "transformers": [list(shell.input_transformers_cleanup), list(shell.ast_transformers)],
        "matchers": list(shell.Completer.custom_matchers),
    }


def test_unload_ipython_extension_restores_shell() -> None:
    shell = InteractiveShell.instance()
    before = extension_state(shell)
    for _ in range(2):
        magics.load_ipython_extension(shell)
    assert extension_state(shell) != before
    magics.unload_ipython_extension(shell)
    assert extension_state(shell) == before
    magics.unload_ipython_extension(shell)


def test_load_ipython_extension_twice_completes_without_duplicates(shell: InteractiveShell) -> None:
    magics.load_ipython_extension(shell)
    assert completions(shell, "%checkup --b") == ["--budget"]


@pytest.fixture
def reloaded_module() -> Iterator[None]:
    """Restore the names of `nbdebug.debugger`, as other tests have imported its class before the reload."""
    before = dict(vars(debugger))
    yield
    vars(debugger).update(before)


@pytest.mark.usefixtures("reloaded_module")
def test_checkup_accepts_debugger_of_class_before_reload(shell: InteractiveShell) -> None:
    run(shell, "import importlib, nbdebug.debugger\nbefore = Debugger")
    run(shell, "%reload_ext nbdebug")
    run(shell, "importlib.reload(nbdebug.debugger)\nassert nbdebug.debugger.Debugger is not before")
    assert [finding.code for finding in run(shell, "%checkup dbg")] == ["L201"]


def test_magics_work_under_autoreload(shell: InteractiveShell) -> None:
    run(shell, "%load_ext autoreload\n%autoreload 2")
    try:
        assert [finding.code for finding in run(shell, "%checkup")] == ["L201"]
        assert run(shell, "%overfit --steps 20").steps == 20
    finally:
        run(shell, "%autoreload 0\n%unload_ext autoreload")


def outputs(kernel: Any, text: str) -> tuple[str, list[dict[str, Any]]]:
    """The status and the displayed data of a cell that runs in a kernel."""
    messages: list[dict[str, Any]] = []
    reply = kernel.execute_interactive(text, timeout=120, output_hook=messages.append)
    types = ("display_data", "execute_result", "update_display_data")
    displays = [message["content"]["data"] for message in messages if message["header"]["msg_type"] in types]
    return reply["content"]["status"], displays


def test_kernel_displays_result_once_and_completes_magics(kernel: Any) -> None:
    assert outputs(kernel, "%load_ext nbdebug\n" + SETUP)[0] == "ok"
    page = outputs(kernel, "%nbdebug rule L201")[1][0]["text/markdown"]
    assert page.startswith("#### L201 softmax-before-cross-entropy (error)\n")
    assert "\n**How to fix**\n" in page
    status, displays = outputs(kernel, "%overfit dbg")
    assert status == "ok"
    pages = [data for data in displays if "overfit: fail" in data.get("text/plain", "")]
    assert len(pages) == 1
    assert "text/html" in pages[0]
    reply = kernel.complete("%checkup --select L20", reply=True, timeout=60)
    assert "L201" in reply["content"]["matches"]
    for text, choices in (
        ("%checkup dbg --", ["--budget", "--ignore", "--select"]),
        ("%nbdebug ru", ["rule", "rules", "runs"]),
    ):
        reply = kernel.complete(text, reply=True, timeout=60)
        assert sorted(reply["content"]["matches"]) == choices, "magic options only, no Python names"
    reply = kernel.complete("errors = le", reply=True, timeout=60)
    assert "len" in reply["content"]["matches"], "errors is also the name of a magic"


INTERRUPTED_CELL = """
import os, signal
class Interrupting(torch.nn.Module):
    calls = 0
    def forward(self, x):
        Interrupting.calls += 1
        if Interrupting.calls == 30:
            os.kill(os.getpid(), signal.SIGINT)
        return x
debugger = Debugger.of(classifier(Interrupting(), torch.nn.Softmax(1)))
weight = debugger.setup.model[0].weight.clone()
result = %overfit debugger
assert result.stopped and 10 < result.steps < 30, result
assert torch.equal(weight, debugger.setup.model[0].weight)
"""


def test_interrupted_overfit_in_kernel_keeps_result(kernel: Any) -> None:
    assert outputs(kernel, "%load_ext nbdebug\n" + SETUP)[0] == "ok"
    status, displays = outputs(kernel, INTERRUPTED_CELL)
    assert status == "ok"
    assert any("Stopped at loss" in data.get("text/plain", "") for data in displays)
