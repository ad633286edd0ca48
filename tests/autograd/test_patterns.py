"""Tests of patterns in the graph, and of remove_calls."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nbdebug.autograd import Pattern
from nbdebug.autograd.patterns import remove_calls
from nbdebug.autograd.tracing import trace_forward

_CLAMPED_LOGITS = Pattern(frozenset({"Clamp"}), frozenset({"LogSoftmax"}))


@pytest.mark.parametrize(
    ("join", "has_match"),
    [
        (lambda logits, other: torch.stack([logits, other], 2).unbind(2)[0], True),
        (lambda logits, other: torch.stack([other, logits], 2).unbind(2)[0], False),
        (lambda logits, other: torch.cat([other, logits], 1)[:, 4:], True),
        (lambda logits, other: torch.cat([other, logits], 1)[:, :4], False),
        (lambda logits, other: torch.cat([other, logits], 1), True),
        (lambda logits, other: torch.stack([other, logits])[0].clone(), False),
        (lambda logits, other: torch.cat([other, logits], 1).split(4, 1)[1].relu(), False),  # no longer unchanged
    ],
)
def test_pattern_follows_the_part_of_a_join_that_is_read(
    join: Callable[[Tensor, Tensor], Tensor], has_match: bool
) -> None:
    scores = torch.randn(3, 4, requires_grad=True)
    with trace_forward(torch.nn.Identity()) as trace:
        loss = join((scores * 2).clamp(-1, 1), scores * 3).log_softmax(1).sum()
    assert any(_CLAMPED_LOGITS.find_matches(trace.get_graph(loss))) == has_match


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("        return F.softmax(x, dim=1)", "return x"),
        ("return self.head(x).softmax(1)", "return self.head(x)"),
        ("y = torch.nn.functional.softmax(self.fc(x), -1) * 2", "y = self.fc(x) * 2"),
        ("return torch.softmax(input=x, dim=1)", None),
        ("return x", None),
        ("if x:", None),
    ],
)
def test_remove_calls_returns_line_without_the_call(line: str, expected: str | None) -> None:
    assert remove_calls(line, {"softmax"}) == expected
