"""Tests of the line that findings on a loop name: the line that made the fault, in any file of the user's."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.finding import Finding
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, batches, load_loop, run_watched, source_line

HEADER = """\
import torch
from collections import defaultdict
from torch.nn import functional as F
def batches(setup):
    for _ in range(6):
        yield from setup.train_loader
def update(setup, loss):
    setup.optimizers[0].zero_grad()
    loss.backward()
    setup.optimizers[0].step()
    return loss
"""
_LOOP = "def train(setup):\n    for x, y in batches(setup):\n"

# The line with "here" creates a tensor in place of the loss or the output.
REWRAPPED = {
    "the loss": (
        f"{_LOOP}        loss = F.cross_entropy(setup.model(x), y)\n"
        "        loss = torch.tensor(loss.item(), requires_grad=True)  # here\n        update(setup, loss)\n"
    ),
    "the output": (
        f"{_LOOP}        output = setup.model(x)\n"
        "        output = torch.autograd.Variable(output.data, requires_grad=True)  # here\n"
        "        update(setup, F.cross_entropy(output, y))\n"
    ),
    "in the call of the loss": (
        f"{_LOOP}        loss = F.cross_entropy(\n            setup.model(x).detach().requires_grad_(),  # here\n"
        "            y)\n        update(setup, loss)\n"
    ),
    "in a helper": (
        "def compute_loss(setup, x, y):\n    output = setup.model(x)\n"
        "    fresh = output.detach().clone().requires_grad_()  # here\n    return F.cross_entropy(fresh, y)\n"
        f"{_LOOP}        update(setup, compute_loss(setup, x, y))\n"
    ),
    "in a lambda": (
        "wrap = lambda output: torch.tensor(output.tolist(), requires_grad=True)  # here\n"
        f"{_LOOP}        update(setup, F.cross_entropy(wrap(setup.model(x)), y))\n"
    ),
    "by its attribute": (
        "def wrap(output):\n    fresh = output.detach()\n    fresh.requires_grad = True  # here\n    return fresh\n"
        f"{_LOOP}        update(setup, F.cross_entropy(wrap(setup.model(x)), y))\n"
    ),
}

# The line with "here" stores the losses with their graphs.
STORING = {
    "attribute of a meter": (
        "class Meter:\n    def __init__(self):\n        self.total = 0.0\n    def update(self, loss):\n"
        "        self.total = self.total + loss  # here\n"
        "def train(setup):\n    meter, total = Meter(), 0.0\n    for x, y in batches(setup):\n"
        "        loss = update(setup, F.cross_entropy(setup.model(x), y))\n        meter.update(loss)\n"
        "        total += loss.item()\n"
    ),
    "history of a trainer": (
        "class Trainer:\n    def __init__(self, setup):\n        self.setup, self.history = setup, defaultdict(list)\n"
        "    def step(self, x, y):\n        loss = F.cross_entropy(self.setup.model(x), y)\n"
        "        return {'loss': update(self.setup, loss)}\n"
        "    def fit(self):\n        for x, y in batches(self.setup):\n            logs = self.step(x, y)\n"
        "            for name, value in logs.items():\n                self.history[name].append(value)  # here\n"
        "def train(setup):\n    Trainer(setup).fit()\n"
    ),
    "list in a closure": (
        "def train(setup):\n    stored = []\n    def log(value):\n        stored.append(value)  # here\n"
        "    for x, y in batches(setup):\n        log(update(setup, F.cross_entropy(setup.model(x), y)))\n"
    ),
    "comprehension": (
        "def train(setup):\n"
        "    return [update(setup, F.cross_entropy(setup.model(x), y)) for x, y in batches(setup)]  # here\n"
    ),
    "statement on several lines": (
        "def train(setup):\n    total = 0\n    for x, y in batches(setup):\n"
        "        loss = update(setup, F.cross_entropy(setup.model(x), y))\n"
        "        total += (  # here\n            loss * len(x)\n        )\n"
    ),
    "list of a module": (
        "LOG = []\ndef record(loss):\n    LOG.append({'loss': loss})  # here\n"
        f"{_LOOP}        record(update(setup, F.cross_entropy(setup.model(x), y)))\n"
    ),
    "beside a list of numbers": (
        "def train(setup):\n    numbers, losses = [], []\n    for x, y in batches(setup):\n"
        "        loss = update(setup, F.cross_entropy(setup.model(x), y))\n        numbers.append(loss.item())\n"
        "        losses.append(loss)  # here\n"
    ),
    "attribute of a function": (
        "def train(setup):\n    train.losses = []\n    for x, y in batches(setup):\n"
        "        train.losses.append(update(setup, F.cross_entropy(setup.model(x), y)))  # here\n"
    ),
}

_STEP = (
    "    for x, y in batches(setup):\n        out = setup.model(x)\n"
    "        loss = update(setup, F.cross_entropy(out, y))\n"
)
_METER = (
    "class Meter:\n    def __init__(self):\n        self.history = {}\n    def log(self, loss, out):\n"
    "        self.history{}.append(loss)  # here\n        self.history{}.append(out.mean())\n"
    "def train(setup):\n    meter = Meter()\n" + _STEP + "        meter.log(loss, out)\n"
)

# Several lines store tensors in the lists under the keys of one container, the one with "here" as the first of those
# that keep a graph.
STORING_UNDER_KEYS = {
    "dictionary of lists": (
        f"def train(setup):\n    history = {{'loss': [], 'acc': []}}\n{_STEP}"
        "        history['loss'].append(loss)  # here\n        history['acc'].append(out.mean())\n"
    ),
    "values without a graph first": (
        f"def train(setup):\n    history = defaultdict(list)\n{_STEP}"
        "        history['count'].append(out.argmax(1).sum())\n        history['mean'].append(out.mean())  # here\n"
        "        history['std'].append(out.std())\n"
    ),
    "dictionary of an object": _METER.format("{'loss': [], 'acc': []}", "['loss']", "['acc']"),
    "defaultdict of an object": _METER.format("defaultdict(list)", "['loss']", "['acc']"),
    "dictionaries in a dictionary": _METER.format(
        "{'train': {'loss': [], 'acc': []}}", "['train']['loss']", "['train']['acc']"
    ),
    "setdefault": _METER.format("{}", ".setdefault('loss', [])", ".setdefault('acc', [])"),
    "only the second keeps a graph": (
        "HISTORY = defaultdict(list)\ndef log(loss, out):\n    HISTORY['loss'].append(loss.detach().clone())\n"
        "    HISTORY['acc'].append(out)  # here\n"
        f"def train(setup):\n{_STEP}        log(loss, out.mean())\n"
    ),
    "global variable in a function": (
        "HISTORY = defaultdict(list)\ndef log(loss, out):\n    HISTORY['loss'].append(loss)  # here\n"
        f"    HISTORY['acc'].append(out.mean())\ndef train(setup):\n{_STEP}        log(loss, out)\n"
    ),
    "function of a step": (
        "def step(setup, log, x, y):\n    out = setup.model(x)\n    loss = update(setup, F.cross_entropy(out, y))\n"
        "    log['loss'].append(loss)  # here\n    log['acc'].append(out.mean())\n"
        "def train(setup):\n    history = {'loss': [], 'acc': []}\n    for x, y in batches(setup):\n"
        "        step(setup, history, x, y)\n"
    ),
    "dictionary passed to a function": (
        "def log(history, loss, out):\n    history['loss'].append(loss)  # here\n"
        "    history['acc'].append(out.mean())\n"
        f"def train(setup):\n    results = defaultdict(list)\n{_STEP}        log(results, loss, out=out)\n"
    ),
    "list passed to a method": (
        "class Logger:\n    def log(self, values, value):\n        values.append(value)  # here\n"
        f"def train(setup):\n    losses, logger = [], Logger()\n{_STEP}        logger.log(losses, value=loss)\n"
    ),
}


def findings_in_file(tmp_path: Path, body: str, setup: Setup | None = None) -> list[Finding]:
    train = load_loop(tmp_path / "loop.py", HEADER + body)
    return all_findings(train, setup or classifier())


def assert_marked(findings: list[Finding], code: str) -> None:
    (finding,) = [finding for finding in findings if finding.code == code]
    assert source_line(finding).endswith("# here"), str(finding)


@pytest.mark.parametrize("name", REWRAPPED)
def test_loss_detached_names_the_line_that_creates_the_new_tensor(name: str, tmp_path: Path) -> None:
    assert_marked(findings_in_file(tmp_path, REWRAPPED[name]), "L212")
    assert torch._C._len_torch_function_stack() == 0


def test_loss_detached_leaves_a_function_mode_of_the_user_in_place(tmp_path: Path) -> None:
    body = (
        f"{_LOOP}        with torch.device('cpu'):\n"
        "            output = setup.model(x).detach().requires_grad_()  # here\n"
        "            update(setup, F.cross_entropy(output, y))\n"
    )
    assert_marked(findings_in_file(tmp_path, body), "L212")
    assert torch._C._len_torch_function_stack() == 0


def test_growing_memory_names_the_line_that_stores_in_an_object_of_another_file(tmp_path: Path) -> None:
    body = (
        "def train(setup):\n    run = Run()\n    for x, y in batches(setup):\n"
        "        run.extras['log'].append(update(setup, F.cross_entropy(setup.model(x), y)))  # here\n"
    )
    scope: dict[str, Any] = {"__name__": "run"}
    source = "class Run:\n    def __init__(self):\n        self.extras = {'log': [], 'other': {}}\n"
    file = tmp_path / "run.py"
    file.write_text(source, encoding="utf-8")
    exec(compile(source, str(file), "exec"), scope)
    train = load_loop(tmp_path / "loop.py", HEADER + body)
    train.__globals__["Run"] = scope["Run"]
    assert_marked(all_findings(train, classifier()), "P804")


@pytest.mark.parametrize("name", STORING)
def test_growing_memory_names_the_line_that_stores_the_losses(name: str, tmp_path: Path) -> None:
    assert_marked(findings_in_file(tmp_path, STORING[name]), "P804")


@pytest.mark.parametrize("name", STORING_UNDER_KEYS)
def test_growing_memory_names_the_first_line_that_stores_a_graph_under_a_key(name: str, tmp_path: Path) -> None:
    assert_marked(findings_in_file(tmp_path, STORING_UNDER_KEYS[name]), "P804")


def test_growing_memory_names_no_line_if_any_of_several_may_store_under_a_key(tmp_path: Path) -> None:
    body = (
        "HISTORY = defaultdict(list)\ndef log(value):\n    HISTORY['loss'].append(value)\n"
        "def log_again(value):\n    HISTORY['loss'].append(value)\n"
        f"def train(setup):\n{_STEP}        log(loss)\n        log_again(out.mean())\n"
    )
    (finding,) = [finding for finding in findings_in_file(tmp_path, body) if finding.code == "P804"]
    assert source_line(finding) == ""
    assert finding.cause.startswith("HISTORY stores")


def test_growing_memory_names_the_first_line_if_several_store_the_losses(tmp_path: Path) -> None:
    body = (
        "def train(setup):\n    losses = []\n    for step, (x, y) in enumerate(batches(setup)):\n"
        "        loss = update(setup, F.cross_entropy(setup.model(x), y))\n"
        "        if step % 2:\n            losses.append(loss)  # here\n"
        "        else:\n            losses.insert(0, loss)\n"
    )
    findings = findings_in_file(tmp_path, body)
    assert_marked(findings, "P804")
    (finding,) = [finding for finding in findings if finding.code == "P804"]
    assert finding.cause.startswith("losses stores")


@pytest.mark.parametrize("scale", ["loss", "loss / 4", "2 * loss"])
def test_findings_on_a_loss_that_is_no_module_name_the_line_that_computes_it(scale: str, tmp_path: Path) -> None:
    body = (
        f"{_LOOP}        loss = F.cross_entropy(torch.softmax(setup.model(x), 1), y)  # here\n"
        f"        setup.optimizers[0].zero_grad()\n        ({scale}).backward()\n        setup.optimizers[0].step()\n"
    )
    assert_marked(findings_in_file(tmp_path, body), "L201")


def squared_error(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).square().mean()


@pytest.mark.parametrize(
    "lines",
    ["loss = F.mse_loss(setup.model(x), y)\n        (-loss).backward()  # here",
     "loss = F.mse_loss(setup.model(x), y)\n        loss = -loss  # here\n        loss.backward()"],
)  # fmt: skip
def test_loss_wrong_sign_names_the_line_of_the_loop_that_negates_the_loss(lines: str, tmp_path: Path) -> None:
    body = f"{_LOOP}        setup.optimizers[0].zero_grad()\n        {lines}\n        setup.optimizers[0].step()\n"
    x, _ = points()
    model = network(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    setup = minimal_setup(model, x, x.sum(1, keepdim=True), squared_error, optimizers=(optimizer,))
    findings = [finding for finding in findings_in_file(tmp_path, body, setup) if finding.code == "L213"]
    for finding in findings:
        assert source_line(finding).endswith("# here")
    assert findings


BUILT = """\
def build(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(
        optimizer, gamma=0.01)
    return optimizer, scheduler
def train(setup):
    for _ in range(6):
        for x, y in setup.train_loader:
            update(setup, F.cross_entropy(setup.model(x), y))
        setup.scheduler.step()
"""


def test_schedule_misused_names_the_line_that_creates_a_scheduler_that_ends_too_early(tmp_path: Path) -> None:
    file = tmp_path / "loop.py"
    file.write_text(HEADER + BUILT, encoding="utf-8")
    scope: dict[str, Any] = {}
    exec(compile(HEADER + BUILT, str(file), "exec"), scope)
    model = network(3)
    optimizer, scheduler = scope["build"](model)
    setup = minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,), scheduler=scheduler)
    (finding,) = [finding for finding in all_findings(scope["train"], setup) if finding.code == "O507"]
    assert source_line(finding).startswith("scheduler = torch.optim.lr_scheduler.ExponentialLR(")


def test_training_in_eval_mode_names_the_switch_before_the_first_step_in_eval_mode(tmp_path: Path) -> None:
    body = (
        "def train(setup):\n    setup.model.eval()  # here\n    for x, y in batches(setup):\n"
        "        update(setup, F.cross_entropy(setup.model(x), y))\n    setup.model.train()\n    setup.model.eval()\n"
    )
    x, y = points()
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    assert_marked(findings_in_file(tmp_path, body, minimal_setup(model, x, y, nn.CrossEntropyLoss())), "T613")


def test_watch_of_healthy_loops_traces_no_calls_and_keeps_no_loss() -> None:
    losses: list[weakref.ref[Tensor]] = []

    def train(setup: Setup) -> None:
        for x, y in batches(setup, 6):
            setup.optimizers[0].zero_grad()
            assert torch._C._len_torch_function_stack() == (not losses)  # the first step is traced
            loss = F.cross_entropy(setup.model(x), y)
            loss.backward()
            setup.optimizers[0].step()
            losses.append(weakref.ref(loss))

    _, watch = run_watched(train)
    gc.collect()
    assert watch.session is not None
    assert not watch.session.loop_monitor.retained_graph_counter.has_searched
    assert [loss for loss in losses if loss() is not None] == []
