"""Tests of EvalOutputs: outputs for changed batches."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.measurements import Measurements
from nbdebug.rule_engine.checkup import checkup
from nbdebug.rules.examples import minimal_setup

IMAGE_TOKEN = 11
TOKENS = torch.cat([torch.full((16, 1), IMAGE_TOKEN), torch.randint(0, IMAGE_TOKEN, (16, 5))], 1)


class ModelOfOneImage(nn.Module):
    """A model of texts that raises if a text has not one image token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(12, 8), nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        if bool(((tokens == IMAGE_TOKEN).sum(1) != 1).any()):
            raise ValueError("image features and image tokens do not match")
        scores: Tensor = self.head(self.embed(tokens).mean(1))
        return scores


def test_changed_batch_that_the_model_rejects_is_not_checked() -> None:
    setup = minimal_setup(ModelOfOneImage(), TOKENS, TOKENS[:, 1] % 3, nn.CrossEntropyLoss())
    outputs = Measurements(setup)["eval_outputs"]
    with pytest.raises(NotChecked, match="rejects a changed batch: image features and image tokens do not match"):
        outputs.predict(outputs.transform_inputs(torch.zeros_like))


def test_gradients_of_a_model_with_batch_normalization_are_checked() -> None:
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    x = torch.randn(64, 5, generator=torch.Generator().manual_seed(0))
    setup = minimal_setup(model, x, x[:, :3].argmax(1), nn.CrossEntropyLoss())
    report = checkup(setup, lambda _: None)
    assert {"G405", "G406", "G407", "G416"} <= report.checked_rules
