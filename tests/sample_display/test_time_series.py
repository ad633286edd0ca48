"""Tests of time series."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nbdebug.sample_display import SampleDisplay


def test_time_series_is_downsampled_and_keeps_peaks() -> None:
    random = np.random.default_rng(0)
    walks = np.cumsum(random.normal(size=(30, 3_000)), 1)
    walks[2, 1_234] = 1e3
    card = SampleDisplay(walks).show(2)
    assert card["kind"] == "series"
    assert len(card["lines"][0]) <= 200
    assert max(card["lines"][0]) == 1e3
    walks[2, 7] = np.nan
    json.dumps(SampleDisplay(walks).show(2), allow_nan=False)


def test_time_series_of_either_axis_order_has_one_line_per_channel() -> None:
    random = np.random.default_rng(0)
    signals = np.cumsum(random.normal(size=(20, 6, 128)), 2)
    for values in (signals, signals.transpose(0, 2, 1)):
        card = SampleDisplay(values).show(1, full=True)
        assert len(card["lines"]) == 6
        assert card["lines"][0] == pytest.approx(signals[1, 0], rel=1e-3)
    card = SampleDisplay(signals, feature_names=list("xyzabc")).show(0, full=True)
    assert card["names"] == list("xyzabc")
