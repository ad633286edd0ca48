"""A call that returns the same values for different inputs is explained by what it received and returned."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.rules.lost_values import explain_lost_values

VALUES = torch.linspace(0.1, 0.4, 8).view(4, 2)


class Function(nn.Module):
    """Applies a function to its input."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "cause", "fix"),
    [
        (torch.zeros_like, "zeros_like takes only the shape of its argument, not its values.", "the argument of zeros"),
        (lambda x: x * 0.0, "This line multiplies the values by zeros.", "Remove the factor of zeros"),
        (lambda x: x @ torch.zeros(2, 2), "This line multiplies the values by zeros.", "Remove the factor of zeros"),
        (lambda x: x.masked_fill(x > 0, 0.0), "The mask of masked_fill covers all values", "Invert the mask"),
        (
            lambda x: x[:, 0],
            "The indexing selects a part of its input that is the same in all samples",
            "last real step",
        ),
        (
            lambda x: torch.ones(9)[(10 * x[:, 0]).long()],
            "All rows that the indexing selects from have",
            "nn.Parameter",
        ),
        (lambda x: x[torch.arange(4), x.argmax(1)], "The indexing selects a part of its input", "last real step"),
        (lambda x: x[:, :1].softmax(1), "softmax runs over an axis of length 1, where it returns 1", "Remove softmax"),
        (lambda x: x.softmax(1), "softmax returns the same values for all samples", "leave it out"),
        (torch.round, "round returns whole numbers, and different inputs round to the same one.", "Leave out round."),
        (
            lambda x: x.long(),
            "long returns int64 values, and different inputs round",
            "selects rows, give it row numbers",
        ),
        (lambda x: (x + 300).half(), "half returns float16 values, and different inputs round", "Leave out half."),
        (lambda x: F.embedding(x.long(), torch.ones(9, 2)), "embedding returns the same values for all", "embedding"),
        (lambda x: x // 1, "floordiv returns whole numbers", "Divide by / in place of //."),
        (lambda x: x.argmax(1), "argmax finds the same position in all samples.", "the values that argmax receives"),
        (lambda x: x + 1e9, "The operands of the addition differ so much in size", "the same scale"),
        (
            lambda x: torch.relu(x - 1),
            "All inputs of relu lie between -0.9 and -0.6, where it returns 0.",
            "biases of 0",
        ),
        (lambda x: x.clamp(9, 10), "All inputs of clamp lie between 0.1 and 0.4, where it returns 9.", "Remove clamp"),
        (lambda x: torch.sigmoid(x + 99), "lie between 99.1 and 99.4, where it returns 1.", "Scale the inputs"),
    ],
)
def test_lost_values_are_explained_by_what_the_call_received(
    function: Callable[[Tensor], Tensor], cause: str, fix: str
) -> None:
    calls: list[TorchCall] = []
    model = Function(function)
    with record_calls(model, calls.append):
        model(VALUES)
    explanation = explain_lost_values(calls[-1])
    assert cause in explanation[0]
    assert fix in explanation[1]
