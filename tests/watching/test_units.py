"""Units that are silent in all of the last looks."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

from nbdebug.tensors.unit_activity import DEAD_UNIT_WINDOW, DeadUnits, saturation_bounds


def test_dead_are_the_units_that_were_zero_in_all_of_the_last_looks() -> None:
    random, silence = np.random.default_rng(0), DeadUnits()
    looks = random.random((4 * DEAD_UNIT_WINDOW, 50)) < np.linspace(0, 0.3, 50)
    for i, live in enumerate(looks):
        recent = looks[max(0, i - DEAD_UNIT_WINDOW + 1) : i + 1]
        assert silence.dead_share("relu", live) == pytest.approx(1 - recent.any(0).mean())


def test_a_place_with_another_number_of_units_begins_anew() -> None:
    silence = DeadUnits()
    assert silence.dead_share("relu", np.ones(4, bool)) == 0
    assert silence.dead_share("other", np.zeros(4, bool)) == 1
    assert silence.dead_share("relu", np.zeros(6, bool)) == 1
    assert silence.dead_share("relu", np.arange(6) < 3) == 0.5


def test_a_kind_made_from_a_bounded_one_has_its_ends() -> None:
    class Gate(nn.Sigmoid): ...

    assert saturation_bounds(Gate) == saturation_bounds(nn.Sigmoid) is not None
    assert saturation_bounds(nn.ReLU) is None
