"""Tests of P803 (values fetched from the device), with the CPU in place of an accelerator."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.hooks.device_syncs import observe_device_syncs
from nbdebug.hooks.training_events import observe_matching_steps
from nbdebug.loop_monitor import LoopMonitor, LoopSummary
from nbdebug.loop_monitor.summary import summarize_loop
from nbdebug.rules.examples import classifier
from nbdebug.rules.throughput.sync_every_step import sync_every_step
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import batch_loss, batches, codes, event_findings


def summarize_fetching_loop(fetch: Any, device: str = "cpu") -> LoopSummary:
    """Return the summary of a loop that calls ``fetch`` at each step, with ``device`` as the accelerator."""
    setup = classifier()
    monitor, optimizer = LoopMonitor(setup), setup.optimizers[0]
    stepping = observe_matching_steps(monitor.accepts_optimizer, monitor.on_step_begin, monitor.on_step_end)
    with stepping, observe_device_syncs(device, monitor.on_device_sync):
        for x, y in batches(setup):
            optimizer.zero_grad()
            loss = batch_loss(setup, x, y)
            loss.backward()
            optimizer.step()
            fetch(loss)
    return summarize_loop(monitor, [])


def p803_findings(fetch: Any) -> list[Any]:
    return list(sync_every_step(classifier(), summarize_fetching_loop(fetch), device="cpu"))


def fetch_three_times(loss: Tensor) -> None:
    print(loss.item())
    if loss > 0:
        float(loss.detach())


def test_sync_every_step_with_three_fetches_per_step_fires_at_their_line() -> None:
    (finding,) = p803_findings(fetch_three_times)
    assert finding.severity is None
    assert finding.evidence["calls per step"] == pytest.approx(3, abs=0.5)
    assert "loss.item()" in finding.evidence["lines"][0]
    assert finding.where.line is not None


def test_sync_every_step_with_one_fetch_is_a_note_and_with_none_finds_nothing() -> None:
    assert [finding.severity for finding in p803_findings(lambda loss: loss.item())] == ["note"]
    assert not p803_findings(lambda loss: loss.detach())


def test_observe_device_syncs_ignores_other_devices_and_restores_tensor_class() -> None:
    before = dict(vars(Tensor))
    assert not summarize_fetching_loop(lambda loss: loss.item(), device="meta").device_syncs.lines
    assert dict(vars(Tensor)) == before


def test_sync_every_step_on_cpu_is_not_checked() -> None:
    with pytest.raises(NotChecked, match="on cpu"):
        list(sync_every_step(classifier(), LoopSummary()))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_sync_every_step_on_cuda_fires() -> None:
    def train(setup: Setup) -> None:
        for x, y in batches(setup):
            setup.optimizers[0].zero_grad()
            loss = batch_loss(setup, x.cuda(), y.cuda())
            loss.backward()
            setup.optimizers[0].step()
            fetch_three_times(loss)

    setup = classifier()
    setup.model.cuda()
    assert "P803" in codes(event_findings(train, setup))
