"""Tests of Preserve on the settings of torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.preserve import Preserve
from tests.preserve.fingerprint import fingerprint
from tests.programs import Program, train


def test_block_restores_torch_settings() -> None:
    before = fingerprint()
    with Preserve():
        torch.set_grad_enabled(False)
        torch.autograd.set_detect_anomaly(True, check_nan=False)
        torch.set_default_dtype(torch.float64)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.set_autocast_enabled("cpu", True)
        torch.set_autocast_dtype("cpu", torch.float16)
        torch.set_num_threads(torch.get_num_threads() + 1)
        torch.backends.cudnn.benchmark = True
        assert len(before.differences()) >= 7
    before.check()
    assert not torch.backends.cudnn.benchmark


def test_autocast_cache_of_block_is_not_used_after_it() -> None:
    model = nn.Linear(2, 2)
    with torch.autocast("cpu", torch.bfloat16):
        expected = model(torch.ones(1, 2)).detach()
        with Preserve(model):
            model.weight.data.zero_()
            torch.clear_autocast_cache()
            model(torch.ones(1, 2))
        assert torch.equal(model(torch.ones(1, 2)), expected)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_block_inside_no_grad_restores_weights(program: Program, mode: Any) -> None:
    before = fingerprint(program.model, program.optimizer)
    with mode(), Preserve(program.model, program.optimizer):
        program.model[0].weight.zero_()
    before.check()
    train(program, program.loader(), 2)


def test_block_runs_after_a_device_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed assertion, no call of a CUDA device works, that of its generator included."""

    def fail() -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", fail)
    expected = torch.get_rng_state()
    with Preserve():
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), expected)
