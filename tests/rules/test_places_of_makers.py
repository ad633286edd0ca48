"""Tests of the line that findings name: the one that makes the value at fault, not the one where it is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import train
from tests.rules.rule_findings import rule_faults, rule_findings
from tests.rules.test_places_in_programs import FOOTER, assert_place, build_setup

MARGIN = (
    "class Margin(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.rows = nn.Parameter(torch.randn(3, 3))\n"
    "    def forward(self, scores, label):\n        return F.cross_entropy(scores @ self.rows, label)\n"
)
TEXT = """\
tokens = torch.randint(1, 11, (96, 11))
loader = DataLoader(TensorDataset(tokens[:, :-1], tokens[:, 1:]), batch_size=16)
def loss_fn(scores, target):
    return F.cross_entropy(scores.flatten(0, 1), target.flatten())
"""
DECODER = """\
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 8), nn.Linear(8, 11)
        self.look = nn.MultiheadAttention(8, 2, batch_first=True)
        {setup}
    def forward(self, tokens):
        x = self.embed(tokens)
        {mask}
        return self.head(x + self.look(x, x, x, attn_mask=mask, need_weights=False)[0])
"""
CONVOLUTION = """\
class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 8), nn.Linear(8, 11)
        self.mix = nn.Conv1d(8, 8, 3)
    def widen(self, x):
        {widen}
    def forward(self, tokens):
        x = self.widen(self.embed(tokens).transpose(1, 2))
        return self.head(self.mix(x).transpose(1, 2))
"""
PADDED = """\
lengths = 3 + torch.arange(96) % 8
tokens = torch.randint(1, 11, (96, 10)) * (torch.arange(10) < lengths[:, None])
loader = DataLoader(TensorDataset(tokens, tokens[:, 0] % 3), batch_size=16)
"""
READER = """\
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 8, padding_idx=0), nn.Linear(12, 3)
        self.cells = nn.GRU(8, 12, batch_first=True)
    def last(self, states):
        {last}
    def forward(self, tokens):
        return self.head(self.last(self.cells(self.embed(tokens))[0]))
"""
PATCHES = """\
loader = DataLoader(TensorDataset(torch.randint(0, 11, (96, 6)), y), batch_size=16)
class Patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 8), nn.Linear(8, 3)
        self.{name} = nn.Parameter(torch.randn(6, 8))
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    {method}
    def forward(self, tokens):
        return self.head(self.block(self.enter(self.embed(tokens))).mean(1))
"""
STEPPER = """\
series = torch.randn(96, 10, 3)
loader = DataLoader(TensorDataset(series, (series.mean((1, 2)) > 0).long()), batch_size=16)
class Stepper(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRUCell(3, 12), nn.Linear(12, 3)
    def forward(self, series):
        last = start = torch.zeros(len(series), 12)
        for step in series.unbind(1):
            {step}
        return self.head(last)
model = Stepper()
"""
MEASURED = """\
wanted = torch.where(torch.rand(96, 3) < 0.3, torch.nan, x[:, :3])
wanted = torch.nan_to_num(wanted, nan=-9.0){here}
loader, model = DataLoader(TensorDataset(x, wanted), batch_size=16), body()
"""
PAIRS = """\
y = torch.arange(96) % 2
loader = DataLoader(TensorDataset(x, y.float()), batch_size=16)
model = nn.Sequential(nn.Linear(8, 1), nn.Flatten(0))
"""


# By code and name: a program whose line with "here" is at fault.
PROGRAMS = {
    "M305 mask of a function": (
        f"{TEXT}def allowed(size):\n    ones = torch.ones(size, size)\n    return torch.triu(ones, 1)  # here\n"
        f"{DECODER.format(setup='pass', mask='mask = allowed(tokens.shape[1])')}model = Decoder()\n{FOOTER}"
    ),
    "M305 mask of a buffer": TEXT
    + DECODER.format(
        setup="self.register_buffer('mask', torch.full((10, 10), 1e-9).triu(1))  # here",
        mask="mask = self.mask[: tokens.shape[1], : tokens.shape[1]]",
    )
    + f"model = Decoder()\n{FOOTER}",
    "M305 padding on both sides": (
        f"{TEXT}{CONVOLUTION.format(widen='return F.pad(x, (1, 1))  # here')}model = Convolution()\n{FOOTER}"
    ),
    "M305 padding by concatenation": TEXT
    + CONVOLUTION.format(
        widen="edge = torch.zeros_like(x[..., :1])\n        return torch.cat([edge, x, edge], dim=2)  # here"
    )
    + f"model = Convolution()\n{FOOTER}",
    "M306 state that each step makes": (
        STEPPER.format(step="state = start * 1.0  # here\n            last = self.cell(step, state)") + FOOTER
    ),
    "M306 state of before the loop": STEPPER.format(step="last = self.cell(step, start)  # here") + FOOTER,
    "M310 last state": f"{PADDED}{READER.format(last='return states[:, -1]  # here')}model = Reader()\n{FOOTER}",
    "M310 last state of other axes": (
        f"{PADDED}{READER.format(last='return states.transpose(0, 1)[-1]  # here')}model = Reader()\n{FOOTER}"
    ),
    "M310 variable of steps": PADDED
    + READER.format(
        last="end = torch.full((len(states),), -1)  # here\n        rows = torch.arange(len(states))\n"
        "        return states[rows, end]"
    )
    + f"model = Reader()\n{FOOTER}",
    "M303 tensor of a method": (
        "class Scaled(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.body, self.scale = body(), self.start()  # here\n"
        "    def start(self):\n        return torch.ones(3, requires_grad=True)\n"
        f"    def forward(self, x):\n        return self.body(x) * self.scale\nmodel = Scaled()\n{FOOTER}"
    ),
    "L204 softmax on an earlier line": (
        "loader = DataLoader(TensorDataset(x, torch.softmax(x[:, :3], 1)), batch_size=16)\nmodel = body()\n"
        "def loss_fn(scores, wanted):\n    answers = F.softmax(scores / 2, dim=1)  # here\n"
        f"    return F.kl_div(answers, wanted, reduction='batchmean')\n{FOOTER}"
    ),
    "L204 softmax of a function": (
        "loader = DataLoader(TensorDataset(x, torch.softmax(x[:, :3], 1)), batch_size=16)\nmodel = body()\n"
        "def soften(scores):\n    return scores.softmax(-1)  # here\nclass Distance(nn.Module):\n"
        "    def forward(self, scores, wanted):\n        return nn.KLDivLoss(reduction='batchmean')(soften(scores), "
        f"wanted)\nloss_fn = Distance()\n{FOOTER}"
    ),
    "L204 shares by hand": (
        "loader = DataLoader(TensorDataset(x, torch.softmax(x[:, :3], 1)), batch_size=16)\nmodel = body()\n"
        "def shares(scores):\n    powers = torch.exp(scores - scores.amax(-1, keepdim=True))\n"
        "    return powers / powers.sum(-1, keepdim=True)  # here\ndef loss_fn(scores, wanted):\n"
        f"    return F.kl_div(shares(scores), wanted, reduction='batchmean')\n{FOOTER}"
    ),
    "L204 shares by hand in the model": (
        "class Shares(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.body = body()\n"
        "    def forward(self, x):\n        powers = self.body(x).exp()\n"
        f"        return powers / powers.sum(1)[:, None]  # here\nmodel, loss_fn = Shares(), nn.NLLLoss()\n{FOOTER}"
    ),
    "L213 signs of a function": (
        f"{PAIRS}def signs(label):\n    return 1 - 2 * label  # here\n"
        f"def loss_fn(scores, label):\n    return F.softplus(-signs(label) * scores).mean()\n{FOOTER}"
    ),
    "L213 signs of a choice": (
        f"{PAIRS}def loss_fn(scores, label):\n    sign = torch.where(label > 0, -1.0, 1.0)  # here\n"
        f"    return -F.logsigmoid(sign * scores).mean()\n{FOOTER}"
    ),
    "M301 result of a method": (
        PATCHES.format(name="table", method="def enter(self, x):\n        x.add(self.table)  # here\n        return x")
        + f"model = Patches()\n{FOOTER}"
    ),
    "M301 result of a function": (
        "def place(x, table):\n    torch.add(x, table)  # here\n    return x\n"
        + PATCHES.format(name="rows", method="def enter(self, x):\n        return place(x, self.rows)")
        + f"model = Patches()\n{FOOTER}"
    ),
    "M311 result of a function": (
        "def place(x):\n    torch.add(x, torch.arange(6.0)[:, None])  # here\n    return x\n"
        + PATCHES.format(name="unused", method="def enter(self, x):\n        return place(x) + 0 * self.unused.sum()")
        + f"model = Patches()\n{FOOTER}"
    ),
    "M304 clock of a function": (
        "def clock(x):\n    rows = torch.linspace(0, 1, len(x))  # here\n"
        "    return rows[:, None, None].expand(-1, 6, 1)\n"
        + PATCHES.format(
            name="unused",
            method="def enter(self, x):\n        return torch.cat([x[..., :7], clock(x)], 2) + 0 * self.unused.sum()",
        )
        + f"model = Patches()\n{FOOTER}"
    ),
    "M311 row numbers of a method": (
        PATCHES.format(
            name="unused",
            method="def rows(self, x):\n        return torch.arange(x.shape[0])[:, None]  # here\n"
            "    def enter(self, x):\n        return x + torch.sin(self.rows(x))[:, None] + 0 * self.unused.sum()",
        )
        + f"model = Patches()\n{FOOTER}"
    ),
    "D113 numbers that a loss counts": (
        f"{MEASURED.format(here='')}class Errors(nn.Module):\n    def forward(self, scores, wanted):\n"
        f"        return F.smooth_l1_loss(scores, wanted)  # here\nloss_fn = Errors()\n{FOOTER}"
    ),
    "D113 mask of a function": (
        f"{MEASURED.format(here='')}def known(wanted):\n    seen = torch.isfinite(wanted)  # here\n"
        "    return seen\ndef loss_fn(scores, wanted):\n    error, seen = (scores - wanted).abs(), known(wanted)\n"
        f"    assert torch.isfinite(scores).all()\n    return error[seen].mean()\n{FOOTER}"
    ),
    "D113 numbers for a loss of torch": f"{MEASURED.format(here='  # here')}loss_fn = nn.MSELoss()\n{FOOTER}",
    "O503 one of two optimizers of a program": (
        "model, margin = body(), nn.Linear(3, 3)\nclass Margin(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.rows = nn.Parameter(torch.randn(3, 3))\n"
        "    def forward(self, scores, label):\n        return F.cross_entropy(scores @ self.rows, label)\n"
        "loss_fn = Margin()\ndef both():\n"
        "    return torch.optim.Adam([{'params': model.parameters()}, {'params': loss_fn.parameters()}], lr=0.01)\n"
        "def one():\n    return torch.optim.Adam(model.parameters(), lr=0.01)  # here\noptimizer = one()\n"
    ),
    "O503 loss without its branch": (
        f"{MARGIN}def build(whole):\n    net, margin = body(), Margin()\n    if whole:\n"
        "        optimizer = torch.optim.Adam([*net.parameters(), *margin.parameters()], lr=0.01)\n    else:\n"
        "        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)  # here\n    return net, margin, optimizer\n"
        "model, loss_fn, optimizer = build(False)\n"
    ),
    "O503 loss without its group": (
        f"{MARGIN}model, loss_fn, whole = body(), Margin(), False\nif whole:\n"
        "    groups = [{'params': model.parameters()}, {'params': loss_fn.parameters()}]\n"
        "    optimizer = torch.optim.Adam(\n        groups, lr=0.01)\nelse:\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  # here\n"
    ),
    "O503 loss without its place in a list": (
        f"{MARGIN}model, loss_fn = body(), Margin()\nweights = list(model.parameters())  # here\n"
        "optimizer = torch.optim.Adam(weights, lr=0.01)\n"
    ),
    "O503 loss that a method leaves out": (
        f"{MARGIN}class Fitter:\n    def __init__(self, whole):\n        self.net, self.loss = body(), Margin()\n"
        "        self.whole = whole\n    def parts(self):\n        if self.whole:\n"
        "            return [*self.net.parameters(), *self.loss.parameters()]\n"
        "        return [*self.net.parameters()]  # here\n    def optimizer(self):\n"
        "        return torch.optim.Adam(self.parts(), lr=0.01)\nfitter = Fitter(False)\n"
        "model, loss_fn, optimizer = fitter.net, fitter.loss, fitter.optimizer()\n"
    ),
    "O503 loss that a method leaves out in a loop": (
        f"{MARGIN}class Fitter:\n    def __init__(self):\n        self.net, self.loss = body(), Margin()\n"
        "    def parts(self, rate):\n        return [{'params': self.net.parameters(), 'lr': rate}]  # here\n"
        "    def configure(self, rate=0.01):\n        parts = self.parts(rate)\n"
        "        return torch.optim.Adam(parts, lr=rate)\nfitter = Fitter()\n"
        "model, loss_fn, optimizer = fitter.net, fitter.loss, fitter.configure(0.1)\n"
    ),
    "O503 loss that a helper leaves out": (
        f"{MARGIN}model, loss_fn = body(), Margin()\ndef parts(whole):\n    if whole:\n"
        "        return [*model.parameters(), *loss_fn.parameters()]\n    return [*model.parameters()]  # here\n"
        "optimizer = torch.optim.Adam(parts(False), lr=0.01)\n"
    ),
    "O503 loss of an object": (
        f"{MARGIN}class Fitter:\n    def __init__(self, net, whole):\n        self.net, self.loss = net, Margin()\n"
        "        if whole:\n            parts = [*net.parameters(), self.loss.rows]\n"
        "            self.optimizer = torch.optim.Adam([*net.parameters(), self.loss.rows])\n        else:\n"
        "            self.optimizer = torch.optim.Adam(net.parameters())  # here\n"
        "fitter = Fitter(body(), False)\nmodel, optimizer, loss_fn = fitter.net, fitter.optimizer, fitter.loss\n"
    ),
    "O503 weights that are parametrized later": (
        f"model = body()\n{FOOTER}for layer in model:\n    if isinstance(layer, nn.Linear):\n"
        "        nn.utils.parametrizations.weight_norm(layer)  # here\n"
    ),
    "O517 type by a constant": (
        "KIND = torch.bfloat16\nmodel = body(64).to(KIND)  # here\n"
        "loader = DataLoader(TensorDataset(x.to(torch.bfloat16), y), batch_size=16)\n"
        "optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)\n"
    ).replace("x.to(torch.bfloat16)", "x.type(model[0].weight.dtype)"),
    "O517 type of a method": (
        "model = body(64).bfloat16()  # here\n"
        "loader = DataLoader(TensorDataset(x.type(model[0].weight.dtype), y), batch_size=16)\n"
        "optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)\n"
    ),
    "D105 permutation in a collate function": (
        "def stir(rows):\n    inputs, labels = torch.stack([a for a, _ in rows]), torch.stack([b for _, b in rows])\n"
        "    order = torch.randperm(len(rows))\n    return inputs[order], labels  # here\n"
        f"loader = DataLoader(TensorDataset(x, y), batch_size=16, collate_fn=stir)\nmodel = body()\n{FOOTER}"
    ),
    "D105 permuted labels in an object": (
        "class Collate:\n    def __call__(self, rows):\n        inputs, labels = map(torch.stack, zip(*rows))\n"
        "        labels = labels[torch.randperm(len(labels))]  # here\n        return inputs, labels\n"
        f"loader = DataLoader(TensorDataset(x, y), batch_size=16, collate_fn=Collate())\nmodel = body()\n{FOOTER}"
    ),
    "D117 generator beside a stored one": (
        "import numpy as np\nclass Noisy(torch.utils.data.Dataset):\n    def __init__(self):\n"
        "        self.generator = np.random.default_rng(0)\n    def __len__(self):\n        return 96\n"
        "    def __getitem__(self, i):\n        generator = self.generator\n        if i >= 0:\n"
        "            generator = np.random.RandomState(3)  # here\n"
        "        return x[i] + torch.from_numpy(generator.normal(size=8)).float(), y[i]\n"
        f"loader = DataLoader(Noisy(), batch_size=16)\nmodel = body()\n{FOOTER}"
    ),
}
TIED = """\
loader = DataLoader(TensorDataset(torch.randint(0, 11, (96, 6)), torch.randint(0, 11, (96, 6))), batch_size=16)
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight{later}
    def load(self, vectors):
        {load}
    def retie(self):
        self.head.weight = self.embed.weight
    def forward(self, tokens):
        return self.head(self.embed(tokens)).transpose(1, 2)
model = Tied()
"""
OWN_STEP = """\
class Own(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, dict(lr=lr))
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group['params']:
                {step}
model = body()
optimizer = Own(model.parameters(), lr=0.1)
"""
# The same of findings on a run.
RUNS = {
    "G414 variable of a loop": OWN_STEP.format(
        step="if p.dim() < 2:\n                    p -= group['lr'] * p.grad\n                else:\n"
        "                    p = p - group['lr'] * p.grad  # here"
    ),
    "G414 variable with another name": OWN_STEP.format(
        step="weights = p\n                if p.dim() > 1:\n"
        "                    weights = weights - weights.grad * group['lr']  # here\n                else:\n"
        "                    p.sub_(p.grad)"
    ),
    "G414 buffer of the optimizer": OWN_STEP.format(
        step="memory = self.state[p].setdefault('memory', torch.zeros_like(p)).mul_(0.9).add_(p.grad)\n"
        "                p = p - group['lr'] * memory  # here"
    ),
}
# A program that unties two weights on the line with "here", or ties them there if it is uncertain what unties them.
UNTIED = {
    "M317 parameter replaced in a method": TIED.format(
        later="", load="self.embed.weight = nn.Parameter(vectors.clone())  # here"
    )
    + f"model.load(torch.randn(11, 8))\n{FOOTER}",
    "M317 layer replaced from outside": TIED.format(later="", load="self.embed.weight.data.copy_(vectors)")
    + f"model.head = nn.Linear(8, 11, bias=False)  # here\n{FOOTER}",
    "M317 parameter replaced later in the constructor": TIED.format(
        later="\n        self.embed.weight = nn.Parameter(torch.randn(11, 8))  # here", load="pass"
    )
    + FOOTER,
    "M317 one of two replacements": TIED.format(
        later="  # here", load="self.embed.weight = nn.Parameter(vectors.clone())"
    )
    + f"if x.sum() < 1e9:\n    model.load(torch.randn(11, 8))\nelse:\n    model.head = nn.Linear(8, 11)\n{FOOTER}",
}
# By code and name: a sound program that does what the faulty ones do, and on which the rule stays silent.
HEALTHY = {
    "M305 mask of minus infinity": TEXT
    + DECODER.format(
        setup="self.register_buffer('mask', torch.full((10, 10), float('-inf')).triu(1))",
        mask="mask = self.mask[: tokens.shape[1], : tokens.shape[1]]",
    )
    + f"model = Decoder()\n{FOOTER}",
    "M305 padding on the left": (
        f"{TEXT}{CONVOLUTION.format(widen='return F.pad(x, (2, 0))')}model = Convolution()\n{FOOTER}"
    ),
    "L213 signs of labels": (
        f"{PAIRS}def loss_fn(scores, label):\n    return F.softplus((1 - 2 * label) * scores).mean()\n{FOOTER}"
    ),
    "L213 opposite signs of scores": (
        f"{PAIRS}def loss_fn(scores, label):\n    return -F.logsigmoid((2 * label - 1) * scores).mean()\n{FOOTER}"
    ),
    "D105 one permutation for both": (
        "def stir(rows):\n    inputs, labels = map(torch.stack, zip(*rows))\n    order = torch.randperm(len(rows))\n"
        "    return inputs[order], labels[order]\n"
        f"loader = DataLoader(TensorDataset(x, y), batch_size=16, collate_fn=stir)\nmodel = body()\n{FOOTER}"
    ),
    "D105 samples permuted first": (
        "def stir(rows):\n    return map(torch.stack, zip(*[rows[i] for i in torch.randperm(len(rows)).tolist()]))\n"
        f"loader = DataLoader(TensorDataset(x, y), batch_size=16, collate_fn=stir)\nmodel = body()\n{FOOTER}"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS | UNTIED)
def test_finding_names_the_line_that_makes_the_value_at_fault(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = name.split()[0]
    assert_place(rule_findings(build_setup((PROGRAMS | UNTIED)[name], tmp_path, monkeypatch), code), code)


@pytest.mark.parametrize("name", RUNS)
def test_finding_on_a_run_names_the_line_that_makes_the_value_at_fault(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    debugger = Debugger.of(build_setup(RUNS[name], tmp_path, monkeypatch))
    with debugger.watch():
        train(debugger.setup, epochs=4)
    code = name.split()[0]
    assert_place([finding for finding in debugger.findings if finding.code == code], code)


@pytest.mark.parametrize("name", HEALTHY)
def test_sound_program_that_makes_such_a_value_is_silent(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rule_faults(build_setup(HEALTHY[name], tmp_path, monkeypatch), name.split()[0]) == []
