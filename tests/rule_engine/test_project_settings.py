"""Tests of the section ``[tool.nbdebug]`` of a project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.rule_engine.checkup import judge_run
from nbdebug.rule_engine.rule_selection import project_rules


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without the section, in one of whose folders a notebook runs; return its ``pyproject.toml``."""
    folder = tmp_path / "notebooks" / "first"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    (tmp_path / "notebooks" / "pyproject.toml").write_text("[tool.other]\nselect = 3\n")
    return tmp_path / "pyproject.toml"


def faulty_debugger(scale: float = 1.0, last: nn.Module | None = None) -> Debugger:
    """Return a Debugger of a model that ends in a softmax, or in another layer, for inputs of a scale."""
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(scale * torch.randn(64, 4), torch.randint(3, (64,))), 16)
    model = nn.Sequential(nn.Linear(4, 3), last or nn.Softmax(dim=1))
    return Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=torch.optim.SGD(model.parameters(), 0.1))


def checked_codes(**arguments: object) -> set[str]:
    """Return the codes of the findings of a quick checkup."""
    return {finding.code for finding in faulty_debugger().checkup("quick", **arguments)}  # type: ignore[arg-type]


def test_project_ignores_rules_in_checkup_and_watch(project: Path) -> None:
    assert "L201" in checked_codes()
    project.write_text('[tool.nbdebug]\nignore = ["L2"]\n')
    assert "L201" not in checked_codes()
    dbg = faulty_debugger()
    with dbg.watch(final_tests=False):
        for x, y in dbg.train_loader:
            loss = nn.functional.cross_entropy(dbg.setup.model(x), y)
            dbg.setup.optimizers[0].zero_grad()
            loss.backward()
            dbg.setup.optimizers[0].step()
    assert not [finding for finding in dbg.findings if finding.code.startswith("L2")]


def test_selection_of_a_call_overrules_that_of_the_project(project: Path) -> None:
    project.write_text('[tool.nbdebug]\nselect = "D"\nignore = ["L201"]\n')
    assert {code[0] for code in checked_codes()} <= {"D"}
    assert checked_codes(select=["L201"]) == {"L201"}
    assert not checked_codes(ignore=["D"])


def test_options_of_a_call_overrule_those_of_the_project(project: Path) -> None:
    dbg = faulty_debugger(scale=50.0, last=nn.Identity())
    assert dbg.checkup(select=["L208"]).findings
    project.write_text("[tool.nbdebug.options.L208]\nexcess = 1000.0\n")
    assert not dbg.checkup(select=["L208"]).findings
    assert dbg.checkup(select=["L208"], options={"L208": {"excess": 1.0}}).findings


def test_nearest_section_counts_and_a_change_is_read(project: Path) -> None:
    project.write_text('[tool.nbdebug]\nselect = ["L"]\n')
    assert {rule.code[0] for rule in project_rules()} == {"L"}
    (project.parent / "notebooks" / "pyproject.toml").write_text('[tool.nbdebug]\nselect = ["D", "M"]\n')
    assert {rule.code[0] for rule in project_rules()} == {"D", "M"}


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ('[tool.nbdebug]\nselct = ["L"]', r"option of \[tool.nbdebug\] in .* is 'selct'; expected .* mean 'select'\?"),
        ('[tool.nbdebug]\nselect = ["L299"]', r"select in .*: rule is 'L299'; expected one of .* Did you mean L2"),
        ("[tool.nbdebug]\nignore = 3", r"ignore in .* is 3; expected codes such as .* Correct the file\."),
        ("[tool.nbdebug.options.L999]", r"options in .* name 'L999'; expected one of"),
        ("[tool.nbdebug.options.L208]\nexces = 1", r"option of L208 in .* is 'exces'; expected one of .*excess"),
        ("[tool.nbdebug.options]\nL208 = 2", r"options.L208 in .* is 2; expected a table of options"),
        ("[tool.nbdebug]\nselect = [", r"is no valid TOML .* Correct it\."),
    ],
)
def test_mistake_is_refused_by_the_call(project: Path, section: str, message: str) -> None:
    project.write_text(section)
    for call in (faulty_debugger().checkup, faulty_debugger().watch):
        with pytest.raises(nbdebug.SetupError, match=message) as refusal:
            call()
        assert re.search(re.escape(str(project)), str(refusal.value))


def test_mistake_that_is_made_while_a_loop_runs_does_not_end_it(project: Path) -> None:
    project.write_text("[tool.nbdebug]\nselect = [")
    assert judge_run(faulty_debugger().setup) is not None
