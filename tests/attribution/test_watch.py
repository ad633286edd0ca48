"""How far an engine is, how long it will take, and an end to what takes too long."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nbdebug.attribution import attribute
from nbdebug.inference import progress
from nbdebug.inference.progress import ProgressMeter, TimeLimitExceeded, use_meter, without_time_limit
from tests.attribution.networks import Sequence
from tests.clock import CLOCK

X = torch.randn(2, 12, generator=torch.Generator().manual_seed(0))
B = torch.randn(20, 12, generator=torch.Generator().manual_seed(1))


def slow(rows: Tensor) -> Tensor:
    """A black box that takes two milliseconds a call."""
    CLOCK.passes(0.002)
    return torch.as_tensor(rows).sum(1)


@pytest.mark.parametrize(
    ("method", "options"),
    [("shapley", {}), ("occlusion", {}), ("lime", {"samples": 50}), ("permutation", {}), ("kernel", {"samples": 60}),
     ("partition", {"evaluations": 60})],
)  # fmt: skip
def test_engines_say_how_much_they_run(method: str, options: dict[str, int]) -> None:
    if method in ("permutation", "kernel", "partition"):
        pytest.importorskip("shap")
    seen = ProgressMeter()
    with use_meter(seen):
        attribute(lambda rows: torch.as_tensor(rows).sum(1), X, 0, method, B, **options)  # type: ignore[arg-type]
    assert 0.7 * seen.rows_total < seen.rows_done < 1.4 * seen.rows_total


def test_expected_gradients_say_it_anew_where_more_nodes_are_needed() -> None:
    torch.manual_seed(0)
    seen, tokens = ProgressMeter(), torch.randint(20, (12, 6))
    with use_meter(seen):
        found = attribute(Sequence(), tokens[:2], 1, "expected_gradients", tokens)
    assert found.nodes >= 6
    assert seen.rows_done >= 2 * 12 * found.nodes


def test_what_takes_longer_than_the_limit_is_ended_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "MIN_MEASURED_SECONDS", 0.02)
    begun = CLOCK.now
    with use_meter(ProgressMeter(limit=0.1)), pytest.raises(TimeLimitExceeded) as raised:
        attribute(slow, X, 0, "shapley", B)
    ended = CLOCK.now
    with use_meter(ProgressMeter(limit=0.1)), without_time_limit():
        attribute(slow, X, 0, "shapley", B)
    whole = CLOCK.now - ended
    assert 0.02 < ended - begun < 0.5 * whole
    assert raised.value.seconds == pytest.approx(whole, rel=0.1)


def test_words_come_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "REPORT_INTERVAL", 0.02)
    monkeypatch.setattr(progress, "MIN_MEASURED_SECONDS", 0.02)
    told: list[tuple[float, float | None]] = []
    with use_meter(ProgressMeter(on_progress=lambda one: told.append((one.elapsed, one.remaining)))):
        attribute(slow, X, 0, "shapley", B)
    left = [one for _, one in told if one is not None]
    assert len(left) > 2
    assert left[-1] < left[0]
