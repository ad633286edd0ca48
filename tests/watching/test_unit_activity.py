"""Tests of dead units and saturation bounds."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

from nbdebug.tensors.unit_activity import DEAD_UNIT_WINDOW, DeadUnits, saturation_bounds


def test_dead_share_counts_units_that_are_zero_in_all_recent_snapshots() -> None:
    random, dead_units = np.random.default_rng(0), DeadUnits()
    snapshots = random.random((4 * DEAD_UNIT_WINDOW, 50)) < np.linspace(0, 0.3, 50)
    for i, live in enumerate(snapshots):
        recent = snapshots[max(0, i - DEAD_UNIT_WINDOW + 1) : i + 1]
        assert dead_units.dead_share("relu", live) == pytest.approx(1 - recent.any(0).mean())


def test_dead_share_restarts_when_the_number_of_units_changes() -> None:
    dead_units = DeadUnits()
    assert dead_units.dead_share("relu", np.ones(4, bool)) == 0
    assert dead_units.dead_share("other", np.zeros(4, bool)) == 1
    assert dead_units.dead_share("relu", np.zeros(6, bool)) == 1
    assert dead_units.dead_share("relu", np.arange(6) < 3) == 0.5


def test_saturation_bounds_of_subclass_are_those_of_its_base_class() -> None:
    class Gate(nn.Sigmoid): ...

    assert saturation_bounds(Gate) == saturation_bounds(nn.Sigmoid) is not None
    assert saturation_bounds(nn.ReLU) is None
