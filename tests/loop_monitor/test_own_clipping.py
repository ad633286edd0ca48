"""Tests of O508 on loops that clip or scale gradients by their own code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import TrainFunction, all_findings, load_loop, source_line


def convolutional() -> Setup:
    x, y = points()
    model = nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 16, 3), nn.Tanh(), nn.Flatten(), nn.Linear(32, 3))
    return _with_sgd(model, x, y)


def dense() -> Setup:
    return _with_sgd(nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3)), *points())


def _with_sgd(model: nn.Module, x: Any, y: Any) -> Setup:
    optimizers = (torch.optim.SGD(model.parameters(), lr=0.05),)
    return minimal_setup(model, x, y, nn.CrossEntropyLoss(), optimizers=optimizers)


def clipping_findings(train: TrainFunction, setup: Setup) -> list[Any]:
    return [finding for finding in all_findings(train, setup) if finding.code == "O508"]


LOOP = """
import torch


@torch.no_grad()
def limit(parameters, c=0.01):
    for p in parameters:
        {line}


def train(setup):
    for x, y in [*setup.train_loader] * 5:
        setup.model.zero_grad()
        setup.loss_fn(setup.model(x), y).backward()
        limit(setup.model.parameters())
        setup.optimizers[0].step()
"""


@pytest.mark.parametrize("make", [dense, convolutional])
@pytest.mark.parametrize(
    ("line", "side"),
    [
        ("p.grad.clamp_(max=c)", "positive"),
        ("p.grad = torch.minimum(p.grad, torch.full_like(p, c))", "positive"),
        ("p.grad[p.grad < -c] = -c", "negative"),
    ],
)
def test_clipping_misused_on_gradients_clipped_on_one_side_warns_at_the_line(
    make: Callable[[], Setup], line: str, side: str, tmp_path: Path
) -> None:
    train = load_loop(tmp_path / "loop.py", LOOP.format(line=line))
    (finding,) = clipping_findings(train, make())
    assert f"only {side} ones were clipped" in finding.message
    assert source_line(finding) == line


@pytest.mark.parametrize(
    "line",
    [
        "p.grad.clamp_(-c, c)",
        "p.grad.mul_(min(1.0, 0.2 / float(p.grad.norm())))",
        "p.grad.add_(0.01 * torch.randn_like(p))",
        "p.grad.add_(p, alpha=0.01)",
        "p.grad.sub_(p.grad.mean())",
        "p.grad.sign_().mul_(c)",
        "p.grad.mul_(2)",
        "p.grad[p.grad.abs() < c] = 0",
        "p.grad[:1] = 0",
        "pass",
    ],
)
def test_clipping_misused_on_symmetric_changes_of_gradients_finds_nothing(line: str, tmp_path: Path) -> None:
    train = load_loop(tmp_path / "loop.py", LOOP.format(line=line))
    for make in (dense, convolutional):
        assert not clipping_findings(train, make())


def train_with_scaled_loss(update: Callable[[list[Any]], None], scale: float = 2.0**14) -> TrainFunction:
    def train(setup: Setup) -> None:
        for x, y in [*setup.train_loader] * 5:
            setup.model.zero_grad()
            (F.cross_entropy(setup.model(x), y) * scale).backward()
            update([p.grad for p in setup.model.parameters()])
            setup.optimizers[0].step()

    return train


def limit_norm(gradients: list[Any], limit: float = 1.0) -> None:
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    if norm > limit:
        torch._foreach_mul_(gradients, float(limit / norm))


def divide(gradients: list[Any]) -> None:
    for gradient in gradients:
        gradient /= 2.0**14


def rescale_in_one_line(gradients: list[Any]) -> None:
    norm = sum(gradient.square().sum() for gradient in gradients) ** 0.5
    for gradient in gradients:
        gradient.copy_(gradient / norm.clamp(min=1.0) / 2.0**14)


@pytest.mark.parametrize("make", [dense, convolutional])
@pytest.mark.parametrize("update", [lambda grads: (limit_norm(grads), divide(grads)), rescale_in_one_line])
def test_clipping_misused_on_norm_limited_before_division_by_the_scale_warns(
    make: Callable[[], Setup], update: Callable[[list[Any]], None]
) -> None:
    (finding,) = clipping_findings(train_with_scaled_loss(update), make())
    assert "multiplied by 16,384" in finding.cause
    assert "16384" in finding.fix


@pytest.mark.parametrize("update", [lambda grads: (divide(grads), limit_norm(grads)), divide])
def test_clipping_misused_on_norm_limited_after_division_by_the_scale_finds_nothing(
    update: Callable[[list[Any]], None],
) -> None:
    assert not clipping_findings(train_with_scaled_loss(update), dense())


NORMALIZING = """
import torch


def scale(parameters, limit=2.0):
    norm = torch.cat([p.grad.flatten() for p in parameters]).norm()
    for p in parameters:
        {line}


def train(setup):
    for step, (x, y) in enumerate([*setup.train_loader] * 10):
        setup.model.zero_grad()
        setup.loss_fn(setup.model(x), y).backward()
        scale(list(setup.model.parameters()))
        {schedule}
        setup.optimizers[0].step()
"""
SCHEDULE = "setup.optimizers[0].param_groups[0]['lr'] = 0.05 / (1 + step) ** 0.5"


@pytest.mark.parametrize("make", [dense, convolutional])
@pytest.mark.parametrize("line", ["p.grad.mul_(limit / (norm + 1e-6))", "p.grad = limit * p.grad / norm"])
def test_clipping_misused_on_small_gradients_scaled_to_the_limit_warns_at_the_line(
    make: Callable[[], Setup], line: str, tmp_path: Path
) -> None:
    train = load_loop(tmp_path / "loop.py", NORMALIZING.format(line=line, schedule="pass"))
    (finding,) = clipping_findings(train, make())
    assert "gradient norm before step() is 2 " in finding.message
    assert source_line(finding) == line


@pytest.mark.parametrize(
    ("line", "schedule"),
    [
        ("p.grad.mul_(min(1.0, float(limit / norm)))", "pass"),
        ("p.grad.mul_((0.01 * limit / norm).clamp(max=1))", "pass"),
        ("p.grad.mul_(limit / (norm + 1e-6))", SCHEDULE),
    ],
)
def test_clipping_misused_on_clipping_and_on_normalized_gradients_with_decay_finds_nothing(
    line: str, schedule: str, tmp_path: Path
) -> None:
    train = load_loop(tmp_path / "loop.py", NORMALIZING.format(line=line, schedule=schedule))
    for make in (dense, convolutional):
        assert not clipping_findings(train, make())


def test_clipping_misused_on_small_gradients_enlarged_for_adam_finds_nothing(tmp_path: Path) -> None:
    setup = dense()
    setup.optimizers = (torch.optim.Adam(setup.model.parameters(), lr=0.01),)
    train = load_loop(tmp_path / "loop.py", NORMALIZING.format(line="p.grad.mul_(limit / norm)", schedule="pass"))
    assert not clipping_findings(train, setup)


@pytest.mark.parametrize("make", [dense, convolutional])
def test_clipping_misused_on_torch_clipping_of_a_loss_scaled_by_hand_warns_unless_divided_before(
    make: Callable[[], Setup],
) -> None:
    def train(setup: Setup, divide_first: bool) -> None:
        for x, y in [*setup.train_loader] * 10:
            setup.model.zero_grad()
            (setup.loss_fn(setup.model(x), y) * 2.0**14).backward()  # type: ignore[misc]
            if divide_first:
                divide([p.grad for p in setup.model.parameters()])
            nn.utils.clip_grad_norm_(setup.model.parameters(), 1.0)
            if not divide_first:
                divide([p.grad for p in setup.model.parameters()])
            setup.optimizers[0].step()

    (finding,) = clipping_findings(lambda setup: train(setup, divide_first=False), make())
    assert "multiplied by 16,384" in finding.cause
    assert not clipping_findings(lambda setup: train(setup, divide_first=True), make())


SCALING = """
import torch
from torch.nn.utils import clip_grad_norm_


def divide(parameters, factor):
    for p in parameters:
        p.grad.div_(factor)


def own_loss(output, target):
    return -torch.log_softmax(output, 1)[torch.arange(len(target)), target].mean()


def train(setup):
    criterion, parameters, scale = setup.loss_fn, list(setup.model.parameters()), 1024.0
    summed = torch.nn.CrossEntropyLoss(reduction="sum")
    for x, y in [*setup.train_loader] * 15:
        setup.model.zero_grad()
        output = setup.model(x)
        {root}.backward()
        {before}
        clip_grad_norm_(parameters, {limit})
        {after}
        setup.optimizers[0].step()
"""
SCALED, DIVISION, NONE = "(criterion(output, y) * scale)", "divide(parameters, scale)", "pass"


def momentum(setup: Setup) -> None:
    setup.optimizers = (torch.optim.SGD(setup.model.parameters(), lr=0.5, momentum=0.9),)


def adam(setup: Setup) -> None:
    setup.optimizers = (torch.optim.Adam(setup.model.parameters()),)


@pytest.mark.parametrize(
    ("root", "after", "limit"),
    [
        (SCALED, DIVISION, "1.0"),
        ("(own_loss(output, y) * scale)", DIVISION, "0.5"),
        (
            "(torch.tensor(scale) * own_loss(output, y))",
            "torch._foreach_div_([p.grad for p in parameters], scale)",
            "1",
        ),
        ("(scale * summed(output, y))", "divide(parameters, scale * len(x))", "1.0"),
        ("summed(output, y)", "divide(parameters, len(x))", "0.01"),
    ],
)
def test_clipping_misused_on_gradients_divided_by_the_loss_factor_after_clipping_warns_at_the_clipping(
    root: str, after: str, limit: str, tmp_path: Path
) -> None:
    code = SCALING.format(root=root, before=NONE, after=after, limit=limit)
    for make in (dense, convolutional):
        setup = make()
        momentum(setup)
        (finding,) = clipping_findings(load_loop(tmp_path / "loop.py", code), setup)
        assert "after they were clipped" in finding.message
        assert "clip_grad_norm_" in source_line(finding)


@pytest.mark.parametrize(
    ("root", "before", "after", "limit"),
    [
        (SCALED, DIVISION, NONE, "0.05"),
        ("criterion(output, y)", NONE, "divide(parameters, 20)", "0.05"),  # a lower learning rate
        ("criterion(output, y)", "divide(parameters, 20)", NONE, "0.001"),
        (SCALED, DIVISION, "[p.grad.add_(1e-4 * torch.randn_like(p)) for p in parameters]", "0.05"),
        (SCALED, NONE, DIVISION, "1024.0"),  # the limit has the factor too
    ],
)
def test_clipping_misused_on_clipping_of_true_gradients_finds_nothing(
    root: str, before: str, after: str, limit: str, tmp_path: Path
) -> None:
    setup = dense()
    momentum(setup)
    code = SCALING.format(root=root, before=before, after=after, limit=limit)
    assert not clipping_findings(load_loop(tmp_path / "loop.py", code), setup)


def test_clipping_misused_on_gradients_divided_after_clipping_for_adam_finds_nothing(tmp_path: Path) -> None:
    setup = dense()
    adam(setup)
    code = SCALING.format(root=SCALED, before=NONE, after=DIVISION, limit="1.0")
    assert not clipping_findings(load_loop(tmp_path / "loop.py", code), setup)
