"""Tests that the numbers in the messages about gradients, activations and weights are those of the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from tests.rules.messages.program import Fact, Facts, Program, check_numbers, near


@dataclass
class Steps:
    """The matrices of a model before each step of its loop and their gradients; no tool sees the run."""

    weights: dict[str, list[Tensor]] = field(default_factory=dict)
    gradients: dict[str, list[Tensor]] = field(default_factory=dict)

    def norms(self, name: str) -> Tensor:
        return torch.stack(self.weights[name]).flatten(1).norm(dim=1)

    def updates(self, name: str) -> Tensor:
        """The norm of each update divided by that of the weights."""
        values = torch.stack(self.weights[name]).flatten(1)
        return values.diff(dim=0).norm(dim=1) / values[:-1].norm(dim=1)

    def gradient_norms(self) -> Tensor:
        return torch.stack([torch.stack(parts).flatten(1).norm(dim=1) for parts in self.gradients.values()]).norm(dim=0)


def run_steps(program: Program) -> Steps:
    """Run the loop of a program, and record the weights and gradients at each step."""
    setup, steps = program.new_setup(), Steps()

    def record(*_: object) -> None:
        for name, p in setup.model.named_parameters():
            steps.weights.setdefault(name, []).append(p.detach().clone())
            if p.grad is not None:
                steps.gradients.setdefault(name, []).append(p.grad.clone())

    handle = register_optimizer_step_pre_hook(record)
    program.module.bad_loop(setup)
    handle.remove()
    record()  # the last weights
    return steps


def matrices(steps: Steps) -> Iterator[str]:
    yield from (name for name in steps.weights if steps.weights[name][0].dim() > 1)


def dead_units(program: Program) -> list[Fact]:
    x, _ = program.train
    hidden = program.trained.model[:2](x)
    return [1, 1, float((hidden == 0).all(0).double().mean())]


def saturated(program: Program) -> list[Fact]:
    hidden = program.model[:2](program.batch[0]).abs()
    return [near(float((hidden > 0.98).double().mean()), 0.03), 0.75]


def vanishing(program: Program) -> list[Fact]:
    """The snapshots of a watch are some of the steps, so medians over all steps are near its own ones."""
    steps, layers = run_steps(program), range(0, 18, 2)

    def norm(values: dict[str, list[Tensor]], layer: int) -> Tensor:
        parts = [torch.stack(values[f"{layer}.{part}"][:80]).flatten(1) for part in ("weight", "bias")]
        return torch.cat(parts, 1).norm(dim=1)

    gradients = [norm(steps.gradients, layer).median().item() for layer in layers]
    ratios = [g / norm(steps.weights, layer).median().item() for g, layer in zip(gradients, layers, strict=True)]
    low = [(0.2 * ratio, 3 * ratio) for ratio in ratios]
    factor = (ratios[-1] / ratios[0]) ** (1 / 8)
    ends = [(0.2 * gradients[i], 3 * gradients[i]) for i in (-1, 0)]
    return [near(factor, 0.35), low[-1], low[0], *ends, low[4], 1000, *low[:3]]


def exploding(program: Program) -> list[Fact]:
    norms, losses = run_steps(program).gradient_norms(), program.losses
    first = int((~norms.isfinite()).nonzero()[0])
    return [first + 1, norms[:3].median().item(), losses[0]]


def infinite_logarithms(program: Program) -> list[Fact]:
    scores, target = program.model(program.batch[0]) * 1e4, program.batch[1]
    chosen = scores.softmax(1).gather(1, target[:, None])[:, 0].detach()
    return [0, chosen.min().item(), chosen.max().item(), *(chosen == 0).nonzero().flatten()[:5].tolist()]


def root_of_zero(program: Program) -> list[Fact]:
    hidden = program.model.body(program.batch[0])
    squares = (hidden - hidden[:, :1]).square().detach().requires_grad_()
    (slope,) = torch.autograd.grad(squares.sqrt().sum(), squares)
    return [0, squares.sqrt()[slope.isinf()].unique().item()]


def symmetric(program: Program) -> list[Fact]:
    setup = program.new_setup()
    for x, y in setup.train_loader:
        setup.optimizers[0].zero_grad()
        setup.loss_fn(setup.model(x), y).backward()
        setup.optimizers[0].step()
    units = len(program.model[0].weight)
    return [units, len(setup.train_loader), units, len(setup.model[0].weight.detach().round(decimals=5).unique(dim=0))]


def growing_activations(program: Program) -> list[Fact]:
    """The standard deviation over the samples of what each linear layer reads, from the second one on."""
    layers, x = list(program.model), program.batch[0]
    spreads = []
    for layer in layers:
        if isinstance(layer, nn.Linear):
            spreads.append((x - x.mean(0)).square().mean().sqrt().item())
        x = layer(x)
    factors = np.array(spreads[2:]) / np.array(spreads[1:-1])
    return [spreads[-1] / spreads[1], np.prod(factors) ** (1 / len(factors)), factors.max(), 1]


def small_updates(program: Program) -> list[Fact]:
    steps = run_steps(program)
    return [2, 2, 0.9, *[near(float(steps.updates(name).quantile(0.9)), 0.3) for name in matrices(steps)], 0.001]


def large_updates(program: Program) -> list[Fact]:
    steps = run_steps(program)
    largest = [(steps.updates(name) * steps.norms(name)[:-1] / steps.norms(name)[1:]).max() for name in matrices(steps)]
    return [3, 3, *map(float, largest), 0.001]


def shrinking_weights(program: Program) -> list[Fact]:
    steps, step = run_steps(program), int(program.numbers[2])
    norms = [steps.norms(name) for name in matrices(steps)]
    return [2, 2, (40, 80), *[float(norm[step] / norm[1]) for norm in norms]]


def growing_weights(program: Program) -> list[Fact]:
    steps, step = run_steps(program), int(program.numbers[4])
    norms = [steps.norms(name) for name in matrices(steps)]
    return [2, 2, 10, 1, (150, 300), *[float(norm[step] / norm[1]) for norm in norms]]


def two_populations(program: Program) -> list[Fact]:
    steps, step = run_steps(program), int(program.numbers[0])
    sizes = steps.weights["0.weight"][step].abs().flatten()
    is_small = sizes < 0.1
    octaves = [2.0 ** part.log2().round().mode().values.item() for part in (sizes[is_small], sizes[~is_small])]
    return [(40, 80), near(float(is_small.double().mean())), *[(size / 2, size * 2) for size in octaves]]


def unchanged(program: Program) -> list[Fact]:
    steps = run_steps(program)
    changed = [not torch.equal(values[0], values[-1]) for values in steps.weights.values()]
    count = len(steps.weights["0.weight"]) - 1
    assert changed[0] is False
    return [count, count, sum(changed)]


def collapsed(program: Program) -> list[Fact]:
    x, distances = program.batch[0], []
    for layer in program.model[:9]:
        x = layer(x)
        distances.append(((x - x.mean(0)).norm() / x.norm()).item())
    return [len(x), distances[-1], 2.0**-11, (max(distances), 1)]


def zero_gradients(program: Program) -> list[Fact]:
    x, y = program.batch
    program.setup.loss_fn(program.model(x), y).backward()
    return [sum(not bool(p.grad.any()) for p in program.model.parameters()), 0, len(program.setup.train_loader)]


FACTS: Facts = {
    "G401": dead_units,
    "G402": saturated,
    "G403": vanishing,
    "G404": exploding,
    "G405": infinite_logarithms,
    "G406": root_of_zero,
    "G407": symmetric,
    "G408": growing_activations,
    "G409": small_updates,
    "G410": large_updates,
    "G411": shrinking_weights,
    "G412": growing_weights,
    "G413": two_populations,
    "G414": unchanged,
    "G415": collapsed,
    "G416": zero_gradients,
}


@pytest.mark.parametrize("code", FACTS)
def test_numbers_in_messages_about_signals_are_facts(code: str) -> None:
    check_numbers(code, FACTS)
