"""Tests of the locations of M301: layers whose output is dropped, and layers that are never called."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings, setup_builder


class ShortcutBlock(nn.Module):
    """A layer, a shortcut and a selection of samples; one of the first two may be unused."""

    def __init__(self, unused: str) -> None:
        super().__init__()
        self.unused = unused
        self.body = nn.Linear(4, 4)
        self.shortcut = nn.Linear(4, 4)
        self.scores = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = self.shortcut(x)
        hidden = x.relu() if self.unused == "body" else self.body(x).relu()
        best = self.scores(x).topk(2, dim=0).indices
        hidden = hidden + 0.1 * x[best.flatten()].mean(0)
        return hidden if self.unused == "shortcut" else hidden + shortcut


CASES = [
    ("shortcut", "shortcut", "shortcut = self.shortcut(x)"),
    ("body", "body", "self.body = nn.Linear(4, 4)"),
    ("", "scores", "self.scores(x).topk"),
]


@pytest.mark.parametrize(("unused", "module", "line"), CASES)
def test_disconnected_parameter_of_unused_layer_points_to_its_line(unused: str, module: str, line: str) -> None:
    model = nn.Sequential(ShortcutBlock(unused), nn.Linear(4, 3))
    if unused:
        model[0].scores.requires_grad_(False)
    (finding,) = checkup_findings(setup_builder(model)(), "M301")
    assert finding.where.module == f"0.{module}"
    assert line in (finding.where.source or "")


class TwoReaders(nn.Module):
    """Reads a sequence twice; the state of the first reader may be lost."""

    def __init__(self, lost: str) -> None:
        super().__init__()
        self.lost = lost
        self.first, self.second = nn.GRU(4, 4, batch_first=True), nn.GRU(4, 4, batch_first=True)
        self.scores, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        steps = x[:, None]
        if self.lost == "scores":
            scores = self.scores(x)  # noqa: F841
            _, state = self.first(steps)
            return self.head(self.second(steps, state)[0][:, -1])
        _, state = self.first(steps)
        outputs, state = self.second(steps)
        return self.head(outputs[:, -1]) + self.scores(x)[:, :3]


@pytest.mark.parametrize(
    ("lost", "module", "fix"),
    [
        ("state", "first", "Pass state on, such as to the recurrent layer that continues from it."),
        ("scores", "scores", "Compute the loss from scores too, or remove scores."),
    ],
)
def test_disconnected_parameter_of_result_that_nothing_reads_says_so(lost: str, module: str, fix: str) -> None:
    (finding,) = checkup_findings(setup_builder(TwoReaders(lost))(), "M301")
    assert finding.where.module == module
    assert finding.cause == f"The result of {module} is stored in `{lost}`, and nothing reads it."
    assert finding.fix == fix


def test_disconnected_parameter_in_module_list_points_to_list() -> None:
    class PartialLoop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
            self.head = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers[:2]:
                x = torch.relu(layer(x))
            return self.head(x)

    (finding,) = checkup_findings(setup_builder(PartialLoop())(), "M301")
    assert finding.where.module == "layers.2"
    assert "self.layers = nn.ModuleList" in (finding.where.source or "")


def test_disconnected_parameter_under_no_grad_is_one_finding() -> None:
    class NoGradBody(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
            self.head = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                x = self.body(x)
            return self.head(x)

    (finding,) = checkup_findings(setup_builder(NoGradBody())(), "M301")
    assert "with torch.no_grad()" in (finding.where.source or "")
    assert len(finding.evidence["parameters"]) == 4


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"a": self.a(x), "b": self.b(x)}


def late_bound_loss(out: dict[str, Tensor], y: Tensor) -> Tensor:
    parts = [lambda: nn.functional.cross_entropy(out[key], y) for key in ("a", "b")]  # noqa: B023
    total: Tensor = sum(part() for part in parts) / 2  # type: ignore[assignment]
    return total


def loss_of_one_head(out: dict[str, Tensor], y: Tensor) -> Tensor:
    loss = nn.functional.cross_entropy(out["b"], y)
    return 2 * loss


@pytest.mark.parametrize(
    ("loss", "line", "cause"),
    [
        (late_bound_loss, "lambda: nn.functional.cross_entropy(out[key], y)", "2 times"),
        (loss_of_one_head, 'loss = nn.functional.cross_entropy(out["b"], y)', "only a part of the output"),
    ],
)
def test_disconnected_head_points_to_the_line_that_reads_the_output(
    loss: Callable[..., Tensor], line: str, cause: str
) -> None:
    x, y = torch.randn(32, 4), torch.arange(32) % 3
    setup = Setup(TwoHeads(), DataLoader(TensorDataset(x, y), batch_size=8), loss_fn=loss)
    (finding,) = checkup_findings(setup, "M301")
    assert line in (finding.where.source or "")
    assert cause in finding.cause
    if loss is late_bound_loss:
        assert "[lambda key=key: nn.functional.cross_entropy(out[key], y) for key in" in finding.fix
