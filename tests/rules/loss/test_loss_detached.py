"""Tests of L212: losses without a path to a parameter, and frozen parts that a loop leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import classifier, network, points
from tests.rules.rule_findings import rule_findings

X, Y = points()


class Student(nn.Module):
    """A student in train mode, and its frozen teacher in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = network(3), network(3).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.student(x) if self.training else self.teacher(x)


class Adversaries(nn.Module):
    """A generator, and a classifier that the forward pass runs."""

    def __init__(self) -> None:
        super().__init__()
        self.generator, self.judge = nn.Linear(2, 4), network(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.judge(x)


def leave_in_eval_mode(model: Any) -> None:
    model.eval()


def leave_judge_frozen(model: Any) -> None:
    model.judge.requires_grad_(False)


@pytest.mark.parametrize(
    ("make_model", "leave"),
    [(Student, leave_in_eval_mode), (Adversaries, leave_judge_frozen)],
    ids=["teacher", "judge"],
)
@pytest.mark.parametrize("has_loop", [True, False], ids=["after a loop", "checkup"])
def test_loss_detached_when_only_frozen_part_runs_is_quiet(
    make_model: Callable[[], nn.Module], leave: Callable[[Any], None], has_loop: bool
) -> None:
    model, loader = make_model(), DataLoader(TensorDataset(X, Y), batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = Debugger(model, loader, loss_fn=F.cross_entropy, optimizer=optimizer)
    if has_loop:
        with debugger.watch():
            for inputs, target in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(inputs), target).backward()
                optimizer.step()
            leave(model)
    else:
        leave(model)
        debugger.checkup(select="L212")
    assert "L212" not in {finding.code for finding in debugger.findings}


def loss_of_numbers(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(torch.tensor(output.tolist()), target)


def loss_without_gradients(output: Tensor, target: Tensor) -> Tensor:
    with torch.no_grad():
        return F.cross_entropy(output, target)


@pytest.mark.parametrize("loss_fn", [loss_of_numbers, loss_without_gradients, lambda o, t: F.cross_entropy(o.data, t)])
def test_loss_detached_from_output_is_reported(loss_fn: Callable[..., Tensor]) -> None:
    assert [finding.severity for finding in rule_findings(classifier(loss_fn=loss_fn), "L212")] == ["error"]


def test_loss_detached_in_setup_is_withdrawn_when_loop_reaches_model() -> None:
    model, loader = network(3), DataLoader(TensorDataset(X, Y), batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = Debugger(model, loader, loss_fn=loss_without_gradients, optimizer=optimizer)
    debugger.checkup(select="L212")
    assert [finding.code for finding in debugger.findings] == ["L212"]
    with debugger.watch():
        for inputs, target in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), target).backward()
            optimizer.step()
    assert "L212" not in {finding.code for finding in debugger.findings}


Term = Callable[[nn.Module, Tensor, Tensor], Tensor]


def slope_penalty(model: nn.Module, x: Tensor, y: Tensor, **options: bool) -> Tensor:
    x = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model(x).sum(), x, **options)  # here
    return F.cross_entropy(model(x), y) + 0.1 * slope.square().sum(1).mean()


def distance_from_unit_slope(model: nn.Module, x: Tensor, y: Tensor, **options: bool) -> Tensor:
    score = model(x)[:, 0]
    mixed = (0.5 * x + 0.5 * x.flip(0)).requires_grad_()
    scores = model(mixed)[:, 0]
    ones = torch.ones_like(scores)
    slope = torch.autograd.grad(scores, mixed, ones, retain_graph=True, **options)[0]  # here
    distance = (slope.norm(2, dim=1) - 1) ** 2
    return score[y == 0].mean() - score[y != 0].mean() + 10 * distance.mean()


def sharpness(model: nn.Module, x: Tensor, y: Tensor, **options: bool) -> Tensor:
    loss = F.cross_entropy(model(x), y)
    slopes = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True, **options)  # here
    for slope in slopes:
        loss = loss + 0.01 * slope.pow(2).sum()
    return loss / 2


def equation_residual(model: nn.Module, x: Tensor, y: Tensor, **options: bool) -> Tensor:
    total = F.cross_entropy(model(x), y)
    points = torch.rand_like(x).requires_grad_()
    value = model(points)[:, :1]
    (slope,) = torch.autograd.grad(outputs=value, inputs=points, grad_outputs=torch.ones_like(value), **options)  # here
    total += F.mse_loss(slope[:, 0], torch.sin(points[:, 0].detach()))
    return total


def stacked_terms(model: nn.Module, x: Tensor, y: Tensor, **options: bool) -> Tensor:
    terms, x = [F.cross_entropy(model(x), y)], x.clone().requires_grad_()
    top = model(x).log_softmax(1).gather(1, y[:, None]).sum()
    terms.append(torch.autograd.grad(top, [x], **options)[0].abs().sum(1).mean())  # here
    return torch.stack(terms).sum()


def each_sample(model: nn.Module, x: Tensor, y: Tensor, **options: bool) -> Tensor:
    x = x.clone().requires_grad_()
    scores = model(x)
    losses = F.cross_entropy(scores, y, reduction="none")
    slope = torch.autograd.grad(losses.sum(), x, retain_graph=True, **options)[0]  # here
    return (losses + slope.norm(dim=1)).mean()


GRADIENT_TERMS: tuple[Callable[..., Tensor], ...] = (
    *(slope_penalty, distance_from_unit_slope, sharpness, equation_residual, stacked_terms, each_sample),
)


def adversarial_examples(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    near = x.clone().requires_grad_()
    for _ in range(2):
        (slope,) = torch.autograd.grad(F.cross_entropy(model(near), y), near)
        near = near + 0.05 * slope.sign()
    return 0.5 * F.cross_entropy(model(x), y) + 0.5 * F.cross_entropy(model(near), y)


def saliency_for_a_log(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    loss = F.cross_entropy(model(x), y)
    (slope,) = torch.autograd.grad(loss, x, retain_graph=True)
    logged = loss.detach() + slope.norm(dim=1).mean()
    assert float(logged) > 0
    return loss


def balanced_weights(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    scores = model(x)
    losses = [F.cross_entropy(scores, y), scores.square().mean()]
    shared = next(model.parameters())
    norms = torch.stack([torch.autograd.grad(loss, shared, retain_graph=True)[0].norm() for loss in losses])
    weights = norms.sum() / (norms + 1e-6)
    return (weights * torch.stack(losses)).sum()


def first_order_steps(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    names, weights = zip(*model.named_parameters(), strict=True)
    slopes = torch.autograd.grad(F.cross_entropy(model(x), y), weights)
    fast = {name: weight - 0.1 * slope for name, weight, slope in zip(names, weights, slopes, strict=True)}
    return F.cross_entropy(torch.func.functional_call(model, fast, (x.flip(0),)), y.flip(0))


def gradients_as_targets(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    scores = model(x)
    (slope,) = torch.autograd.grad(F.cross_entropy(scores, y, reduction="sum"), scores, retain_graph=True)
    return F.cross_entropy(scores, y) + 0.1 * F.mse_loss(scores, (scores - slope).detach())


def gradients_as_factors(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    scores = model(x)
    (slope,) = torch.autograd.grad(F.cross_entropy(scores, y), scores)
    return (slope * scores).sum() + F.cross_entropy(model(x), y)


def slope_of_fixed_energy(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(x.square().sum(), x)
    return F.cross_entropy(model(x.detach()), y) + slope.square().mean()


CONSTANT_GRADIENTS: tuple[Term, ...] = (
    *(adversarial_examples, saliency_for_a_log, balanced_weights, first_order_steps, gradients_as_targets),
    *(gradients_as_factors, slope_of_fixed_energy),
)


def detached_findings(compute_loss: Term, *, has_loss: bool = True) -> list[Finding]:
    torch.manual_seed(0)
    model, loader = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), DataLoader(TensorDataset(X, Y), 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = Debugger(model, loader, loss_fn=F.cross_entropy if has_loss else None, optimizer=optimizer)
    with debugger.watch(final_tests=False) as watch:
        for inputs, target in [*loader, *loader]:
            optimizer.zero_grad()
            compute_loss(model, inputs, target).backward()
            optimizer.step()
    assert not watch.error_summary
    return [finding for finding in debugger.findings if finding.code == "L212"]


@pytest.mark.parametrize("has_loss", [True, False], ids=["loss", "no loss"])
@pytest.mark.parametrize("compute_loss", GRADIENT_TERMS, ids=lambda term: term.__name__)
def test_term_of_gradients_without_a_graph_is_error_at_their_line(compute_loss: Term, has_loss: bool) -> None:
    (finding,) = detached_findings(compute_loss, has_loss=has_loss)
    assert finding.severity == "error"
    assert (finding.where.source or "").endswith("# here")


@pytest.mark.parametrize("compute_loss", GRADIENT_TERMS, ids=lambda term: term.__name__)
def test_term_of_gradients_with_a_graph_is_quiet(compute_loss: Callable[..., Tensor]) -> None:
    assert detached_findings(partial(compute_loss, create_graph=True)) == []


@pytest.mark.parametrize("compute_loss", CONSTANT_GRADIENTS, ids=lambda term: term.__name__)
def test_gradients_that_are_no_term_of_the_loss_are_quiet(compute_loss: Term) -> None:
    assert detached_findings(compute_loss) == []
