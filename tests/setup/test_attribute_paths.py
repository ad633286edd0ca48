"""Tests of the expressions of members of a model."""

from __future__ import annotations

import pytest
from torch import nn

from nbdebug.setup.attribute_paths import member_code


@pytest.mark.parametrize("path", ["", "0", "1.weight", "2.0.bias"])
def test_code_of_a_member_returns_the_member(path: str) -> None:
    model = nn.Sequential(nn.ReLU(), nn.Linear(2, 2), nn.ModuleList([nn.Linear(2, 2)]))
    members = {**dict(model.named_modules()), **dict(model.named_parameters())}
    assert eval(member_code(path)) is members[path]
