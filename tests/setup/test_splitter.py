"""A splitter gives what the set-up gives, for the first batch of a form and for those after it."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nbdebug.setup import Batch, Setup
from nbdebug.setup.batch_splitter import BatchSplitter
from nbdebug.tensors.pytree import tree_tensors

Pair = namedtuple("Pair", ["x", "y"])


class Two(nn.Module):
    """Takes two inputs by name."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.layer(x if mask is None else x * mask)


def x() -> Tensor:
    return torch.randn(5, 4)


def y() -> Tensor:
    return torch.randint(0, 3, (5,))


def shared() -> Any:
    """One tensor in two places."""
    one = x()
    return one, one


FORMS: dict[str, Callable[[], Any]] = {
    "pair": lambda: (x(), y()),
    "list": lambda: [x(), y()],
    "triple": lambda: (x(), torch.ones(5, 4), y()),
    "mapping": lambda: {"x": x(), "labels": y()},
    "mapping with a mask": lambda: {"labels": y(), "mask": torch.ones(5, 4), "x": x()},
    "more than is taken": lambda: {"x": x(), "labels": y(), "index": torch.arange(5)},
    "tensor": x,
    "named tuple": lambda: Pair(x(), y()),
    "nested": lambda: ((x(), torch.ones(5, 4)), y()),
    "with a text": lambda: {"x": x(), "labels": y(), "name": "a"},
    "shared": shared,
    "empty": lambda: (),
}


def same(one: Batch, other: Batch) -> bool:
    """Whether two batches have the very same tensors in the same places."""
    places = [(one.args, other.args), (one.kwargs, other.kwargs), (one.targets, other.targets)]
    pairs = [(tree_tensors(a), tree_tensors(b)) for a, b in places]
    return list(one.kwargs) == list(other.kwargs) and all(list(map(id, a)) == list(map(id, b)) for a, b in pairs)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss_fn", [nn.CrossEntropyLoss(), None])
def test_every_batch_is_split_as_the_set_up_splits_it(form: str, loss_fn: Any) -> None:
    setup = Setup(Two(), [], loss_fn=loss_fn)
    split = BatchSplitter(setup)
    for raw in (FORMS[form]() for _ in range(3)):
        assert same(split(raw), setup.split_batch(raw))
        assert split(raw).raw is raw


def test_forms_may_change_on_the_way() -> None:
    setup = Setup(Two(), [], loss_fn=nn.CrossEntropyLoss())
    split = BatchSplitter(setup)
    for form in [*FORMS, *FORMS]:
        raw = FORMS[form]()
        assert same(split(raw), setup.split_batch(raw))


def test_an_unpack_of_the_users_own_is_always_asked() -> None:
    asked: list[Any] = []

    def unpack(batch: Any) -> Any:
        asked.append(batch)
        return batch[1], batch[0]

    split = BatchSplitter(Setup(Two(), [], loss_fn=nn.CrossEntropyLoss(), unpack=unpack))
    raw = [(y(), x()) for _ in range(3)]
    assert [split(one).args[0] is one[1] for one in raw] == [True] * 3
    assert asked == raw


def test_parts_are_moved_to_the_device() -> None:
    setup = Setup(Two(), [], loss_fn=nn.CrossEntropyLoss())
    split = BatchSplitter(setup)
    split((x(), y()))
    split.device = torch.device("meta")
    batch = split((x(), y()))
    assert {one.device.type for one in tree_tensors((batch.args, batch.targets))} == {"meta"}
