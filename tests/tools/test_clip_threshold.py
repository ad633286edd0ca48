"""Tests of the suggested clipping threshold for the gradient norm."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.exceptions import SetupError
from nbdebug.records import Record
from nbdebug.tools.clip_threshold import clip_threshold


def record_with_norms(norms: np.ndarray, **signals: np.ndarray) -> Record:
    record = Record()
    for step, norm in enumerate(norms):
        row = {name: float(values[step]) for name, values in signals.items() if not np.isnan(values[step])}
        record.run.append(step + 1, {"loss": 1.0, "gradient_norm": float(norm), **row})
    return record


def test_clip_threshold_is_percentile_of_gradient_norms() -> None:
    norms = np.arange(1.0, 1001.0)
    result = clip_threshold(record_with_norms(norms))
    assert result.max_norm == pytest.approx(np.percentile(norms, 95))
    assert result.clipped == pytest.approx(0.05)
    assert result.largest == 1000
    assert "clip_grad_norm_(model.parameters(), max_norm=950)" in str(result)
    assert "would change little" in str(result)


def test_clip_threshold_of_clipped_run_uses_norms_before_clipping() -> None:
    raw_norms = np.random.default_rng(0).lognormal(0, 2, 500)
    is_clipped = raw_norms > 1
    record = record_with_norms(
        np.minimum(raw_norms, 1.0),
        raw_gradient_norm=np.where(is_clipped, raw_norms, np.nan),
        clip_scale=np.where(is_clipped, 1 / raw_norms, np.nan),
    )
    result = clip_threshold(record)
    assert result.max_norm == pytest.approx(np.percentile(raw_norms, 95), rel=1e-4)
    assert result.clipped_by_run == pytest.approx(is_clipped.mean(), abs=0.01)
    assert "worthwhile" in result.recommendation


def test_clip_threshold_ignores_zero_and_non_finite_norms() -> None:
    norms = np.concatenate([np.ones(40), np.zeros(30), np.full(3, np.inf)])
    result = clip_threshold(record_with_norms(norms))
    assert result.max_norm == 1
    assert result.not_finite == 3
    assert "does not fix" in result.recommendation


def test_clip_threshold_short_run_or_invalid_percentile_raises_setup_error() -> None:
    with pytest.raises(SetupError, match=r"record has 5 gradient norms; expected at least 20\."):
        clip_threshold(record_with_norms(np.ones(5)))
    with pytest.raises(SetupError, match="percentile is 100"):
        clip_threshold(record_with_norms(np.ones(50)), percentile=100)


def test_clip_threshold_result_has_view_plot_frame_and_html() -> None:
    result = clip_threshold(record_with_norms(np.random.default_rng(1).lognormal(0, 1, 200)))
    (limit,) = result.view().state()["limits"]
    assert limit["at"] == pytest.approx(result.max_norm, rel=1e-3)
    ax = result.plot()
    assert ax.get_yscale() == "log"
    assert len(ax.lines) == 2
    frame = result.to_frame()
    assert list(frame.columns) == ["step", "gradient_norm", "clipped"]
    assert frame.clipped.mean() == pytest.approx(result.clipped)
    assert "text/html" in result._repr_mimebundle_()
