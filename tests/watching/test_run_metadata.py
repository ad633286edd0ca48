"""Tests of the metadata of a run."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from torch import nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.watching.step_recorder import describe_setup

LOSSES: dict[str, Any] = {
    "CrossEntropyLoss": nn.CrossEntropyLoss(),
    "cross_entropy": partial(partial(F.cross_entropy, label_smoothing=0.1), reduction="mean"),
    "": None,
}


@pytest.mark.parametrize("name", LOSSES)
def test_loss_has_the_name_of_its_function_or_class(name: str) -> None:
    x, y = points()
    assert describe_setup(minimal_setup(network(3), x, y, LOSSES[name]))["loss"] == name
