"""D101 of a loss that indexes by hand: -1 is taken for the last class; labels that are only compared are left alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network, points


def by_hand(logits: Tensor, y: Tensor) -> Tensor:
    return -logits.log_softmax(1)[torch.arange(len(y)), y].mean()


def masked(logits: Tensor, y: Tensor) -> Tensor:
    return -logits.log_softmax(1)[torch.arange(len(y)), y][y >= 0].mean()


def contrastive(vectors: Tensor, y: Tensor) -> Tensor:
    same = (y[:, None] == y[None]).float()
    return ((vectors @ vectors.t()).sigmoid() - same).square().mean()


@pytest.mark.parametrize(("loss", "said"), [(by_hand, True), (masked, False), (contrastive, False)])
def test_labels_of_minus_one(loss: Callable[[Tensor, Tensor], Tensor], said: bool) -> None:
    x, y = points(2)
    setup = minimal_setup(network(2), x, 2 * y - 1, loss)
    report = Debugger.of(setup).checkup(select=["D101"])
    assert [one.evidence["labels"] for one in report] == [[-1]] * said
