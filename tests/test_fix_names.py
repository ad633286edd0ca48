"""Fixes are written with the names of the user's notebook."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from nbdebug.rules.examples import healthy_classifier
from nbdebug.setup import fix_names


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


def test_fix_stays_as_it_is_without_a_notebook() -> None:
    assert fix_names.name_objects("model.eval()", healthy_classifier()) == "model.eval()"
