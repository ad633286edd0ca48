"""Tests of G415 on variational models whose latent variables are noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import no_type_check

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding

GENERATOR = torch.Generator().manual_seed(0)
SPECTRA = torch.randn(320, 3, generator=GENERATOR) @ torch.randn(3, 20, generator=GENERATOR)
SPECTRA += 0.05 * torch.randn(320, 20, generator=GENERATOR)
Output = tuple[Tensor, Normal]


class Compressor(nn.Module):
    """Draws a code of a spectrum and restores the spectrum from it."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.location, self.spread = nn.Linear(20, 32), nn.Linear(32, 3), nn.Linear(32, 3)
        self.restore = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 20))

    def forward(self, spectrum: Tensor) -> Output:
        hidden = torch.tanh(self.body(spectrum))
        code = Normal(self.location(hidden), F.softplus(self.spread(hidden)) + 1e-3)
        return self.restore(code.rsample() if self.training else code.mean), code


class NoisyInput(nn.Module):
    """Restores inputs to which it adds noise of a learned strength."""

    def __init__(self) -> None:
        super().__init__()
        self.strength, self.body = nn.Linear(20, 20), nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 20))

    def forward(self, spectrum: Tensor) -> Tensor:
        noisy = spectrum + torch.randn_like(spectrum) * torch.sigmoid(self.strength(spectrum))
        restored: Tensor = self.body(noisy)
        return restored


class DrawnWithoutGradient(Compressor):
    """Draws the code in a method that passes no gradient back."""

    @no_type_check
    @torch.no_grad()
    def draw(self, code: Normal) -> Tensor:
        return code.mean + code.stddev * torch.randn_like(code.mean)

    def forward(self, spectrum: Tensor) -> Output:
        hidden = torch.tanh(self.body(spectrum))
        code = Normal(self.location(hidden), F.softplus(self.spread(hidden)) + 1e-3)
        return self.restore(self.draw(code)), code


class DrawnInABlock(DrawnWithoutGradient):
    """Draws the code in a block that passes no gradient back."""

    def draw(self, code: Normal) -> Tensor:
        noise = torch.randn_like(code.mean)
        with torch.no_grad():
            return code.mean + code.stddev * noise


class DetachedCode(DrawnWithoutGradient):
    """Detaches the code after it was drawn."""

    def draw(self, code: Normal) -> Tensor:
        drawn = code.mean + code.stddev * torch.randn_like(code.mean)
        return drawn.detach()


def evidence_bound(weight: float) -> Callable[[Output, Tensor], Tensor]:
    def bound(output: Output, spectrum: Tensor) -> Tensor:
        restored, code = output
        error = (restored - spectrum).square().sum(1).mean()
        information = kl_divergence(code, Normal(torch.zeros(3), torch.ones(3)))
        rate = information.sum(1).mean()
        return error + weight * rate

    return bound


def averaged_error(output: Output, spectrum: Tensor) -> Tensor:
    restored, code = output
    error = F.mse_loss(restored, spectrum)
    return error + 20 * kl_divergence(code, Normal(torch.zeros(3), torch.ones(3))).sum(1).mean()


def averaged_in_steps(output: Output, spectrum: Tensor) -> Tensor:
    restored, code = output
    error = (restored - spectrum).square()
    error = error.mean(1)
    return (error + 20 * kl_divergence(code, Normal(torch.zeros(3), torch.ones(3))).sum(1)).mean()


def watched(model: nn.Module, loss_fn: Callable[..., Tensor]) -> list[Finding]:
    loader = DataLoader(TensorDataset(SPECTRA, SPECTRA), batch_size=32, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    debugger = Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    with debugger.watch(final_tests=False):
        for _ in range(30):
            for spectrum, same in loader:
                optimizer.zero_grad()
                loss_fn(model(spectrum), same).backward()
                optimizer.step()
    return [finding for finding in debugger.findings if finding.code == "G415"]


def test_collapsed_representation_of_an_outweighed_code_names_the_divergence() -> None:
    torch.manual_seed(0)
    (finding,) = watched(Compressor(), evidence_bound(300.0))
    assert "None of the 3 latent variables is active" in finding.message
    assert (finding.where.source or "").strip() == "rate = information.sum(1).mean()"


@pytest.mark.parametrize(
    ("make", "source"),
    [
        (DrawnWithoutGradient, "@torch.no_grad()"),
        (DrawnInABlock, "with torch.no_grad():"),
        (DetachedCode, "return drawn.detach()"),
    ],
)
def test_collapsed_representation_of_a_code_without_gradient_names_what_cuts_it(
    make: Callable[[], nn.Module], source: str
) -> None:
    torch.manual_seed(0)
    (finding,) = watched(make(), evidence_bound(1.0))
    assert (finding.where.source or "").strip() == source
    assert "No gradient flows back from the latent variables" in (finding.cause or "")


@pytest.mark.parametrize(
    ("loss_fn", "source"),
    [(averaged_error, "error = F.mse_loss(restored, spectrum)"), (averaged_in_steps, "error = error.mean(1)")],
)
def test_collapsed_representation_names_a_reconstruction_that_is_averaged(
    loss_fn: Callable[[Output, Tensor], Tensor], source: str
) -> None:
    torch.manual_seed(0)
    (finding,) = watched(Compressor(), loss_fn)
    assert (finding.where.source or "").strip() == source
    assert "an average over the 20 values of a sample" in (finding.cause or "")


@pytest.mark.parametrize(
    ("make", "loss_fn"),
    [(Compressor, evidence_bound(0.1)), (Compressor, evidence_bound(1.0)), (NoisyInput, F.mse_loss)],
)
def test_collapsed_representation_is_quiet_if_codes_depend_on_the_input(
    make: Callable[[], nn.Module], loss_fn: Callable[..., Tensor]
) -> None:
    torch.manual_seed(0)
    assert not watched(make(), loss_fn)
