"""Tests of O503 and O504 in a loop that unfreezes or replaces a part of the model while the optimizer stays."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as module_hooks

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import TrainFunction, all_findings, train_plainly


class Adversaries(nn.Module):
    """A generator of points, and a discriminator that judges them."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4))
        self.discriminator = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, points: Tensor) -> Tensor:
        return self.discriminator(points)


def adversaries() -> Setup:
    model = Adversaries()
    optimizers = (torch.optim.Adam(model.generator.parameters(), lr=1e-3),)
    return minimal_setup(model, *points(), nn.BCEWithLogitsLoss(), optimizers=optimizers)


def taking_turns(part: str) -> TrainFunction:
    """Train both networks; the optimizer of the discriminator holds the parameters of ``part``."""

    def train(setup: Setup) -> None:
        model: Any = setup.model
        own = torch.optim.SGD(model.get_submodule(part).parameters(), lr=0.01)
        for x, _ in [*setup.train_loader] * 3:
            fake = model.generator(torch.randn(len(x), 2))
            model.zero_grad()
            judged = torch.cat([model(x), model(fake.detach())])
            truth = torch.cat([torch.ones(len(x), 1), torch.zeros(len(x), 1)])
            nn.functional.binary_cross_entropy_with_logits(judged, truth).backward()
            own.step()
            model.zero_grad()
            nn.functional.softplus(-model(fake)).mean().backward()
            setup.optimizers[0].step()

    return train


def critic_in_one_loss(setup: Setup) -> None:
    """One loss for an actor and its critic, of which two optimizers hold only the actor."""
    model: Any = setup.model
    second = torch.optim.Adam([model.generator[2].weight, model.generator[2].bias], lr=1e-3)
    for x, _ in [*setup.train_loader] * 3:
        for optimizer in (setup.optimizers[0], second):
            optimizer.zero_grad()
        action = model.generator(x[:, :2])
        value = model(x)
        (action.square().mean() + (value - x.sum(1, keepdim=True)).square().mean()).backward()
        setup.optimizers[0].step()
        second.step()
        model.zero_grad()


def frozen_body(filtered: bool = True) -> Setup:
    """A frozen first layer, and an optimizer of the trainable parameters, or of all."""
    model = network(3)
    model[0].requires_grad_(False)
    parameters = [p for p in model.parameters() if p.requires_grad or not filtered]
    optimizers = (torch.optim.SGD(parameters, lr=0.1),)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=optimizers)


def head_only() -> Setup:
    model = network(3)
    return minimal_setup(
        model, *points(), nn.CrossEntropyLoss(), optimizers=(torch.optim.SGD(model[2].parameters(), lr=0.1),)
    )


def unfreezing(setup: Setup) -> None:
    train_plainly(setup, 1)
    setup.model[0].requires_grad_(True)  # type: ignore[index]
    train_plainly(setup, 1)


def unfreezing_with_new_group(setup: Setup) -> None:
    train_plainly(setup, 1)
    setup.model[0].requires_grad_(True)  # type: ignore[index]
    setup.optimizers[0].add_param_group({"params": list(setup.model[0].parameters())})  # type: ignore[index]
    train_plainly(setup, 1)


def replacing(setup: Setup) -> None:
    train_plainly(setup, 1)
    setup.model[2] = nn.Linear(8, 3)  # type: ignore[index]
    train_plainly(setup, 1)


def pruning(setup: Setup) -> None:
    """Units are removed: the layers get new, smaller weights."""
    train_plainly(setup, 1)
    body, head = setup.model[0], setup.model[2]  # type: ignore[index]
    body.weight, body.bias = nn.Parameter(body.weight[:4].detach()), nn.Parameter(body.bias[:4].detach())
    head.weight = nn.Parameter(head.weight[:, :4].detach())
    train_plainly(setup, 1)


def replacing_with_new_optimizer(setup: Setup) -> None:
    train_plainly(setup, 1)
    setup.model[2] = nn.Linear(8, 3)  # type: ignore[index]
    optimizer = torch.optim.SGD(setup.model[2].parameters(), lr=0.1)  # type: ignore[index]
    for x, y in setup.train_loader:
        setup.optimizers[0].zero_grad()
        optimizer.zero_grad()
        nn.functional.cross_entropy(setup.model(x), y).backward()
        setup.optimizers[0].step()
        optimizer.step()


@pytest.mark.parametrize(
    ("train", "make", "code", "parameter"),
    [
        (unfreezing, frozen_body, "O503", "0.weight"),
        (replacing, lambda: frozen_body(False), "O504", "2.weight"),
        (train_plainly, head_only, "O503", "0.weight"),
        (taking_turns("generator"), adversaries, "O503", "discriminator.0.weight"),
        (critic_in_one_loss, adversaries, "O503", "discriminator.0.weight"),
        (pruning, lambda: minimal_setup(network(3), *points(), nn.CrossEntropyLoss()), "O504", "0.weight"),
    ],
)
def test_parameters_that_the_optimizer_misses_since_the_loop_began_are_reported(
    train: TrainFunction, make: Callable[[], Setup], code: str, parameter: str
) -> None:
    (finding,) = (finding for finding in all_findings(train, make()) if finding.code in ("O503", "O504"))
    assert finding.code == code
    assert finding.where.parameter == parameter
    assert finding.severity == "error"


@pytest.mark.parametrize(
    ("train", "make"),
    [
        (train_plainly, frozen_body),
        (taking_turns("discriminator"), adversaries),
        (unfreezing, lambda: frozen_body(False)),
        (unfreezing_with_new_group, frozen_body),
        (replacing_with_new_optimizer, lambda: frozen_body(False)),
    ],
)
def test_optimizers_that_follow_the_model_have_no_finding(train: TrainFunction, make: Callable[[], Setup]) -> None:
    assert not [finding for finding in all_findings(train, make()) if finding.code in ("O503", "O504")]


def in_place(model: Any) -> None:
    with torch.no_grad():
        model[2].weight.copy_(torch.randn(3, 8))


def by_setattr(model: Any) -> None:
    for name, parameter in [*model[2].named_parameters()]:
        setattr(model[2], name, nn.Parameter(parameter.detach().clone()))  # here


def one_weight(model: Any) -> None:
    model[2].weight = nn.Parameter(torch.randn(3, 8))  # here


def new_head(model: Any) -> None:
    model[2] = nn.Linear(8, 3)  # here


def head_of_function(model: Any) -> None:
    def build() -> nn.Module:
        return nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 3))

    model[2] = build()  # here


def copied_head(model: Any) -> None:
    model[2] = copy.deepcopy(model[2])  # here


def by_comprehension(model: Any) -> None:
    kept = {name: p.detach().clone() for name, p in model.named_parameters()}
    _ = [setattr(model.get_submodule(n[0]), n[2:], nn.Parameter(p)) for n, p in kept.items()]  # here


def by_registration(model: Any) -> None:
    model[2].register_parameter("weight", nn.Parameter(torch.randn(3, 8)))  # here


def replacing_by(replace: Callable[[Any], None]) -> TrainFunction:
    def train(setup: Setup) -> None:
        train_plainly(setup, 1)
        replace(setup.model)
        train_plainly(setup, 1)

    return train


@pytest.mark.parametrize(
    "replace",
    [by_setattr, one_weight, new_head, head_of_function, copied_head, by_comprehension, by_registration],
    ids=lambda replace: replace.__name__,
)
def test_replaced_parameters_are_reported_at_the_line_that_stores_them(replace: Callable[[Any], None]) -> None:
    findings = all_findings(replacing_by(replace), frozen_body(False))
    (finding,) = (finding for finding in findings if finding.code == "O504")
    assert "# here" in (finding.where.source or "")


def test_weights_that_are_overwritten_in_place_stay_in_the_optimizer() -> None:
    assert not [f for f in all_findings(replacing_by(in_place), frozen_body(False)) if f.code == "O504"]


def test_hooks_on_registrations_end_with_the_watch() -> None:
    hooks = module_hooks._global_parameter_registration_hooks, module_hooks._global_module_registration_hooks
    all_findings(replacing_by(new_head), frozen_body(False))
    assert [*map(len, hooks)] == [0, 0]


def test_parameter_not_optimized_beside_several_optimizers_names_the_network_and_its_optimizer() -> None:
    findings = all_findings(taking_turns("generator"), adversaries())
    (finding,) = (finding for finding in findings if finding.code == "O503")
    assert finding.where.module == "discriminator"
    assert "model.discriminator.parameters()" in finding.fix


def test_parameter_not_optimized_of_the_loss_stays_after_a_loop() -> None:
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, output: Tensor, target: Tensor) -> Tensor:
            return nn.functional.cross_entropy(output * self.scale, target)

    def train(setup: Setup) -> None:
        for x, y in [*setup.train_loader] * 2:
            setup.optimizers[0].zero_grad()
            setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
            setup.optimizers[0].step()

    findings = all_findings(train, minimal_setup(network(3), *points(), Weighted()))
    assert [finding.where.parameter for finding in findings if finding.code == "O503"] == ["scale"]


class Growing(nn.Module):
    """A network that gets a second branch, or another block, while it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.ModuleList([nn.Linear(4, 8)]), nn.Linear(8, 3)
        self.branch: nn.Module | None = None

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body[0](x)
        for block in self.body[1:]:
            hidden = hidden + torch.relu(block(hidden))
        return self.head(hidden) if self.branch is None else self.head(hidden) + self.branch(x)


def add_branch(model: Any) -> nn.Module:
    model.branch = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    return model.branch  # type: ignore[no-any-return]


def add_block(model: Any) -> nn.Module:
    model.body.append(nn.Linear(8, 8))
    return model.body[-1]  # type: ignore[no-any-return]


def growing(grow: Callable[[Any], nn.Module], is_announced: bool) -> TrainFunction:
    def train(setup: Setup) -> None:
        train_plainly(setup, 1)
        part = grow(setup.model)
        if is_announced:
            setup.optimizers[0].add_param_group({"params": list(part.parameters())})
        train_plainly(setup, 2)

    return train


@pytest.mark.parametrize(
    ("grow", "module", "line"),
    [
        (add_branch, "branch", "model.branch = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))"),
        (add_block, "body.1", "model.body.append(nn.Linear(8, 8))"),
    ],
)
def test_parameter_not_optimized_on_layers_added_in_the_loop_is_error_unless_in_a_group(
    grow: Callable[[Any], nn.Module], module: str, line: str
) -> None:
    def make() -> Setup:
        model = Growing()
        optimizers = (torch.optim.SGD(model.parameters(), lr=0.1),)
        return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=optimizers)

    findings = [item for item in all_findings(growing(grow, False), make()) if item.code in ("O503", "O504")]
    (finding,) = findings
    assert (finding.code, finding.where.module) == ("O503", module)
    assert "added to the model" in finding.message
    assert "get_submodule" in finding.fix
    assert not [item for item in all_findings(growing(grow, True), make()) if item.code in ("O503", "O504")]


@pytest.mark.parametrize("freeze", [lambda part: part.requires_grad_(False), lambda part: freeze_each(part)])
def test_loss_detached_on_a_part_frozen_for_the_turn_of_another_finds_nothing(freeze: Callable[[Any], Any]) -> None:
    def train(setup: Setup) -> None:
        taking_turns("discriminator")(setup)
        freeze(setup.model.get_submodule("discriminator"))

    assert not [finding for finding in all_findings(train, adversaries()) if finding.code == "L212"]


def freeze_each(part: nn.Module) -> None:
    for weight in part.parameters():
        weight.requires_grad = False
