"""O517: small steps in few bits are found for each optimizer; full precision, large steps and masters are not."""

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
from tests.rules.rule_findings import fault_messages, rule_findings

X, Y = points()
CE = nn.CrossEntropyLoss()
IMAGES = torch.rand(16, 1, 6, 6, generator=torch.Generator().manual_seed(0))


def trained(make: Callable[[Any], torch.optim.Optimizer], dtype: torch.dtype = torch.bfloat16) -> Setup:
    model = network(3).to(dtype)
    return minimal_setup(model, X.to(dtype), Y, CE, optimizers=(make(model.parameters()),))


def images(seed: int = 0) -> Setup:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)).half()
    loss = lambda logits, target: F.cross_entropy(logits.float(), target)  # noqa: E731
    optimizers = (torch.optim.AdamW(model.parameters(), lr=1e-7),)
    return minimal_setup(model, IMAGES.half(), torch.arange(16) % 3, loss, optimizers=optimizers)


class Wide(nn.Module):
    """Weights in bfloat16 inside a model in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 64).bfloat16(), nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x.bfloat16()).relu().float())


def mixed() -> Setup:
    model = Wide()
    return minimal_setup(model, X, Y, CE, optimizers=(torch.optim.RMSprop(model.parameters(), lr=1e-6),))


LOST: dict[str, Callable[[], Setup]] = {
    "adam": lambda: trained(partial(torch.optim.Adam, lr=1e-5)),
    "adamw with decay": lambda: trained(partial(torch.optim.AdamW, lr=2e-5, weight_decay=0.1)),
    "sgd": lambda: trained(partial(torch.optim.SGD, lr=1e-4)),
    "float16 images": images,
    "a part in bfloat16": mixed,
}


@pytest.mark.parametrize("name", LOST)
def test_lost_steps_are_found(name: str) -> None:
    (found,) = rule_findings(LOST[name](), "O517")
    assert found.severity == "error"
    lost = found.evidence[found.where.parameter]
    assert lost["moved"] < lost["asked"] / 2


@pytest.mark.parametrize("seed", range(100, 112))
def test_steps_that_an_eps_of_zero_breaks_do_not_count_as_kept(seed: int) -> None:
    setup = images(seed)
    assert rule_findings(setup, "O510")
    (found,) = rule_findings(setup, "O517")
    assert found.evidence[found.where.parameter]["moved"] == 0


def warming_up() -> Setup:
    setup = trained(partial(torch.optim.Adam, lr=1e-2))
    torch.optim.lr_scheduler.LinearLR(setup.optimizers[0], start_factor=1e-4, total_iters=100)
    return setup


def autocast() -> Setup:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network(3)

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return self.inner(x)

    model = Mixed()
    optimizers = (torch.optim.Adam(model.parameters(), lr=1e-5),)
    return minimal_setup(model, X, Y, lambda o, t: F.cross_entropy(o.float(), t), optimizers=optimizers)


KEPT: dict[str, Callable[[], Setup]] = {
    "large steps": lambda: trained(partial(torch.optim.Adam, lr=1e-2)),
    "momentum that adds up": lambda: trained(partial(torch.optim.SGD, lr=0.5, momentum=0.9)),
    "warm-up": warming_up,
    "small steps in float32": lambda: trained(partial(torch.optim.Adam, lr=1e-6), torch.float32),
    "autocast": autocast,
    "float32": classifier,
}


@pytest.mark.parametrize("name", KEPT)
def test_steps_that_are_kept_are_left_alone(name: str) -> None:
    assert fault_messages(KEPT[name](), "O517") == []


def test_the_parameters_and_the_optimizer_are_as_they_were() -> None:
    setup = LOST["adam"]()
    before = [p.detach().clone() for p in setup.model.parameters()]
    rule_findings(setup, "O517")
    assert all(torch.equal(p, old) for p, old in zip(setup.model.parameters(), before, strict=True))
    assert not setup.optimizers[0].state


def test_an_optimizer_that_may_keep_what_is_lost_is_not_judged() -> None:
    class Compensated(torch.optim.SGD):
        """Sums the lost parts elsewhere."""

    setup = trained(partial(Compensated, lr=1e-5))
    assert rule_findings(setup, "O517") == []


def taught(outputs: int, target: Tensor, loss: Any) -> Setup:
    """Trained in float32, and then fine-tuned in bfloat16 by small steps."""
    model = network(outputs)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(300):
        optimizer.zero_grad()
        loss(model(X), target).backward()
        optimizer.step()
    model.bfloat16()
    half = target.bfloat16() if target.is_floating_point() else target
    return minimal_setup(model, X.bfloat16(), half, loss, optimizers=(torch.optim.AdamW(model.parameters(), lr=1e-5),))


TAUGHT: dict[str, Callable[[], Setup]] = {
    "classes": lambda: taught(3, Y, CE),
    "classes, in a loss of ones own": lambda: taught(3, Y, lambda o, t: 8 * F.cross_entropy(o, t, ignore_index=-1)),
    "values": lambda: taught(1, X.sum(1, keepdim=True), nn.MSELoss()),
    "yes or no": lambda: taught(1, (X.sum(1, keepdim=True) > 0).float(), nn.BCEWithLogitsLoss()),
}


@pytest.mark.parametrize("name", TAUGHT)
def test_a_model_that_is_fine_tuned_draws_a_note(name: str) -> None:
    assert [one.severity for one in rule_findings(TAUGHT[name](), "O517")] == ["note"]
