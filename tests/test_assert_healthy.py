"""The checkup as an assertion."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nbdebug
from nbdebug.functional import Unhealthy
from nbdebug.rules.examples import classifier
from nbdebug.rules.loss import initial_loss_off, softmax_before_cross_entropy
from nbdebug.setup import Setup

TEST = """
from torch import nn
from nbdebug.rules.examples import classifier

def test_healthy(assert_healthy):
    setup = classifier()
    assert_healthy(setup.model, setup.train_loader, loss_fn=setup.loss_fn)

def test_ill(assert_healthy):
    setup = classifier()
    assert_healthy(nn.Sequential(setup.model, nn.Softmax(1)), setup.train_loader, loss_fn=setup.loss_fn)
"""


def given(setup: Setup) -> tuple[Any, ...]:
    return setup.model, setup.train_loader, setup.val_loader


def test_a_healthy_program_gives_its_report() -> None:
    setup = classifier()
    report = nbdebug.assert_healthy(*given(setup), loss_fn=setup.loss_fn)
    assert report.checked_rules


def test_an_ill_one_fails_with_all_that_was_found() -> None:
    setup = softmax_before_cross_entropy.bad()
    with pytest.raises(AssertionError, match="error L201 softmax-before-cross-entropy: ") as caught:
        nbdebug.assert_healthy(*given(setup), loss_fn=setup.loss_fn)
    assert isinstance(caught.value, Unhealthy)
    assert "L201" in [one.code for one in caught.value.report]


def test_warnings_can_be_allowed_and_codes_ignored() -> None:
    setup = initial_loss_off.bad()
    with pytest.raises(Unhealthy, match="warning L208"):
        nbdebug.assert_healthy(*given(setup), loss_fn=setup.loss_fn)
    nbdebug.assert_healthy(*given(setup), loss_fn=setup.loss_fn, allow="warning")
    nbdebug.assert_healthy(*given(setup), loss_fn=setup.loss_fn, ignore=["L208", "D104"])


@pytest.mark.parametrize("wrong", ["error", "fatal", None])
def test_what_else_may_be_allowed_is_refused(wrong: Any) -> None:
    setup = classifier()
    with pytest.raises(nbdebug.SetupError, match=r"allow is .*; expected 'note' or 'warning'"):
        nbdebug.assert_healthy(*given(setup), loss_fn=setup.loss_fn, allow=wrong)


def test_the_fixture_fails_the_ill_test_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    plugin = ["-p", "no:nbdebug", "-p", "nbdebug.pytest_plugin", "-p", "no:cacheprovider"]
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", *plugin, str(tmp_path)], capture_output=True, text=True)
    assert run.returncode == 1
    assert "1 failed, 1 passed" in run.stdout
    assert "error L201 softmax-before-cross-entropy" in run.stdout
