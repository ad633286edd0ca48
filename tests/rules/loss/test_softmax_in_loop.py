"""Tests of L201 in a watched loop, whose own loss call may apply softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup

CROSS_ENTROPY = nn.CrossEntropyLoss()


def one_hot(y: Tensor) -> Tensor:
    return F.one_hot(y, 3).float()


LOSSES: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], str | None]] = {
    "softmax in the call": (lambda z, y: CROSS_ENTROPY(torch.softmax(z, 1), y), "error"),
    "softmax of a view": (lambda z, y: CROSS_ENTROPY(z.softmax(1).view(-1, 3).clone(), y), "error"),
    "functional loss and a penalty": (
        lambda z, y: 2 * F.cross_entropy(z.softmax(-1), y) + 1e-4 * z.square().sum(),
        "error",
    ),
    "softmax and log priors": (lambda z, y: F.cross_entropy(z.softmax(1) + torch.rand(3).log(), y), "error"),
    "sigmoid": (lambda z, y: F.cross_entropy(z.sigmoid(), y), "error"),
    "softmax with logits": (lambda z, y: F.binary_cross_entropy_with_logits(z.softmax(1), one_hot(y)), "error"),
    "log-softmax twice": (lambda z, y: F.cross_entropy(F.log_softmax(z, 1), y), "warning"),
    "distribution of logits": (lambda z, y: -Categorical(logits=z.softmax(1)).log_prob(y).mean(), "error"),
    "distribution of probabilities": (lambda z, y: -Categorical(probs=z.softmax(1)).log_prob(y).mean(), None),
    "distribution of log-probabilities": (lambda z, y: -Categorical(logits=z.log_softmax(1)).log_prob(y).mean(), None),
    "logits": (lambda z, y: F.cross_entropy(z, y), None),
    "log-probabilities and log priors": (lambda z, y: F.cross_entropy(z.log_softmax(1) + torch.rand(3).log(), y), None),
    "probabilities beside the loss": (lambda z, y: F.cross_entropy(z, y) + z.softmax(1).var(), None),
    "attention before the head": (lambda z, y: F.cross_entropy(z.softmax(1) @ torch.eye(3) * 8.0 + z, y), None),
    "sigmoid in binary cross-entropy": (lambda z, y: F.binary_cross_entropy(z.sigmoid(), one_hot(y)), None),
}


def watch_findings(loss_fn: Callable[[Tensor, Tensor], Tensor]) -> list[Finding]:
    """Return the findings of L201 on a loop with its own loss call; the setup's own loss is correct."""
    setup: Setup = classifier(loss_fn=CROSS_ENTROPY)
    debugger = Debugger.of(setup)
    with debugger.watch() as watch:
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            loss_fn(setup.model(x), y).backward()
            setup.optimizers[0].step()
    result: Any = watch.result
    return [finding for finding in result.report.findings if finding.code == "L201"]


@pytest.mark.parametrize("name", LOSSES)
def test_softmax_before_cross_entropy_in_loop_is_found_by_its_graph(name: str) -> None:
    loss_fn, severity = LOSSES[name]
    assert [finding.severity for finding in watch_findings(loss_fn)] == ([] if severity is None else [severity])


class Agreement(nn.Module):
    """A loss as a module, with the softmax on a line of its own."""

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        probabilities = output.softmax(1)  # softmax
        return F.cross_entropy(probabilities, target)


def normalized(output: Tensor) -> Tensor:
    scaled = output / 2
    return torch.softmax(scaled, 1)  # softmax


def helper_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(normalized(output), target)


@pytest.mark.parametrize("loss_fn", [Agreement(), helper_loss])
def test_softmax_before_cross_entropy_in_loop_names_the_line_of_the_softmax(loss_fn: Any) -> None:
    (finding,) = watch_findings(loss_fn)
    assert (finding.where.source or "").endswith("# softmax")
    assert not torch.is_anomaly_enabled()


def test_softmax_before_cross_entropy_in_loop_names_the_smallest_loss() -> None:
    (finding,) = watch_findings(lambda z, y: CROSS_ENTROPY(torch.softmax(z, 1), y))
    assert "with 3 classes the loss cannot fall below 0.551" in finding.message
