"""Tests of nbdebug check: the script runs as with Python, and its findings are written in each form."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

from nbdebug import cli
from nbdebug.commands.check import CheckedScript, check_script
from tests.scripts import training_scripts
from tests.serialization.sarif_structure import LOG


def write(folder: Path, text: str) -> Path:
    path = folder / "train.py"
    path.write_text(text.lstrip(), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> CheckedScript:
    torch.manual_seed(0)
    return check_script(write(tmp_path_factory.mktemp("functions"), training_scripts.FUNCTIONS), ["--epochs", "3"])


def test_check_finds_objects_and_fault_of_script(checked: CheckedScript) -> None:
    content = checked.to_dict()
    assert content["exit_code"] == 1
    assert content["setup"] == {
        "model": "Net",
        "optimizers": ["Adam"],
        "loss": "CrossEntropyLoss",
        "training_samples": 64,
        "validation_samples": 32,
    }
    assert content["run"]["steps"] == 24
    assert content["script"]["arguments"] == ["--epochs", "3"]
    first = content["findings"][0]
    assert (first["code"], first["line"]) == ("L201", 13)
    assert first["source"].startswith("return torch.softmax")


def test_check_sees_first_batch_and_loader_of_loop(checked: CheckedScript) -> None:
    assert checked.watched is not None
    assert checked.watched.watch is not None
    record = checked.watched.watch.record
    assert [event.step for event in record.events_of_kind("epoch")] == [1, 9, 17]
    assert record.series("loss")[0].tolist() == list(range(1, 25))


def test_check_writes_each_form(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, training_scripts.CRASH)
    assert cli.main(["check", "train.py", "--sarif", "a.sarif", "--output", "a.json", "--github", "--json"]) == 2
    *annotations, last = capfd.readouterr().out.splitlines()
    assert any(line.startswith("::error file=train.py,line=4,title=X1001") for line in annotations)
    assert json.loads(last) == json.loads((tmp_path / "a.json").read_text())
    log = json.loads((tmp_path / "a.sarif").read_text())
    jsonschema.Draft7Validator(LOG).validate(log)
    assert log["runs"][0]["results"][0]["ruleId"] == "X1001"
    content = json.loads(last)
    assert content["crash"]["type"] == "RuntimeError"
    assert (content["crash"]["file"], content["crash"]["line"]) == ("train.py", 6)
    assert content["findings"][0]["line"] == 4


def test_check_without_options_prints_report_after_unchanged_output(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = str(write(tmp_path, training_scripts.TRAINER))
    runpy.run_path(path, run_name="__main__")
    plain = capfd.readouterr().out
    assert len(plain.splitlines()) == 4
    assert cli.main(["check", path]) == 1
    output = capfd.readouterr().out
    assert output.startswith(plain)
    assert "O505 zero-grad-missing" in output.removeprefix(plain)


def test_loss_function_with_keyword_and_loaders_in_dictionary_are_discovered(tmp_path: Path) -> None:
    checked = check_script(write(tmp_path, training_scripts.TRAINER), [], runs_checkup=False)
    assert checked.watched is not None
    objects = checked.watched.objects
    assert objects is not None
    assert objects.loss_fn is not None
    assert objects.loss_fn(torch.zeros(1), torch.full((1,), 0.25)) == pytest.approx(0.0625)
    assert (len(objects.train_loader.dataset), len(objects.val_loader)) == (96, 96)
    assert "O505" in [finding.code for finding in checked.findings]


@pytest.mark.parametrize(
    ("text", "code", "status", "problem"),
    [
        (training_scripts.HEALTHY, 0, 0, ""),
        (training_scripts.INTERRUPTED, 0, 130, ""),
        (training_scripts.WITHOUT_TRAINING, 2, 0, "no pass of a model"),
        (training_scripts.EXIT, 2, 3, "exit status 3"),
        (training_scripts.SYNTAX, 2, 1, "raised SyntaxError"),
    ],
    ids=["healthy", "interrupted", "without training", "exit", "syntax"],
)
def test_exit_code_by_end_of_script(tmp_path: Path, text: str, code: int, status: int, problem: str) -> None:
    before = sys.argv, sys.path[:], sys.modules["__main__"], torch.nn.Module.__call__, torch.optim.Optimizer.__init__
    checked = check_script(write(tmp_path, text), [], final_tests=False)
    content = checked.to_dict()
    assert (content["exit_code"], content["script"]["status"]) == (code, status)
    assert problem in content.get("problem", "")
    assert content["script"].get("interrupted", False) is (status == 130)
    after = sys.argv, sys.path[:], sys.modules["__main__"], torch.nn.Module.__call__, torch.optim.Optimizer.__init__
    assert before == after


def test_script_that_is_no_file_is_unusable(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "missing.py"]) == 2
    assert "script is 'missing.py'; expected a file" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "code"), [("check", 2), ("run", 0)])
def test_error_of_the_report_itself_is_described_and_is_no_finding(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: Any, command: str, code: int
) -> None:
    def fail(*_: Any) -> None:
        raise TypeError("not a finding")

    monkeypatch.setattr(CheckedScript, "to_dict", fail)
    path = write(tmp_path, training_scripts.WITHOUT_TRAINING)
    assert cli.main([command, "--record", str(tmp_path / "run"), str(path)]) == code
    last = capfd.readouterr().err.splitlines()[-1]
    assert last == (
        "nbdebug: the report raised TypeError: not a finding. This is an error of nbdebug, not of the script."
    )


def test_variable_that_cannot_be_inspected_does_not_end_the_script(tmp_path: Path) -> None:
    checked = check_script(write(tmp_path, training_scripts.UNINSPECTABLE), [], runs_checkup=False)
    assert checked.outcome.status == 0
    assert "RuntimeError: no context" in checked.problem


def test_annotations_suit_an_output_without_unicode_and_name_the_problem(tmp_path: Path) -> None:
    write(tmp_path, 'import torch\nraise ValueError("\u2192 \u03c3")\n')
    command = [sys.executable, "-m", "nbdebug", "check", "--github", "train.py"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 2
    assert ended.stdout.splitlines()[-1] == "nbdebug check: the script raised ValueError"


def test_option_of_no_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["rule", "L201", "--jsn"])
    assert "unrecognized arguments: --jsn" in capsys.readouterr().err


def test_script_with_child_process_runs_as_with_python_and_interrupt_keeps_findings(tmp_path: Path) -> None:
    write(tmp_path, training_scripts.SPAWNING)
    commands = ([sys.executable], [sys.executable, "-m", "nbdebug", "check", "--json"])
    plain, under_check = (
        subprocess.run([*command, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
        for command in commands
    )
    assert "('__mp_main__', 'Net') None 0" in plain.stdout
    assert under_check.stdout.startswith(plain.stdout)
    content = json.loads(under_check.stdout.splitlines()[-1])
    assert content["script"] == {"path": "train.py", "arguments": [], "status": 130, "interrupted": True}
    assert content["run"]["steps"] == 3
    assert "KeyboardInterrupt" in under_check.stderr
    assert "nbdebug/scripts" not in under_check.stderr
