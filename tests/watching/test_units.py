"""Units that are silent in all of the last looks."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

from nbdebug.watching.units import WINDOW, Silence, ends_of


def test_dead_are_the_units_that_were_zero_in_all_of_the_last_looks() -> None:
    random, silence = np.random.default_rng(0), Silence()
    looks = random.random((4 * WINDOW, 50)) < np.linspace(0, 0.3, 50)
    for i, live in enumerate(looks):
        recent = looks[max(0, i - WINDOW + 1) : i + 1]
        assert silence.share("relu", live) == pytest.approx(1 - recent.any(0).mean())


def test_a_place_with_another_number_of_units_begins_anew() -> None:
    silence = Silence()
    assert silence.share("relu", np.ones(4, bool)) == 0
    assert silence.share("other", np.zeros(4, bool)) == 1
    assert silence.share("relu", np.zeros(6, bool)) == 1
    assert silence.share("relu", np.arange(6) < 3) == 0.5


def test_a_kind_made_from_a_bounded_one_has_its_ends() -> None:
    class Gate(nn.Sigmoid): ...

    assert ends_of(Gate) == ends_of(nn.Sigmoid) is not None
    assert ends_of(nn.ReLU) is None
