"""Tests of remove_calls."""

from __future__ import annotations

import pytest

from nbdebug.autograd.patterns import remove_calls


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
