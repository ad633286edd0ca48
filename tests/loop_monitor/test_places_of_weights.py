"""Tests of the line that R905 names: the one that made the state, or the loop that writes the average."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from nbdebug.finding import Finding
from nbdebug.loop_monitor.weight_copies import StateDictOrigins
from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.assignments import loop_over_variable
from nbdebug.source.location import SourceLine
from tests.loop_monitor.test_places import assert_marked
from tests.loop_monitor.watched_loops import ModeDependentNetwork, all_findings, load_loop

HEADER = """\
__name__ = "loop"
import copy
import torch
from torch.nn import functional as F
def epochs(setup):
    for number in range(6):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            F.cross_entropy(setup.model(x), y).backward()
            setup.optimizers[0].step()
            yield number
"""

# The line with "here" makes the state that is loaded later.
STATES = {
    "comprehension in a method": (
        "class Keeper:\n    def __init__(self, model):\n        self.model = model\n    def keep(self):\n"
        "        return {name: tensor for name, tensor in self.model.state_dict().items()}  # here\n"
        "def train(setup):\n    keeper = Keeper(setup.model)\n    for _ in epochs(setup):\n"
        "        weights = keeper.keep()\n    setup.model.load_state_dict(weights)\n"
    ),
    "moved to the device": (
        "def snapshot(model):\n    return {key: value.cpu() for key, value in model.state_dict().items()}  # here\n"
        "def train(setup):\n    best = {}\n"
        "    for _ in epochs(setup):\n        best['weights'] = snapshot(setup.model)\n"
        "    setup.model.load_state_dict(best['weights'])\n"
    ),
    "the last of two": (
        "def train(setup):\n    start = setup.model.state_dict()\n    for _ in epochs(setup):\n"
        "        best = setup.model.state_dict()  # here\n    setup.model.load_state_dict(best)\n"
    ),
    "another line saves a copy": (
        "def train(setup):\n    for _ in epochs(setup):\n        copied = copy.deepcopy(setup.model.state_dict())\n"
        "    named = dict(setup.model.named_parameters())\n    buffers = dict(setup.model.named_buffers())\n"
        "    setup.model.load_state_dict({**named, **buffers})  # here\n"
    ),
}
_KEEPER = "class Keeper:\n    def __init__(self):\n        self.kept = {start}\n"
_KEEPS = (
    "    def look(self, model):\n{look}"
    "    def put_back(self, model):\n        model.load_state_dict(self.kept)\n"
    "def train(setup):\n    keeper = Keeper()\n    for _ in epochs(setup):\n        keeper.look(setup.model)\n"
    "    keeper.put_back(setup.model)\n"
)
# By name: a loop whose line with "here" stores views of the weights, and its statement after the edit.
VIEWS = {
    "choice in an attribute": (
        _KEEPER.format(start="None")
        + _KEEPS.format(
            look="        deep = False\n"
            "        self.kept = {k: v.detach().clone() if deep else v.detach() for k, v in model.state_dict().items()}"
            "  # here\n"
        ),
        "self.kept = {k: v.detach().clone() if deep else v.detach().clone() for k, v in model.state_dict().items()}",
    ),
    "choice of whole comprehensions": (
        "def train(setup):\n    deep = False\n    for _ in epochs(setup):\n        state = setup.model.state_dict\n"
        "        best = {k: v.clone() for k, v in state().items()} if deep else "
        "{k: v.data for k, v in setup.model.state_dict().items()}  # here\n    setup.model.load_state_dict(best)\n",
        "best = {k: v.clone() for k, v in state().items()} if deep else "
        "{k: v.data.clone() for k, v in setup.model.state_dict().items()}",
    ),
    "parameters of a variable": (
        "def train(setup):\n    for _ in epochs(setup):\n"
        "        best = {k: p.data for k, p in setup.model.named_parameters()}  # here\n"
        "    setup.model.load_state_dict(state_dict=best)\n",
        "best = {k: p.data.clone() for k, p in setup.model.named_parameters()}",
    ),
    "entries of an attribute": (
        _KEEPER.format(start="{}")
        + _KEEPS.format(
            look="        for key, value in model.named_parameters():\n"
            "            self.kept[key] = value.cpu()  # here\n"
        ),
        "self.kept[key] = value.cpu().detach().clone()",
    ),
    "pairs, beside a copy of the first weights": (
        "def train(setup):\n    run = {'best': copy.deepcopy(setup.model.state_dict())}\n"
        "    run['best'] = copy.deepcopy(setup.model.state_dict())\n    for _ in epochs(setup):\n"
        "        run['best'] = dict((k, p.detach()) for k, p in setup.model.named_parameters())  # here\n"
        "    setup.model.load_state_dict(run['best'])\n",
        "run['best'] = dict((k, p.detach().clone()) for k, p in setup.model.named_parameters())",
    ),
    "returned by a function": (
        "def views(model):\n    return {k: v.cpu() for k, v in model.state_dict().items()}  # here\n"
        "def train(setup):\n    for _ in epochs(setup):\n        best = views(setup.model)\n"
        "    setup.model.load_state_dict(best)\n",
        "return {k: v.cpu().detach().clone() for k, v in model.state_dict().items()}",
    ),
    "the same attribute of another class, copied": (
        "class Archive:\n    def add(self, model):\n        self.kept = copy.deepcopy(model.state_dict())\n"
        + _KEEPER.format(start="dict()")
        + _KEEPS.format(look="        self.kept = {k: v.view_as(v) for k, v in model.state_dict().items()}  # here\n"),
        "self.kept = {k: v.view_as(v).detach().clone() for k, v in model.state_dict().items()}",
    ),
}
# By name: a loop that loads views of the weights which no single line stores; the line with "here" loads them.
UNCERTAIN_VIEWS = {
    "two stores": (
        "def train(setup):\n    for number in epochs(setup):\n        if number:\n"
        "            best = {k: p.data for k, p in setup.model.named_parameters()}\n        else:\n"
        "            best = {k: p.detach() for k, p in setup.model.named_parameters()}\n"
        "    setup.model.load_state_dict(best)  # here\n"
    ),
    "parameter of a function": (
        "best = {}\ndef put_back(model, best):\n    model.load_state_dict(best)  # here\n"
        "def train(setup):\n    for _ in epochs(setup):\n"
        "        best = {k: p.data for k, p in setup.model.named_parameters()}\n    put_back(setup.model, best)\n"
    ),
    "another value in between": (
        "def views(model):\n    return {k: p.data for k, p in model.named_parameters()}\n"
        "def train(setup):\n    best = {k: p.data for k, p in setup.model.named_parameters()}\n"
        "    for _ in epochs(setup):\n        best = views(setup.model)\n"
        "    setup.model.load_state_dict(best)  # here\n"
    ),
}
# The line with "here" goes through the weights of the average, but not through its statistics.
AVERAGES = {
    "a loop in a method": (
        "class Average:\n    def __init__(self, live):\n"
        "        self.copy = copy.deepcopy(live).requires_grad_(False)\n"
        "    def update(self, live):\n"
        "        for slow, fast in zip(self.copy.parameters(), live.parameters()):  # here\n"
        "            slow.lerp_(fast.detach(), 0.1)\n"
        "def train(setup):\n    average = Average(setup.model)\n    for _ in epochs(setup):\n"
        "        average.update(setup.model)\n"
    ),
    "several statements": (
        "def train(setup):\n    teacher = copy.deepcopy(setup.model).requires_grad_(False)\n"
        "    for _ in epochs(setup):\n        for name, slow in teacher.named_parameters():  # here\n"
        "            slow.data.mul_(0.9)\n            slow.data.add_(setup.model.get_parameter(name).data, alpha=0.1)\n"
    ),
    "one call for all": (
        "def train(setup):\n    teacher = copy.deepcopy(setup.model).requires_grad_(False)\n"
        "    slow, fast = [*teacher.parameters()], [*setup.model.parameters()]\n    for _ in epochs(setup):\n"
        "        with torch.no_grad():\n            torch._foreach_lerp_(slow, fast, 0.1)  # here\n"
    ),
}
# The line with "here" binds a second name to the network itself.
NETWORKS = {
    "attribute": (
        "class Agent:\n    def __init__(self, network):\n        self.network = network\n"
        "        self.target = network  # here\n    def follow(self):\n"
        "        self.target.load_state_dict(self.network.state_dict())\n"
        "def train(setup):\n    agent = Agent(setup.model)\n    for _ in epochs(setup):\n        agent.follow()\n"
    ),
    "attribute of a variable": (
        "class Pair:\n    def __init__(self, online):\n        self.online = online\n"
        "        self.slow = self.online.eval()  # here\n"
        "def train(setup):\n    pair = Pair(setup.model)\n    for _ in epochs(setup):\n"
        "        pair.slow.load_state_dict(pair.online.state_dict())\n"
    ),
    "parameter": (
        "def follow(slow, fast):\n    slow.load_state_dict(fast.state_dict())\n"
        "def train(setup):\n    net = setup.model\n    target = net  # here\n"
        "    for _ in epochs(setup):\n        follow(target, fast=net)\n"
    ),
    "the network that is loaded": (
        "def train(setup):\n    net = make(setup)\n    best = net  # here\n    for _ in epochs(setup):\n        pass\n"
        "    net.load_state_dict(best.state_dict())\n"
        "def make(setup):\n    return setup.model\n"
    ),
    "shallow copy in a helper, kept in a dictionary": (
        "def snapshot(net, deep):\n    if deep:\n        return copy.deepcopy(net)\n"
        "    return copy.copy(net)  # here\n"
        "def train(setup):\n    run = {'target': snapshot(setup.model, False)}\n    target = run['target']\n"
        "    for _ in epochs(setup):\n        target.load_state_dict(setup.model.state_dict())\n"
    ),
    "shallow copy in an attribute, beside one of a list": (
        "class Agent:\n    def __init__(self, net):\n        self.net, self.sizes = net, copy.copy([1, 2])\n"
        "        self.target = copy.copy(net)  # here\n"
        "    def follow(self):\n        self.target.load_state_dict(self.net.state_dict())\n"
        "def train(setup):\n    agent = Agent(setup.model)\n    for _ in epochs(setup):\n        agent.follow()\n"
    ),
    "shallow copy by another import, and a stored state": (
        "def train(setup):\n    from copy import copy\n    target = copy(setup.model)  # here\n"
        "    for _ in epochs(setup):\n        state = setup.model.state_dict()\n        target.load_state_dict(state)\n"
    ),
    "another module of the same parts": (
        "def train(setup):\n    target = torch.nn.Sequential(*setup.model.children())  # here\n"
        "    for _ in epochs(setup):\n        target.load_state_dict(setup.model.state_dict())\n"
    ),
    "a function that returns its argument": (
        "def frozen(net):\n    net.requires_grad_()\n    return net  # here\n"
        "def train(setup):\n    target = frozen(setup.model)\n    for _ in epochs(setup):\n"
        "        target.load_state_dict(setup.model.state_dict())\n"
    ),
    "a function that returns its argument, for a dictionary": (
        "def frozen(net):\n    return net  # here\n"
        "def train(setup):\n    run = {'target': frozen(setup.model)}\n    target = run['target']\n"
        "    for _ in epochs(setup):\n        target.load_state_dict(setup.model.state_dict())\n"
    ),
    "no second name": (
        "def train(setup):\n    for _ in epochs(setup):\n"
        "        setup.model.load_state_dict(setup.model.state_dict())  # here\n"
    ),
}
# The line with "here" stores the live tensors that a later line averages.
HELD = {
    "variable that a loop changes": (
        "def train(setup):\n    shadow = dict(setup.model.state_dict())  # here\n    for _ in epochs(setup):\n"
        "        with torch.no_grad():\n            for name, value in setup.model.state_dict().items():\n"
        "                shadow[name] = shadow[name].mul_(0.9).add_(value, alpha=0.1)\n"
    ),
    "variable that a loop adds to": (
        "def train(setup):\n    shadow = dict(setup.model.state_dict())  # here\n    for _ in epochs(setup):\n"
        "        with torch.no_grad():\n            for name, value in setup.model.state_dict().items():\n"
        "                shadow[name] += 0.1 * (value - shadow[name])\n"
    ),
    "attribute beside one of losses": (
        "class Run:\n    def __init__(self, setup):\n        self.net, self.losses = setup.model, []\n"
        "        self.shadow = dict(self.net.state_dict())  # here\n    def blend(self, loss):\n"
        "        self.losses.append(loss.detach())\n        with torch.no_grad():\n"
        "            for name, value in self.net.state_dict().items():\n"
        "                self.shadow[name].mul_(0.9).add_(value, alpha=0.1)\n"
        "def train(setup):\n    run = Run(setup)\n    for number in epochs(setup):\n"
        "        run.blend(torch.tensor(float(number)))\n"
    ),
}


def findings_in_file(tmp_path: Path, body: str, setup: Setup) -> list[Finding]:
    return all_findings(load_loop(tmp_path / "loop.py", HEADER + body), setup)


# Loops that load the state of a network into a copy of it.
COPIES = {
    "deep copy": "copy.deepcopy(setup.model)",
    "deep copy in a helper": "independent(setup.model)",
    "shallow copy of a deep copy": "copy.copy(copy.deepcopy(setup.model))",
    "another module of the copied parts": "torch.nn.Sequential(*copy.deepcopy(setup.model).children())",
    "deep copy beside a shallow one": "(copy.copy(setup.model), copy.deepcopy(setup.model))[1]",
}


@pytest.mark.parametrize("name", COPIES)
def test_state_that_a_copy_receives_is_not_reported(name: str, tmp_path: Path) -> None:
    body = (
        "def independent(net):\n    return copy.deepcopy(net)\n"
        f"def train(setup):\n    target = {COPIES[name]}\n    for _ in epochs(setup):\n"
        "        target.load_state_dict(setup.model.state_dict())\n"
    )
    assert not [finding for finding in findings_in_file(tmp_path, body, classifier()) if finding.code == "R905"]


def setup_with_statistics() -> Setup:
    return minimal_setup(ModeDependentNetwork(), *points(), nn.CrossEntropyLoss())


@pytest.mark.parametrize("name", STATES)
def test_loaded_live_state_names_the_line_that_made_it(name: str, tmp_path: Path) -> None:
    assert_marked(findings_in_file(tmp_path, STATES[name], classifier()), "R905")


@pytest.mark.parametrize("name", VIEWS)
def test_loaded_views_name_the_line_that_stores_them_and_clone_them_there(name: str, tmp_path: Path) -> None:
    body, edited = VIEWS[name]
    found = findings_in_file(tmp_path, body, classifier())
    assert_marked(found, "R905")
    (finding,) = [finding for finding in found if finding.code == "R905"]
    assert (finding.fix or "").removesuffix("  # here") == edited
    (line,) = [line for line in body.split("\n") if line.endswith("# here")]
    repaired = body.replace(line, line[: len(line) - len(line.lstrip())] + edited)
    (tmp_path / "repaired").mkdir()
    assert not [f for f in findings_in_file(tmp_path / "repaired", repaired, classifier()) if f.code == "R905"]


@pytest.mark.parametrize("name", UNCERTAIN_VIEWS)
def test_loaded_views_that_no_single_line_stores_name_the_line_that_loads_them(name: str, tmp_path: Path) -> None:
    assert_marked(findings_in_file(tmp_path, UNCERTAIN_VIEWS[name], classifier()), "R905")


@pytest.mark.parametrize(
    "value",
    [
        "copy.deepcopy(setup.model.state_dict())",
        "{k: v.detach().clone() for k, v in setup.model.state_dict().items()}",
        "{k: v for k, v in copy.deepcopy(setup.model.state_dict()).items()}",
        "{k: copy.deepcopy(p.data) for k, p in setup.model.named_parameters()}",
        "dict((k, p.data + 0) for k, p in setup.model.named_parameters())",
    ],
)
def test_copies_of_the_weights_that_are_loaded_find_nothing(value: str, tmp_path: Path) -> None:
    body = (
        f"def train(setup):\n    for _ in epochs(setup):\n        best = {value}\n"
        "    setup.model.load_state_dict(best)\n"
    )
    assert not [finding for finding in findings_in_file(tmp_path, body, classifier()) if finding.code == "R905"]


@pytest.mark.parametrize("body", [*NETWORKS.values(), *HELD.values()], ids=[*NETWORKS, *HELD])
def test_second_name_of_the_live_weights_names_the_line_that_binds_it(body: str, tmp_path: Path) -> None:
    assert_marked(findings_in_file(tmp_path, body, classifier()), "R905")


@pytest.mark.parametrize("name", ["attribute", "parameter"])
def test_copy_of_a_network_that_follows_it_finds_nothing(name: str, tmp_path: Path) -> None:
    body = NETWORKS[name].replace("= network  # here", "= copy.deepcopy(network)")
    body = body.replace("target = net  # here", "target = copy.deepcopy(net)")
    assert not [finding for finding in findings_in_file(tmp_path, body, classifier()) if finding.code == "R905"]


@pytest.mark.parametrize("name", AVERAGES)
def test_average_without_statistics_names_the_loop_that_writes_it(name: str, tmp_path: Path) -> None:
    assert_marked(findings_in_file(tmp_path, AVERAGES[name], setup_with_statistics()), "R905")
    assert torch._C._len_torch_function_stack() == 0


def test_two_averages_without_statistics_name_no_line(tmp_path: Path) -> None:
    body = (
        "def train(setup):\n    copies = first, second = [copy.deepcopy(setup.model) for _ in range(2)]\n"
        "    for _ in epochs(setup):\n        for average in copies:\n"
        "            for slow, fast in zip(average.parameters(), setup.model.parameters()):\n"
        "                slow.data.lerp_(fast.data, 0.1)\n"
    )
    found = [finding for finding in findings_in_file(tmp_path, body, setup_with_statistics()) if finding.code == "R905"]
    assert {finding.where.line for finding in found} == {None}


def test_state_dict_origins_know_only_the_tensors_that_were_returned() -> None:
    model, origins = nn.Linear(2, 2), StateDictOrigins()
    state = model.state_dict()
    origins.record((model, (), {}, state))
    line = origins.find_line([state["weight"]])
    assert line is not None
    assert line.text.strip() == "origins.record((model, (), {}, state))"
    assert origins.find_line([model.weight, state["weight"].detach()]) is None
    origins.record((model, (), {"destination": {}}, state))
    assert len(origins.calls) == 1


def test_loop_over_variable_without_a_loop_that_the_statement_reads_is_none() -> None:
    for _ in range(1):
        line = SourceLine(__file__, sys._getframe().f_lineno)
    assert loop_over_variable(line) is None
    assert loop_over_variable(None) is None
