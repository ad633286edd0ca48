"""Tests that no tool changes the user's objects on an accelerator, the random state of the device included."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.tools.batch_size.memory import BY_ALLOCATOR
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


@pytest.fixture
def small_device() -> Iterator[None]:
    """A device of which this process may use two gigabytes."""
    torch.cuda.set_per_process_memory_fraction(2e9 / torch.cuda.get_device_properties(0).total_memory)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.usefixtures("small_device")
def test_batch_size_search_ends_where_the_memory_of_the_device_does() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 2**18), nn.ReLU(), nn.Linear(2**18, 3)).cuda()
    loader = DataLoader(TensorDataset(torch.randn(8192, 5), torch.arange(8192) % 3), batch_size=8)
    optimizer, loss_fn = torch.optim.SGD(model.parameters(), lr=1e-3), nn.CrossEntropyLoss()
    before = fingerprint(model, optimizer, loaders=[loader])
    result = Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer).batch_size(
        most=8192, seconds=60.0, noise=False
    )
    assert (result.ended, result.measured_by) == ("memory", BY_ALLOCATOR)
    assert all(size.memory > 0 for size in result.sizes)
    before.check()
    loss_fn(model(torch.randn(8, 5, device="cuda")), torch.zeros(8, dtype=torch.int64, device="cuda")).backward()


def test_seed_repeats_numbers_of_the_device() -> None:
    numbers = []
    for _ in range(2):
        nbdebug.seed(3)
        numbers.append(torch.randn(4, device="cuda").tolist())
    assert numbers[0] == numbers[1]


def test_profile_on_cuda_counts_copies_and_waits() -> None:
    data = TensorDataset(torch.randn(512, 40_000), torch.arange(512) % 3)
    loader = DataLoader(data, batch_size=128, shuffle=True)
    model = nn.Linear(40_000, 3).cuda()
    debugger = Debugger(
        model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=torch.optim.SGD(model.parameters(), lr=1e-3)
    )

    def loop() -> None:
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            loss.backward()
            debugger.setup.optimizers[0].step()
            print(loss.item())

    profile = debugger.profile(loop, steps=8)
    assert profile.phases["transfer"] > 0
    assert profile.transferred_bytes >= 128 * 40_000 * 4
    assert profile.pinned_share == 0


def test_profile_on_cuda_tries_pinned_memory() -> None:
    data = TensorDataset(torch.randn(256, 100_000), torch.arange(512) % 3)
    model = nn.Linear(100_000, 3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    loader = DataLoader(data, batch_size=64)
    result = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer).profile(steps=6)
    pinning = {trial.name: trial for trial in result.trials if trial.group == "pinning"}
    assert pinning["off"].is_present
    assert pinning["on"].seconds > 0
    assert not loader.pin_memory
