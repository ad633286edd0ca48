"""Tests of explanations whose batches contain the labels among the inputs, as in Hugging Face models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from nbdebug import Debugger
from nbdebug.tools.explain.page_state import sample_state


class ModelWithLoss(nn.Module):
    """A model that computes its own loss, like those of transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(20, 6), nn.Linear(6, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        mask = attention_mask[:, :, None].float()
        logits = self.head((self.words(input_ids) * mask).sum(1) / mask.sum(1))
        return {"logits": logits} if labels is None else {"loss": F.cross_entropy(logits, labels), "logits": logits}


@pytest.fixture
def debugger() -> Debugger:
    torch.manual_seed(0)
    ids = torch.randint(20, (24, 5))
    samples: list[dict[str, Any]] = [
        {"input_ids": ids[n], "attention_mask": torch.ones(5).long(), "labels": n % 3} for n in range(24)
    ]
    samples[4]["labels"] = -100
    loader: Any = DataLoader(samples, batch_size=8)  # type: ignore[arg-type]
    return Debugger(ModelWithLoss(), loader)


def test_sample_state_takes_truth_from_labels_in_inputs(debugger: Debugger) -> None:
    explanation = debugger.explain([7, 5])
    states = [sample_state(explanation, row) for row in (0, 1)]
    assert [state["truth"] for state in states] == [1, 2]
    assert [state["right"] for state in states] == [state["predicted"] == state["truth"] for state in states]
    assert "class 1" in str(explanation)
    assert explanation.path().truth == 1


def test_explain_with_true_target_uses_labels_in_inputs(debugger: Debugger) -> None:
    assert debugger.explain([7, 5], target="true").attribution.classes.tolist() == [1, 2]


def test_sample_state_has_no_truth_for_ignored_label(debugger: Debugger) -> None:
    state = sample_state(debugger.explain(4), 0)
    assert state["truth"] is None
    assert state["right"] is None
