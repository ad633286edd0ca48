"""How a batch is split between model and loss."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_sequence

from nbdebug.setup.unpacking import guess_batch

X, Y, LENGTHS = torch.randn(6, 4), torch.arange(6) % 3, torch.full((6,), 4)
Pair = namedtuple("Pair", ["inputs", "target"])


class One(nn.Linear):
    """Takes one input."""

    def __init__(self) -> None:
        super().__init__(4, 3)


class Two(One):
    """Takes two."""

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return super().forward(x)


class Optional(One):
    """Takes one, and a second if there is one."""

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        return super().forward(x)


class Named(One):
    """Takes inputs by their names, as language models do."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None) -> Any:
        logits = super().forward(input_ids)
        return SimpleNamespace(logits=logits, loss=F.cross_entropy(logits, labels) if labels is not None else None)


@dataclass
class Example:
    inputs: Tensor
    label: Tensor


def two_targets(output: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    return (F.cross_entropy(output, target, reduction="none") * weight).mean()


@pytest.mark.parametrize(
    "batch", [(X, Y), [X, Y], Pair(X, Y), {"x": X, "label": Y}, Example(X, Y), SimpleNamespace(inputs=X, y=Y)]
)
def test_one_input_and_one_target(batch: Any) -> None:
    found = guess_batch(batch, One(), F.cross_entropy)
    assert found.inputs is X
    assert found.target is Y
    assert found.size == 6


def test_as_many_inputs_as_the_model_takes() -> None:
    found = guess_batch((X, LENGTHS, Y), Two(), nn.CrossEntropyLoss())
    assert found.args == (X, LENGTHS)
    assert found.targets == (Y,)


def test_an_optional_input_is_given_when_it_is_there() -> None:
    assert guess_batch((X, LENGTHS, Y), Optional(), F.cross_entropy).args == (X, LENGTHS)
    assert guess_batch((X, Y), Optional(), F.cross_entropy).args == (X,)


def test_what_neither_takes_is_left_out() -> None:
    found = guess_batch((X, Y, torch.arange(6)), One(), F.cross_entropy)
    assert found.args == (X,)
    assert found.targets == (Y,)


def test_as_many_targets_as_the_loss_takes() -> None:
    weight = torch.ones(6)
    assert guess_batch((X, Y, weight), One(), two_targets).targets == (Y, weight)


def test_teacher_forcing_uses_the_last_part_twice() -> None:
    found = guess_batch((X, Y), Two(), F.cross_entropy)
    assert found.args == (X, Y)
    assert found.targets == (Y,)


def test_a_single_tensor_is_its_own_target() -> None:
    found = guess_batch(X, One(), F.mse_loss)
    assert found.inputs is X
    assert found.target is X
    assert guess_batch((X,), One(), F.mse_loss).target is X


def test_names_that_the_model_takes_go_by_name() -> None:
    batch = {"input_ids": X, "attention_mask": LENGTHS, "labels": Y, "idx": Y}
    with_loss = guess_batch(batch, Named(), F.cross_entropy)
    assert set(with_loss.kwargs) == {"input_ids", "attention_mask", "labels"}
    assert with_loss.target is Y
    own_loss = guess_batch(batch, Named(), None)
    assert set(own_loss.kwargs) == {"input_ids", "attention_mask", "labels"}
    assert own_loss.targets == ()


def test_a_batch_encoding_of_hugging_face() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    batch = transformers.BatchEncoding({"input_ids": X, "labels": Y})
    found = guess_batch(batch, Named(), None)
    assert found.kwargs["input_ids"] is X
    assert found.size == 6


def test_an_object_goes_in_whole_where_the_model_takes_it_whole() -> None:
    batch = SimpleNamespace(nodes=X, edges=LENGTHS, y=Y)
    found = guess_batch(batch, One(), F.cross_entropy)
    assert found.inputs is batch
    assert found.target is Y


def test_a_packed_sequence_is_one_input() -> None:
    packed = pack_sequence([torch.randn(3, 4), torch.randn(2, 4)])
    assert guess_batch((packed, Y[:2]), One(), F.cross_entropy).inputs is packed
