"""Tests of custom losses on the outputs of models that return their own loss."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nbdebug.setup import Setup

BATCH = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3


class ModelWithLoss(nn.Module):
    """Returns its loss and its logits in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        logits = self.layer(x)
        return {"loss": logits.square().mean(), "logits": logits}


def loss_of_logits(logits: Tensor, targets: Tensor) -> Tensor:
    return -logits.log_softmax(1)[torch.arange(len(targets)), targets].mean()


def loss_of_output(output: dict[str, Tensor], targets: Tensor) -> Tensor:
    return output["loss"] + loss_of_logits(output["logits"], targets)


def compute(loss_fn: Any) -> Tensor:
    setup = Setup(ModelWithLoss(), [BATCH], loss_fn=loss_fn)
    first, second = (setup.output_and_loss(setup.split_batch(BATCH))[1] for _ in range(2))
    assert torch.equal(first, second)
    return first


def test_custom_loss_gets_the_output_or_the_logits_if_it_cannot_take_the_output() -> None:
    output = ModelWithLoss()(BATCH[0])
    assert torch.equal(compute(loss_of_logits), loss_of_logits(output["logits"], BATCH[1]))
    assert torch.equal(compute(loss_of_output), loss_of_output(output, BATCH[1]))


def test_loss_that_takes_neither_raises_its_error_on_the_output() -> None:
    def loss_of_scores(output: Any, targets: Tensor) -> Tensor:
        return output.scores[targets].mean()

    with pytest.raises(AttributeError, match="'dict' object has no attribute 'scores'"):
        compute(loss_of_scores)
