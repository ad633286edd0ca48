"""Tests of O517: steps that the dtype of the weights cannot represent, and steps that it can."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.optim.setups import setup_with_optimizer
from tests.rules.rule_findings import fault_messages, rule_findings

X, Y = points()
CE = nn.CrossEntropyLoss()
IMAGES = torch.rand(16, 1, 6, 6, generator=torch.Generator().manual_seed(0))


def image_setup(seed: int = 0) -> Setup:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)).half()
    loss = lambda logits, target: F.cross_entropy(logits.float(), target)  # noqa: E731
    optimizers = (torch.optim.AdamW(model.parameters(), lr=1e-7),)
    return minimal_setup(model, IMAGES.half(), torch.arange(16) % 3, loss, optimizers=optimizers)


class PartlyBfloat16(nn.Module):
    """A float32 model with one layer in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 64).bfloat16(), nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x.bfloat16()).relu().float())


def partly_bfloat16_setup() -> Setup:
    model = PartlyBfloat16()
    return minimal_setup(model, X, Y, CE, optimizers=(torch.optim.RMSprop(model.parameters(), lr=1e-6),))


FAULTS: dict[str, Callable[[], Setup]] = {
    "adam": lambda: setup_with_optimizer(partial(torch.optim.Adam, lr=1e-5), torch.bfloat16),
    "adamw with decay": lambda: setup_with_optimizer(
        partial(torch.optim.AdamW, lr=2e-5, weight_decay=0.1), torch.bfloat16
    ),
    "sgd": lambda: setup_with_optimizer(partial(torch.optim.SGD, lr=1e-4), torch.bfloat16),
    "float16 images": image_setup,
    "a part in bfloat16": partly_bfloat16_setup,
}


@pytest.mark.parametrize("name", FAULTS)
def test_update_lost_to_precision_of_small_steps_is_error(name: str) -> None:
    (finding,) = rule_findings(FAULTS[name](), "O517")
    assert finding.severity == "error"
    step_sizes = finding.evidence[finding.where.parameter]
    assert step_sizes["moved"] < step_sizes["asked"] / 2


@pytest.mark.parametrize("seed", range(100, 112))
def test_update_lost_to_precision_counts_steps_broken_by_zero_eps_as_lost(seed: int) -> None:
    setup = image_setup(seed)
    assert rule_findings(setup, "O510")
    (finding,) = rule_findings(setup, "O517")
    assert finding.evidence[finding.where.parameter]["moved"] == 0


def warm_up_setup() -> Setup:
    setup = setup_with_optimizer(partial(torch.optim.Adam, lr=1e-2), torch.bfloat16)
    torch.optim.lr_scheduler.LinearLR(setup.optimizers[0], start_factor=1e-4, total_iters=100)
    return setup


def autocast_setup() -> Setup:
    class AutocastNetwork(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network(3)

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return self.inner(x)

    model = AutocastNetwork()
    optimizers = (torch.optim.Adam(model.parameters(), lr=1e-5),)
    return minimal_setup(model, X, Y, lambda o, t: F.cross_entropy(o.float(), t), optimizers=optimizers)


HEALTHY: dict[str, Callable[[], Setup]] = {
    "large steps": lambda: setup_with_optimizer(partial(torch.optim.Adam, lr=1e-2), torch.bfloat16),
    "momentum that adds up": lambda: setup_with_optimizer(
        partial(torch.optim.SGD, lr=0.5, momentum=0.9), torch.bfloat16
    ),
    "warm-up": warm_up_setup,
    "small steps in float32": lambda: setup_with_optimizer(partial(torch.optim.Adam, lr=1e-6)),
    "autocast": autocast_setup,
    "float32": classifier,
}


@pytest.mark.parametrize("name", HEALTHY)
def test_update_lost_to_precision_ignores_representable_steps(name: str) -> None:
    assert fault_messages(HEALTHY[name](), "O517") == []


def test_update_lost_to_precision_leaves_parameters_and_optimizer_unchanged() -> None:
    setup = FAULTS["adam"]()
    before = [p.detach().clone() for p in setup.model.parameters()]
    rule_findings(setup, "O517")
    assert all(torch.equal(p, old) for p, old in zip(setup.model.parameters(), before, strict=True))
    assert not setup.optimizers[0].state


def test_update_lost_to_precision_skips_custom_optimizer() -> None:
    class CompensatedSGD(torch.optim.SGD):
        """May keep the rounding errors elsewhere."""

    setup = setup_with_optimizer(partial(CompensatedSGD, lr=1e-5), torch.bfloat16)
    assert rule_findings(setup, "O517") == []


def fine_tuned_setup(outputs: int, target: Tensor, loss: Any) -> Setup:
    """Return a model that was trained in float32 and is fine-tuned in bfloat16 with small steps."""
    model = network(outputs)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(300):
        optimizer.zero_grad()
        loss(model(X), target).backward()
        optimizer.step()
    model.bfloat16()
    half = target.bfloat16() if target.is_floating_point() else target
    return minimal_setup(model, X.bfloat16(), half, loss, optimizers=(torch.optim.AdamW(model.parameters(), lr=1e-5),))


FINE_TUNED: dict[str, Callable[[], Setup]] = {
    "classes": lambda: fine_tuned_setup(3, Y, CE),
    "classes, custom loss": lambda: fine_tuned_setup(3, Y, lambda o, t: 8 * F.cross_entropy(o, t, ignore_index=-1)),
    "values": lambda: fine_tuned_setup(1, X.sum(1, keepdim=True), nn.MSELoss()),
    "binary": lambda: fine_tuned_setup(1, (X.sum(1, keepdim=True) > 0).float(), nn.BCEWithLogitsLoss()),
}


@pytest.mark.parametrize("name", FINE_TUNED)
def test_update_lost_to_precision_of_fine_tuned_model_is_note(name: str) -> None:
    assert [finding.severity for finding in rule_findings(FINE_TUNED[name](), "O517")] == ["note"]
