"""Tests of E708 for numbers of an evaluation that are the mean of a list which several objects share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nbdebug.setup import Setup
from tests.loop_monitor.test_training_averages import classification
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line

LOOP = """
import torch


class Meter:
    {attribute}

    {init}
        {store}

    def add(self, values):
        self.values.extend(values.tolist())

    def mean(self):
        return sum(self.values) / len(self.values)


def make(name):
    return {make}


def train(setup):
    history = []
    {before}
    for epoch in range(5):
        meter = make("train")
        for x, y in setup.train_loader:
            output = setup.model(x)
            setup.optimizers[0].zero_grad()
            setup.loss_fn(output, y).backward()
            setup.optimizers[0].step()
            meter.add((output.argmax(1) == y).float())
        meter = make("validation")
        with torch.no_grad():
            for x, y in setup.val_loader:
                meter.add((setup.model(x).argmax(1) == y).float())
        history.append(meter.mean())
"""
INIT, STORE, MAKE = "def __init__(self, name, values=None):", "self.values = values", "Meter(name)"
OBJECTS = "meters = {'train': Meter('train', VALUES), 'validation': Meter('validation', VALUES)}; make = meters.get"
SHARED = {
    "default": ("'A meter.'", "def __init__(self, name, values=[]):", STORE, MAKE, "pass"),
    "keyword": ("'A meter.'", "def __init__(self, name, *, size=3, values=[]):", STORE, MAKE, "pass"),
    "class": ("values = []", INIT, "self.name = name", MAKE, "pass"),
    "objects": ("'A meter.'", INIT, STORE, MAKE, f"values = []; {OBJECTS.replace('VALUES', 'values')}"),
    "replicated": ("'A meter.'", INIT, STORE, MAKE, f"values, = [[]] * 1; {OBJECTS.replace('VALUES', 'values')}"),
}
LINES = {"default": 1, "keyword": 1, "class": 0, "objects": 4, "replicated": 4}
SEPARATE = {
    "own list": ("'A meter.'", INIT, "self.values = [] if values is None else values", MAKE, "pass"),
    "unused default": ("'A meter.'", "def __init__(self, name, values=[]):", "self.values = [*values]", MAKE, "pass"),
    "hidden attribute": ("values = []", INIT, "self.values = []", MAKE, "pass"),
    "two lists": ("'A meter.'", INIT, STORE, "Meter(name, [])", "pass"),
}


def findings(parts: tuple[str, ...], setup: Setup, folder: Path) -> list[Any]:
    names = "attribute", "init", "store", "make", "before"
    train = load_loop(folder / "loop.py", LOOP.format(**dict(zip(names, parts, strict=True))))
    return [finding for finding in all_findings(train, setup) if finding.evidence.get("kind") == "shared"]


@pytest.mark.parametrize("writing", SHARED)
def test_mean_of_list_that_meters_share_is_warning_where_they_get_it(writing: str, tmp_path: Path) -> None:
    (finding,) = findings(SHARED[writing], classification(), tmp_path)
    assert (finding.code, finding.severity) == ("E708", "warning")
    assert source_line(finding) == SHARED[writing][LINES[writing]]
    assert "history is the mean of all" in finding.message


@pytest.mark.parametrize("writing", SEPARATE)
def test_mean_of_own_list_is_quiet(writing: str, tmp_path: Path) -> None:
    assert findings(SEPARATE[writing], classification(), tmp_path) == []
