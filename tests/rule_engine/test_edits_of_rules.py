"""Changes of lines that rules give as their fix: the changed program runs, and the rule no longer speaks."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from nbdebug.finding import Finding
from nbdebug.rule_engine import fix_writer
from nbdebug.source.edits import apply_edits

HEAD = """
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from nbdebug.debugger import Debugger

torch.manual_seed(0)
x = torch.randn(192, 4)
y = (x @ torch.randn(4, 3)).argmax(1)
"""
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.Linear(4, 16), nn.Linear(16, 3)

    def forward(self, x):
        h = torch.relu(self.hidden(x))
        return self.head(h)

net = Net()
criterion = nn.CrossEntropyLoss()
"""
SETUP = """
loader = DataLoader(TensorDataset(x[:144], y[:144]), 16, shuffle=True)
val_loader = DataLoader(TensorDataset(x[144:], y[144:]), 16)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
dbg = Debugger(net, loader, val_loader, loss_fn=criterion, optimizer=opt)
"""
FIT = """
def fit():
    total = 0
    for epoch in range(6):
        net.train()
        for xb, yb in loader:
            opt.zero_grad()
            loss = criterion(net(xb), yb)
            loss.backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            for xb, yb in val_loader:
                net(xb)
"""
TOKENS = """
x = torch.randint(1, 9, (192, 6))
lengths = torch.randint(2, 7, (192,))
x[torch.arange(6)[None] >= lengths[:, None]] = 0
y = (x > 5).sum(1).clamp(max=2)
"""
READER = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(9, 8, padding_idx=0), nn.Linear(8, 3)
        {layer}

    def forward(self, tokens):
        h = self.embed(tokens)
        {forward}

net = Net()
criterion = nn.CrossEntropyLoss()
"""
ENCODER = "self.encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)"
POOLED = "weight = (tokens != 0).float().unsqueeze(2); return self.head((h * weight).sum(1) / weight.sum(1))"
CLIP = "            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n"
PROGRAM = HEAD + NET + SETUP + FIT
CASES: dict[str, tuple[str, str]] = {
    "dropout without the mode": (
        "E701",
        PROGRAM.replace("torch.relu(self.hidden(x))", "F.dropout(torch.relu(self.hidden(x)), 0.5)"),
    ),
    "values dropped in every mode": (
        "E701",
        PROGRAM.replace("return self.head(h)", "h = h * (torch.rand_like(h) > 0.3)\n        return self.head(h)"),
    ),
    "clipping after the step": ("O508", PROGRAM.replace("opt.step()\n", "opt.step()\n" + CLIP)),
    "clipping before the pass": (
        "O508",
        PROGRAM.replace("            loss.backward()\n", CLIP + "            loss.backward()\n"),
    ),
    "clearing outside of the batches": (
        "O505",
        PROGRAM.replace("            opt.zero_grad()\n", "").replace(
            "net.train()\n", "net.train()\n        opt.zero_grad()\n"
        ),
    ),
    "clearing of one of two optimizers": (
        "O505",
        PROGRAM.replace("SGD(net.parameters()", "SGD(net.hidden.parameters()")
        .replace("\ndef fit", "\nlast = torch.optim.Adam(net.head.parameters(), lr=1e-2)\ndef fit")
        .replace("opt.step()\n", "opt.step()\n            last.step()\n"),
    ),
    "no clearing with a scaler": (
        "O505",
        PROGRAM.replace("            opt.zero_grad()\n", "")
        .replace("\ndef fit", "\nscaler = torch.amp.GradScaler('cpu')\ndef fit")
        .replace("loss.backward()", "scaler.scale(loss).backward()")
        .replace("opt.step()\n", "scaler.step(opt)\n            scaler.update()\n"),
    ),
    "step of the optimizers in a list": (
        "O505",
        PROGRAM.replace("            opt.zero_grad()\n", "").replace(
            "opt.step()\n", "for each in [opt]:\n                each.step()\n"
        ),
    ),
    "block without gradients": (
        "M301",
        PROGRAM.replace(
            "        h = torch.relu(self.hidden(x))\n",
            "        with torch.no_grad():\n            h = self.hidden(x)\n\n            h = torch.relu(h)\n",
        ),
    ),
    "function without gradients": (
        "M301",
        PROGRAM.replace(
            "    def forward",
            "    @torch.inference_mode()\n    def features(self, x):\n        return torch.relu(self.hidden(x))\n\n"
            "    def forward",
        )
        .replace("h = torch.relu(self.hidden(x))\n        return self", "return self")
        .replace("head(h)", "head(self.features(x).clone())"),
    ),
    "graphs in a total": (
        "P804",
        PROGRAM.replace("opt.step()\n", "opt.step()\n            total = total + loss\n"),
    ),
    "seed in each epoch": ("D117", PROGRAM.replace("net.train()\n", "net.train()\n        torch.manual_seed(1)\n")),
    "evaluation with gradients": (
        "P806",
        PROGRAM.replace("        with torch.no_grad():\n    ", "").replace(
            "                net(xb)", "            net(xb)"
        ),
    ),
    "optimizer of the head": ("O503", PROGRAM.replace("SGD(net.parameters()", "SGD(net.head.parameters()")),
    "ignored class": ("L214", PROGRAM.replace("nn.CrossEntropyLoss()", "nn.CrossEntropyLoss(ignore_index=1)")),
    "softmax over the batch": (
        "L206",
        PROGRAM.replace("return self.head(h)", "return F.log_softmax(self.head(h), dim=0)").replace(
            "nn.CrossEntropyLoss", "nn.NLLLoss"
        ),
    ),
    "loss with the wrong sign": (
        "L213",
        PROGRAM.replace(
            "criterion = nn.CrossEntropyLoss()",
            "def criterion(logits, labels):\n    return F.log_softmax(logits, 1).gather(1, labels[:, None]).mean()",
        ),
    ),
    "zero weights": (
        "G407",
        PROGRAM.replace(
            "nn.Linear(16, 3)\n",
            "nn.Linear(16, 3)\n        for layer in (self.hidden, self.head):\n"
            "            nn.init.constant_(layer.weight, 0.5)\n            nn.init.zeros_(layer.bias)\n",
        ),
    ),
    "new loss of a number": (
        "L212",
        PROGRAM.replace(
            "loss = criterion(net(xb), yb)", "loss = torch.tensor(criterion(net(xb), yb).item(), requires_grad=True)"
        ),
    ),
    "inputs in another order": (
        "D105",
        HEAD + "order = torch.randperm(192)\nx = x[order]\n" + NET + SETUP + FIT,
    ),
    "inverted mask": (
        "M310",
        HEAD
        + TOKENS
        + READER.format(layer=ENCODER, forward=f"h = self.encoder(h, src_key_padding_mask=tokens != 0); {POOLED}")
        + SETUP
        + FIT,
    ),
    "batch axis for the sequence": (
        "M304",
        HEAD
        + TOKENS
        + READER.format(layer="self.gru = nn.GRU(8, 8)", forward="return self.head(self.gru(h)[0][:, -1])")
        + SETUP
        + FIT,
    ),
    "first step of a recurrent layer": (
        "G416",
        HEAD
        + TOKENS
        + READER.format(
            layer="self.gru = nn.GRU(8, 8, batch_first=True)", forward="return self.head(self.gru(h)[0][:, 0])"
        )
        + SETUP
        + FIT,
    ),
    "unscaled scores": (
        "M322",
        HEAD
        + TOKENS
        + READER.format(
            layer="self.query, self.key = nn.Linear(8, 64), nn.Linear(8, 64)",
            forward="q, k = self.query(8 * h), self.key(8 * h)\n        scores = q @ k.transpose(1, 2)\n"
            "        return self.head((scores.softmax(-1) @ h).mean(1))",
        )
        + SETUP
        + FIT,
    ),
}


KEPT = """
    best = keep(net)
    for xb, yb in loader:
        opt.zero_grad()
        criterion(net(xb), yb).backward()
        opt.step()
    net.load_state_dict(best)
"""
PAIR = """class Pair:
    def __init__(self):
        self.online = net
        self.target = self.online

    def refresh(self):
        self.target.load_state_dict(self.online.state_dict())

pair = Pair()

def fit():
"""
SERIES = """
x = torch.randn(192, 6, 3)
y = (x[:, 0, 0] > 0).long() + (x[:, 1, 1] > 0).long()
"""
STEPS = """
class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.randn(64, 1, 8))

    def forward(self, x):
        return x + self.table[: x.size(0)]

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.positions, self.head = nn.Linear(3, 8), Positions(), nn.Linear(8, 3)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x):
        return self.head(self.encoder(self.positions(self.embed(x))).mean(1))

net = Net()
criterion = nn.CrossEntropyLoss()
"""
HEADS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.head = nn.Linear(3, 8), nn.Linear(8, 3)

    def forward(self, x):
        n, steps, _ = x.shape
        heads = self.project(x).view(n, steps, 2, 4).transpose(1, 2)
        merged = torch.softmax(heads, dim=-1).reshape(n, steps, 8)
        return self.head(merged[:, 0] * merged[:, 1])

net = Net()
criterion = nn.CrossEntropyLoss()
"""
NOISY = """
class Noisy(torch.utils.data.Dataset):
    def __init__(self, rows, labels):
        self.rows, self.labels = rows, labels

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        noise = torch.Generator().manual_seed(i)
        return self.rows[i] + torch.randn(4, generator=noise), self.labels[i]
"""
SQUARES = """
def squares(output, target):
    return ((output - target) ** 2).mean()

criterion = squares
y = x[:, 0]
net = nn.Linear(4, 1)
"""
FLAT_SQUARES = SQUARES.replace("output - target", "torch.sub(target, output)").replace(
    "y = x[:, 0]\nnet = nn.Linear(4, 1)", "y = x[:, :1]\nnet = nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))"
)
WEIGHTED = """
def weighted(output, target, weight):
    errors = (output - target[:, None]) ** 2
    return (errors * weight).mean()

criterion = weighted
y, w = x[:, 0], 1 + 9 * torch.rand(192)
net = nn.Linear(4, 1)
"""
RARE_CLASS = """
y = torch.where(torch.arange(192) % 96 == 5, 2, (x[:, 0] > 0).long())
"""
CASES |= {
    "limit in a variable": (
        "O508",
        PROGRAM.replace("def fit():", "def fit(limit=1e-6):").replace(
            "            opt.step()\n",
            "            torch.nn.utils.clip_grad_norm_(net.parameters(), limit)\n            opt.step()\n",
        ),
    ),
    "state that a function keeps": (
        "R905",
        HEAD + NET + SETUP + "\ndef keep(model):\n    return model.state_dict()\n\ndef fit():" + KEPT,
    ),
    "target network that is the same": (
        "R905",
        PROGRAM.replace(
            "def fit():\n",
            PAIR,
        ).replace("        net.eval()\n", "        pair.refresh()\n        net.eval()\n"),
    ),
    "heads merged without an exchange": ("M309", HEAD + SERIES + HEADS + SETUP + FIT),
    "positions along the batch": ("M304", HEAD + SERIES + STEPS + SETUP + FIT),
    "last step of a padded sequence": (
        "M310",
        HEAD
        + TOKENS
        + READER.format(
            layer="self.rnn = nn.GRU(8, 8, batch_first=True)",
            forward="states, _ = self.rnn(h)\n        return self.head(states[:, -1])",
        )
        + SETUP
        + FIT,
    ),
    "factors that are rates": (
        "O507",
        PROGRAM.replace(
            "\ndbg =", "\nscheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 0.1 * 0.9 ** epoch)\ndbg ="
        ).replace("        net.eval()\n", "        scheduler.step()\n        net.eval()\n"),
    ),
    "schedule that never steps": (
        "O507",
        PROGRAM.replace("\ndbg =", "\nscheduler = torch.optim.lr_scheduler.StepLR(opt, 2)\ndbg =").replace(
            "optimizer=opt)", "optimizer=opt, scheduler=scheduler)"
        ),
    ),
    "groups longer than an epoch": (
        "O506",
        PROGRAM.replace("for xb, yb in loader:", "for i, (xb, yb) in enumerate(loader, start=1):", 1)
        .replace("            opt.zero_grad()\n", "")
        .replace(
            "            opt.step()\n",
            "            if i % 64 == 0:\n                opt.step()\n                opt.zero_grad()\n",
        ),
    ),
    "sum over batches": (
        "O511",
        PROGRAM.replace("for xb, yb in loader:", "for i, (xb, yb) in enumerate(loader, start=1):", 1)
        .replace("            opt.zero_grad()\n", "")
        .replace("loss = criterion(net(xb), yb)\n            loss.backward()", "criterion(net(xb), yb).backward()")
        .replace(
            "            opt.step()\n",
            "            if i % 3 == 0:\n                opt.step()\n                opt.zero_grad()\n",
        ),
    ),
    "generator for each sample": (
        "D117",
        HEAD + NET + NOISY + SETUP.replace("TensorDataset(x[:144], y[:144])", "Noisy(x[:144], y[:144])") + FIT,
    ),
    "loss of an operator": ("L205", HEAD + SQUARES + SETUP + FIT),
    "difference from the target": ("L205", HEAD + SQUARES.replace("output - target", "target - output") + SETUP + FIT),
    "function of the target and the output": (
        "L205",
        HEAD + SQUARES.replace("output - target", "torch.sub(target, output)") + SETUP + FIT,
    ),
    "method of the target": ("L205", HEAD + SQUARES.replace("output - target", "target.sub(output)") + SETUP + FIT),
    "column of targets": ("L205", HEAD + FLAT_SQUARES + SETUP + FIT),
    "mask along the queries": (
        "M310",
        HEAD
        + TOKENS
        + READER.format(
            layer="self.ask, self.key = nn.Linear(8, 8), nn.Linear(8, 8)",
            forward="pad = tokens == 0\n        scores = self.ask(h) @ self.key(h).transpose(1, 2) / 8 ** 0.5\n"
            "        scores = scores.masked_fill(pad.unsqueeze(2), -1e9)\n"
            "        h = torch.softmax(scores, -1) @ h * (~pad)[..., None]\n        return self.head(h.sum(1))",
        )
        + SETUP
        + FIT,
    ),
    "mask along the queries by an index": (
        "M310",
        HEAD
        + TOKENS
        + READER.format(
            layer="self.ask, self.key = nn.Linear(8, 8), nn.Linear(8, 8)",
            forward="pad = tokens == 0\n        scores = self.ask(h) @ self.key(h).transpose(1, 2) / 8 ** 0.5\n"
            "        scores = scores.masked_fill(pad[:, :, None], -1e9)\n"
            "        h = torch.softmax(scores, -1) @ h * (~pad)[..., None]\n        return self.head(h.sum(1))",
        )
        + SETUP
        + FIT,
    ),
    "share that rounds down": (
        "M306",
        PROGRAM.replace("h = torch.relu(self.hidden(x))", "h = torch.relu(self.hidden((x + 4) // 9))"),
    ),
    "rounded inputs": (
        "M306",
        PROGRAM.replace("h = torch.relu(self.hidden(x))", "h = torch.relu(self.hidden(torch.round(x / 20)))"),
    ),
    "weights of errors in a column": (
        "L205",
        HEAD
        + WEIGHTED
        + SETUP.replace("y[:144])", "y[:144], w[:144])").replace("y[144:])", "y[144:], w[144:])")
        + FIT.replace("xb, yb in", "xb, yb, wb in").replace("(net(xb), yb)", "(net(xb), yb, wb)"),
    ),
    "class weights of a loss with a name of its own": ("D106", HEAD + RARE_CLASS + NET + SETUP + FIT),
    "momentum of a recipe": (
        "O510",
        PROGRAM.replace("\nopt =", "\nrecipe = {'momentum': 0.999}\nopt =").replace(
            "lr=0.1)", "lr=0.1, momentum=recipe['momentum'])"
        ),
    ),
    "softmax over the batch of a column": (
        "L206",
        PROGRAM.replace(
            "return self.head(h)",
            "h = self.head(h).unsqueeze(2)\n        return (torch.softmax(h, dim=0) * h).sum(2)",
        ),
    ),
}

MADE_LOSS = "def make_loss():\n    return nn.CrossEntropyLoss()\n\ncriterion = make_loss()"
# The name that reaches the loss is not known, so that a change would be without effect.
UNKNOWN_NAMES: dict[str, tuple[str, str]] = {
    "class weights of a loss that a function returns": (
        "D106",
        HEAD + RARE_CLASS + NET.replace("criterion = nn.CrossEntropyLoss()", MADE_LOSS) + SETUP + FIT,
    ),
    "class weights of a loss that is made later": (
        "D106",
        HEAD
        + RARE_CLASS
        + NET.replace("criterion = nn.CrossEntropyLoss()", "")
        + SETUP.replace("\ndbg =", "\ncriterion = nn.CrossEntropyLoss()\ndbg =")
        + FIT,
    ),
    "two differences on a line": (
        "L205",
        HEAD + SQUARES.replace("output - target", "(output - target) * (output - target)") + SETUP + FIT,
    ),
}


@pytest.fixture(autouse=True)
def _time_for_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fix_writer, "_LEAST_SECONDS", 600.0)


def run_program(source: str, path: Path) -> ModuleType:
    """Write a program and import it."""
    path.write_text(source)
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    program = module_from_spec(spec)
    sys.modules[path.stem] = program
    spec.loader.exec_module(program)
    return program


def findings_of(program: ModuleType, code: str) -> list[Finding]:
    """Return the findings of one rule in a checkup and a watched run."""
    program.dbg.checkup(select=[code])
    with program.dbg.watch():
        program.fit()
    return [finding for finding in program.dbg.findings if finding.code == code]


@pytest.mark.parametrize("case", CASES)
def test_changed_program_runs_and_its_rule_is_silent(case: str, tmp_path: Path) -> None:
    code, source = CASES[case]
    path = tmp_path / f"edited_{abs(hash(case))}.py"
    finding = next(iter(findings_of(run_program(source, path), code)), None)
    assert finding is not None
    assert finding.edits, str(finding)
    assert "+ " in finding.fix_text or "- " in finding.fix_text
    fixed = run_program(apply_edits(source, finding.edits), tmp_path / f"fixed_{path.name}")
    assert findings_of(fixed, code) == []


@pytest.mark.parametrize("case", UNKNOWN_NAMES)
def test_fix_of_an_unknown_name_is_no_edit(case: str, tmp_path: Path) -> None:
    code, source = UNKNOWN_NAMES[case]
    finding = next(iter(findings_of(run_program(source, tmp_path / f"kept_{abs(hash(case))}.py"), code)), None)
    assert finding is not None
    assert finding.edits == ()
    assert finding.fix
