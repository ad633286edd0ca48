"""Tests of progress reports and time limits of attribute()."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nbdebug.attribution import attribute
from nbdebug.inference import progress
from nbdebug.inference.progress import ProgressMeter, TimeLimitExceeded, use_meter, without_time_limit
from tests.attribution.networks import TokenTransformer, random_samples
from tests.clock import CLOCK

X, BACKGROUND = random_samples(2, 12), random_samples(20, 12, seed=1)


def slow_sum(rows: Tensor) -> Tensor:
    """A function that takes two milliseconds a call."""
    CLOCK.advance(0.002)
    return torch.as_tensor(rows).sum(1)


@pytest.mark.parametrize(
    ("method", "options"),
    [("shapley", {}), ("occlusion", {}), ("lime", {"samples": 50}), ("permutation", {}), ("kernel", {"samples": 60}),
     ("partition", {"evaluations": 60})],
)  # fmt: skip
def test_progress_meter_total_estimates_rows_of_method(method: str, options: dict[str, int]) -> None:
    if method in ("permutation", "kernel", "partition"):
        pytest.importorskip("shap")
    meter = ProgressMeter()
    with use_meter(meter):
        attribute(lambda rows: torch.as_tensor(rows).sum(1), X, 0, method, BACKGROUND, **options)  # type: ignore[arg-type]
    assert 0.7 * meter.rows_total < meter.rows_done < 1.4 * meter.rows_total


def test_progress_meter_of_expected_gradients_counts_all_nodes() -> None:
    torch.manual_seed(0)
    meter, tokens = ProgressMeter(), torch.randint(20, (12, 6))
    with use_meter(meter):
        attribution = attribute(TokenTransformer(), tokens[:2], 1, "expected_gradients", tokens)
    assert attribution.nodes >= 6
    assert meter.rows_done >= 2 * 12 * attribution.nodes


def test_time_limit_ends_attribution_and_estimates_its_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "MIN_MEASURED_SECONDS", 0.02)
    start = CLOCK.now
    with use_meter(ProgressMeter(limit=0.1)), pytest.raises(TimeLimitExceeded) as error:
        attribute(slow_sum, X, 0, "shapley", BACKGROUND)
    end = CLOCK.now
    with use_meter(ProgressMeter(limit=0.1)), without_time_limit():
        attribute(slow_sum, X, 0, "shapley", BACKGROUND)
    full_duration = CLOCK.now - end
    assert 0.02 < end - start < 0.5 * full_duration
    assert error.value.seconds == pytest.approx(full_duration, rel=0.1)


def test_on_progress_reports_decreasing_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "REPORT_INTERVAL", 0.02)
    monkeypatch.setattr(progress, "MIN_MEASURED_SECONDS", 0.02)
    remaining_reports: list[float | None] = []
    with use_meter(ProgressMeter(on_progress=lambda meter: remaining_reports.append(meter.remaining))):
        attribute(slow_sum, X, 0, "shapley", BACKGROUND)
    remaining_times = [seconds for seconds in remaining_reports if seconds is not None]
    assert len(remaining_times) > 2
    assert remaining_times[-1] < remaining_times[0]
