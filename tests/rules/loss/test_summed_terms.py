"""Tests of L216 for terms that the model returns, and for terms with one value for each sample."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults, rule_findings

X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
Outputs = tuple[Tensor, Tensor]


class AffineMap(nn.Module):
    """Scale and shift the last two values by functions of the first two; return the log-determinant as ``reduced``."""

    def __init__(self, reduced: Callable[[Tensor], Tensor], std: float = 0.5) -> None:
        super().__init__()
        self.net, self.reduced = nn.Linear(2, 4), reduced
        nn.init.normal_(self.net.weight, std=std)
        nn.init.constant_(self.net.bias, std)

    def forward(self, x: Tensor) -> Outputs:
        log_scale, shift = self.net(x[:, :2]).chunk(2, 1)
        volume = self.reduced(log_scale)
        return torch.cat([x[:, :2], x[:, 2:] * log_scale.exp() + shift], 1), volume


class Autoencoder(nn.Module):
    """Return a reconstruction and the divergence of the code."""

    def __init__(self, reduced: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.encoder, self.decoder, self.reduced = nn.Linear(4, 2), nn.Linear(2, 4), reduced

    def forward(self, x: Tensor) -> Outputs:
        mean = self.encoder(x)
        penalty = self.reduced(mean.square() / 2)
        return self.decoder(mean), penalty


class Scores(nn.Module):
    """Return the scores and a number made of them."""

    def __init__(self, number: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.number = nn.Linear(4, 4), number

    def forward(self, x: Tensor) -> Outputs:
        scores = self.layer(x)
        return scores, self.number(scores)


def likelihood(outputs: Outputs, _: Tensor) -> Tensor:
    z, volume = outputs
    return (z.square().sum(1) / 2 - volume).mean()


def likelihood_of_mean(outputs: Outputs, _: Tensor) -> Tensor:
    z, volume = outputs
    return z.square().sum(1).mean() / 2 - volume.mean()


def reconstruction(outputs: Outputs, target: Tensor) -> Tensor:
    return F.mse_loss(outputs[0], target) + outputs[1]


def summed_reconstruction(outputs: Outputs, target: Tensor) -> Tensor:
    return F.mse_loss(outputs[0], target, reduction="sum") + outputs[1]


def likelihood_summed_in_loss(output: Tensor, target: Tensor) -> Tensor:
    return ((output - target).square().sum(1) + output.square().sum()).mean()


def divided_by_number(outputs: Outputs, target: Tensor) -> Tensor:
    return F.mse_loss(outputs[0], target, reduction="sum") / outputs[1]


def shifted_cross_entropy(outputs: Outputs, target: Tensor) -> Tensor:
    return F.cross_entropy(outputs[0] - outputs[0].sum(), target.argmax(1))


def setup_of(model: nn.Module, loss_fn: Callable[..., Tensor]) -> Setup:
    return minimal_setup(model, X, X, loss_fn)


FAULTY: dict[str, tuple[Callable[[], nn.Module], Callable[..., Tensor], str]] = {
    "log-determinant of the batch": (lambda: AffineMap(torch.sum), likelihood, "one value for each of the 16 samples"),
    "log-determinant beside a mean": (lambda: AffineMap(torch.sum), likelihood_of_mean, "a mean over the 16 samples"),
    "flow that begins as the identity": (lambda: AffineMap(torch.sum, 0), likelihood, "without which the sum is 0"),
    "divergence of the batch": (lambda: Autoencoder(torch.sum), reconstruction, "a mean over the 16 samples"),
    "sum within the loss": (lambda: nn.Linear(4, 4), likelihood_summed_in_loss, "one value for each of the 16 samples"),
}

HEALTHY: dict[str, tuple[Callable[[], nn.Module], Callable[..., Tensor]]] = {
    "log-determinant of each sample": (lambda: AffineMap(lambda s: s.sum(1)), likelihood),
    "mean of log-determinants": (lambda: AffineMap(lambda s: s.sum(1).mean()), likelihood),
    "constant volume": (lambda: AffineMap(lambda s: s[0].sum()), likelihood),
    "identity with a volume of each sample": (lambda: AffineMap(lambda s: s.sum(1), 0), likelihood),
    "identity with a mean volume": (lambda: AffineMap(lambda s: s.sum(1).mean(), 0), likelihood),
    "mean divergence": (lambda: Autoencoder(torch.mean), reconstruction),
    "sums of both": (lambda: Autoencoder(torch.sum), summed_reconstruction),
    "sum divided by the number of values": (lambda: Scores(lambda s: torch.ones_like(s).sum()), divided_by_number),
    "shift that softmax ignores": (lambda: Scores(torch.sum), shifted_cross_entropy),
}


@pytest.mark.parametrize("name", FAULTY)
def test_term_summed_over_the_batch_is_reported(name: str) -> None:
    build_model, loss_fn, words = FAULTY[name]
    (finding,) = rule_faults(setup_of(build_model(), loss_fn), "L216")
    assert words in finding.message


@pytest.mark.parametrize("name", HEALTHY)
def test_terms_of_one_reduction_are_quiet(name: str) -> None:
    build_model, loss_fn = HEALTHY[name]
    assert rule_faults(setup_of(build_model(), loss_fn), "L216") == []


def test_place_is_the_line_of_the_model_that_sums() -> None:
    (finding,) = rule_faults(setup_of(Autoencoder(lambda values: values.sum()), reconstruction), "L216")
    assert "values.sum()" in linecache.getline(str(finding.where.file), finding.where.line or 0)


def test_numbers_are_the_terms() -> None:
    model = AffineMap(torch.sum)
    z, volume = model(X[:16])
    (finding,) = rule_findings(setup_of(model, likelihood), "L216")
    terms = [16.0, z.square().sum(1).mean().item() / 2, volume.item()]
    assert [float(word) for word in re.findall(r"-?\d+(?:\.\d+)?", finding.message)] == pytest.approx(terms, rel=0.01)


def test_modes_and_parameters_are_left_unchanged() -> None:
    model = AffineMap(torch.sum, 0)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    rule_findings(setup_of(model, likelihood), "L216")
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
