"""Tests of L213 for the log-determinant of a normalizing flow in its loss."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from nbdebug.source.edits import describe_edits
from tests.rules.rule_findings import rule_faults

Loss = Callable[[tuple[Tensor, Tensor], Tensor], Tensor]
X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 2.0, 0.5, 1.0])


class Coupling(nn.Module):
    """Affine couplings that start as the identity; ``sign`` is that with which the log-determinant is returned."""

    def __init__(self, sign: int = 1, bias: float = 0.0) -> None:
        super().__init__()
        self.sign, self.bias = sign, bias
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4)) for _ in range(2))
        for net in self.nets:
            assert isinstance(net, nn.Sequential)
            for parameter in net[-1].parameters():
                nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        volume = x.new_zeros(len(x))
        for net in self.nets:
            fixed, moved = x.chunk(2, 1)
            log_scale, shift = net(fixed).chunk(2, 1)
            x = torch.cat([moved * log_scale.exp() + shift, fixed], 1)
            volume = volume + log_scale.sum(1)
        return x, self.sign * volume + self.bias * x.square().sum(1)


class Bottleneck(nn.Module):
    """A linear autoencoder of one number, with a penalty of each sample: its map has no inverse."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 1), nn.Linear(1, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        code = self.encoder(x)
        drawn = self.decoder(code)
        return torch.cat([drawn, torch.zeros_like(drawn)], 1), code.square().sum(1)


def added(output: tuple[Tensor, Tensor], _: Tensor) -> Tensor:
    code, volume = output
    return (0.5 * code.square().sum(1) + volume).mean()


def subtracted(output: tuple[Tensor, Tensor], _: Tensor) -> Tensor:
    code, volume = output
    return (0.5 * code.square().sum(1) - volume).mean()


def negated_likelihood(output: tuple[Tensor, Tensor], _: Tensor) -> Tensor:
    code, volume = output
    log_likelihood = torch.distributions.Normal(0.0, 1.0).log_prob(code).sum(1) - volume
    return -log_likelihood.mean()


def negative_likelihood(output: tuple[Tensor, Tensor], _: Tensor) -> Tensor:
    code, volume = output
    return -(torch.distributions.Normal(0.0, 1.0).log_prob(code).sum(1) + volume).sum()


def expansion_only(output: tuple[Tensor, Tensor], _: Tensor) -> Tensor:
    return output[1].mean() + 0 * output[0].sum()


def flow_setup(loss: Loss, model: nn.Module) -> Setup:
    return minimal_setup(model, X, X, loss)


@pytest.mark.parametrize(
    ("loss", "sign", "line"),
    [
        (added, 1, "return (0.5 * code.square().sum(1) + volume).mean()"),
        (subtracted, -1, "return (0.5 * code.square().sum(1) - volume).mean()"),
        (
            negated_likelihood,
            1,
            "log_likelihood = torch.distributions.Normal(0.0, 1.0).log_prob(code).sum(1) - volume",
        ),
    ],
)
def test_l213_log_determinant_with_wrong_sign_fires_at_its_line(loss: Loss, sign: int, line: str) -> None:
    (finding,) = rule_faults(flow_setup(loss, Coupling(sign)), "L213")
    assert ((finding.where.source or "").strip(), finding.severity) == (line, "error")
    assert (finding.evidence["samples"], finding.evidence["width"], finding.evidence["outputs"]) == (4, 4, (0, 1))
    assert finding.evidence["slope"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("body", "sign", "fix"),
    [
        ("return (0.5 * z.square().sum(1) + volume).mean()", 1, "return (0.5 * z.square().sum(1) - volume).mean()"),
        ("return (0.5 * z.square().sum(1) - volume).mean()", -1, "return (0.5 * z.square().sum(1) + volume).mean()"),
    ],
)
def test_l213_fix_changes_the_sign_of_the_log_determinant(body: str, sign: int, fix: str, tmp_path: Path) -> None:
    path, scope = tmp_path / "losses.py", dict[str, Any]()
    path.write_text(f"def loss(output, target):\n    z, volume = output\n    {body}\n")
    exec(compile(path.read_text(), str(path), "exec"), scope)
    (finding,) = rule_faults(flow_setup(scope["loss"], Coupling(sign)), "L213")
    assert describe_edits(finding.edits) == fix
    assert f"`{fix}`" in finding.fix


@pytest.mark.parametrize(
    ("loss", "model"),
    [
        (subtracted, Coupling()),
        (added, Coupling(-1)),
        (negative_likelihood, Coupling()),
        (expansion_only, Coupling()),
        (added, Coupling(bias=0.1)),
        (added, Bottleneck()),
    ],
    ids=["subtracted", "added negative", "negative likelihood", "no density", "another term", "no inverse"],
)
def test_l213_other_losses_of_a_code_and_a_number_are_silent(loss: Loss, model: nn.Module) -> None:
    assert not rule_faults(flow_setup(loss, model), "L213")
