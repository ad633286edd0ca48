"""Tests of guess_batch: the split of a batch between model and loss."""

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
from torch.utils.data import DataLoader

from nbdebug.setup import Batch, Setup
from nbdebug.setup.unpacking import guess_batch
from nbdebug.tensors.pytree import describe_tensors

X, Y, LENGTHS = torch.randn(6, 4), torch.arange(6) % 3, torch.full((6,), 4)
Pair = namedtuple("Pair", ["inputs", "target"])


class OneInputModel(nn.Linear):
    """Takes one input."""

    def __init__(self) -> None:
        super().__init__(4, 3)


class TwoInputModel(OneInputModel):
    """Takes two inputs."""

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return super().forward(x)


class OptionalInputModel(OneInputModel):
    """Takes one input, and optionally a second."""

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        return super().forward(x)


class NamedInputModel(OneInputModel):
    """Takes inputs by name, as language models do."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None) -> Any:
        logits = super().forward(input_ids)
        return SimpleNamespace(logits=logits, loss=F.cross_entropy(logits, labels) if labels is not None else None)


@dataclass
class Example:
    inputs: Tensor
    label: Tensor


def weighted_cross_entropy(output: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    return (F.cross_entropy(output, target, reduction="none") * weight).mean()


@pytest.mark.parametrize("model_name", ["x", "features"])
def test_loss_receives_parts_of_batch_that_it_requires_by_name(model_name: str) -> None:
    batch = {model_name: X, "target": Y, "weight": torch.ones(len(Y))}
    samples = [{key: value[i] for key, value in batch.items()} for i in range(len(Y))]
    loader: DataLoader[Any] = DataLoader(samples, batch_size=3)  # type: ignore[arg-type]
    setup = Setup(OneInputModel(), loader, loss_fn=weighted_cross_entropy)
    _, loss = setup.output_and_loss(setup.split_batch(next(iter(loader))))
    assert loss.isfinite()


@pytest.mark.parametrize(
    "batch",
    [(X, Y), [X, Y], Pair(X, Y), {"x": X, "label": Y}, Example(X, Y), SimpleNamespace(inputs=X, y=Y)],
    ids=["tuple", "list", "named tuple", "mapping", "dataclass", "namespace"],
)
def test_guess_batch_of_pair_is_input_and_target(batch: Any) -> None:
    guess = guess_batch(batch, OneInputModel(), F.cross_entropy)
    assert guess.inputs is X
    assert guess.target is Y
    assert guess.size == 6


def test_guess_batch_passes_as_many_inputs_as_model_takes() -> None:
    guess = guess_batch((X, LENGTHS, Y), TwoInputModel(), nn.CrossEntropyLoss())
    assert guess.args == (X, LENGTHS)
    assert guess.targets == (Y,)


def test_guess_batch_passes_optional_input_if_present() -> None:
    assert guess_batch((X, LENGTHS, Y), OptionalInputModel(), F.cross_entropy).args == (X, LENGTHS)
    assert guess_batch((X, Y), OptionalInputModel(), F.cross_entropy).args == (X,)


def test_guess_batch_drops_tensors_that_nothing_takes() -> None:
    guess = guess_batch((X, Y, torch.arange(6)), OneInputModel(), F.cross_entropy)
    assert guess.args == (X,)
    assert guess.targets == (Y,)


def test_guess_batch_passes_as_many_targets_as_loss_takes() -> None:
    weight = torch.ones(6)
    assert guess_batch((X, Y, weight), OneInputModel(), weighted_cross_entropy).targets == (Y, weight)


def test_guess_batch_for_teacher_forcing_uses_last_tensor_twice() -> None:
    guess = guess_batch((X, Y), TwoInputModel(), F.cross_entropy)
    assert guess.args == (X, Y)
    assert guess.targets == (Y,)


def test_guess_batch_of_single_tensor_is_its_own_target() -> None:
    guess = guess_batch(X, OneInputModel(), F.mse_loss)
    assert guess.inputs is X
    assert guess.target is X
    assert guess_batch((X,), OneInputModel(), F.mse_loss).target is X


def test_guess_batch_of_mapping_passes_inputs_by_name() -> None:
    batch = {"input_ids": X, "attention_mask": LENGTHS, "labels": Y, "idx": Y}
    guess_with_loss = guess_batch(batch, NamedInputModel(), F.cross_entropy)
    assert set(guess_with_loss.kwargs) == {"input_ids", "attention_mask", "labels"}
    assert guess_with_loss.target is Y
    guess_without_loss = guess_batch(batch, NamedInputModel(), None)
    assert set(guess_without_loss.kwargs) == {"input_ids", "attention_mask", "labels"}
    assert guess_without_loss.targets == ()


class AnyNameModel(OneInputModel):
    """Passes all inputs on by name, as a wrapper does."""

    def forward(self, labels: Tensor | None = None, **inputs: Tensor) -> Tensor:
        return super().forward(inputs["input_ids"])


def test_guess_batch_of_mapping_passes_any_name_to_keyword_arguments() -> None:
    guess = guess_batch({"input_ids": X, "attention_mask": LENGTHS, "labels": Y}, AnyNameModel(), None)
    assert guess.kwargs.keys() == {"input_ids", "attention_mask", "labels"}


def test_size_of_batch_with_boxes_of_each_image_is_that_of_the_images() -> None:
    boxes = [{"boxes": torch.rand(1, 4), "class_labels": torch.ones(1)} for _ in range(6)]
    assert Batch((), {"pixel_values": torch.rand(6, 3, 8, 8), "labels": boxes}).size == 6


def test_guess_batch_of_hugging_face_batch_encoding_passes_inputs_by_name() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    batch = transformers.BatchEncoding({"input_ids": X, "labels": Y})
    guess = guess_batch(batch, NamedInputModel(), None)
    assert guess.kwargs["input_ids"] is X
    assert guess.size == 6


def test_guess_batch_of_object_passes_it_as_one_input() -> None:
    batch = SimpleNamespace(nodes=X, edges=LENGTHS, y=Y)
    guess = guess_batch(batch, OneInputModel(), F.cross_entropy)
    assert guess.inputs is batch
    assert guess.target is Y


def test_guess_batch_of_packed_sequence_is_one_input() -> None:
    packed = pack_sequence([torch.randn(3, 4), torch.randn(2, 4)])
    assert guess_batch((packed, Y[:2]), OneInputModel(), F.cross_entropy).inputs is packed


class WholeBatchModel(OneInputModel):
    """Takes the whole batch and reads its pixels."""

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return super().forward(batch["pixels"])


class TokenModel(nn.Module):
    """Averages the embeddings of tokens, and accepts a class index as well."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.embedding(tokens).flatten(1, -2).mean(1) if tokens.dim() > 1 else self.embedding(tokens)


TOKENS = torch.randint(0, 9, (6, 5))


@pytest.mark.parametrize(
    ("model", "parts", "input", "target"),
    [
        (OneInputModel(), {"pixels": X, "digit": Y}, X, Y),
        (OneInputModel(), {"number": Y, "pixels": X, "label": Y}, X, Y),
        (OneInputModel(), {"pixels": X, "color": Y, "kind": Y}, X, {"color": Y, "kind": Y}),
        (TokenModel(), {"words": TOKENS, "mood": Y}, TOKENS, Y),
        (WholeBatchModel(), {"pixels": X, "label": Y}, {"pixels": X}, Y),
    ],
    ids=["other name", "further parts", "several targets", "tokens", "whole batch"],
)
def test_split_batch_of_mapping_without_names_of_model_tries_its_parts(
    model: nn.Module, parts: dict[str, Tensor], input: Any, target: Any
) -> None:
    batch = Setup(model, [parts], loss_fn=lambda output, target: output.sum()).split_batch(parts)
    assert len(batch.args) == len(batch.targets) == 1
    for actual, expected in ((batch.args[0], input), (batch.targets[0], target)):
        assert describe_tensors(actual) == describe_tensors(expected)
        assert type(actual) is type(expected)


def test_split_batch_of_mapping_with_unclear_input_passes_whole_batch() -> None:
    parts = {"left": X, "right": X + 1, "label": Y}
    batch = Setup(OneInputModel(), [parts], loss_fn=nn.CrossEntropyLoss()).split_batch(parts)
    assert batch.args == (parts,)
