"""Tests of the two lines that findings name if a fault lies between them: the one to change, and the other one."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from torch import nn

from nbdebug.finding import Finding
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings
from tests.rules.rule_findings import rule_findings
from tests.source.source_modules import load_module

HEADER = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset
torch.manual_seed(0)
x, y = torch.randn(96, 8), torch.arange(96) % 3
x[:, 0] += y
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
def body(width=16, outputs=3):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, outputs))
class Pairs(Dataset):
    def __len__(self):
        return 96
"""
LANGUAGE = """\
tokens = torch.randint(0, 11, (96, 10))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.body, self.head = nn.Embedding(11, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 11)
    def forward(self, tokens):
        return self.head(self.body(self.embed(tokens))[0])
model = Model()
"""
ADAM = "optimizer = torch.optim.Adam(model.parameters(), lr=0.01)"
FIT = """\
def fit():
    for epoch in range({epochs}):
        for inputs, target in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), target).backward()
            optimizer.step(){batch}
        pass{epoch}
"""
GAN = """\
loader = DataLoader(TensorDataset(x, torch.randn(96, 3)), 16)
model = body()
critic = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
"""
NOISE = """\
loader = DataLoader(TensorDataset(x), 16)
model = body(32, 8)
"""

# By code and name: a program whose line with "here" is the place of the fault, and whose line with "there" is related.
PROGRAMS = {
    "D126 windows of a dataset, and a loss that shifts them": (
        f"{LANGUAGE}class Windows(Pairs):\n    def __getitem__(self, i):\n"
        "        row = tokens[i]\n        inputs = row[:-1]\n        labels = row[1:]  # there\n"
        "        return inputs, labels\nloader = DataLoader(Windows(), 16)\n"
        "def loss_fn(scores, target):\n    scores = scores[:, :-1]\n"
        f"    return F.cross_entropy(scores.flatten(0, 1), target[:, 1:].flatten())  # here\n{ADAM}\n"
    ),
    "D126 stored tensors, and a loss object": (
        f"{LANGUAGE}inputs = tokens[:, :-1]\nlabels = tokens[:, 1:]  # there\n"
        "loader = DataLoader(TensorDataset(inputs, labels), 16)\nclass Loss(nn.Module):\n"
        "    def forward(self, scores, target):\n        later = target[:, 1:]  # here\n"
        f"        return F.cross_entropy(scores[:, :-1].transpose(1, 2), later)\nloss_fn = Loss()\n{ADAM}\n"
    ),
    "D102 signs, and a loss object": (
        "signs = (y > 0).float()[:, None]  # here\nloader = DataLoader(TensorDataset(x, signs), 16)\n"
        f"model, loss_fn = body(outputs=1), None\nloss_fn = nn.SoftMarginLoss()  # there\n{ADAM}\n"
    ),
    "D102 signs, and a function of a loss": (
        "class Signs(Pairs):\n    def __getitem__(self, i):\n"
        "        label = (y[i] > 0).float()[None]  # here\n        return x[i], label\n"
        "loader, model = DataLoader(Signs(), 16), body(outputs=1)\ndef loss_fn(scores, target):\n"
        f"    return F.soft_margin_loss(scores, target)  # there\n{ADAM}\n"
    ),
    "L214 product with the label": (
        "signs = (y > 0).float()  # here\nloader = DataLoader(TensorDataset(x, signs), 16)\n"
        "model = nn.Sequential(body(outputs=1), nn.Flatten(0))\ndef loss_fn(scores, target):\n"
        f"    return F.relu(1 - target * scores).mean()  # there\n{ADAM}\n"
    ),
    "L214 object of an own loss": (
        "class Labels(Pairs):\n    def __getitem__(self, i):\n        label = (y[i] > 0).float()  # here\n"
        "        return x[i], label\nloader, model = DataLoader(Labels(), 16), body(outputs=1)\n"
        "class Margin(nn.Module):\n    def forward(self, scores, target):\n        margins = target * scores[:, 0]\n"
        f"        return torch.log1p(torch.exp(-margins)).mean()  # there\nloss_fn = Margin()\n{ADAM}\n"
    ),
    "D102 loss object": (
        "labels = y.float()  # here\nloader = DataLoader(TensorDataset(x, labels), 16)\n"
        f"model = body()\nloss_fn = nn.CrossEntropyLoss()  # there\n{ADAM}\n"
    ),
    "D102 own loss": (
        "class Labels(Pairs):\n    def __getitem__(self, i):\n        label = y[i].float()  # there\n"
        "        return x[i], label\nloader, model = DataLoader(Labels(), 16), body()\n"
        f"def loss_fn(scores, target):\n    return F.cross_entropy(scores, target)  # here\n{ADAM}\n"
    ),
    "L205 column of a dataset": (
        "class Rows(Pairs):\n    def __getitem__(self, i):\n        value = x[i].sum()\n"
        "        return x[i], value.unsqueeze(0)  # there\nloader, model = DataLoader(Rows(), 16), "
        "nn.Sequential(body(outputs=1), nn.Flatten(0))\n"
        f"def loss_fn(output, target):\n    return (output - target).square().mean()  # here\n{ADAM}\n"
    ),
    "L205 column of a helper": (
        "loader, model = DataLoader(TensorDataset(x, x.sum(1)), 16), nn.Sequential(body(outputs=1), nn.Flatten(0))\n"
        "def as_column(values):\n    return values[:, None]  # here\ndef loss_fn(output, target):\n"
        f"    return F.mse_loss(output, as_column(target))  # there\n{ADAM}\n"
    ),
    "M303 list of layers": (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        hidden = [nn.Linear(8, 8) for _ in range(2)]  # there\n        self.head = nn.Linear(8, 3)\n"
        "        self.hidden = hidden  # here\n    def forward(self, x):\n        for layer in self.hidden:\n"
        f"            x = layer(x).relu()\n        return self.head(x)\nmodel = Net()\n{ADAM}\n"
    ),
    "M303 dict of a function": (
        "def build(names):\n    return {name: nn.Linear(8, 3) for name in names}  # there\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.trunk, self.heads = nn.Linear(8, 8), build(['a', 'b'])  # here\n    def forward(self, x):\n"
        f"        return sum(head(self.trunk(x).relu()) for head in self.heads.values())\nmodel = Net()\n{ADAM}\n"
    ),
    "M303 object of settings": (
        "class Settings:\n    pass\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.parts, self.head = Settings(), nn.Linear(8, 3)  # there\n"
        "        self.parts.hidden = [nn.Linear(8, 8)]  # here\n    def forward(self, x):\n"
        f"        return self.head(self.parts.hidden[0](x).relu())\nmodel = Net()\n{ADAM}\n"
    ),
    "O503 layer that is replaced later": (f"model = body()\n{ADAM}  # here\nmodel[2] = nn.Linear(16, 3)  # there\n"),
    "O503 weights that are parametrized later": (
        "def build(net):\n    return torch.optim.Adam(net.parameters(), lr=0.01)  # there\n"
        "model = body()\noptimizer = build(model)\nnn.utils.parametrizations.weight_norm(model[0])  # here\n"
    ),
    "O503 optimizer of one part": (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.trunk = nn.Linear(8, 8)\n        self.head = nn.Linear(8, 3)  # there\n"
        "    def forward(self, x):\n        return self.head(self.trunk(x).relu())\nmodel = Net()\n"
        "optimizer = torch.optim.Adam(model.trunk.parameters(), lr=0.01)  # here\n"
    ),
    "O504 model that is created again": (
        f"def build():\n    model = body()\n    {ADAM}  # there\n    model = body()  # here\n"
        "    return model, optimizer\nmodel, optimizer = build()\n"
    ),
    "O504 state that is loaded by assignment": (
        f"model = body()\n{ADAM}  # there\nmodel.load_state_dict(body().state_dict(), assign=True)  # here\n"
    ),
    "O507 optimizer that is created again": (
        "model = body()\nold = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        f"scheduler = torch.optim.lr_scheduler.StepLR(old, 5)  # here\n{ADAM}  # there\n"
    ),
}
# The same of findings on a run of ``fit``.
RUNS = {
    "O507 plateau of an accuracy": (
        f"model = body()\n{ADAM}\n"
        "scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, 'min', patience=0)  # here\n"
        "accuracies = iter([k / 20 for k in range(1, 20)])\n"
        + FIT.format(epochs=8, batch="", epoch="\n        accuracy = next(accuracies)\n"
                     "        scheduler.step(accuracy)  # there")
    ),
    "O507 length in batches": (
        f"model = body()\n{ADAM}\nclass Trainer:\n    def __init__(self):\n"
        "        self.schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=48)  # there\n"
        "trainer = Trainer()\nscheduler = trainer.schedule\n"
        + FIT.format(epochs=8, batch="", epoch="\n        trainer.schedule.step()  # here")
    ),
    "O507 factors that are too small": (
        f"model = body()\n{ADAM}\nscheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.1)  # here\n"
        + FIT.format(epochs=12, batch="", epoch="\n        scheduler.step()  # there")
    ),
    "O507 optimizer that the loop creates again": (
        f"model = body()\n{ADAM}\nscheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)\n"
        + FIT.format(epochs=8, batch="", epoch="\n        scheduler.step()  # there").replace(
            "        for", "        if epoch == 2:\n"
                           "            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # here\n        for", 1
        ).replace("fit():\n", "fit():\n    global optimizer\n")
    ),
    "O507 optimizer that a helper creates again": (
        "def create(rate):\n    return torch.optim.SGD(model.parameters(), rate)  # here\n"
        "class Trainer:\n    def thaw(self):\n        self.optimizer = create(0.1)\n"
        f"trainer, model = Trainer(), body()\n{ADAM}\ntrainer.optimizer = optimizer\n"
        "scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)\n"
        + FIT.format(epochs=8, batch="", epoch="\n        scheduler.step()  # there\n"
                     "        if epoch == 2:\n            trainer.thaw()"
        ).replace("  optimizer.", "  trainer.optimizer.")
    ),
    "O507 optimizer of an own class that is created again": (
        "class Own(torch.optim.SGD):\n    def __init__(self, parameters):\n"
        "        super().__init__(parameters, lr=0.1)\n"
        f"model = body()\n{ADAM}\nscheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)\n"
        + FIT.format(epochs=8, batch="", epoch="\n        scheduler.step()  # there\n"
                     "        optimizer = Own(model.parameters())  # here").replace(
            "fit():\n", "fit():\n    global optimizer\n")
    ),
    "O507 scheduler that never steps": (
        f"model = body()\n{ADAM}\nscheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)  # here\n"
        + FIT.format(epochs=4, batch="  # there", epoch="")
    ),
    "O503 layer that is unfrozen later": (
        "model = body()\nmodel[0].requires_grad_(False)\n"
        "optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)  # there\n"
        + FIT.format(epochs=6, batch="", epoch="\n        if epoch == 2:\n"
                     "            model[0].requires_grad_(True)  # here")
    ),
    "O504 head that is replaced in the loop": (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.trunk, self.head = nn.Linear(8, 16), nn.Linear(16, 3)\n    def forward(self, x):\n"
        f"        return self.head(self.trunk(x).relu())\nmodel = Net()\n{ADAM}  # there\n"
        + FIT.format(epochs=6, batch="", epoch="\n        if epoch == 2:\n"
                     "            model.head = nn.Linear(16, 3)  # here")
    ),
    "M301 generator that is detached": (
        f"{GAN}{ADAM}\ndef fit():\n    for seed, real in loader:\n        optimizer.zero_grad()\n"
        "        rating = critic(model(seed).detach())  # here\n        (-rating.mean()).backward()  # there\n"
        "        optimizer.step()\n"
    ),
    "M301 generator whose values are taken out": (
        f"{GAN}{ADAM}\ndef rate(picture):\n    picture = torch.as_tensor(picture.tolist())  # here\n"
        "    return critic(picture).mean()\ndef fit():\n    for seed, real in loader:\n        optimizer.zero_grad()\n"
        "        loss = -rate(model(seed))\n        loss.backward()  # there\n        optimizer.step()\n"
    ),
    "D105 two draws of one step": (
        f"{NOISE}{ADAM}\ndef fit():\n    for (clean,) in loader:\n"
        "        noisy = 0.8 * clean + 0.6 * torch.randn_like(clean)  # here\n"
        "        target = torch.randn_like(clean)  # there\n        optimizer.zero_grad()\n"
        "        F.mse_loss(model(noisy), target).backward()\n        optimizer.step()\n"
    ),
    "D105 draw of a helper": (
        f"{NOISE}{ADAM}\ndef blur(clean):\n    noise = torch.randn(clean.shape)\n    return 0.8 * clean + 0.6 * noise\n"
        "def loss_of(clean):\n    predicted = model(blur(clean))  # here\n"
        "    noise = torch.randn(clean.shape)  # there\n    return (predicted - noise).square().mean()\n"
        "def fit():\n    for (clean,) in loader:\n        optimizer.zero_grad()\n        loss_of(clean).backward()\n"
        "        optimizer.step()\n"
    ),
}  # fmt: skip

RATES = (
    "class Config:\n    peak, warm_up = 0.003, 4\nclass Plan:\n    def __init__(self, peak):\n"
    "        self.peak = peak\n    def rate(self, step):\n        return self.peak * 0.9**step{plan}\n"
    "def factor_of(config, step):\n    return 0.9**step\n"
    "def rate_of(config, step):\n    factor = 0.9**step\n    return config.peak * factor{single}\n"
    "def rate_in_parts(config, step):\n    if step < config.warm_up:\n"
    "        return config.peak * (step + 1) / config.warm_up\n"
    "    return config.peak * 0.9 ** (step - config.warm_up){parts}\n"
    "def fit_with(config):\n    global model, optimizer, scheduler\n    model = body()\n"
    "    optimizer = torch.optim.Adam(model.parameters(), lr=config.peak)\n{choice}"
    "    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, {function})\nfit_with(Config())\n"
    + FIT.format(epochs=8, batch="", epoch="\n        scheduler.step()  # there")
)


def rates(function, choice="", **here):
    marks = {name: "  # here" if name in here else "" for name in ("plan", "single", "parts")}
    return RATES.format(function=function, choice=choice, **marks)


# By code and name: the function of a schedule that calls the function which computes rates.
CALLED = {
    "O507 rate of a called function": rates(
        "lambda step: curve(config, step)", "    curve = factor_of if x.sum() > 1e9 else rate_of\n", single=True
    ),
    "O507 rate of one of two returns": rates("lambda step: rate_in_parts(config, step)", parts=True),
    "O507 rate of a partial function": rates(
        "functools.partial(rate_of, config)", "    import functools\n", single=True
    ),
    "O507 rate of a partial function with two returns": rates(
        "functools.partial(rate_in_parts, config)", "    import functools\n", parts=True
    ),
    "O507 rate of a called method": rates("lambda step: plan.rate(step)", "    plan = Plan(config.peak)\n", plan=True),
    "O507 rate of a variable that is chosen": rates(
        "curve", "    def curve(step):\n        rate = rate_in_parts(config, step)\n        return rate\n", parts=True
    ),
}


def _load(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, Setup]:
    module = load_module(tmp_path / "program_of_two_lines.py", HEADER + text)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    loss_fn = getattr(module, "loss_fn", nn.CrossEntropyLoss())
    scheduler = getattr(module, "scheduler", None)
    setup = Setup(module.model, module.loader, loss_fn=loss_fn, optimizers=(module.optimizer,), scheduler=scheduler)
    setup.files = {str(module.__file__)}
    return module, setup


def _assert_lines(findings: list[Finding], code: str) -> None:
    (finding,) = [finding for finding in findings if finding.code == code and finding.severity != "note"]
    places = [finding.where, *(item.where for item in finding.related)]
    assert [str(place.source).partition("  # ")[2] for place in places] == ["here", "there"], str(finding)
    assert str(finding).count("\n  see ") == 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_finding_names_both_lines_of_a_fault(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = name.split()[0]
    _assert_lines(rule_findings(_load(PROGRAMS[name], tmp_path, monkeypatch)[1], code), code)


@pytest.mark.parametrize("name", RUNS | CALLED)
def test_finding_on_a_run_names_both_lines_of_a_fault(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, setup = _load((RUNS | CALLED)[name], tmp_path, monkeypatch)
    _assert_lines(all_findings(lambda _: module.fit(), setup), name.split()[0])
