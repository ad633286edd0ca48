"""Tests of M301: a part that is never used is an error, or a note if the data select among the parts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

X, Y = points()
Usage = Callable[["LayerList", Tensor], Tensor]


class LayerList(nn.Module):
    """A list of four layers, which ``use`` applies."""

    def __init__(self, use: Usage) -> None:
        super().__init__()
        self.parts, self.head, self.use = nn.ModuleList(nn.Linear(4, 4) for _ in range(4)), nn.Linear(4, 3), use
        self.step = 0

    def forward(self, x: Tensor) -> Tensor:
        self.step += 1
        return self.head(self.use(self, x).relu())


def setup_of(use: Usage) -> Setup:
    return minimal_setup(LayerList(use), X, Y, nn.CrossEntropyLoss())


def route_rows(select: Callable[[Tensor, Tensor], Tensor]) -> Usage:
    """Route samples by the signs of two features to the first three parts, and none to the last."""

    def use(self: LayerList, x: Tensor) -> Tensor:
        routes = (x[:, 0] > 0).long() + (x[:, 1] > 0)
        outputs = torch.zeros(len(x), 4)
        h = torch.tanh(x * self.head.weight.sum())
        for number, part in enumerate(self.parts):
            rows = torch.nonzero(routes == number).squeeze(1)
            if len(rows):
                outputs = outputs.index_add(0, rows, part(select(h, rows)))
        return outputs

    return use


def route_by_mask(self: LayerList, x: Tensor) -> Tensor:
    routes, outputs, h = (x[:, 0] > 0).long(), [], torch.tanh(x * self.head.weight.sum())
    for number, part in enumerate(self.parts):
        if bool((routes == number).any()):
            outputs.append(part(h[routes == number]))
    return torch.cat(outputs)[routes.argsort(stable=True).argsort()]


def alternate(self: LayerList, x: Tensor) -> Tensor:
    return self.parts[self.step % 2](x)


UNSELECTED: dict[str, Usage] = {
    "by index": route_rows(lambda h, rows: h[rows]),
    "by index of a flat view": route_rows(lambda h, rows: h[None, rows].reshape(-1, 4)),
    "by index_select": route_rows(lambda h, rows: h.index_select(0, rows)),
    "by mask": route_by_mask,
    "alternating": alternate,
}


@pytest.mark.parametrize("name", UNSELECTED)
def test_disconnected_parameter_of_part_unselected_by_data_is_note(name: str) -> None:
    assert [finding.severity for finding in rule_findings(setup_of(UNSELECTED[name]), "M301")] == ["note"]


def all_but_last(self: LayerList, x: Tensor) -> Tensor:
    for part in self.parts[:-1]:
        x = part(x).relu()
    return x


def select_features(self: LayerList, x: Tensor) -> Tensor:
    h, order = torch.tanh(x * self.head.weight.sum()), torch.tensor([3, 2, 1, 0])
    return sum((part(h[:, order]) for part in list(self.parts)[:3]), torch.zeros(len(x), 4))


UNUSED: dict[str, Usage] = {
    "the last layer of a loop": all_but_last,
    "features selected for each part": select_features,
    "features by index_select": lambda self, x: self.parts[0](
        torch.tanh(x * self.head.weight.sum()).index_select(-1, torch.arange(4))
    ),
    "always the same part": lambda self, x: self.parts[0](x),
}


@pytest.mark.parametrize("name", UNUSED)
def test_disconnected_parameter_of_unused_part_is_error(name: str) -> None:
    assert [finding.severity for finding in rule_findings(setup_of(UNUSED[name]), "M301")] == ["error"]


def normalized_by_numpy(z: Tensor) -> Tensor:
    values = z.detach().numpy()
    return torch.from_numpy(values / np.linalg.norm(values, axis=1, keepdims=True))


def rebuilt_from_list(z: Tensor) -> Tensor:
    return torch.tensor(z.detach().tolist())


def read_as_array(z: Tensor) -> Tensor:
    return torch.from_numpy(np.tanh(np.asarray(z.data)))


@pytest.mark.parametrize(
    ("compute", "conversion"),
    [(normalized_by_numpy, "numpy"), (rebuilt_from_list, "tolist"), (read_as_array, "asarray")],
)
def test_disconnected_parameter_before_a_conversion_advises_to_compute_in_torch(
    compute: Callable[[Tensor], Tensor], conversion: str
) -> None:
    (finding,) = (
        f for f in rule_findings(setup_of(lambda m, x: compute(m.parts[0](x))), "M301") if "parts.0" in str(f)
    )
    assert f"{conversion}()" in finding.cause
    assert "Compute with torch" in finding.fix
    assert "remove" not in finding.fix


def detached_and_logged(z: Tensor) -> Tensor:
    hidden = z.detach()
    assert hidden.numpy() is not None
    return hidden * 2


@pytest.mark.parametrize(
    ("compute", "fix"),
    [(detached_and_logged, "hidden = z"), (lambda z: z.detach().tanh(), "Remove detach from this line.")],
)
def test_disconnected_parameter_before_a_detach_within_torch_advises_to_remove_it(
    compute: Callable[[Tensor], Tensor], fix: str
) -> None:
    (finding,) = (
        f for f in rule_findings(setup_of(lambda m, x: compute(m.parts[0](x))), "M301") if "parts.0" in str(f)
    )
    assert finding.fix == fix
