"""Tests that no tool changes the user's objects on an accelerator, the random state of the device included."""

from __future__ import annotations

import pytest
import torch

from nbdebug.debugger import Debugger
from tests.cuda.devices import device_batches, move_program
from tests.preserve.fingerprint import fingerprint
from tests.programs import PROGRAMS, train
from tests.test_tool_state_preservation import TOOLS

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_tool_preserves_state_on_cuda(name: str, tool: str) -> None:
    program = move_program(PROGRAMS[name]())
    loader = program.loader()
    with device_batches():
        train(program, loader, 3)
        model, loss_fn, optimizer, _ = program
        before = fingerprint(model, loss_fn, optimizer, loaders=[loader])
        TOOLS[tool](Debugger(model, loader, loader, loss_fn=loss_fn, optimizer=optimizer))
        before.check()


def test_out_of_memory_in_batch_size_search_leaves_the_device_usable() -> None:
    program = move_program(PROGRAMS["mlp"]())
    loader = program.loader()
    result = Debugger(program.model, loader, loss_fn=program.loss_fn, optimizer=program.optimizer).batch_size(
        most=4096, seconds=0.01, noise=False
    )
    assert "cuda" in result.device
    assert all(size.memory > 0 for size in result.sizes)
    assert len(train(program, [(x.cuda(), y.cuda()) for x, y in loader], 3)) == 3
