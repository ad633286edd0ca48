"""P803: values fetched from the device; what the probe hears is tried with the processor as the device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.hooks.device_syncs import observe_device_syncs
from nbdebug.hooks.training_events import observe_matching_steps
from nbdebug.loop_monitor import LoopMonitor, LoopSummary
from nbdebug.rules.examples import classifier
from nbdebug.rules.throughput.sync_every_step import sync_every_step
from nbdebug.setup import Setup
from tests.loop_monitor.asking import batches, loss_of, watched


def followed(fetch: Any, device: str = "cpu") -> LoopSummary:
    """A loop that fetches something at each step, heard as if the processor were an accelerator."""
    setup = classifier()
    follower, optimizer = LoopMonitor(setup), setup.optimizers[0]
    stepping = observe_matching_steps(follower.accepts_optimizer, follower.on_step_begin, follower.on_step_end)
    with stepping, observe_device_syncs(device, follower.on_device_sync):
        for x, y in batches(setup):
            optimizer.zero_grad()
            loss = loss_of(setup, x, y)
            loss.backward()
            optimizer.step()
            fetch(loss)
    return follower.summary([])


def judged(fetch: Any) -> list[Any]:
    return list(sync_every_step(classifier(), followed(fetch), device="cpu"))


def twice(loss: Tensor) -> None:
    print(loss.item())
    if loss > 0:
        float(loss.detach())


def test_several_fetches_a_step_are_a_warning_at_their_line() -> None:
    (found,) = judged(twice)
    assert found.severity is None
    assert found.evidence["calls per step"] == pytest.approx(3, abs=0.5)
    assert "loss.item()" in found.evidence["lines"][0]
    assert found.where.line is not None


def test_one_fetch_a_step_is_a_note_and_none_is_quiet() -> None:
    assert [one.severity for one in judged(lambda loss: loss.item())] == ["note"]
    assert not judged(lambda loss: loss.detach())


def test_other_devices_are_not_heard_and_the_class_is_put_back() -> None:
    before = dict(vars(Tensor))
    assert not followed(lambda loss: loss.item(), device="meta").device_syncs.lines
    assert dict(vars(Tensor)) == before


def test_on_the_processor_it_is_not_checked() -> None:
    with pytest.raises(NotChecked, match="on cpu"):
        list(sync_every_step(classifier(), LoopSummary()))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_on_an_accelerator() -> None:
    def train(setup: Setup) -> None:
        for x, y in batches(setup):
            setup.optimizers[0].zero_grad()
            loss = loss_of(setup, x.cuda(), y.cuda())
            loss.backward()
            setup.optimizers[0].step()
            twice(loss)

    setup = classifier()
    setup.model.cuda()
    assert "P803" in [one.code for one in watched(train, setup)]
