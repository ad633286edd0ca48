"""L215: padding that counts in the loss, in many hands, and losses that leave it out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup
from nbdebug.rules.loss.padding_in_loss import tagged_sentences, token_cross_entropy, word_cross_entropy
from nbdebug.setup import Setup


class ClassesSecond(nn.Module):
    """Gives (samples, classes, time), as torch's own cross-entropy takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = tagged_sentences()[0]

    def forward(self, tokens: Tensor) -> Tensor:
        return self.inner(tokens).transpose(1, 2)


def by_hand(output: Tensor, target: Tensor) -> Tensor:
    return -F.log_softmax(output, -1).gather(-1, target.unsqueeze(-1)).mean()


def halved(output: Tensor, target: Tensor) -> Tensor:
    return token_cross_entropy(output.bfloat16().float(), target)


def masked(output: Tensor, target: Tensor) -> Tensor:
    mask = (target != 0).float()
    return (F.cross_entropy(output.transpose(1, 2), target, reduction="none") * mask).sum() / mask.sum()


def build(loss_fn: Callable[..., Tensor], model: nn.Module | None = None, ignored: int = 0) -> Setup:
    """Sentences with padding, whose targets say ``ignored`` there."""
    plain, tokens, tags = tagged_sentences()
    return minimal_setup(model or plain, tokens, torch.where(tokens == 0, ignored, tags), loss_fn)


def without_padding() -> Setup:
    plain, tokens, tags = tagged_sentences()
    return minimal_setup(plain, tokens[:, :4], tags[:, :4], token_cross_entropy)


FAULTY = {
    "by hand": lambda: build(by_hand),
    "bfloat16": lambda: build(halved),
    "classes second": lambda: build(nn.CrossEntropyLoss(), ClassesSecond()),
    "another index ignored": lambda: build(nn.CrossEntropyLoss(ignore_index=-1), ClassesSecond()),
}
HEALTHY = {
    "classes second": lambda: build(nn.CrossEntropyLoss(ignore_index=0), ClassesSecond()),
    "targets of -100": lambda: build(token_cross_entropy, ignored=-100),
    "masked by hand": lambda: build(masked),
    "no padding": without_padding,
    "flat": lambda: build(word_cross_entropy),
}


@pytest.mark.parametrize("name", FAULTY)
def test_padding_that_counts_is_found(name: str) -> None:
    report = Debugger.of(FAULTY[name]()).checkup()
    assert report[0].code == "L215"
    assert "33% of the targets" in report[0].message


@pytest.mark.parametrize("name", HEALTHY)
def test_padding_that_does_not_count_is_left_alone(name: str) -> None:
    report = Debugger.of(HEALTHY[name]()).checkup()
    assert [str(one) for one in report.faults] == []
