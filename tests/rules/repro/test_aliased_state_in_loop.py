"""Tests of R905 in a watched loop: reloaded weights and target networks that share memory with the model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import classifier
from nbdebug.source.edits import apply_edits
from tests.source.source_modules import load_module

_LOADS = "    def sync(self):\n        self.target.load_state_dict(self.online.state_dict())\n"
_LEARNER = "class Learner:\n    def __init__(self, online, target, separate=False):\n        self.online = online\n"
_ITEMS = "def build(net):\n    {}\n    return lambda: nets['target'].load_state_dict(nets['online'].state_dict())\n"

# By name: a program whose build() returns the call that loads the state; the line with "here" stores the network twice.
PROGRAMS: dict[str, str] = {
    "conditional expression": f"{_LEARNER}        self.target = copy.deepcopy(online) if separate else online  # here\n"
    f"{_LOADS}def build(net):\n    return Learner(net, None).sync\n",
    "default of a missing target": f"{_LEARNER}        self.target = target or online  # here\n"
    f"{_LOADS}def build(net):\n    return Learner(net, None).sync\n",
    "passed twice": f"{_LEARNER}        self.target = target\n{_LOADS}"
    "def build(net):\n    learner = Learner(net, net)  # here\n    return learner.sync\n",
    "passed twice to a function": "def sync(online, target):\n    target.load_state_dict(online.state_dict())\n"
    "def build(net):\n    return lambda: update(net)\ndef update(net):\n    sync(net, target=net)  # here\n",
    "data class": "@dataclass\nclass Pair:\n    online: object\n    target: object\n"
    f"{_LOADS}def build(net):\n    pair = Pair(online=net, target=net)  # here\n    return pair.sync\n",
    "dictionary": _ITEMS.format("nets = {'online': net, 'target': net}  # here"),
    "call of dict": _ITEMS.format("nets = dict(online=net, target=net)  # here"),
    "item that is set later": _ITEMS.format("nets = {'online': net}\n    nets['target'] = net  # here"),
    "list": "def build(net):\n    nets = [net, net]  # here\n"
    "    return lambda: nets[1].load_state_dict(nets[0].state_dict())\n",
    "function that returns its argument": "def clone_of(net):\n    net.eval()\n    return net  # here\n"
    f"{_LEARNER}        self.target = clone_of(online)\n{_LOADS}def build(net):\n    return Learner(net, 0).sync\n",
}
HEALTHY: dict[str, str] = {
    "copied in a choice": f"{_LEARNER}        self.target = online if separate else copy.deepcopy(online)\n"
    f"{_LOADS}def build(net):\n    return Learner(net, None).sync\n",
    "copy in a dictionary": _ITEMS.format("nets = {'online': net, 'target': copy.deepcopy(net)}"),
    "copy in a list": "def build(net):\n    nets = [net, copy.deepcopy(net)]\n"
    "    return lambda: nets[1].load_state_dict(nets[0].state_dict())\n",
    "copy that is passed": f"{_LEARNER}        self.target = target\n{_LOADS}"
    "def build(net):\n    learner = Learner(net, copy.deepcopy(net))\n    return learner.sync\n",
    "copy of a given network": f"{_LEARNER}        self.target = target or copy.deepcopy(online)\n"
    f"{_LOADS}def build(net):\n    return Learner(net, None).sync\n",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_aliased_network_is_named_where_it_is_stored_twice(name: str, tmp_path: Path) -> None:
    (finding,) = findings_of_program(PROGRAMS[name], tmp_path)
    assert "# here" in (finding.where.source or "")
    assert "load_state_dict" in str(finding.related[0].where.source)


@pytest.mark.parametrize("name", HEALTHY)
def test_copied_network_is_quiet(name: str, tmp_path: Path) -> None:
    assert findings_of_program(HEALTHY[name], tmp_path) == []


_IMPORTS = "import copy\nfrom dataclasses import dataclass\n"


def findings_of_program(text: str, tmp_path: Path, imports: str = _IMPORTS) -> list[Finding]:
    """Return the findings of R905 on a loop that loads the state of a network by the call that a program returns."""
    file = tmp_path / "networks.py"
    program = load_module(file, f"{imports}{text}")
    setup = classifier()
    load, debugger = program.build(setup.model), Debugger.of(setup)
    with debugger.watch():
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            nn.functional.cross_entropy(setup.model(x), y).backward()
            setup.optimizers[0].step()
        load()
    return [finding for finding in debugger.findings if finding.code == "R905"]


_PAIR = "class Pair:\n    def __init__(self, online, late=True):\n        self.online, self.late = online, late\n"
_FOLLOW = "    def sync(self):\n        self.target.load_state_dict(self.online.state_dict())\n"
_BUILD = "def build(net):\n    return Pair(net).sync\n"
# By name: a program without an import of copy at the start, which must run after the edits of the finding.
IMPORTS: dict[str, str] = {
    "no import": f"{_PAIR}        self.target = online\n{_FOLLOW}{_BUILD}",
    "else on one line": f"{_PAIR}        if not late: self.target = None\n        else: self.target = online\n"
    f"{_FOLLOW}{_BUILD}",
    "branch on one line": f"{_PAIR}        if late: self.target = online\n{_FOLLOW}{_BUILD}",
    "handler on one line": f"{_PAIR}        try: online.missing\n        except AttributeError: self.target = online\n"
    f"{_FOLLOW}{_BUILD}",
    "import in another function": f"def other():\n    import copy\n{_PAIR}        self.target = online\n"
    f"{_FOLLOW}{_BUILD}",
    "import in a branch that does not run": f"if __name__ == 'other':\n    import copy\n"
    f"{_PAIR}        self.target = online\n{_FOLLOW}{_BUILD}",
    "import in a branch of the function": f"{_PAIR}        if not late:\n            import copy\n"
    f"        self.target = online\n{_FOLLOW}{_BUILD}",
    "import of types only": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import copy\n"
    f"{_PAIR}        self.target = online\n{_FOLLOW}{_BUILD}",
    "import by another name": f"import copy as duplicate\n{_PAIR}        self.target = online\n{_FOLLOW}{_BUILD}",
    "import of the function": f"from copy import deepcopy\n{_PAIR}        self.target = online\n{_FOLLOW}{_BUILD}",
    "import after the line": f"{_PAIR}        self.target = online\n        import copy\n{_FOLLOW}{_BUILD}",
    "decorated function": "import functools\nPAIRS = {}\n@functools.cache\ndef build(net):\n"
    "    PAIRS['target'] = net\n    return lambda: PAIRS['target'].load_state_dict(net.state_dict())\n",
    "import of another function of its name": f"from copy import copy\n{_PAIR}        self.target = online\n"
    f"{_FOLLOW}{_BUILD}",
    "parameter of its name": f"{_PAIR.replace('late', 'copy')}        self.target = online\n{_FOLLOW}{_BUILD}",
}
_WITHOUT_EDIT = ("branch on one line", "import of another function of its name", "parameter of its name")


@pytest.mark.parametrize("name", IMPORTS)
def test_edit_of_aliased_network_is_valid_wherever_copy_is_imported(name: str, tmp_path: Path) -> None:
    (finding,) = findings_of_program(IMPORTS[name], tmp_path, imports="")
    assert (not finding.edits) == (name in _WITHOUT_EDIT)
    repaired = apply_edits((tmp_path / "networks.py").read_text(encoding="utf-8"), finding.edits)
    (tmp_path / "repaired").mkdir()
    assert bool(findings_of_program(repaired, tmp_path / "repaired", imports="")) == (name in _WITHOUT_EDIT)


@pytest.mark.parametrize("deep", [False, True])
def test_aliased_state_of_reloaded_weights_is_error_unless_deep_copied(deep: bool) -> None:
    findings = loop_findings(
        lambda model: copy.deepcopy(model.state_dict()) if deep else model.state_dict(), lambda model: model
    )
    assert bool(findings) != deep
    assert all(finding.severity == "error" and "state_dict" in (finding.where.source or "") for finding in findings)


def live_data(model: nn.Module) -> dict[str, Any]:
    return {name: tensor.data for name, tensor in model.state_dict().items()}


def test_aliased_state_of_views_points_to_the_state_dict_they_are_made_of() -> None:
    (finding,) = loop_findings(live_data, lambda model: model)
    assert "in model.state_dict().items()" in (finding.where.source or "")


@pytest.mark.parametrize("deep", [False, True])
def test_aliased_state_of_target_network_is_reported_unless_deep_copied(deep: bool) -> None:
    findings = loop_findings(lambda model: model.state_dict(), lambda model: copy.deepcopy(model) if deep else model)
    assert bool(findings) != deep


def loop_findings(
    save: Callable[[nn.Module], dict[str, Any]], make_target: Callable[[nn.Module], nn.Module]
) -> list[Finding]:
    """Return the findings on a loop that loads a saved state into the model or a target network."""
    setup = classifier()
    debugger, target = Debugger.of(setup), make_target(setup.model)
    with debugger.watch():
        for x, y in setup.train_loader:
            state = save(setup.model)
            setup.optimizers[0].zero_grad()
            nn.functional.cross_entropy(setup.model(x), y).backward()
            setup.optimizers[0].step()
        target.load_state_dict(state)
    return [finding for finding in debugger.findings if finding.code == "R905"]
