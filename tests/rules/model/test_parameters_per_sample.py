"""M319: more parameters than the data can pin down, and what holds them back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import points

X, Y = points()


class Noisy(Dataset[Any]):
    """Points that are drawn a little differently each time."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return X[index] + 0.01 * torch.randn(4), Y[index]


def wide(*inside: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 3000), nn.ReLU(), *inside, nn.Linear(3000, 3))


def found(model: nn.Module, data: Any = None, decay: float = 0.0, **given: Any) -> list[Finding]:
    loader = DataLoader(data or list(zip(X, Y, strict=True)), batch_size=16)
    optimizer = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), lr=0.1, weight_decay=decay)
    debugger = Debugger(model, given.get("loader", loader), loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    return [one for one in debugger.checkup(select=["M319"]) if one.code == "M319"]


def test_a_wide_network_on_few_points_is_a_note() -> None:
    (one,) = found(wide())
    assert one.severity == "note"
    assert "24,003 trainable parameters for 64 targets. 132 parameters can fit any labels" in one.message


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (wide(), {"decay": 0.01}),
        (wide(nn.Dropout(0.5)), {}),
        (wide(), {"data": Noisy()}),
        (nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)), {}),
    ],
)
def test_what_holds_them_back(model: nn.Module, given: dict[str, Any]) -> None:
    assert not found(model, **given)


def test_frozen_parameters_do_not_count() -> None:
    model = wide()
    model[0].requires_grad_(False)
    assert not found(model)


def test_a_stream_of_unknown_length_is_not_judged() -> None:
    assert not found(wide(), loader=((X[:16], Y[:16]) for _ in range(9)))
