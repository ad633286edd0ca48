"""Tests of M319: more parameters than the data can determine, and what regularizes them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import points
from tests.rules.rule_findings import rule_findings

X, Y = points()


class NoisyPoints(Dataset[Any]):
    """Points with new noise at every access."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return X[index] + 0.01 * torch.randn(4), Y[index]


def wide_network(*hidden_layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 3000), nn.ReLU(), *hidden_layers, nn.Linear(3000, 3))


def findings(model: nn.Module, data: Any = None, decay: float = 0.0, loader: Any = None) -> list[Finding]:
    if loader is None:
        loader = DataLoader(data or list(zip(X, Y, strict=True)), batch_size=16)
    optimizer = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), lr=0.1, weight_decay=decay)
    return rule_findings(Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer).setup, "M319")


def test_parameters_per_sample_of_wide_network_on_few_points_is_note() -> None:
    (finding,) = findings(wide_network())
    assert finding.severity == "note"
    assert "24,003 trainable parameters for 64 targets. 132 parameters can fit any labels" in finding.message


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (wide_network(), {"decay": 0.01}),
        (wide_network(nn.Dropout(0.5)), {}),
        (wide_network(), {"data": NoisyPoints()}),
        (nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)), {}),
    ],
    ids=["weight decay", "dropout", "augmentation", "small network"],
)
def test_parameters_per_sample_ignores_regularized_and_small_networks(
    model: nn.Module, options: dict[str, Any]
) -> None:
    assert not findings(model, **options)


def test_parameters_per_sample_excludes_frozen_parameters() -> None:
    model = wide_network()
    model[0].requires_grad_(False)
    assert not findings(model)


def test_parameters_per_sample_skips_stream_of_unknown_length() -> None:
    assert not findings(wide_network(), loader=((X[:16], Y[:16]) for _ in range(9)))
