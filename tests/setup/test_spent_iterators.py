"""Tests of the line that makes an iterator of parameters which is used up before gradients are clipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, points

pytestmark = pytest.mark.filterwarnings("ignore:.*empty generator:UserWarning")
PROGRAM = """\
import torch
from torch.nn.utils import clip_grad_norm_
{build}
def run(setup, weights):
    for x, y in [*setup.train_loader] * 3:
        setup.model.zero_grad()
        setup.loss_fn(setup.model(x), y).backward()
        {clip}
        setup.optimizers[0].step()
"""
BY_NAME = "clip_grad_norm_(weights, 1.0)  # clip"
PROGRAMS = {
    "one function": (
        "def train(setup):\n    weights = filter(lambda w: w.requires_grad, setup.model.parameters())  # here\n"
        "    list(weights)\n    run(setup, weights)",
        BY_NAME,
    ),
    "a function that returns it": (
        "def trainable(model):\n    return (w for w in model.parameters() if w.requires_grad)  # here\n"
        "def train(setup):\n    weights = trainable(setup.model)\n    list(weights)\n    run(setup, weights)",
        BY_NAME,
    ),
    "a generator function": (
        "def trainable(model):\n    for w in model.parameters():\n        yield w\n"
        "def train(setup):\n    weights = trainable(setup.model)  # here\n    list(weights)\n    run(setup, weights)",
        BY_NAME,
    ),
    "an attribute": (
        "class Options:\n    pass\noptions = Options()\n"
        "def train(setup):\n    options.params = setup.model.parameters()  # here\n    list(options.params)\n"
        "    run(setup, None)",
        "clip_grad_norm_(options.params, 1.0)  # clip",
    ),
    "an entry of a dictionary": (
        "state = {}\ndef train(setup):\n    state['params'] = setup.model.parameters()  # here\n"
        "    list(state['params'])\n    run(setup, None)",
        "clip_grad_norm_(state['params'], 1.0)  # clip",
    ),
    "a function that clips": (
        "def limit(params):\n    clip_grad_norm_(params, 1.0)\n"
        "def train(setup):\n    weights = iter([*setup.model.parameters()])  # here\n    list(weights)\n"
        "    run(setup, weights)",
        "limit(weights)",
    ),
}
UNCERTAIN = {
    "two places": (
        "state = {}\ndef other(setup):\n    state['params'] = setup.model.parameters()\n"
        "def train(setup):\n    state['params'] = filter(None, [])\n    run(setup, None)",
        "clip_grad_norm_(state['params'], 1.0)  # here",
    ),
    "an empty list": (
        "def train(setup):\n    weights = []\n    run(setup, weights)",
        "clip_grad_norm_(weights, 1.0)  # here",
    ),
    "an iterator in the call": (
        "def train(setup):\n    run(setup, None)",
        "clip_grad_norm_((w for w in setup.model.parameters() if w.dim() > 9), 1.0)  # here",
    ),
    "an attribute of the model": (
        "def train(setup):\n    setup.model.params = []\n    run(setup, None)",
        "clip_grad_norm_(setup.model.params, 1.0)  # here",
    ),
    "an unknown call": (
        "import copy\ndef train(setup):\n    weights = copy.copy([])\n    run(setup, weights)",
        "clip_grad_norm_(weights, 1.0)  # here",
    ),
}


def clipped(build: str, clip: str, folder: Path) -> Any:
    """Return the only finding on clipping in a watched run of a program."""
    file = folder / "program.py"
    file.write_text(PROGRAM.format(build=build, clip=clip), encoding="utf-8")
    scope: dict[str, Any] = {"__name__": "program"}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), scope)
    setup = minimal_setup(nn.Linear(4, 3), *points(), nn.CrossEntropyLoss())
    setup.files = {str(file)}
    debugger = Debugger.of(setup)
    with debugger.watch():
        scope["train"](setup)
    (finding,) = [finding for finding in debugger.findings if finding.code == "O508"]
    return finding


@pytest.mark.parametrize("name", PROGRAMS)
def test_spent_iterator_is_reported_where_it_is_made(name: str, tmp_path: Path) -> None:
    finding = clipped(*PROGRAMS[name], tmp_path)
    assert (finding.where.source or "").strip().endswith("# here"), str(finding)
    assert finding.related[0].where.line > finding.where.line
    assert finding.edits[0].text.startswith("list(")


@pytest.mark.parametrize("name", UNCERTAIN)
def test_clipping_is_reported_if_no_one_place_makes_the_iterator(name: str, tmp_path: Path) -> None:
    finding = clipped(*UNCERTAIN[name], tmp_path)
    assert (finding.where.source or "").strip().endswith("# here"), str(finding)
    assert finding.related == ()
