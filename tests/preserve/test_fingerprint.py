"""Tests of the fingerprint: it reports every kind of change, and nothing without a change."""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.preserve.fingerprint import fingerprint


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
        self.register_buffer("hidden", torch.zeros(2), persistent=False)
        self.count, self.log, self.names, self.last = 0, [1], {"a"}, deque([1, 2])
        self.cache = torch.ones(2)
        self.table = np.arange(3.0)
        self.draw = np.random.default_rng(0)
        self.noise = torch.Generator()


class TrainedSetup:
    """A setup after one step, with gradients and optimizer state."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = Model()
        self.weight = self.model.body[0].weight
        self.norm = self.model.body[1]
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 5)
        self.loader = DataLoader(TensorDataset(torch.zeros(4)), generator=torch.Generator())
        self.loader.dataset.rng = random.Random(0)
        self.handle = self.weight.register_hook(do_nothing)
        self.model.body(torch.randn(4, 3)).sum().backward()
        self.optimizer.step()
        self.state = self.optimizer.state[self.weight]


def do_nothing(*_: Any) -> None:
    return None


CHANGES: dict[str, Callable[[TrainedSetup], Any]] = {
    "value": lambda s: s.weight.data.view(-1)[0].mul_(1 + 1e-7),
    "sign of zero": lambda s: s.model.hidden.neg_(),
    "buffer": lambda s: s.norm.running_mean.add_(1),
    "hidden buffer": lambda s: s.model.hidden.add_(1),
    "memory": lambda s: setattr(s.weight, "data", s.weight.data.clone()),
    "dtype": lambda s: s.model.half(),
    "parameter replaced": lambda s: setattr(s.model.body[0], "weight", nn.Parameter(s.weight.detach())),
    "gradient gone": lambda s: setattr(s.weight, "grad", None),
    "gradient replaced": lambda s: setattr(s.weight, "grad", s.weight.grad.clone()),
    "gradient value": lambda s: s.weight.grad.add_(1),
    "requires_grad": lambda s: s.weight.requires_grad_(False),
    "tensor hook added": lambda s: s.weight.register_hook(do_nothing),
    "tensor hook removed": lambda s: s.handle.remove(),
    "accumulate hook": lambda s: s.weight.register_post_accumulate_grad_hook(do_nothing),
    "tensor attribute": lambda s: setattr(s.weight, "note", 1),
    "mode": lambda s: s.norm.eval(),
    "module hook": lambda s: s.norm.register_forward_hook(do_nothing),
    "module replaced": lambda s: s.model.body.__setitem__(1, nn.BatchNorm1d(2)),
    "counter": lambda s: setattr(s.model, "count", 1),
    "new attribute": lambda s: setattr(s.model, "extra", 1),
    "list": lambda s: s.model.log.append(2),
    "list replaced": lambda s: setattr(s.model, "log", [1]),
    "set": lambda s: s.model.names.add("b"),
    "deque": lambda s: s.model.last.rotate(),
    "cached tensor": lambda s: s.model.cache.add_(1),
    "array": lambda s: s.model.table.__setitem__(0, 5.0),
    "numpy generator": lambda s: s.model.draw.random(),
    "torch generator": lambda s: torch.rand(1, generator=s.model.noise),
    "attribute order": lambda s: vars(s.model).update(count=vars(s.model).pop("count")),
    "optimizer state": lambda s: s.state["exp_avg"].add_(1),
    "optimizer state gone": lambda s: s.optimizer.state.clear(),
    "optimizer state object": lambda s: setattr(s.optimizer, "state", s.optimizer.state.copy()),
    "group value": lambda s: s.optimizer.param_groups[0].update(lr=1.0),
    "group object": lambda s: s.optimizer.param_groups.__setitem__(0, dict(s.optimizer.param_groups[0])),
    "optimizer hook": lambda s: s.optimizer.register_step_post_hook(do_nothing),
    "step wrapped": lambda s: setattr(s.optimizer, "step", do_nothing),
    "scheduler": lambda s: s.scheduler.step(),
    "loader generator": lambda s: s.loader.generator.manual_seed(1),
    "sampler": lambda s: setattr(s.loader.sampler, "position", 1),
    "dataset generator": lambda s: s.loader.dataset.rng.random(),
    "loader iterator": lambda s: setattr(s.loader, "_iterator", iter([])),
    "python random": lambda s: random.random(),
    "numpy random": lambda s: np.random.rand(),
    "torch random": lambda s: torch.rand(1),
}

SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "grad mode": (lambda: torch.set_grad_enabled(False), lambda: torch.set_grad_enabled(True)),
    "anomaly": (lambda: torch.autograd.set_detect_anomaly(True), lambda: torch.autograd.set_detect_anomaly(False)),
    "dtype": (lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)),
    "deterministic": (
        lambda: torch.use_deterministic_algorithms(True),
        lambda: torch.use_deterministic_algorithms(False),
    ),
    "autocast": (lambda: torch.set_autocast_enabled("cpu", True), lambda: torch.set_autocast_enabled("cpu", False)),
}


def test_fingerprint_without_change_reports_nothing() -> None:
    setup = TrainedSetup()
    before = fingerprint(setup.model, setup.optimizer, setup.scheduler, loaders=[setup.loader])
    setup.model.body.eval()
    setup.model.body.train()
    before.check()


@pytest.mark.parametrize("change", CHANGES)
def test_fingerprint_of_changed_object_reports_difference(change: str) -> None:
    setup = TrainedSetup()
    before = fingerprint(setup.model, setup.optimizer, setup.scheduler, loaders=[setup.loader])
    CHANGES[change](setup)
    assert before.differences()
    with pytest.raises(AssertionError, match="->"):
        before.check()


@pytest.mark.parametrize("setting", SETTINGS)
def test_fingerprint_of_changed_setting_reports_difference(setting: str) -> None:
    change, undo = SETTINGS[setting]
    before = fingerprint()
    change()
    try:
        assert before.differences()
    finally:
        undo()
    before.check()


def test_fingerprint_of_reordered_dict_reports_difference() -> None:
    names = OrderedDict(a=1, b=2)
    before = fingerprint(names)
    names.move_to_end("a")
    assert before.differences()
