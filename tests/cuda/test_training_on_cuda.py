"""Tests that a watched loop on an accelerator trains bit for bit as an unwatched one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.cuda.devices import DEVICE
from tests.watching.test_unchanged_training import perceptron, residual_network, transformer, with_lists

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

Step = Callable[[nn.Module, torch.optim.Optimizer, Tensor, Tensor], Tensor]
LOSS = nn.CrossEntropyLoss()


@pytest.fixture(autouse=True)
def deterministic_algorithms(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


class PlainStep:
    """A step in single precision."""

    def __call__(self, model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = LOSS(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()


class ScaledStep:
    """A step in half precision with a gradient scaler."""

    def __init__(self) -> None:
        self.scaler = torch.amp.GradScaler("cuda")

    def __call__(self, model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = LOSS(model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        self.scaler.step(optimizer)
        self.scaler.update()
        return loss.detach()


class BFloat16Step(PlainStep):
    """A step in bfloat16."""

    def __call__(self, model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return super().__call__(model, optimizer, x, y)


STEPS: dict[str, Callable[[], Step]] = {"float32": PlainStep, "float16": ScaledStep, "bfloat16": BFloat16Step}


def train(
    make_model: Callable[[], nn.Module], make_step: Callable[[], Step], *, is_watched: bool, compiles: bool
) -> Any:
    """Train for three epochs; return losses, weights, state of the optimizer, and the next numbers of the device."""
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(96, 4, 8, 8), torch.arange(96) % 3)
    loader = DataLoader(data, 16, shuffle=True, pin_memory=True)
    model = make_model().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    called, step, losses = torch.compile(model) if compiles else model, make_step(), list[Tensor]()
    debugger = nbdebug.Debugger(model, loader, loss_fn=LOSS, optimizer=optimizer)
    with debugger.watch(budget=1.0, every=2) if is_watched else nullcontext():
        for _ in range(3):
            for x, y in loader:
                losses.append(step(called, optimizer, x.to(DEVICE, non_blocking=True), y.to(DEVICE)))
    states = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    return with_lists((losses, *states, torch.randn(4, device=DEVICE), torch.randn(4)))


@pytest.mark.parametrize("make_step", STEPS.values(), ids=list(STEPS))
@pytest.mark.parametrize("make_model", [perceptron, residual_network, transformer])
def test_watched_training_on_cuda_is_bit_identical(make_model: Any, make_step: Any) -> None:
    expected = train(make_model, make_step, is_watched=False, compiles=False)
    assert train(make_model, make_step, is_watched=True, compiles=False) == expected


def test_watched_compiled_training_on_cuda_is_bit_identical() -> None:
    expected = train(residual_network, PlainStep, is_watched=False, compiles=True)
    assert train(residual_network, PlainStep, is_watched=True, compiles=True) == expected


class GraphedStep:
    """Replays of a whole training step that a CUDA graph has captured."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x.clone(), y.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                PlainStep()(model, optimizer, self.x, self.y)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.loss = LOSS(model(self.x), self.y)
            self.loss.backward()
            optimizer.step()

    def replay(self, x: Tensor, y: Tensor) -> Tensor:
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.loss.detach().clone()


def train_by_graph(*, is_watched: bool, captures_inside: bool) -> Any:
    torch.manual_seed(0)
    x, y = torch.randn(8, 16, 256, device=DEVICE), torch.arange(128, device=DEVICE).view(8, 16) % 3
    model = nn.Sequential(nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 3)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, capturable=True)
    early = None if captures_inside else GraphedStep(model, optimizer, x[0], y[0])
    with nbdebug.watch(model, optimizer, every=1) if is_watched else nullcontext():
        step = early or GraphedStep(model, optimizer, x[0], y[0])
        losses = [step.replay(x[number % 8], y[number % 8]) for number in range(24)]
    return with_lists((losses, model.state_dict()))


@pytest.mark.parametrize("captures_inside", [False, True])
def test_watched_cuda_graph_is_bit_identical(captures_inside: bool) -> None:
    expected = train_by_graph(is_watched=False, captures_inside=captures_inside)
    assert train_by_graph(is_watched=True, captures_inside=captures_inside) == expected


def test_captured_graph_is_mentioned_and_no_callback_fails() -> None:
    x, y = torch.randn(16, 256, device=DEVICE), torch.arange(16, device=DEVICE) % 3
    model = nn.Sequential(nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 3)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, capturable=True)
    with nbdebug.watch(model, optimizer, every=1) as run:
        step = GraphedStep(model, optimizer, x, y)
        for _ in range(8):
            step.replay(x, y)
    assert [event.text for event in run.record.events_of_kind("captured")]
    assert not run.error_summary


def train_recorded(device: str) -> nbdebug.Watch:
    """Record a run whose first steps take all paths of a watch, and the later ones the fast path."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 3))
    x, y = torch.randn(200, 16, 64), torch.arange(3200).view(200, 16) % 3
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with nbdebug.watch(model, optimizer) as run:
        for inputs, targets in zip(x.to(device), y.to(device), strict=True):
            PlainStep()(model, optimizer, inputs, targets)
    assert not run.error_summary
    return run


def test_record_of_a_run_on_cuda_has_the_numbers_of_the_cpu() -> None:
    on_cpu, on_cuda = train_recorded("cpu").record, train_recorded("cuda").record
    for signal in ("loss", "lr", "gradient_norm"):
        (cpu_steps, cpu_values), (cuda_steps, cuda_values) = on_cpu.series(signal), on_cuda.series(signal)
        common, cpu_rows, cuda_rows = np.intersect1d(cpu_steps, cuda_steps, return_indices=True)
        assert len(common) >= 64
        np.testing.assert_allclose(cuda_values[cuda_rows], cpu_values[cpu_rows], rtol=1e-3)
