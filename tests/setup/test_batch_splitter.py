"""Tests of BatchSplitter, against Setup.split_batch."""

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


class OptionalMaskModel(nn.Module):
    """Takes an input and an optional mask."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.layer(x if mask is None else x * mask)


def make_x() -> Tensor:
    return torch.randn(5, 4)


def make_y() -> Tensor:
    return torch.randint(0, 3, (5,))


def make_shared_pair() -> Any:
    """Return one tensor twice."""
    tensor = make_x()
    return tensor, tensor


FORMS: dict[str, Callable[[], Any]] = {
    "pair": lambda: (make_x(), make_y()),
    "list": lambda: [make_x(), make_y()],
    "triple": lambda: (make_x(), torch.ones(5, 4), make_y()),
    "mapping": lambda: {"x": make_x(), "labels": make_y()},
    "mapping with a mask": lambda: {"labels": make_y(), "mask": torch.ones(5, 4), "x": make_x()},
    "mapping with an unused key": lambda: {"x": make_x(), "labels": make_y(), "index": torch.arange(5)},
    "tensor": make_x,
    "named tuple": lambda: Pair(make_x(), make_y()),
    "nested": lambda: ((make_x(), torch.ones(5, 4)), make_y()),
    "with a text": lambda: {"x": make_x(), "labels": make_y(), "name": "a"},
    "shared": make_shared_pair,
    "empty": lambda: (),
}


def is_same_split(actual: Batch, expected: Batch) -> bool:
    """Check that two batches hold identical tensors in the same places."""
    actual_ids, expected_ids = (
        [[id(tensor) for tensor in tree_tensors(tree)] for tree in (batch.args, batch.kwargs, batch.targets)]
        for batch in (actual, expected)
    )
    return list(actual.kwargs) == list(expected.kwargs) and actual_ids == expected_ids


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss_fn", [nn.CrossEntropyLoss(), None])
def test_batch_splitter_equals_setup(form: str, loss_fn: Any) -> None:
    setup = Setup(OptionalMaskModel(), [], loss_fn=loss_fn)
    split = BatchSplitter(setup)
    for raw in (FORMS[form]() for _ in range(3)):
        assert is_same_split(split(raw), setup.split_batch(raw))
        assert split(raw).raw is raw


def test_batch_splitter_with_changing_forms_equals_setup() -> None:
    setup = Setup(OptionalMaskModel(), [], loss_fn=nn.CrossEntropyLoss())
    split = BatchSplitter(setup)
    for form in [*FORMS, *FORMS]:
        raw = FORMS[form]()
        assert is_same_split(split(raw), setup.split_batch(raw))


def test_batch_splitter_calls_custom_unpack_for_every_batch() -> None:
    calls: list[Any] = []

    def unpack(batch: Any) -> Any:
        calls.append(batch)
        return batch[1], batch[0]

    split = BatchSplitter(Setup(OptionalMaskModel(), [], loss_fn=nn.CrossEntropyLoss(), unpack=unpack))
    batches = [(make_y(), make_x()) for _ in range(3)]
    assert [split(pair).args[0] is pair[1] for pair in batches] == [True] * 3
    assert calls == batches


def test_batch_splitter_moves_tensors_to_its_device() -> None:
    setup = Setup(OptionalMaskModel(), [], loss_fn=nn.CrossEntropyLoss())
    split = BatchSplitter(setup)
    split((make_x(), make_y()))
    split.device = torch.device("meta")
    batch = split((make_x(), make_y()))
    assert {tensor.device.type for tensor in tree_tensors((batch.args, batch.targets))} == {"meta"}
