"""M301: a part that nothing reaches is an error, unless the data choose among the parts and did not choose it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

X, Y = points()
Choose = Callable[["Parts", Tensor], Tensor]


class Parts(nn.Module):
    """A list of four layers, used in some way."""

    def __init__(self, use: Choose) -> None:
        super().__init__()
        self.parts, self.head, self.use = nn.ModuleList(nn.Linear(4, 4) for _ in range(4)), nn.Linear(4, 3), use
        self.step = 0

    def forward(self, x: Tensor) -> Tensor:
        self.step += 1
        return self.head(self.use(self, x).relu())


def of(use: Choose) -> Setup:
    return minimal_setup(Parts(use), X, Y, nn.CrossEntropyLoss())


def routed(pick: Callable[[Tensor, Tensor], Tensor]) -> Choose:
    """Samples by the sign of two features to the first three parts; no sample is for the last."""

    def use(self: Parts, x: Tensor) -> Tensor:
        chosen = (x[:, 0] > 0).long() + (x[:, 1] > 0)
        made = torch.zeros(len(x), 4)
        h = torch.tanh(x * self.head.weight.sum())
        for number, part in enumerate(self.parts):
            rows = torch.nonzero(chosen == number).squeeze(1)
            if len(rows):
                made = made.index_add(0, rows, part(pick(h, rows)))
        return made

    return use


def masked(self: Parts, x: Tensor) -> Tensor:
    chosen, made, h = (x[:, 0] > 0).long(), [], torch.tanh(x * self.head.weight.sum())
    for number, part in enumerate(self.parts):
        if bool((chosen == number).any()):
            made.append(part(h[chosen == number]))
    return torch.cat(made)[chosen.argsort(stable=True).argsort()]


def in_turns(self: Parts, x: Tensor) -> Tensor:
    return self.parts[self.step % 2](x)


SPARED: dict[str, Choose] = {
    "by index": routed(lambda h, rows: h[rows]),
    "by index of a flat view": routed(lambda h, rows: h[None, rows].reshape(-1, 4)),
    "by index_select": routed(lambda h, rows: h.index_select(0, rows)),
    "by mask": masked,
    "in turns": in_turns,
}


@pytest.mark.parametrize("name", SPARED)
def test_a_part_that_was_not_chosen_is_a_note(name: str) -> None:
    assert [one.severity for one in rule_findings(of(SPARED[name]), "M301")] == ["note"]


def one_left_out(self: Parts, x: Tensor) -> Tensor:
    for part in self.parts[:-1]:
        x = part(x).relu()
    return x


def features(self: Parts, x: Tensor) -> Tensor:
    h, order = torch.tanh(x * self.head.weight.sum()), torch.tensor([3, 2, 1, 0])
    return sum((part(h[:, order]) for part in list(self.parts)[:3]), torch.zeros(len(x), 4))


FORGOTTEN: dict[str, Choose] = {
    "the last layer of a loop": one_left_out,
    "features picked for each": features,
    "features by index_select": lambda self, x: self.parts[0](
        torch.tanh(x * self.head.weight.sum()).index_select(-1, torch.arange(4))
    ),
    "always the same one": lambda self, x: self.parts[0](x),
}


@pytest.mark.parametrize("name", FORGOTTEN)
def test_a_part_that_is_never_used_is_an_error(name: str) -> None:
    assert [one.severity for one in rule_findings(of(FORGOTTEN[name]), "M301")] == ["error"]
