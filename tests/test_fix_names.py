"""Fixes are written with the names of the user's notebook."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.finding import is_code, remove_comment_sign
from nbdebug.rule_engine.rule_registry import find_rule
from nbdebug.rules.examples import healthy_classifier
from nbdebug.setup import fix_names
from nbdebug.setup.optimizer_code import rate_factor_fix, rate_fix


@pytest.mark.parametrize(
    ("fix", "expected"),
    [
        ("optimizer.zero_grad()", "trainer.optimizer.zero_grad()"),
        ("optimizer = torch.optim.SGD(model.parameters())", "trainer.optimizer = torch.optim.SGD(net.parameters())"),
        ("net.model(optimizer=1)  # the model", "net.model(optimizer=1)  # the model"),
        ("def build(model):\n    return model", "def build(model):\n    return model"),
        ("Put the model on the device.", "Put the model on the device."),
        ("é = 'é'; model.eval()", "é = 'é'; net.eval()"),
    ],
)
def test_objects_have_the_names_of_the_notebook(fix: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = healthy_classifier()
    trainer = SimpleNamespace(optimizer=setup.optimizers[0])
    variables = {"model": nn.Linear(1, 1), "net": setup.model, "trainer": trainer, "torch": torch}
    monkeypatch.setattr(fix_names, "user_variables", lambda: variables)
    assert fix_names.name_objects(fix, setup) == expected


def test_object_in_a_container_has_the_path_of_its_item(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = healthy_classifier()
    variables = {"parts": {"my net": [setup.model]}, "numbers": [0] * 1000}
    monkeypatch.setattr(fix_names, "user_variables", lambda: variables)
    assert fix_names.name_objects("model.eval()", setup) == 'parts["my net"][0].eval()'


def test_fix_stays_as_it_is_without_a_notebook() -> None:
    assert fix_names.name_objects("model.eval()", healthy_classifier()) == "model.eval()"


@pytest.mark.parametrize(
    ("fix", "expected"),
    [
        ("nn.ReLU()", "from torch import nn\nnn.ReLU()"),
        ("torch.zeros(1)", "torch.zeros(1)"),
        ("import math\nmath.pi", "import math\nmath.pi"),
        ("Create nn.ReLU.", "Create nn.ReLU."),
    ],
)
def test_code_has_the_imports_that_the_notebook_lacks(fix: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fix_names, "user_variables", lambda: {"torch": torch})
    assert fix_names.add_imports(fix, healthy_classifier()) == expected


@pytest.mark.parametrize(
    ("fix", "expected"),
    [
        ("# remove it, or\n# freeze it", "Remove it, or freeze it."),
        ("# x.float() here", "x.float() here."),
        ("x = 1  # here", "x = 1  # here"),
        ("", ""),
    ],
)
def test_fix_of_comments_is_a_sentence(fix: str, expected: str) -> None:
    assert remove_comment_sign(fix) == expected
    assert is_code(expected) == expected.startswith("x = 1")


def test_rate_fix_changes_the_rate_and_says_where_a_schedule_decides() -> None:
    setup = healthy_classifier()
    exec(rate_fix(setup, 0.01234), {"optimizer": setup.optimizers[0]})
    assert {group["lr"] for group in setup.optimizers[0].param_groups} == {0.012}
    schedule = torch.optim.lr_scheduler.OneCycleLR(setup.optimizers[0], 0.1, total_steps=9)
    assert rate_fix(replace(setup, scheduler=schedule), 0.02) == "Create the OneCycleLR with max_lr=0.02."


@pytest.mark.parametrize("code", ["O503", "O504", "O509", "O510", "O513", "O514", "M317", "G407"])
def test_fix_that_is_run_makes_its_rule_quiet(code: str) -> None:
    setup = find_rule(code).module.bad()
    fix = next(finding.fix for finding in Debugger.of(setup).checkup() if finding.code == code)
    variables = {"model": setup.model, "optimizer": next(iter(setup.optimizers), None), "torch": torch}
    exec(fix, variables)
    optimizers = (variables["optimizer"],) if setup.optimizers else ()
    fixed = replace(setup, model=variables["model"], optimizers=optimizers)
    assert code not in {finding.code for finding in Debugger.of(fixed).checkup()}


def test_rate_is_multiplied_in_the_groups_of_the_weights_concerned() -> None:
    setup = healthy_classifier(lr=0.01)
    assert rate_factor_fix(setup, 10) == rate_fix(setup, 0.1)
    head, body = setup.model[2], setup.model[0]
    grouped = torch.optim.SGD([{"params": body.parameters()}, {"params": head.parameters(), "lr": 1e-6}], lr=0.1)
    grouped_setup = replace(setup, optimizers=(grouped,))
    exec(rate_factor_fix(grouped_setup, 1000, ["0.weight"]), {"optimizer": grouped})
    assert [group["lr"] for group in grouped.param_groups] == pytest.approx([0.1, 1e-3])
    assert not is_code(rate_factor_fix(grouped_setup, 1000, ["0.weight", "2.weight"]))
    schedule = torch.optim.lr_scheduler.StepLR(grouped, 1)
    assert not is_code(rate_factor_fix(replace(grouped_setup, scheduler=schedule), 1000))


def test_copy_of_a_setup_has_no_files_of_the_code_that_copies_it() -> None:
    setup = healthy_classifier()
    setup.files = {"train.py"}
    assert replace(setup, class_names=None).files == {"train.py"}
