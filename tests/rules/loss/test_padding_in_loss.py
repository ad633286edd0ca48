"""Tests of L215: padding that counts in the loss, and losses that ignore it, in several coding styles."""

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


class ClassesOnSecondAxis(nn.Module):
    """Returns (samples, classes, time), as ``torch.nn.CrossEntropyLoss`` expects it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = tagged_sentences()[0]

    def forward(self, tokens: Tensor) -> Tensor:
        return self.inner(tokens).transpose(1, 2)


def manual_nll(output: Tensor, target: Tensor) -> Tensor:
    return -F.log_softmax(output, -1).gather(-1, target.unsqueeze(-1)).mean()


def bfloat16_loss(output: Tensor, target: Tensor) -> Tensor:
    return token_cross_entropy(output.bfloat16().float(), target)


def masked_loss(output: Tensor, target: Tensor) -> Tensor:
    mask = (target != 0).float()
    return (F.cross_entropy(output.transpose(1, 2), target, reduction="none") * mask).sum() / mask.sum()


def padded_setup(loss_fn: Callable[..., Tensor], model: nn.Module | None = None, padding_target: int = 0) -> Setup:
    """Return a setup of padded sentences whose targets are ``padding_target`` at the padding."""
    default_model, tokens, tags = tagged_sentences()
    return minimal_setup(model or default_model, tokens, torch.where(tokens == 0, padding_target, tags), loss_fn)


def unpadded_setup() -> Setup:
    default_model, tokens, tags = tagged_sentences()
    return minimal_setup(default_model, tokens[:, :4], tags[:, :4], token_cross_entropy)


FAULTY = {
    "manual nll": lambda: padded_setup(manual_nll),
    "bfloat16": lambda: padded_setup(bfloat16_loss),
    "classes on second axis": lambda: padded_setup(nn.CrossEntropyLoss(), ClassesOnSecondAxis()),
    "another index ignored": lambda: padded_setup(nn.CrossEntropyLoss(ignore_index=-1), ClassesOnSecondAxis()),
}
HEALTHY = {
    "classes on second axis": lambda: padded_setup(nn.CrossEntropyLoss(ignore_index=0), ClassesOnSecondAxis()),
    "targets of -100": lambda: padded_setup(token_cross_entropy, padding_target=-100),
    "manual mask": lambda: padded_setup(masked_loss),
    "no padding": unpadded_setup,
    "flat targets": lambda: padded_setup(word_cross_entropy),
}


@pytest.mark.parametrize("name", FAULTY)
def test_padding_in_loss_of_counted_padding_ranks_first_with_its_share(name: str) -> None:
    report = Debugger.of(FAULTY[name]()).checkup()
    assert report[0].code == "L215"
    assert "33% of the targets" in report[0].message


@pytest.mark.parametrize("name", HEALTHY)
def test_padding_in_loss_of_ignored_padding_has_no_faults(name: str) -> None:
    report = Debugger.of(HEALTHY[name]()).checkup()
    assert [str(finding) for finding in report.faults] == []
