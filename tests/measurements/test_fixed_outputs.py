"""Tests of parts that a model returns beside its prediction, and of the rules that judge a run by them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.exceptions import NotChecked
from nbdebug.measurements import Measurements
from nbdebug.measurements.fixed_outputs import find_fixed_parts
from nbdebug.setup import Setup

GENERATOR = torch.Generator().manual_seed(0)
ANGLES = torch.linspace(0, 25, 1600) + 0.3 * torch.randn(1600, generator=GENERATOR)
X = torch.stack([ANGLES.cos(), ANGLES.sin(), (2 * ANGLES).cos(), (2 * ANGLES).sin()], 1)
X = X + 0.05 * torch.randn(1600, 4, generator=GENERATOR)
TOKENS = (torch.arange(6) + torch.randint(0, 12, (1600, 1), generator=GENERATOR)) % 12


def network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 48), nn.ReLU(), nn.Linear(48, outputs))


def shuffled(x: Tensor) -> Tensor:
    """Return the rows of a batch in another order."""
    return x[torch.randperm(len(x))]


class NoiseModel(nn.Module):
    """Predicts the noise that was added to its input, or another noise of the same size."""

    def __init__(self, is_faulty: bool = False) -> None:
        super().__init__()
        self.layers, self.is_faulty = network(4, 4), is_faulty

    def forward(self, x: Tensor) -> Any:
        noise = torch.randn_like(x)
        added = torch.randn_like(x) if self.is_faulty else noise
        return self.layers(0.5 * x + added), noise


class Prediction(NamedTuple):
    noise: Tensor
    level: Tensor
    guess: Tensor


class NamedNoiseModel(NoiseModel):
    """Returns the target first, and a weight for each sample."""

    def forward(self, x: Tensor) -> Any:
        level = torch.rand(len(x), 1)
        guess, noise = super().forward(x)
        return Prediction(noise, level, guess)


class MaskedAutoencoder(nn.Module):
    """Predicts hidden values from the others, or from those of another sample."""

    def __init__(self, is_faulty: bool = False) -> None:
        super().__init__()
        self.layers, self.is_faulty = network(4, 4), is_faulty

    def forward(self, x: Tensor) -> Any:
        hidden = torch.rand_like(x) < 0.5
        shown = (shuffled(x) if self.is_faulty else x).masked_fill(hidden, 0.0)
        return {"prediction": self.layers(shown), "hidden": hidden, "values": x.detach()}


class MaskedTokens(nn.Module):
    """Predicts one hidden token from the next one, which determines it, or from that of another sample."""

    def __init__(self, is_faulty: bool = False) -> None:
        super().__init__()
        self.embedding, self.is_faulty = nn.Embedding(13, 16), is_faulty
        self.layers = network(16, 12)

    def forward(self, tokens: Tensor) -> Any:
        shown = shuffled(tokens[:, 1]) if self.is_faulty else tokens[:, 1]
        return self.layers(self.embedding(shown)), tokens[:, 0].clone()


class Teacher(nn.Module):
    """Predicts the detached embedding of another view."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head = network(4, 8), network(8, 8)

    def forward(self, x: Tensor) -> Any:
        first, second = (self.encoder(x + 0.1 * torch.randn_like(x)) for _ in range(2))
        return self.head(first), second.detach()


class Variational(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = network(4, 4), network(2, 4)

    def forward(self, x: Tensor) -> Any:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        return self.decoder(mean + torch.randn_like(mean) * (log_variance / 2).exp()), mean, log_variance


class WithAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = network(4, 3)

    def forward(self, x: Tensor) -> Any:
        return self.layers(x), x.detach().softmax(1)


def squared(output: Any, *_: Any) -> Tensor:
    return F.mse_loss(*output)


def weighted(output: Prediction) -> Tensor:
    return F.mse_loss(output.guess, output.noise) + (output.level * (output.guess - output.noise) ** 2).mean()


def hidden_only(output: dict[str, Tensor]) -> Tensor:
    hidden = output["hidden"]
    return F.mse_loss(output["prediction"][hidden], output["values"][hidden])


def cross_entropy(output: Any) -> Tensor:
    return F.cross_entropy(*output)


def elbo(output: Any, x: Tensor) -> Tensor:
    decoded, mean, log_variance = output
    divergence: Tensor = (mean**2 + log_variance.exp() - log_variance - 1).mean()
    return F.mse_loss(decoded, x) + 0.01 * divergence


def of_logits(output: Any, labels: Tensor) -> Tensor:
    return F.cross_entropy(output[0], labels)


Loss = Callable[..., Any]
Program = tuple[Callable[..., nn.Module], Loss, Tensor, float]
PROGRAMS: dict[str, Program] = {
    "noise": (NoiseModel, squared, X, 1.0),
    "noise named and weighted": (NamedNoiseModel, weighted, X, 1.5),
    "hidden values": (MaskedAutoencoder, hidden_only, X, float(X.var(0).mean())),
    "hidden tokens": (MaskedTokens, cross_entropy, TOKENS, math.log(12)),
}


def build(model: nn.Module, loss_fn: Loss, *tensors: Tensor, batch_size: int = 50) -> Setup:
    return Setup(model, DataLoader(TensorDataset(*tensors), batch_size, shuffle=True), loss_fn=loss_fn)


@pytest.mark.parametrize("batch_size", [8, 50])
@pytest.mark.parametrize("name", PROGRAMS)
def test_constant_loss_holds_the_targets_that_the_model_returns(name: str, batch_size: int) -> None:
    torch.manual_seed(0)
    model, loss_fn, data, expected = PROGRAMS[name]
    measurements = Measurements(build(model(), loss_fn, data, batch_size=batch_size))
    assert measurements["constant_loss"].value == pytest.approx(expected, rel=0.06)


class Filler(nn.Module):
    """Predicts values that were hidden, and returns which ones they are."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = network(4, 4)

    def forward(self, x: Tensor) -> Any:
        hidden = (torch.rand_like(x) < 0.25).float()
        return self.layers(x * (1 - hidden)), hidden


def of_hidden(output: Any, target: Tensor) -> Tensor:
    prediction, hidden = output
    error: Tensor = ((prediction - target).square() * hidden).sum()
    return error / hidden.sum()


def test_constant_loss_holds_a_mask_that_the_model_returns_beside_targets_of_the_loader() -> None:
    torch.manual_seed(0)
    measurements = Measurements(build(Filler(), of_hidden, X, X))
    assert measurements["constant_loss"].value == pytest.approx(float(X.var(0).mean()), rel=0.06)


LABELS = (X[:, 0] > 0).long() + (X[:, 2] > 0).long()
OTHERS: dict[str, tuple[Callable[[], nn.Module], Loss, tuple[Tensor, ...]]] = {
    "detached teacher": (Teacher, squared, (X,)),
    "all parts with gradient": (Variational, elbo, (X, X)),
    "attention beside logits": (WithAttention, of_logits, (X, LABELS)),
    "frozen model": (lambda: NoiseModel().requires_grad_(False), squared, (X,)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_models_have_no_fixed_parts(name: str) -> None:
    torch.manual_seed(0)
    model, loss_fn, data = OTHERS[name]
    setup = build(model(), loss_fn, *data)
    before = [parameter.clone() for parameter in setup.model.parameters()]
    assert find_fixed_parts(setup, Measurements(setup)["first_pass"]) == frozenset()
    assert all(map(torch.equal, before, setup.model.parameters()))


def test_constant_loss_of_a_detached_teacher_is_not_checked() -> None:
    with pytest.raises(NotChecked):
        Measurements(build(Teacher(), squared, X))["constant_loss"]


def stuck_codes(model: nn.Module, loss_fn: Loss, *tensors: Tensor) -> list[str]:
    """Return the errors and warnings of a run in a watched loop."""
    loader = DataLoader(TensorDataset(*tensors), 50, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    debugger = Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    with debugger.watch():
        for _ in range(12):
            for x, *targets in loader:
                optimizer.zero_grad()
                loss_fn(model(x), *targets).backward()
                optimizer.step()
    return [finding.code for finding in debugger.findings if finding.severity != "note"]


@pytest.mark.parametrize("is_faulty", [True, False], ids=["faulty", "healthy"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_stuck_at_chance_of_a_model_that_returns_its_targets(name: str, is_faulty: bool) -> None:
    torch.manual_seed(0)
    model, loss_fn, data, _ = PROGRAMS[name]
    codes = stuck_codes(model(is_faulty), loss_fn, data)
    assert ("T607" in codes) == is_faulty
    assert is_faulty or codes == []


@pytest.mark.parametrize("name", ["detached teacher", "all parts with gradient", "attention beside logits"])
def test_stuck_at_chance_of_other_models_is_quiet(name: str) -> None:
    torch.manual_seed(0)
    model, loss_fn, data = OTHERS[name]
    assert "T607" not in stuck_codes(model(), loss_fn, *data)
