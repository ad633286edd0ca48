"""Fixes as changes of the user's lines: applied to the program, they silence the rule."""

from __future__ import annotations

import ast
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from nbdebug.finding import Finding
from nbdebug.rule_engine import fix_writer
from nbdebug.rule_engine.data_edits import find_data_edits
from nbdebug.rule_engine.fix_edits import find_edits
from nbdebug.rule_engine.fix_trials import QUIET
from nbdebug.source.edits import apply_edits

HEAD = """
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(192, 4)
y = (x @ torch.randn(4, 3)).argmax(1)
order = torch.argsort(y)
"""
LOADER = "loader = DataLoader(TensorDataset(x, y), 16, shuffle=True)\n"
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {layers}

    def forward(self, x):
        {forward}

net = Net()
"""
PLAIN = "net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))\n"
OPT = "opt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
TRAIN = """
class Trainer:
    def __init__(self, net, opt):
        self.net, self.opt = net, opt

    def fit(self, loader, epochs):
        for _ in range(epochs):
            for xb, yb in loader:
                {clear}
                loss = F.cross_entropy(self.net(xb), yb)
                loss.backward()
                {step}
"""
SPLIT = """
loader = DataLoader(TensorDataset(x[:150], y[:150]), 16, shuffle=True)
val_loader = DataLoader(TensorDataset(x[150:], y[150:]), 16)
"""
CRITERION = """
def criterion(logits, targets):
    return {loss}
"""
SCALED_LABELS = """
pictures, classes = x / 255, (y / 255).long()
loader = DataLoader(TensorDataset(pictures[:150], classes[:150]), 16, shuffle=True)
val_loader = DataLoader(TensorDataset(pictures[150:], y[150:]), 16)
"""
LANGUAGE_MODEL = """
tokens = torch.randint(0, 7, (64, 9))
loader = DataLoader(TensorDataset(tokens[:, :-1], tokens[:, 1:]), 16, shuffle=True)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(7, 8), nn.Linear(8, 7)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, tokens):
        h = self.embed(tokens)
        return self.head(self.layer(h))

net = Net()
criterion = lambda logits, targets: F.cross_entropy(logits.flatten(0, 1), targets.flatten())
"""
DROPOUT = "net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))\n"
VALUES_OF_INPUTS = ("x / torch.tensor(2)", "self.norm(x)", "norm(x)")
DEBUGGER = """
from nbdebug.debugger import Debugger
loss_fn = globals().get("criterion", nn.CrossEntropyLoss())
dbg = Debugger(net, loader, globals().get("val_loader"), loss_fn=loss_fn, optimizer=opt)
"""
CASES = {
    "softmax in forward of a class above the data": (
        "L201",
        "from torch import nn\nimport torch.nn.functional as F\n"
        + NET.format(layers="self.a = nn.Linear(4, 3)", forward="return F.softmax(self.a(x), dim=1)")
        + HEAD
        + LOADER
        + OPT,
        ("return F.softmax(self.a(x), dim=1)",),
        ("return self.a(x)",),
    ),
    "softmax in forward": (
        "L201",
        HEAD
        + LOADER
        + NET.format(layers="self.a = nn.Linear(4, 3)", forward="return F.softmax(self.a(x), dim=1)  # p")
        + OPT,
        ("return F.softmax(self.a(x), dim=1)  # p",),
        ("return self.a(x)  # p",),
    ),
    "softmax on two lines": (
        "L201",
        HEAD
        + LOADER
        + NET.format(
            layers="self.a = nn.Linear(4, 3)", forward="return torch.softmax(\n            self.a(x), dim=1\n        )"
        )
        + OPT,
        ("return torch.softmax(", "    self.a(x), dim=1", ")"),
        ("return self.a(x)",),
    ),
    "softmax in a sequential": (
        "L201",
        HEAD + LOADER + "net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(dim=1))\n" + OPT,
        ("net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(dim=1))",),
        ("net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))",),
    ),
    "layers in a list": (
        "M303",
        HEAD
        + LOADER
        + NET.format(
            layers="self.layers = [nn.Linear(4, 4), nn.Linear(4, 3)]",
            forward="return self.layers[1](self.layers[0](x).relu())",
        )
        + "extra = nn.Linear(1, 1); net.extra = extra\n"
        + OPT,
        ("self.layers = [nn.Linear(4, 4), nn.Linear(4, 3)]",),
        ("self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 3)])",),
    ),
    "sorted data": (
        "D116",
        HEAD + "loader = DataLoader(TensorDataset(x[order], y[order]), 16)\n" + PLAIN + OPT,
        ("loader = DataLoader(TensorDataset(x[order], y[order]), 16)",),
        ("loader = DataLoader(TensorDataset(x[order], y[order]), 16, shuffle=True)",),
    ),
    "maximizing optimizer": (
        "L213",
        HEAD + LOADER + PLAIN + "opt = torch.optim.SGD(net.parameters(), lr=0.1, maximize=True)\n",
        ("opt = torch.optim.SGD(net.parameters(), lr=0.1, maximize=True)",),
        ("opt = torch.optim.SGD(net.parameters(), lr=0.1, maximize=False)",),
    ),
    "no zero_grad in a class": (
        "O505",
        HEAD + LOADER + PLAIN + OPT + TRAIN.format(clear="pass", step="self.opt.step()"),
        (),
        ("self.opt.zero_grad()",),
    ),
    "no step in a class": (
        "O506",
        HEAD + LOADER + PLAIN + OPT + TRAIN.format(clear="self.opt.zero_grad()", step="pass"),
        (),
        ("self.opt.step()",),
    ),
    "cleared before the step": (
        "O506",
        HEAD
        + LOADER
        + PLAIN
        + OPT
        + TRAIN.format(clear="pass", step="self.opt.zero_grad()\n                self.opt.step()"),
        (),
        ("self.opt.zero_grad()",),
    ),
    "accumulated without a division": (
        "O511",
        HEAD
        + LOADER
        + PLAIN
        + "opt = torch.optim.SGD(net.parameters(), lr=0.01)\n"
        + TRAIN.format(clear="self.i = getattr(self, 'i', 0) + 1", step="")
        + "                if self.i % 4 == 0:\n"
        "                    self.opt.step()\n"
        "                    self.opt.zero_grad()\n",
        ("loss.backward()",),
        ("(loss / 4).backward()",),
    ),
    "raw units": (
        "D104",
        HEAD + "x = 300 * x + 1000\n" + SPLIT + PLAIN + OPT,
        (),
        ("mean, std = (x[:150].mean(0), x[:150].std(0) + 1e-08)", "x = (x - mean) / std"),
    ),
    "linear layers in a sequential": (
        "M308",
        HEAD + LOADER + "net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))\n" + OPT,
        ("net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))",),
        ("net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))",),
    ),
    "linear layers in a class": (
        "M308",
        HEAD
        + LOADER
        + NET.format(layers="self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 3)", forward="return self.b(self.a(x))")
        + OPT,
        ("return self.b(self.a(x))",),
        ("return self.b(self.a(x).relu())",),
    ),
    "negative loss": (
        "L213",
        HEAD
        + LOADER
        + PLAIN
        + OPT
        + TRAIN.format(clear="self.opt.zero_grad()", step="self.opt.step()").replace("= F.cross", "= -F.cross"),
        ("loss = -F.cross_entropy(self.net(xb), yb)",),
        ("loss = F.cross_entropy(self.net(xb), yb)",),
    ),
    "live state restored": (
        "R905",
        HEAD
        + LOADER
        + PLAIN
        + OPT
        + TRAIN.format(clear="self.opt.zero_grad()", step="self.opt.step()")
        + "            self.best = self.net.state_dict()\n        self.net.load_state_dict(self.best)\n",
        ("self.best = self.net.state_dict()",),
        ("self.best = {name: tensor.clone() for name, tensor in self.net.state_dict().items()}",),
    ),
    "state of a wrapped model": (
        "R906",
        HEAD
        + LOADER
        + PLAIN
        + "saved = {'module.' + name: value.clone() for name, value in net.state_dict().items()}\n"
        + OPT
        + TRAIN.format(clear="self.opt.zero_grad()", step="self.opt.step()").replace(
            "epochs):\n", "epochs):\n        self.net.load_state_dict(saved, strict=False)\n", 1
        ),
        ("self.net.load_state_dict(saved, strict=False)",),
        (
            "self.net.load_state_dict({name.removeprefix('module.'): tensor for name, tensor in saved.items()}, "
            "strict=False)",
        ),
    ),
    "validation in train mode": (
        "E701",
        HEAD
        + SPLIT
        + DROPOUT
        + OPT
        + TRAIN.format(clear="self.opt.zero_grad()", step="self.opt.step()")
        + "            with torch.no_grad():\n                for xb, yb in val_loader:\n"
        "                    self.net(xb)\n",
        (),
        ("self.net.train()", "self.net.eval()"),
    ),
    "labels scaled with the pictures": (
        "D102",
        HEAD + SCALED_LABELS + PLAIN + OPT,
        ("pictures, classes = x / 255, (y / 255).long()",),
        ("pictures, classes = x / 255, (y).long()",),
    ),
    "class indices in a loss for one-hot rows": (
        "L211",
        HEAD
        + "loader = DataLoader(TensorDataset(x, y.float()[:, None]), 16, shuffle=True)\n"
        + PLAIN
        + OPT
        + CRITERION.format(loss="-(targets * F.log_softmax(logits, dim=1)).sum(dim=1).mean()"),
        ("return -(targets * F.log_softmax(logits, dim=1)).sum(dim=1).mean()",),
        ("return -(F.one_hot(targets.squeeze(1).long(), 3) * F.log_softmax(logits, dim=1)).sum(dim=1).mean()",),
    ),
    "new tensor of the outputs": (
        "L212",
        HEAD
        + LOADER
        + PLAIN
        + OPT
        + "def criterion(logits, targets):\n    logits = torch.tensor(logits, requires_grad=True)\n"
        "    return F.cross_entropy(logits, targets)\n",
        ("logits = torch.tensor(logits, requires_grad=True)",),
        (),
    ),
    "softmax of one unit": (
        "L206",
        HEAD
        + "loader = DataLoader(TensorDataset(x, y.clamp(max=1).float()[:, None]), 16, shuffle=True)\n"
        + "net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1), nn.Softmax(dim=1))\n"
        + OPT
        + "criterion = nn.BCELoss()\n",
        ("net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1), nn.Softmax(dim=1))",),
        ("net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())",),
    ),
    "attention without a mask": (
        "M305",
        HEAD + LANGUAGE_MODEL + OPT,
        ("return self.head(self.layer(h))",),
        (
            "return self.head(self.layer(h, src_mask=torch.nn.Transformer.generate_square_subsequent_mask(h.shape[1], "
            "device=h.device)))",
        ),
    ),
    "trained in eval mode": (
        "T613",
        HEAD
        + SPLIT
        + DROPOUT
        + OPT
        + TRAIN.format(clear="self.opt.zero_grad()", step="self.opt.step()")
        + "            self.net.eval()\n            with torch.no_grad():\n                for xb, yb in val_loader:\n"
        "                    self.net(xb)\n",
        (),
        ("self.net.train()",),
    ),
}


@pytest.fixture(autouse=True)
def _time_for_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fix_writer, "_LEAST_SECONDS", 600.0)


def run_program(source: str, path: Path) -> ModuleType:
    """Write a program and import it."""
    path.write_text(source + DEBUGGER)
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    program = module_from_spec(spec)
    sys.modules[path.stem] = program
    spec.loader.exec_module(program)
    return program


def findings_of(program: ModuleType, code: str) -> list[Finding]:
    debugger = program.dbg
    debugger.checkup()
    if hasattr(program, "Trainer"):
        with debugger.watch():
            program.Trainer(program.net, program.opt).fit(program.loader, 6)
    return [finding for finding in debugger.findings if finding.code == code]


@pytest.mark.parametrize("case", CASES)
def test_fix_as_a_change_of_lines_silences_its_rule(case: str, tmp_path: Path) -> None:
    code, source, removed, added = CASES[case]
    path = tmp_path / f"program_{abs(hash(case))}.py"
    (finding,) = findings_of(run_program(source, path), code)
    assert finding.edits
    lines = {"removed": [], "added": []}
    for change in finding.changes:
        assert change.place.startswith(f"{path.name}, line ")
        lines["removed"] += change.removed
        lines["added"] += change.added
    if removed or "before" not in case:
        assert tuple(lines["removed"]) == removed
    assert tuple(lines["added"]) == added
    text = str(finding)
    assert added or finding.fix == "Delete this line."
    assert all(f"+ {line}" in text for line in added)
    fixed = run_program(apply_edits(source, finding.edits), tmp_path / f"fixed_{path.name}")
    assert findings_of(fixed, code) == []


def test_change_of_a_method_is_tried_on_a_copy(tmp_path: Path) -> None:
    source = CASES["softmax in forward"][1]
    program = run_program(source, tmp_path / "tried_program.py")
    (finding,) = findings_of(program, "L201")
    assert finding.trial == QUIET
    assert f"tried: {QUIET}" in str(finding)
    assert "softmax" in program.Net.forward.__code__.co_names


def test_fix_of_one_place_is_offered_beside_another_place_of_the_same_module(tmp_path: Path) -> None:
    source = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.last = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        heads = self.project(x).view(len(x), 2, 6, 4)
        mixed = torch.softmax(heads @ heads.transpose(2, 3), dim=-1) @ heads
        merged = mixed.reshape(x.shape)
        return self.last(merged).mean(1)

net, x = Net(), torch.randn(64, 6, 8)
loader = DataLoader(TensorDataset(x, x[:, :, :3].sum(1).argmax(1)), 16)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
"""
    findings = findings_of(run_program(source, tmp_path / "heads_program.py"), "M309")
    added = {line for finding in findings for change in finding.changes for line in change.added}
    assert added == {
        "heads = self.project(x).unflatten(2, (2, -1)).transpose(1, 2)",
        "merged = mixed.transpose(1, 2).reshape(x.shape)",
    }


def test_fix_in_names_of_a_method_is_no_change_of_the_data(tmp_path: Path) -> None:
    net = NET.format(layers="norm = nn.Linear(4, 3); self.norm = norm", forward="return self.norm(x)")
    source = f"from torch import nn\n{net}{HEAD}{LOADER}{OPT}"
    setup = run_program(source, tmp_path / "method_program.py").dbg.setup
    changes = [bool(find_data_edits(setup, ast.parse(f"x = {value}").body)) for value in VALUES_OF_INPUTS]
    assert changes == [True, False, False]


@pytest.mark.parametrize(("code", "changes_data"), [("D104", True), ("L208", True), ("G416", False), ("M309", False)])
def test_fix_of_a_rule_on_the_model_is_no_change_of_the_data(tmp_path: Path, code: str, changes_data: bool) -> None:
    net = NET.format(layers="norm = nn.Linear(4, 3); self.norm = norm", forward="return self.norm(x)")
    source = f"from torch import nn\n{net}{HEAD}{LOADER}{OPT}"
    setup = run_program(source, tmp_path / "model_program.py").dbg.setup
    finding = Finding("The values of one unit are negative.", fix="x = torch.nn.functional.leaky_relu(x)", code=code)
    assert bool(find_edits(setup, finding)) is changes_data


def test_quick_checkup_tries_nothing(tmp_path: Path) -> None:
    program = run_program(CASES["softmax in forward"][1], tmp_path / "quick_program.py")
    (finding,) = (finding for finding in program.dbg.checkup(budget="quick") if finding.code == "L201")
    assert finding.changes
    assert finding.trial == ""
