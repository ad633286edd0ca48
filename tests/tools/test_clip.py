"""The bound for the gradient norm: from the run's own norms, before its own clipping."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.exceptions import SetupError
from nbdebug.records import Record
from nbdebug.tools.clip_threshold import clip_threshold


def run(norms: np.ndarray, **more: np.ndarray) -> Record:
    record = Record()
    for step, norm in enumerate(norms):
        row = {name: float(values[step]) for name, values in more.items() if not np.isnan(values[step])}
        record.run.append(step + 1, {"loss": 1.0, "gradient_norm": float(norm), **row})
    return record


def test_the_bound_is_the_percentile_of_the_run() -> None:
    norms = np.arange(1.0, 1001.0)
    found = clip_threshold(run(norms))
    assert found.max_norm == pytest.approx(np.percentile(norms, 95))
    assert found.clipped == pytest.approx(0.05)
    assert found.largest == 1000
    assert "clip_grad_norm_(model.parameters(), max_norm=950)" in str(found)
    assert "would change little" in str(found)


def test_norms_before_clipping_count_where_the_run_clips() -> None:
    raw = np.random.default_rng(0).lognormal(0, 2, 500)
    clipped = np.minimum(raw, 1.0)
    over = raw > 1
    found = clip_threshold(
        run(clipped, raw_gradient_norm=np.where(over, raw, np.nan), clip_scale=np.where(over, 1 / raw, np.nan))
    )
    assert found.max_norm == pytest.approx(np.percentile(raw, 95), rel=1e-4)
    assert found.clipped_by_run == pytest.approx(over.mean(), abs=0.01)
    assert "worthwhile" in found.recommendation


def test_what_is_zero_or_not_finite_counts_for_nothing() -> None:
    norms = np.concatenate([np.ones(40), np.zeros(30), np.full(3, np.inf)])
    found = clip_threshold(run(norms))
    assert found.max_norm == 1
    assert found.not_finite == 3
    assert "does not fix" in found.recommendation


def test_too_short_a_run_and_no_percentile_are_refused() -> None:
    with pytest.raises(SetupError, match=r"record has 5 gradient norms; expected at least 20\."):
        clip_threshold(run(np.ones(5)))
    with pytest.raises(SetupError, match="percentile is 100"):
        clip_threshold(run(np.ones(50)), percentile=100)


def test_it_can_be_shown_drawn_and_tabulated() -> None:
    found = clip_threshold(run(np.random.default_rng(1).lognormal(0, 1, 200)))
    (limit,) = found.view().state()["limits"]
    assert limit["at"] == pytest.approx(found.max_norm, rel=1e-3)
    ax = found.plot()
    assert ax.get_yscale() == "log"
    assert len(ax.lines) == 2
    frame = found.to_frame()
    assert list(frame.columns) == ["step", "gradient_norm", "clipped"]
    assert frame.clipped.mean() == pytest.approx(found.clipped)
    assert "text/html" in found._repr_mimebundle_()
