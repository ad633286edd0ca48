"""Tests of the memory that a training step needs and of the memory that is available."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nbdebug.tools.batch_size import BatchSize, memory
from nbdebug.tools.batch_size.search import BatchBuilder, TrainingStep
from tests.tools.batch_size.wide_network import wide_network_setup


def test_batch_size_memory_is_weights_state_and_activations(complete_result: BatchSize) -> None:
    weights = sum(p.numel() for p in wide_network_setup().model.parameters()) * 4
    assert complete_result.resident_bytes == 2 * weights
    sizes = {measurement.size: measurement.memory for measurement in complete_result.sizes}
    # Two activations of 512 floats live at once in the forward pass, or one with its gradient in the backward pass.
    slope = (sizes[256] - sizes[128]) / 128
    assert 2 * 512 * 4 <= slope <= 4 * 512 * 4
    assert sizes[256] > complete_result.resident_bytes + 256 * 2 * 512 * 4


def test_peak_memory_matches_profiler() -> None:
    from torch.profiler import ProfilerActivity, profile

    setup = wide_network_setup()
    steps, batch = TrainingStep(setup), BatchBuilder(setup).batch(64)
    steps.step(batch)
    peak_memory = steps.peak_memory(batch) - memory.total_bytes(steps.resident_tensors)
    steps.clear()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profile_run:
        steps.step(batch)
    live = peak = 0
    events = [event for event in profile_run.profiler.kineto_results.events() if event.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    assert peak_memory == pytest.approx(peak, rel=0.02)


def test_available_bytes_in_container_is_limited_by_cgroup(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "memory.max": "1000",
        "memory.current": "600",
        "memory.stat": "anon 1\ninactive_file 50",
    }.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "CGROUP_PATH", tmp_path)
    assert memory.available_cgroup_memory() == 450
    assert memory.available_bytes(torch.device("cpu")) == 450
    (tmp_path / "memory.max").write_text("max")
    assert memory.available_cgroup_memory() is None
