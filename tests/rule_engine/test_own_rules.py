"""Tests of rules that a program or an installed package adds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.rule_engine import rule_registry

RULE = '''
from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule

@rule("M998", "warning")
def two_columns(setup):
    """The model takes two columns."""
    if setup.model.in_features == 2:
        yield Finding("The model takes two columns.")
'''


@pytest.fixture
def own_rules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget the rules that a test adds."""
    monkeypatch.setattr(rule_registry, "_RULES", dict(rule_registry.load_rules()))
    rule_registry._import_rules_of_packages.cache_clear()
    yield
    rule_registry._import_rules_of_packages.cache_clear()


def codes() -> list[str]:
    """Return the findings of a checkup that runs only the rule of the test."""
    loader = DataLoader(TensorDataset(torch.randn(16, 2), torch.randint(2, (16,))), 8)
    report = nbdebug.Debugger(nn.Linear(2, 2), loader, loss_fn=nn.CrossEntropyLoss()).checkup(select=["M998"])
    return [finding.code for finding in report]


@pytest.mark.usefixtures("own_rules")
def test_rule_of_a_cell_is_checked() -> None:
    exec(RULE, {"__name__": "__main__"})
    assert codes() == ["M998"]


@pytest.mark.usefixtures("own_rules")
def test_rule_of_an_installed_package_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package_of_rules.py").write_text(RULE)
    metadata = tmp_path / "package_of_rules-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: package-of-rules\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[nbdebug.rules]\nmine = package_of_rules\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert codes() == ["M998"]
