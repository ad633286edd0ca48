"""Tests of assert_healthy and of its pytest fixture."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nbdebug
from nbdebug.assertions import Unhealthy
from nbdebug.rules.examples import classifier
from nbdebug.rules.loss import initial_loss_off, softmax_before_cross_entropy
from nbdebug.setup import Setup

TEST_FILE = """
from torch import nn
from nbdebug.rules.examples import classifier

def test_healthy(assert_healthy):
    setup = classifier()
    assert_healthy(setup.model, setup.train_loader, loss_fn=setup.loss_fn)

def test_faulty(assert_healthy):
    setup = classifier()
    assert_healthy(nn.Sequential(setup.model, nn.Softmax(1)), setup.train_loader, loss_fn=setup.loss_fn)
"""


def model_and_loaders(setup: Setup) -> tuple[Any, ...]:
    return setup.model, setup.train_loader, setup.val_loader


def test_assert_healthy_on_healthy_setup_returns_report() -> None:
    setup = classifier()
    report = nbdebug.assert_healthy(*model_and_loaders(setup), loss_fn=setup.loss_fn)
    assert report.checked_rules


def test_assert_healthy_on_faulty_setup_raises_with_report() -> None:
    setup = softmax_before_cross_entropy.bad()
    with pytest.raises(AssertionError, match="error L201 softmax-before-cross-entropy: ") as error:
        nbdebug.assert_healthy(*model_and_loaders(setup), loss_fn=setup.loss_fn)
    assert isinstance(error.value, Unhealthy)
    assert "L201" in [finding.code for finding in error.value.report]


def test_assert_healthy_accepts_allowed_warnings_and_ignored_codes() -> None:
    setup = initial_loss_off.bad()
    with pytest.raises(Unhealthy, match="warning L208"):
        nbdebug.assert_healthy(*model_and_loaders(setup), loss_fn=setup.loss_fn)
    nbdebug.assert_healthy(*model_and_loaders(setup), loss_fn=setup.loss_fn, allow="warning")
    nbdebug.assert_healthy(*model_and_loaders(setup), loss_fn=setup.loss_fn, ignore=["L208", "D104"])


@pytest.mark.parametrize("severity", ["error", "fatal", None])
def test_assert_healthy_with_unknown_severity_to_allow_raises(severity: Any) -> None:
    setup = classifier()
    with pytest.raises(nbdebug.SetupError, match=r"allow is .*; expected 'note' or 'warning'"):
        nbdebug.assert_healthy(*model_and_loaders(setup), loss_fn=setup.loss_fn, allow=severity)


def test_assert_healthy_fixture_fails_only_faulty_test(tmp_path: Path) -> None:
    (tmp_path / "test_setups.py").write_text(TEST_FILE)
    plugin = ["-p", "no:nbdebug", "-p", "nbdebug.pytest_plugin", "-p", "no:cacheprovider"]
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", *plugin, str(tmp_path)], capture_output=True, text=True)
    assert run.returncode == 1
    assert "1 failed, 1 passed" in run.stdout
    assert "error L201 softmax-before-cross-entropy" in run.stdout
