"""D126 in many styles, and targets that repeat the input for a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.data.targets_not_shifted import RecurrentLanguageModel, token_cross_entropy
from nbdebug.rules.examples import minimal_setup
from nbdebug.rules.model.future_leak import AttentionLanguageModel
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings

TOKENS = torch.randint(1, 11, (64, 10), generator=torch.Generator().manual_seed(1))
WAVES = torch.randn(64, 10, 4, generator=torch.Generator().manual_seed(2))


class WithLabels(nn.Module):
    """Computes its loss itself, shifting the labels."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = RecurrentLanguageModel()

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.inner(input_ids)
        return {"logits": logits, "loss": shifted(logits, labels)}


class WithLabel(WithLabels):
    """The same, with another name of the argument."""

    def forward(self, input_ids: Tensor, label: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        return super().forward(input_ids, label)


class Decoder(nn.Module):
    """A language model that puts a start before its input and leaves the last token out."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = RecurrentLanguageModel()

    def forward(self, tokens: Tensor) -> Tensor:
        return self.inner(torch.cat([torch.zeros_like(tokens[:, :1]), tokens[:, :-1]], 1))


class Forecaster(nn.Module):
    """Real values from real values, from left to right."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.GRU(4, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)[0]


def shifted(logits: Tensor, labels: Tensor) -> Tensor:
    return token_cross_entropy(logits[:, :-1], labels[:, 1:])


def text(
    x: Tensor, y: Tensor, loss_fn: Any = token_cross_entropy, model: nn.Module | None = None
) -> Callable[[], Setup]:
    return lambda: minimal_setup(model or RecurrentLanguageModel(), x, y, loss_fn)


def named(x: Tensor, labels: Tensor, name: str = "labels") -> Callable[[], Setup]:
    batches = [{"input_ids": x[i : i + 16], name: labels[i : i + 16]} for i in range(0, 64, 16)]
    return lambda: Setup(WithLabels() if name == "labels" else WithLabel(), batches)


def padded() -> Tensor:
    tokens = TOKENS.clone()
    tokens[:, 7:] = -100
    return tokens


FAULTS: dict[str, tuple[Callable[[], Setup], int, int]] = {
    "not shifted": (text(TOKENS, TOKENS.clone()), 0, 0),
    "not shifted, masked attention": (text(TOKENS, TOKENS.clone(), model=AttentionLanguageModel(True)), 0, 0),
    "in data and in loss": (text(TOKENS[:, :-1], TOKENS[:, 1:], shifted), 1, 1),
    "in data and in the model": (named(TOKENS[:, :-1], TOKENS[:, 1:]), 1, 1),
    "in data and in the model, as label=": (named(TOKENS[:, :-1], TOKENS[:, 1:], "label"), 1, 1),
    "twice in the data": (text(TOKENS[:, :-2], TOKENS[:, 2:]), 2, 0),
    "padded": (text(TOKENS, padded()), 0, 0),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_shift_is_found(name: str) -> None:
    build, in_data, in_loss = FAULTS[name]
    (found,) = checkup_findings(build(), "D126")
    assert (found.severity, found.evidence["in_data"], found.evidence["in_loss"]) == ("error", in_data, in_loss)


QUIET: dict[str, Callable[[], Setup]] = {
    "shifted by the model": text(TOKENS, TOKENS, model=Decoder()),
    "shifted in the data": text(TOKENS[:, :-1], TOKENS[:, 1:]),
    "shifted in the loss": text(TOKENS, TOKENS.clone(), shifted),
    "shifted in the model": named(TOKENS, TOKENS.clone()),
    "shifted in the model, as label=": named(TOKENS, TOKENS.clone(), "label"),
    "autoencoder": text(TOKENS, TOKENS.clone(), model=AttentionLanguageModel(False)),
    "tags": text(TOKENS, (TOKENS * 3) % 11),
    "two steps of a forecast": text(WAVES[:, :-2], WAVES[:, 2:], nn.MSELoss(), Forecaster()),
}


@pytest.mark.parametrize("name", QUIET)
def test_right_targets_are_left_alone(name: str) -> None:
    assert checkup_findings(QUIET[name](), "D126") == []
