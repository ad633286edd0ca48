"""Tests that the fixes of findings are applied to copies, and remove the finding."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from nbdebug.debugger import Debugger
from nbdebug.rule_engine.rule_registry import Rule, load_rules
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from tests.tools.try_fix.programs import blobs, debugger, sgd

# T608 speaks after overfit(), bad() of D105 has another fault (test_input_changes.py tries its fix), and D113 and D115
# read the stored rows, which a copy of the setup does not change.
ELSEWHERE = {"T608", "D105", "D113", "D115"}
RULES = [
    rule
    for rule in load_rules().values()
    if "setup_fix=" in inspect.getsource(rule.module) and rule.code not in ELSEWHERE
]

# Programs with the fault that the fix of a rule removes, where bad() has another one.
SETUPS = {
    "D107": lambda: _few_samples(),
    "G416": lambda: classifier(nn.Dropout(1.0)),
    "L214": lambda: classifier(loss_fn=nn.CrossEntropyLoss(ignore_index=1)),
    "L203": lambda: classifier(loss_fn=_two_step_cross_entropy),
}


def _few_samples() -> Setup:
    setup = classifier()
    data = setup.train_loader.dataset
    setup.train_loader = DataLoader(data, 16, sampler=[0, 1, 2, 3] * (len(data) // 4))
    return setup


def _two_step_cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = -torch.log(torch.softmax(logits, 1))[torch.arange(len(target)), target].mean()
    return loss


@pytest.mark.parametrize("rule", [rule for rule in RULES if not hasattr(rule.module, "bad_loop")], ids=lambda r: r.code)
def test_stated_fix_removes_the_finding_of_its_rule(rule: Rule) -> None:
    dbg = Debugger.of(SETUPS.get(rule.code, rule.module.bad)())
    finding = next(finding for finding in dbg.checkup(select=[rule.code]) if finding.code == rule.code)
    assert finding.setup_fix
    result = dbg.try_fix(finding, steps=5, seeds=2)
    assert rule.code in [vanished.code for vanished in result.vanished]


def test_fix_of_a_weight_that_is_not_contiguous_lets_it_learn() -> None:
    module = load_rules()["G414"].module
    dbg = Debugger.of(module.bad())
    with dbg.watch():
        module.bad_loop(dbg.setup)
    finding = next(finding for finding in dbg.findings if finding.code == "G414")
    assert dbg.try_fix(finding, steps=10, seeds=2, checkup=None).verdict != "no effect"


def test_fix_that_is_a_setting_of_a_loader_creates_it_again() -> None:
    dbg = debugger()
    dataset = blobs(320, 0)
    order = dataset.tensors[1].argsort()
    ordered = torch.utils.data.TensorDataset(dataset.tensors[0][order], dataset.tensors[1][order])
    loader = DataLoader(ordered, 16)
    dbg = Debugger(dbg.setup.model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=dbg.setup.optimizers[0])
    finding = next(finding for finding in dbg.checkup() if "shuffle=True" in finding.setup_fix)
    assert dbg.try_fix(finding, steps=10, seeds=2).verdict != "no effect"


class Bounded(nn.Module):
    """Returns probabilities by a function, which only an edit of the method can remove."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the layer and a softmax."""
        return torch.softmax(self.layer(x), 1)


def test_fix_that_edits_a_method_is_tried_on_a_copy() -> None:
    torch.manual_seed(0)
    model = Bounded()
    options = {"loss_fn": nn.CrossEntropyLoss(), "optimizer": sgd(0.05)(model.parameters())}
    dbg = Debugger(model, DataLoader(blobs(320, 0), 16, shuffle=True), DataLoader(blobs(200, 1), 50), **options)
    finding = next(finding for finding in dbg.checkup() if finding.code == "L201")
    assert finding.edits
    result = dbg.try_fix("L201", steps=10, seeds=2)
    assert "L201" in [vanished.code for vanished in result.vanished]
    assert float(model(torch.ones(1, 8)).sum()) == pytest.approx(1)


class Encoder(nn.Module):
    """Two attention layers that take the sequence axis first, on inputs with the batch axis first."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return two logits of the mean over the sequence."""
        logits: torch.Tensor = self.head(self.encoder(x).mean(1))
        return logits


def test_fix_of_the_batch_axis_reaches_all_layers() -> None:
    torch.manual_seed(0)
    loader = DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 5, 8), torch.arange(64) % 2), 16, shuffle=True)
    dbg = Debugger(Encoder(), loader, loss_fn=nn.CrossEntropyLoss())
    finding = next(finding for finding in dbg.checkup(select=["M304"]) if finding.code == "M304")
    result = dbg.try_fix(finding, steps=5, seeds=2, score=lambda copy: float(_mixes_samples(copy.model)))
    assert {run.score for run in result.before} == {1.0}
    assert {run.score for run in result.after} == {0.0}


def _mixes_samples(model: nn.Module) -> bool:
    x = torch.randn(4, 5, 8)
    return not torch.allclose(model(x)[0], model(x[:1])[0], atol=1e-4)


def test_part_of_a_fix_is_not_offered() -> None:
    torch.manual_seed(0)
    loader = DataLoader(torch.utils.data.TensorDataset(torch.randn(60, 8), torch.arange(60.0)[:, None] % 3), 20)
    model, loss_fn = nn.Linear(8, 1), nn.BCEWithLogitsLoss()
    dbg = Debugger(model, loader, loss_fn=loss_fn, optimizer=sgd(0.1)(model.parameters()))
    finding = next(finding for finding in dbg.checkup(select=["L217"]) if finding.code == "L217")
    assert "3 outputs" in finding.fix_text
    assert not finding.setup_fix
