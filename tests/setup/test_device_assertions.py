"""Tests that the conditions of a device's assertions are those under which the CPU raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from nbdebug.setup.device_assertions import (
    is_accepted,
    refuse_ctc_labels_out_of_range,
    refuse_device_assertions,
    with_labels_of_user,
)

original_ctc_loss = torch.ctc_loss
SCORES = torch.arange(12.0).view(4, 3)


def index(*values: int) -> Tensor:
    return torch.tensor(values)


class Judge(TorchDispatchMode):
    """Records whether all calls have accepted values."""

    def __init__(self) -> None:
        super().__init__()
        self.accepts = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.accepts = self.accepts and is_accepted(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


# Each call is made with a value that it accepts, and with one that it does not.
CALLS: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "embedding": (lambda i: F.embedding(index(0, i), torch.ones(5, 2)), 4, 5),
    "negative token": (lambda i: F.embedding(index(0, i), torch.ones(5, 2)), 0, -1),
    "embedding bag": (lambda i: F.embedding_bag(index(0, i)[None], torch.ones(5, 2)), 4, 5),
    "cross-entropy": (lambda i: F.cross_entropy(SCORES, index(0, 1, -100, i)), 2, 3),
    "pixel classes": (lambda i: F.cross_entropy(torch.ones(2, 3, 4), torch.full((2, 4), i)), 2, -1),
    "nll loss": (lambda i: F.nll_loss(SCORES, index(0, 1, 2, i)), 0, 3),
    "margin loss": (lambda i: F.multi_margin_loss(SCORES, index(0, 1, 2, i)), 2, 3),
    "probability": (lambda p: F.binary_cross_entropy(torch.tensor([0.1, p]), torch.ones(2)), 1.0, 1.1),
    "no number": (
        lambda p: F.binary_cross_entropy(torch.tensor([p]), torch.ones(1)),
        0.5,
        float("nan"),
    ),
    "rows": (lambda i: SCORES[index(0, i)], -4, 4),
    "columns": (lambda i: SCORES[:, index(0, i)], -3, -4),
    "write": (lambda i: SCORES.clone().__setitem__(index(0, i), 0.0), 3, 4),
    "gather": (lambda i: SCORES.gather(1, index(0, i)[None]), 2, 3),
    "select": (lambda i: SCORES.index_select(0, index(i)), 3, 4),
    "add": (lambda i: SCORES.index_add(0, index(i), torch.ones(1, 3)), 3, 4),
    "scatter": (lambda i: torch.zeros(4, 3).scatter_(1, index(i)[None], 1.0), 2, 3),
    "scatter and reduce": (lambda i: torch.zeros(4, 3).scatter_reduce(1, index(i)[None], SCORES, "sum"), 2, 3),
    "take": (lambda i: SCORES.take(index(i)), -12, 12),
    "draw": (lambda p: torch.multinomial(torch.tensor([0.5, p]), 1), 0.5, float("nan")),
    "flip": (lambda p: torch.bernoulli(torch.tensor([0.5, p])), 1.0, 1.5),
}


@pytest.mark.parametrize("name", CALLS)
def test_call_is_refused_where_the_cpu_raises(name: str) -> None:
    call, accepted, refused = CALLS[name]
    with Judge() as judge:
        call(accepted)
    assert judge.accepts
    with Judge() as judge, pytest.raises((IndexError, RuntimeError)):
        call(refused)
    assert not judge.accepts


def test_masks_and_calls_without_conditions_are_accepted() -> None:
    with Judge() as judge:
        SCORES[SCORES > 2]
        F.dropout(SCORES, 0.5)
        torch.bernoulli(SCORES, p=0.5)
    assert judge.accepts


def test_cpu_needs_no_checks() -> None:
    with refuse_device_assertions(torch.device("cpu")) as guard:
        assert guard is None


def ctc(labels: Tensor, lengths: Tensor) -> Tensor:
    outputs = torch.zeros(9, 2, 4).log_softmax(-1)
    return F.ctc_loss(outputs, labels, index(9, 9), lengths)


@pytest.mark.parametrize("label", [-1, 4, 1_000_000])
def test_ctc_label_without_output_is_refused(label: int) -> None:
    rows = torch.tensor([[1, label], [2, 3]])
    with refuse_ctc_labels_out_of_range():
        with pytest.raises(IndexError, match=f"Target {label} is out of bounds"):
            ctc(rows, index(2, 2))
        with pytest.raises(IndexError, match=f"Target {label} is out of bounds"):
            ctc(rows.flatten(), index(2, 2))
        assert ctc(rows, index(1, 2)).isfinite()  # the label is padding
        assert ctc(torch.empty(0, dtype=torch.long), index(0, 0)).isfinite()
    assert torch.ctc_loss is original_ctc_loss


def test_ctc_labels_of_the_user_are_accepted() -> None:
    with with_labels_of_user(), refuse_ctc_labels_out_of_range():
        assert torch.ctc_loss is original_ctc_loss
