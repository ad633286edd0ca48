"""Tests of D105 on a target that a step draws apart from the noise which the model receives."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import Finding
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop

WIDTH = 3
_PROGRAM = """
import torch
from torch.nn import functional as F

WEIGHTS = torch.linspace(0.1, 0.9, 10)


def spoil(x, noise=None):
    if noise is None:
        noise = torch.randn(x.shape)  # own
    return 0.6 * x + 0.8 * noise


def normal(x):
    return torch.distributions.Normal(0.0, 1.0).sample(x.shape)


def loss_of(model, x):
{body}


def train(setup):
    for _ in range(3):
        for x, _ in setup.train_loader:
            setup.optimizers[0].zero_grad()
            loss_of(setup.model, x).backward()
            setup.optimizers[0].step()
"""
_SEPARATE = {
    "in a helper": (
        "noise = torch.randn_like(x)\nreturn (model(spoil(x)) - noise).square().mean()",
        "(model(spoil(x))",
    ),
    "scaled": (
        "noise = torch.empty_like(x).normal_()\n"
        "t = torch.randint(0, 10, (len(x), 1))\n"
        "noisy = x + WEIGHTS[t] * torch.randn_like(x)  # here\n"
        "return F.smooth_l1_loss(model(noisy), -noise / WEIGHTS[t])",
        "# here",
    ),
    "by a distribution": (
        "x = x + normal(x)  # here\nreturn (normal(x) - model(x)).abs().mean()",
        "",
    ),
    "in both helpers": (
        "noisy = spoil(x)\ndef other():\n    return torch.randn(x.shape)\nreturn F.mse_loss(model(noisy), other())",
        "# own",
    ),
}


def _setup(model: nn.Module | None = None) -> Setup:
    torch.manual_seed(0)
    model = model or nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Linear(16, WIDTH))
    data = TensorDataset(torch.randn(64, WIDTH), torch.randn(64, WIDTH))
    return Setup(model, DataLoader(data, 16), optimizers=(torch.optim.SGD(model.parameters(), lr=0.01),))


def _of_draws(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.code == "D105" and "random draw" in finding.message]


@pytest.mark.parametrize("name", _SEPARATE)
def test_target_drawn_apart_from_the_input_is_reported(tmp_path: Path, name: str) -> None:
    body, place = _SEPARATE[name]
    indented = "\n".join(f"    {line}" for line in body.split("\n"))
    train = load_loop(tmp_path / "loop.py", _PROGRAM.format(body=indented))
    (finding,) = _of_draws(all_findings(train, _setup()))
    assert finding.severity == "error"
    assert "48 values" in finding.message
    assert place in str(finding.where.source)
    assert "T607" in finding.explains
    variables: dict[str, Any] = {"torch": torch, "x": torch.zeros(4, WIDTH)}
    exec("\n".join(re.findall(r"`(.*?)`", finding.fix)), variables)
    assert variables["target"] is variables["noise"]
    assert torch.equal(variables["noisy"], variables["noise"])


class _Latent(nn.Module):
    """An autoencoder with noise in its code, noise layers and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.code, self.decode = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(x - 0.1 * torch.randn_like(x), 0.2)
        mean, log_std = self.code(x).chunk(2, 1)
        hidden = mean + torch.randn_like(mean) * log_std.exp()
        return self.decode(hidden - 0.1 * torch.randn_like(hidden))


_TEACHER = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
_JUDGE = nn.Linear(WIDTH, 1)
_PROJECTION = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(1))


def mixed_by_lerp(model: nn.Module, x: Tensor) -> Tensor:
    noise = torch.randn_like(x)
    return F.mse_loss(model(torch.lerp(x, noise, torch.rand(len(x), 1))), noise)


def added_in_place(model: nn.Module, x: Tensor) -> Tensor:
    noise, noisy = torch.zeros_like(x), x.clone()
    noise.normal_()
    noisy.mul_(0.5).add_(noise, alpha=0.5)
    return F.mse_loss(model(noisy + 0.1 * torch.randn_like(x)), noise)


def written_to_places(model: nn.Module, x: Tensor) -> Tensor:
    noise, noisy = torch.randn_like(x), x + torch.randn_like(x)
    noisy[:, :2] = noise[:, :2]
    return F.mse_loss(model(noisy), noise)


def drawn_again_from_the_seed(model: nn.Module, x: Tensor) -> Tensor:
    first, second = (torch.randn(x.shape, generator=torch.Generator().manual_seed(5)) for _ in range(2))
    return F.mse_loss(model(x + first), second)


def through_python(model: nn.Module, x: Tensor) -> Tensor:
    noise = torch.randn_like(x)
    return F.mse_loss(model(x + 0.1 * torch.randn_like(x) + torch.tensor(noise.tolist())), noise)


def matched_flow(model: nn.Module, x: Tensor) -> Tensor:
    noise, time = torch.randn_like(x), torch.rand(len(x), 1)
    return F.mse_loss(model((1 - time) * noise + time * x), x - noise)


def backward_flow(model: nn.Module, x: Tensor) -> Tensor:
    noise, time = torch.randn_like(x), torch.rand(len(x), 1)
    return (model(time * noise + (1 - time) * x) - (noise - x)).square().mean()


def smoothed_labels(model: nn.Module, x: Tensor) -> Tensor:
    seed = torch.rand(len(x) * WIDTH, 1).reshape(len(x), WIDTH)
    return F.mse_loss(_JUDGE(model(seed)).expand(-1, WIDTH), 0.8 + 0.2 * torch.rand(len(x), WIDTH))


def random_teacher(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        target = _TEACHER(torch.randn_like(x))
    return F.mse_loss(model(x + torch.randn_like(x)), target)


def random_projection(model: nn.Module, x: Tensor) -> Tensor:
    drawn = torch.randn_like(x)
    return F.mse_loss(model(drawn), drawn @ _PROJECTION)


def masked_values(model: nn.Module, x: Tensor) -> Tensor:
    mask = torch.rand(x.shape) < 0.3
    return F.mse_loss(model(torch.where(mask, torch.randn_like(x), x))[mask], x[mask])


def noisy_code(model: nn.Module, x: Tensor) -> Tensor:
    return F.mse_loss(model(x), x)


def sorted_prior(model: nn.Module, x: Tensor) -> Tensor:
    codes = model(x + torch.randn_like(x))
    return F.mse_loss(codes.sort(0).values, torch.randn_like(codes).sort(0).values)


def distance_of_all_pairs(model: nn.Module, x: Tensor) -> Tensor:
    codes, prior = model(x + torch.randn_like(x)), torch.randn_like(x)
    return (codes[:, None] - prior[None]).norm(dim=2).mean() - torch.cdist(codes, codes).mean() / 2


@pytest.mark.parametrize(
    "loss_of",
    [
        mixed_by_lerp, added_in_place, written_to_places, drawn_again_from_the_seed, through_python, matched_flow,
        backward_flow, smoothed_labels, random_teacher, random_projection, masked_values, noisy_code, sorted_prior,
        distance_of_all_pairs,
    ],
)  # fmt: skip
def test_random_target_that_the_model_may_know_is_not_reported(loss_of: Callable[[Any, Tensor], Tensor]) -> None:
    def train(setup: Setup) -> None:
        for x, _ in setup.train_loader:
            setup.optimizers[0].zero_grad()
            loss_of(setup.model, x).backward()  # type: ignore[no-untyped-call]
            setup.optimizers[0].step()

    assert _of_draws(all_findings(train, _setup(_Latent() if loss_of is noisy_code else None))) == []
