"""Tests of the command for git bisect run, in a repository with a planted regression too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nbdebug.cli import main
from nbdebug.tools.bisect.command import BAD, GOOD, SKIP, Threshold, bisect_step

SCRIPT = """
import os, random
random.seed(int(os.environ["NBDEBUG_SEED"]))
print("step 1 loss=9.0")
print(f"loss: {LEVEL + random.gauss(0, 0.1):.4f}")
"""


def script(folder: Path, text: str) -> Path:
    path = folder / "train.py"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("print('fine')", GOOD),
        ("raise ValueError('diverged')", BAD),
        ("import no_such_module", SKIP),
        ("def (", SKIP),
        ("import time; time.sleep(60)", BAD),
    ],
)
def test_script_without_metric_is_judged_by_its_end(tmp_path: Path, text: str, status: int) -> None:
    assert bisect_step(script(tmp_path, text), timeout=5.0) == status


@pytest.mark.parametrize(("level", "status"), [(0.2, GOOD), (0.9, BAD)])
def test_metric_is_averaged_until_decided(tmp_path: Path, level: float, status: int) -> None:
    path = script(tmp_path, SCRIPT.replace("LEVEL", str(level)))
    assert bisect_step(path, (), Threshold("loss", 0.5), 8) == status
    assert bisect_step(path, (), Threshold("loss", 0.5, is_good_above=True), 8) == 1 - status


def test_metric_at_its_limit_is_undecided(tmp_path: Path) -> None:
    assert bisect_step(script(tmp_path, SCRIPT.replace("LEVEL", "0.5")), (), Threshold("loss", 0.5), 3) == SKIP


def test_metric_that_is_missing_or_not_finite(tmp_path: Path) -> None:
    assert bisect_step(script(tmp_path, "print('accuracy 3')"), (), Threshold("loss", 0.5)) == SKIP
    assert bisect_step(script(tmp_path, "print('loss nan')"), (), Threshold("loss", 0.5)) == BAD


def test_threshold_keeps_its_level_over_all_looks() -> None:
    import numpy as np

    generator, threshold = np.random.default_rng(0), Threshold("loss", 0.0)
    wrong = 0
    for _ in range(300):
        values = generator.normal(size=6)
        looks = (threshold.judge(values[:count].tolist(), 6) for count in range(1, 7))
        wrong += any(look is not None for look in looks)
    assert wrong / 300 < 0.08


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py"], "script is 'missing.py'; expected a file"),
        (["train.py", "--metric", "loss"], "metric has no limit; expected one"),
        (["train.py", "--runs", "3"], "runs is 3 without a metric"),
        (["train.py", "--runs", "0"], "runs is 0; expected a whole number from 1"),
    ],
)
def test_unusable_options_end_with_status_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    script(tmp_path, "")
    monkeypatch.chdir(tmp_path)
    assert main(["bisect-step", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_git_bisect_run_names_the_commit_of_a_regression(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
        done = subprocess.run(["git", *identity, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout

    git("init", "--quiet")
    for number in range(8):
        level = 0.2 if number < 5 else 0.9
        script(tmp_path, SCRIPT.replace("LEVEL", str(level)) + f"# version {number}\n")
        git("add", "train.py")
        git("commit", "--quiet", "--message", f"version {number}")
    git("bisect", "start", "HEAD", "HEAD~7")
    command = [
        sys.executable,
        "-m",
        "nbdebug",
        "bisect-step",
        "train.py",
        "--metric",
        "loss",
        "--below",
        "0.5",
        "--runs",
        "6",
    ]
    assert "version 5" in git("bisect", "run", *command)
