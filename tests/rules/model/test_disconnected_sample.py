"""Tests of M301 on parameters of random samples that the output depends on without a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, Normal, kl_divergence
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup
from tests.rules.rule_findings import checkup_findings, rule_findings

X = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))


class LatentModel(nn.Module):
    """Decodes what a function draws from the mean and the scale of a latent code."""

    def __init__(self, draw: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.encoder, self.mean, self.scale = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 3)
        self.decoder, self.draw = nn.Linear(3, 6), draw

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = torch.tanh(self.encoder(x))
        mean, scale = self.mean(hidden), F.softplus(self.scale(hidden))
        return self.decoder(self.draw(mean, scale)), mean, scale


class UncertainLayer(nn.Module):
    """A linear layer whose weights are drawn for each batch."""

    def __init__(self, differentiable: bool) -> None:
        super().__init__()
        self.mean, self.log_scale = nn.Parameter(torch.randn(6, 6)), nn.Parameter(torch.full((6, 6), -2.0))
        self.bias, self.differentiable = nn.Parameter(torch.zeros(6)), differentiable

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scale = self.log_scale.exp()
        weights = Normal(self.mean, scale)
        drawn = weights.rsample() if self.differentiable else weights.sample()
        return F.linear(x, drawn, self.bias), self.mean, scale


class Glimpse(nn.Module):
    """Reads a weighted input; the weights are drawn, and trained by their log-probability."""

    def __init__(self) -> None:
        super().__init__()
        self.policy, self.head = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        policy = Normal(self.policy(x), torch.ones(len(x), 6))
        weights = policy.sample()
        return self.head(x * weights), policy.log_prob(weights), torch.ones(1)


class ProbedEncoder(nn.Module):
    """Reconstructs its input, and reads the detached code with noise by another layer."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder, self.probe = nn.Linear(6, 3), nn.Linear(3, 6), nn.Linear(3, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        code = self.encoder(x)
        return self.probe(code.detach() + 0.1 * torch.randn_like(code)), self.decoder(code), torch.ones(1)


def negative_bound(output: tuple[Tensor, Tensor, Tensor], x: Tensor) -> Tensor:
    drawn, mean, scale = output
    prior = Normal(torch.zeros_like(mean), torch.ones_like(scale))
    return (drawn - x).square().mean() + kl_divergence(Normal(mean, scale), prior).mean()


def squared_errors(output: tuple[Tensor, Tensor, Tensor], x: Tensor) -> Tensor:
    return sum((part - x).square().mean() for part in output[:2])


def straight_through(mean: Tensor, scale: Tensor) -> Tensor:
    probability = torch.sigmoid(mean)
    return probability + (torch.bernoulli(probability) - probability).detach()


def one_hot_sample(mean: Tensor, scale: Tensor) -> Tensor:
    return F.one_hot(Categorical(logits=mean).sample(), 3).float()


FAULTS: dict[str, tuple[nn.Module, str]] = {
    "sample of a distribution": (LatentModel(lambda mean, scale: Normal(mean, scale).sample()), ".sample()"),
    "torch.normal": (LatentModel(lambda mean, scale: torch.normal(mean, scale)), "torch.normal("),
    "binary code": (LatentModel(lambda mean, scale: Bernoulli(logits=mean).sample()), ".sample()"),
    "categories": (LatentModel(one_hot_sample), ".sample()"),
    "weights": (UncertainLayer(differentiable=False), "weights.sample()"),
}
HEALTHY: dict[str, tuple[nn.Module, Any]] = {
    "rsample": (LatentModel(lambda mean, scale: Normal(mean, scale).rsample()), negative_bound),
    "noise": (LatentModel(lambda mean, scale: mean + scale * torch.randn_like(scale)), negative_bound),
    "straight-through": (LatentModel(straight_through), negative_bound),
    "relaxed categories": (LatentModel(lambda mean, scale: F.gumbel_softmax(mean, hard=True)), negative_bound),
    "dropout": (LatentModel(lambda mean, scale: F.dropout(mean, 0.5)), negative_bound),
    "weights": (UncertainLayer(differentiable=True), negative_bound),
    "score function": (Glimpse(), squared_errors),
    "detached on purpose": (ProbedEncoder(), squared_errors),
}


@pytest.mark.parametrize("name", FAULTS)
def test_disconnected_sample_of_parameters_is_warning_at_its_line(name: str) -> None:
    model, line = FAULTS[name]
    (finding,) = checkup_findings(minimal_setup(model, X, X, negative_bound), "M301")
    assert "mean" in finding.message
    assert finding.message.startswith("Output 0 depends on")  # the others have a gradient for these parameters
    assert "no gradient from output 0 reaches them" in finding.message
    assert "decoder" not in finding.message
    assert line in (finding.where.source or "")


@pytest.mark.parametrize("name", HEALTHY)
def test_disconnected_sample_with_gradient_or_on_purpose_is_quiet(name: str) -> None:
    model, loss_fn = HEALTHY[name]
    assert checkup_findings(minimal_setup(model, X, X, loss_fn), "M301") == []


class NamedOutputs(LatentModel):
    """Returns its parts by name."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        drawn, mean, scale = super().forward(x)
        return {"mean": mean, "scale": scale, "drawn": drawn}


def test_disconnected_sample_names_the_key_of_its_output() -> None:
    def loss_fn(output: dict[str, Tensor], x: Tensor) -> Tensor:
        return negative_bound((output["drawn"], output["mean"], output["scale"]), x)

    (finding,) = rule_findings(minimal_setup(NamedOutputs(torch.normal), X, X, loss_fn), "M301")
    assert finding.message.startswith("Output 'drawn' depends on")


def test_disconnected_sample_of_the_only_output_is_the_output() -> None:
    (finding,) = rule_findings(minimal_setup(Reconstruction(torch.normal), X, X, nn.MSELoss()), "M301")
    assert finding.message.startswith("The output depends on") or "no path" in finding.message


class Reconstruction(LatentModel):
    """Returns the reconstruction alone."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[0]


def loss_of_parts(drawn: Tensor, mean: Tensor, scale: Tensor, x: Tensor) -> Tensor:
    return (drawn - x).square().mean()


DRAWS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], str]] = {
    "torch.normal": (torch.normal, "self.draw(mean, scale)"),
    "sample": (lambda mean, scale: Normal(mean, scale).sample(), ".sample()"),
    "rsample": (lambda mean, scale: Normal(mean, scale).rsample(), ""),
    "noise": (lambda mean, scale: mean + scale * torch.randn_like(scale), ""),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize(
    ("build", "loss_fn"),
    [(LatentModel, negative_bound), (LatentModel, loss_of_parts), (Reconstruction, nn.MSELoss())],
)
def test_disconnected_sample_is_named_where_labels_do_not_fit_the_loss(
    name: str, build: type[LatentModel], loss_fn: Callable[..., Tensor]
) -> None:
    draw, line = DRAWS[name]
    findings = rule_findings(minimal_setup(build(draw), X, torch.arange(64) % 3, loss_fn), "M301")
    assert [finding.severity for finding in findings] == (["warning"] if line else [])
    assert all(line in (finding.where.source or "") for finding in findings)


class DrawnOutput(nn.Module):
    """Returns what it draws."""

    def __init__(self, draw: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.mean, self.draw = nn.Linear(6, 6), draw

    def forward(self, x: Tensor) -> Tensor:
        mean = self.mean(x)
        drawn = self.draw(mean, torch.ones_like(mean))
        return drawn


@pytest.mark.parametrize("name", ["torch.normal", "rsample", "noise"])
def test_gradient_of_zero_names_the_draw_that_cuts_all_parameters(name: str) -> None:
    draw, _ = DRAWS[name]
    findings = rule_findings(minimal_setup(DrawnOutput(draw), X, X, nn.MSELoss()), "G416")
    assert len(findings) == (name == "torch.normal")
    for finding in findings:
        assert "drawn = self.draw(" in (finding.where.source or "")
        assert "draws random numbers" in finding.cause
