"""Time, memory and operations of each module, measured in passes of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.hooks.module_hooks import computing_modules
from nbdebug.setup import Batch, Setup
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.tools.batch_size.memory import total_bytes
from nbdebug.tools.batch_size.search import TrainingStep
from nbdebug.tools.profile.clocks import Clock, device_clock
from nbdebug.tools.profile.module_memory import BackwardNodes, MemoryUse, ModuleMemory
from nbdebug.tools.profile.operations import OperationTotals
from nbdebug.tools.profile.time_profile import ModuleCost

MAX_MODULES = 300
_PASSES = 4  # the first one warms up
_Hook = Callable[[str, nn.Module, Any], None]


class _ModuleTimer:
    """Times of forward and backward of each module in one step, each without its submodules."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.forward: list[tuple[str, Any, Any]] = []
        self.backward: list[tuple[str, Any, Any]] = []
        self._open: list[tuple[str, Any]] = []
        self._nodes = BackwardNodes()

    def enter(self, name: str, module: nn.Module, args: Any) -> None:
        """Begin the forward pass of a module, which interrupts that of its parent."""
        now = self.clock.stamp()
        if self._open:
            outer, since = self._open[-1]
            self.forward.append((outer, since, now))
        self._open.append((name, now))
        self._nodes.begin(args)

    def leave(self, name: str, module: nn.Module, output: Any) -> None:
        """End the forward pass of a module, and hook the autograd nodes that it has created."""
        now = self.clock.stamp()
        self.forward.append((name, self._open.pop()[1], now))
        for node in self._nodes.end(output):
            started: list[Any] = []
            node.register_prehook(lambda _, started=started: started.append(self.clock.stamp()))
            node.register_hook(lambda *_, started=started: self._add_backward(name, started))
        if self._open:
            self._open[-1] = (self._open[-1][0], self.clock.stamp())

    def _add_backward(self, name: str, started: list[Any]) -> None:
        if started:
            self.backward.append((name, started.pop(), self.clock.stamp()))

    def seconds(self, intervals: list[tuple[str, Any, Any]]) -> dict[str, float]:
        """Return the sum of the intervals of each module."""
        sums: dict[str, float] = defaultdict(float)
        for name, start, end in intervals:
            sums[name] += self.clock.seconds(start, end)
        return sums


@contextmanager
def _hooked(modules: dict[str, nn.Module], before: _Hook, after: _Hook) -> Iterator[None]:
    """Call ``before`` and ``after`` around each call of the modules, with the path of the module."""
    with ExitStack() as handles:
        for name, module in modules.items():
            try:
                pre = module.register_forward_pre_hook(lambda m, args, name=name: before(name, m, args))
                handles.callback(pre.remove)
                post = module.register_forward_hook(lambda m, _, output, name=name: after(name, m, output))
                handles.callback(post.remove)
            except RuntimeError:  # a scripted module accepts no hooks
                continue
        yield


def measure_modules(setup: Setup, batch: Batch) -> tuple[tuple[ModuleCost, ...], OperationTotals]:
    """Return the costs of each module that computes something itself, in a few training steps, slowest first.

    The counter holds the operations of one whole step.
    """
    step = TrainingStep(setup)
    modules = dict(list(computing_modules(setup.eager_model).items())[:MAX_MODULES])
    passes = [_timed_pass(step, batch, modules) for _ in range(_PASSES)][1:]
    counter, memory = _counted_pass(step, batch, modules)
    resident = total_bytes(step.resident_tensors)
    costs = [
        ModuleCost(
            path=name,
            kind=type(module).__name__,
            forward=median(forward.get(name, 0.0) for forward, _ in passes),
            backward=median(backward.get(name, 0.0) for _, backward in passes),
            parameter_bytes=sum(p.numel() * p.element_size() for p in module.parameters(recurse=False)),
            kept_bytes=memory[name].kept,
            backward_bytes=memory[name].backward,
            freed_bytes=memory[name].freed,
            peak_bytes=resident + memory[name].peak,
            flops=counter.flops[name],
            moved_bytes=counter.moved_bytes[name],
            calls=counter.calls[name],
        )
        for name, module in modules.items()
    ]
    return tuple(sorted(costs, key=lambda cost: -cost.seconds)), counter


def _timed_pass(
    step: TrainingStep, batch: Batch, modules: dict[str, nn.Module]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the seconds of forward and backward of each module in one step."""
    timer = _ModuleTimer(device_clock(step.device))
    with _hooked(modules, timer.enter, timer.leave):
        step.step(batch)
    timer.clock.finish()
    return timer.seconds(timer.forward), timer.seconds(timer.backward)


def _counted_pass(
    step: TrainingStep, batch: Batch, modules: dict[str, nn.Module]
) -> tuple[OperationTotals, dict[str | None, MemoryUse]]:
    """Return the operations of one step, and the memory of each module."""
    inputs = tree_tensors((batch.args, batch.kwargs, batch.targets, batch.raw))
    counter, memory, nodes = OperationTotals(), ModuleMemory((*step.resident_tensors, *inputs)), BackwardNodes()

    def enter(name: str, module: nn.Module, args: Any) -> None:
        counter.open_modules.append(name)
        memory.enter(name)
        nodes.begin(args)

    def leave(name: str, module: nn.Module, output: Any) -> None:
        counter.open_modules.pop()
        memory.leave()
        hook(name, nodes.end(output))

    def hook(name: str | None, created: list[Any]) -> None:
        for node in created:
            node.register_prehook(lambda _: memory.begin_operation(name))

    step.clear()
    with torch.enable_grad(), _hooked(modules, enter, leave), memory, counter:
        if step.setup.step_fn is not None:
            loss = step.setup.output_and_loss(batch)[1]
        else:
            output = step.setup.predict(batch)
            counter.in_loss = True
            loss = step.setup.loss(output, batch)
            del output  # only what the backward pass needs counts as kept
        hook(None, nodes.outside(loss))
        counter.in_backward = True
        seed = torch.ones_like(loss)  # of no module, so it must not be freed within the backward pass
        with memory.backward_pass():
            loss.backward(seed)  # type: ignore[no-untyped-call]
    step.clear()
    return counter, memory.uses


def output_tensors(output: Any) -> list[Tensor]:
    """Return the floating-point tensors of an output."""
    return [tensor for tensor in tree_tensors(output) if tensor.is_floating_point()]
