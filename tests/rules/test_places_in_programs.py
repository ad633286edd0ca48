"""Tests of the line that findings on the parts of a program name: the one that creates or sets what is at fault."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import train
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, source_line
from tests.rules.rule_findings import rule_findings
from tests.source.source_modules import load_module

HEADER = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Sampler, Subset, TensorDataset
torch.manual_seed(0)
x, y = torch.randn(96, 8), torch.arange(96) % 3
x[:, 0] += y
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
def body(width=16):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 3))
"""
FOOTER = "optimizer = torch.optim.Adam(model.parameters(), lr=0.01)\n"

# By code and name: a program whose line with "here" is at fault.
PROGRAMS = {
    "L204 softmax of a model whose loss expects logarithms": (
        "class Shares(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.body = body()\n        self.link = nn.Softmax(dim=1)  # here\n"
        "    def forward(self, x):\n        return self.link(self.body(x))\n"
        f"model, loss_fn = Shares(), nn.NLLLoss()\n{FOOTER}"
    ),
    "L214 class weight of whole numbers": (
        "def balance(labels, exact=False):\n    counts = torch.bincount(labels)\n"
        "    if exact:\n        weight = counts.sum() / (3 * counts)\n"
        "    else:\n        weight = counts.sum() // (3 * counts)  # here\n    return weight.float()\n"
        "y[:72] = 0\nmodel = body()\nloss_fn = nn.CrossEntropyLoss(weight=balance(y, exact=x.sum() == 0))\n" + FOOTER
    ),
    "M312 momentum through a helper": (
        "def dense(width, momentum):\n    return nn.Sequential(\n        nn.Linear(8, width),\n"
        "        nn.BatchNorm1d(width, momentum=momentum),  # here\n        nn.ReLU(),\n    )\n"
        f"model = nn.Sequential(dense(8, 0.99), nn.Linear(8, 3))\n{FOOTER}"
    ),
    "M304 layer of an encoder": (
        "class Encoder(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        layer = nn.TransformerEncoderLayer(8, 2, 16)  # here\n"
        "        self.encoder, self.head = nn.TransformerEncoder(layer, 1), nn.Linear(8, 3)\n"
        "    def forward(self, x):\n        return self.head(self.encoder(x.reshape(-1, 4, 8)).mean(1))\n"
        "model = Encoder()\nloader = DataLoader(TensorDataset(torch.randn(96, 4, 8), y), batch_size=16)\n" + FOOTER
    ),
    "M304 recurrent layer of a model": (
        "class Recurrent(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.cells = nn.LSTM(8, 12)  # here\n        self.head = nn.Linear(12, 3)\n"
        "    def forward(self, x):\n        return self.head(self.cells(x)[0][:, -1])\n"
        "model = Recurrent()\nloader = DataLoader(TensorDataset(torch.randn(96, 4, 8), y), batch_size=16)\n" + FOOTER
    ),
    "G407 weights of a function": (
        "def start(*shape):\n    return torch.full(shape, 0.05)  # here\n"
        "class Functional(nn.Module):\n    def __init__(self, make):\n        super().__init__()\n"
        "        self.weights = nn.ParameterList([nn.Parameter(make(16, 8)), nn.Parameter(make(3, 16))])\n"
        "    def forward(self, x):\n        hidden = torch.tanh(F.linear(x, self.weights[0]))\n"
        "        return F.linear(hidden, self.weights[1])\n"
        f"model = Functional(start)\n{FOOTER}"
    ),
    "O504 model created again": (
        f"def build():\n    model = body()\n    {FOOTER}    model = body()  # here\n    return model, optimizer\n"
        "model, optimizer = build()\n"
    ),
    "O504 weights replaced by a helper": (
        "def orthogonal(module):\n    for layer in module.children():\n        if hasattr(layer, 'weight'):\n"
        "            start = nn.init.orthogonal_(torch.empty_like(layer.weight))\n"
        "            layer.weight = nn.Parameter(start)  # here\n"
        f"model = body()\n{FOOTER}orthogonal(model)\n"
    ),
    "O504 state loaded by assignment": (
        "def restore(model, state, in_place):\n    model.load_state_dict(state, assign=not in_place)  # here\n"
        f"model = body()\n{FOOTER}restore(model, body().state_dict(), False)\n"
    ),
    "O503 group of a used iterator": (
        "def build(model):\n    used = filter(lambda p: p.requires_grad, model[0].parameters())  # here\n"
        "    print(sum(p.numel() for p in used))\n"
        "    return torch.optim.Adam([{'params': model[2].parameters()}, {'params': used, 'lr': 0.1}])\n"
        "model = body()\noptimizer = build(model)\n"
    ),
    "M308 activation whose result is lost": (
        "class Stacked(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 3)\n"
        "    def forward(self, x):\n        x = self.first(x)\n        F.relu(x)  # here\n"
        f"        return self.second(x)\nmodel = Stacked()\n{FOOTER}"
    ),
    "O509 constant of the decay": (
        "import os\nif os.environ.get('NO_SUCH_VARIABLE'):\n    decay = 0.001\nelse:\n    decay = 3.0  # here\n"
        "model = body()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=decay)\n"
    ),
    "O509 field of a configuration": (
        "class Settings:\n    width: int = 16\n    decay: float = 3.0  # here\nsettings = Settings()\n"
        "model = body(settings.width)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=settings.decay)\n"
    ),
    "O509 option of a command line": (
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--weight-decay', type=float, default=3.0)  # here\noptions = parser.parse_args([])\n"
        "model = body()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=options.weight_decay)\n"
    ),
    "D116 stream of sorted parts": (
        "from torch.utils.data import IterableDataset\nclass Stream(IterableDataset):\n    def __iter__(self):\n"
        "        for label in range(3):\n            yield from zip(x[y == label], y[y == label])  # here\n"
        f"model = body()\n{FOOTER}loader = DataLoader(Stream(), batch_size=16)\n"
    ),
    "D116 stream of given parts": (
        "from torch.utils.data import IterableDataset\nclass Stream(IterableDataset):\n"
        "    def __init__(self, parts):\n        self.parts = parts\n    def __iter__(self):\n"
        "        for part in self.parts:\n            yield from part\n"
        "class Mixed(Stream):\n    pass\nparts = [list(zip(x[y == label], y[y == label])) for label in range(3)]\n"
        "if len(parts) > 3:\n    stream = Mixed(Stream(parts))\nelse:\n    stream = Stream(parts)  # here\n"
        f"model = body()\n{FOOTER}loader = DataLoader(stream, batch_size=16)\n"
    ),
    "L216 sum inside a loss": (
        "class Loss(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.inner = nn.CrossEntropyLoss(reduction='sum')  # here\n"
        "    def forward(self, output, target):\n        return self.inner(output, target)\n"
        "model, loss_fn = body(), Loss()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.5)\n"
    ),
    "G402 initial weights": (
        "def start(layer):\n    if isinstance(layer, nn.Linear):\n"
        "        nn.init.normal_(layer.weight, std=30.0)  # here\n"
        f"model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)).apply(start)\n{FOOTER}"
    ),
    "L206 axis of a module": (
        "class Scores(nn.Module):\n    def __init__(self, axis):\n        super().__init__()\n"
        "        self.body = body()\n        self.normalize = nn.Softmax(dim=axis)  # here\n"
        f"    def forward(self, x):\n        return self.normalize(self.body(x))\nmodel = Scores(0)\n{FOOTER}"
    ),
    "M303 layers of a helper": (
        "def chain(widths):\n    return [nn.Linear(a, b) for a, b in zip(widths, widths[1:])]\n"
        "class Chain(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.links = chain([8, 16, 16])  # here\n        self.head = nn.Linear(16, 3)\n"
        "    def forward(self, x):\n        for link in self.links:\n            x = link(x).relu()\n"
        f"        return self.head(x)\nmodel = Chain()\n{FOOTER}"
    ),
    "M302 frozen by names": (
        "model = body()\nfor name, p in model.named_parameters():\n    if name[0] in '02':\n"
        "        p.requires_grad = False  # here\nmodel[2].bias.requires_grad = True\n"
        "optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])\n"
    ),
    "G416 factors that start at zero": (
        "class Factors(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.left = nn.Linear(8, 16, bias=False)\n"
        "        self.right = nn.Linear(8, 16, bias=False)\n        self.head = nn.Linear(16, 3)\n"
        "        nn.init.constant_(self.left.weight, 0.0)  # here\n        nn.init.constant_(self.right.weight, 0.0)\n"
        "    def forward(self, x):\n        return self.head(self.left(x) * self.right(x))\n"
        f"model = Factors()\n{FOOTER}"
    ),
    "D108 subsets beside other loaders": (
        "whole = TensorDataset(x, y)\nspare = DataLoader(TensorDataset(x[:8], y[:8]), batch_size=12)\n"
        "loader = DataLoader(Subset(whole, range(80)), batch_size=16, shuffle=True)\n"
        f"val_loader = DataLoader(Subset(whole, range(60, 96)), batch_size=12)  # here\nmodel = body()\n{FOOTER}"
    ),
    "D108 permutations in a function that makes both splits": (
        "def cut(x, y):\n    kept = torch.randperm(len(x))[32:]\n    held = torch.randperm(len(x))[:32]  # here\n"
        "    return TensorDataset(x[kept], y[kept]), TensorDataset(x[held], y[held])\n"
        "train_set, val_set = cut(x, y)\nloader = DataLoader(train_set, batch_size=8, shuffle=True)\n"
        f"val_loader = DataLoader(val_set, batch_size=16)\nmodel = body()\n{FOOTER}"
    ),
    "O503 optimizer of another branch": (
        "class Fitter:\n    def __init__(self, net, whole):\n        self.net = net\n        if whole:\n"
        "            self.optimizer = torch.optim.Adam(net.parameters())\n        else:\n"
        "            self.optimizer = torch.optim.Adam(net[2].parameters())  # here\n"
        "fitter = Fitter(body(), False)\nmodel, optimizer = fitter.net, fitter.optimizer\n"
    ),
    "D128 weights of a sampler in a helper": (
        "y = (torch.arange(96) % 12 > 7).long() + (torch.arange(96) % 12 > 10)\n"
        "def sampler_of(labels):\n    weights = torch.bincount(labels).double()[labels]  # here\n"
        "    return torch.utils.data.WeightedRandomSampler(weights.tolist(), num_samples=96)\n"
        f"loader = DataLoader(TensorDataset(x, y), batch_size=16, sampler=sampler_of(y))\nmodel = body()\n{FOOTER}"
    ),
    "D116 batches of a sampler": (
        "class ByClass(Sampler):\n    def __len__(self):\n        return 6\n    def __iter__(self):\n"
        "        order = y.argsort().tolist()\n        for start in range(0, 96, 16):\n"
        "            yield order[start : start + 16]  # here\n"
        f"loader = DataLoader(TensorDataset(x, y), batch_sampler=ByClass())\nmodel = body()\n{FOOTER}"
    ),
}
# The same of findings on a run.
RUNS = {
    "G401 biases of all layers": (
        "def start(layer, prior=0.001):\n    if isinstance(layer, nn.Linear):\n"
        "        nn.init.constant_(layer.bias, -30 * (1 - prior))  # here\n"
        f"model = body()\nmodel.apply(start)\n{FOOTER}"
    ),
    "G401 biases filled by hand": (
        f"model = body(32)\nwith torch.no_grad():\n    model[0].bias.fill_(-40.0)  # here\n{FOOTER}"
    ),
    "O502 rate of a loaded state": (
        f"model = body()\nold = torch.optim.Adam(model.parameters(), lr=1e-7)\n{FOOTER}"
        "optimizer.load_state_dict(old.state_dict())  # here\n"
    ),
    "O507 rate of an ended schedule": (
        "model = body()\nold = torch.optim.Adam(model.parameters(), lr=0.01)\n"
        "schedule = torch.optim.lr_scheduler.CosineAnnealingLR(old, 3, eta_min=1e-6)\n"
        f"for _ in range(3):\n    old.step()\n    schedule.step()\n{FOOTER}"
        "optimizer.load_state_dict(old.state_dict())  # here\n"
    ),
}


def build_setup(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setup:
    module = load_module(tmp_path / "program_with_a_fault.py", HEADER + text)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    loaders = module.loader, getattr(module, "val_loader", None)
    loss_fn = getattr(module, "loss_fn", nn.CrossEntropyLoss())
    setup = Setup(module.model, *loaders, loss_fn=loss_fn, optimizers=(module.optimizer,))
    setup.files = {str(module.__file__)}
    return setup


def assert_place(findings: list[Finding], code: str) -> None:
    lines = {source_line(finding) for finding in findings if finding.code == code and finding.severity != "note"}
    assert [line.endswith("# here") for line in lines] == [True], "\n".join(map(str, findings))


@pytest.mark.parametrize("name", PROGRAMS)
def test_finding_names_the_line_that_creates_or_sets_what_is_at_fault(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = name.split()[0]
    assert_place(rule_findings(build_setup(PROGRAMS[name], tmp_path, monkeypatch), code), code)


@pytest.mark.parametrize("name", RUNS)
def test_finding_on_a_run_names_the_line_that_sets_what_is_at_fault(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = build_setup(RUNS[name], tmp_path, monkeypatch)
    assert_place(all_findings(lambda setup: train(setup, 20), setup), name.split()[0])


def test_finding_of_a_checkup_gets_its_line_when_the_loop_tells_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        f"model = body()\n{FOOTER}order = y.argsort()\n"
        "loader = DataLoader(TensorDataset(x[order], y[order]), batch_size=16)  # here\n"
        "def fit(epochs=3):\n    for _ in range(epochs):\n        for inputs, target in loader:\n"
        "            optimizer.zero_grad()\n            F.cross_entropy(model(inputs), target).backward()\n"
        "            optimizer.step()\n"
    )
    setup = build_setup(text, tmp_path, monkeypatch)
    (file,) = setup.files
    fit = sys.modules["program_with_a_fault"].fit
    monkeypatch.delitem(sys.modules, "program_with_a_fault")
    setup.files = set()
    debugger = Debugger.of(setup)
    (early,) = debugger.checkup(select=["D116"])
    assert early.where.line is None
    with debugger.watch(final_tests=False):
        fit()
    assert file in setup.files
    (finding,) = [finding for finding in debugger.findings if finding.code == "D116"]
    assert source_line(finding).endswith("# here")
