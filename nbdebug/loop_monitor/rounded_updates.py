"""Updates of low-precision weights that are lost to rounding in a loop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from nbdebug.loop_monitor.gradient_accumulation import TrackedOptimizer
from nbdebug.loop_monitor.write_trace import WriteTrace
from nbdebug.tensors.sampling import strided_sample

_FLOAT32_BYTES, _MAX_SAMPLED_VALUES = 4, 4096  # bytes of a float32; values sampled from each weight
_sample_values = partial(strided_sample, limit=_MAX_SAMPLED_VALUES)


@dataclass(frozen=True)
class UpdateSample:
    """Some steps of one weight: learning rate, sampled values with a gradient, and how many of those changed."""

    learning_rate: float
    with_gradient: int
    changed: int
    steps: int = 1


@dataclass(frozen=True)
class _WindowStart:
    """The sampled values of a weight before a step, and which of them had a gradient."""

    step: int
    values: Tensor
    has_gradient: Tensor


class RoundedUpdates:
    """Compares samples of weights with fewer than 32 bits before and after an inspected step.

    Optimizers outside torch may compensate for the rounding over several steps: their weights are compared from one
    inspected step to the next.
    """

    def __init__(self, model: nn.Module) -> None:
        self.parameter_names = {
            id(p): name
            for name, p in model.named_parameters()
            if p.requires_grad and p.is_floating_point() and p.element_size() < _FLOAT32_BYTES and p.dim() > 1
        }
        self.samples_before: list[tuple[str, float, Tensor, Tensor, Tensor]] = []
        self.samples: defaultdict[str, list[UpdateSample]] = defaultdict(list)
        self.window_starts: dict[str, _WindowStart] = {}
        self.write_trace = WriteTrace()

    def on_step_begin(self, tracked: TrackedOptimizer) -> None:
        """Sample the weights before a step."""
        self.samples_before.clear()
        optimizer = tracked.optimizer
        if isinstance(optimizer, torch.optim.LBFGS):
            return
        if not type(optimizer).__module__.startswith("torch.optim"):
            for group in optimizer.param_groups:
                self.compare_windows(group["params"], float(group.get("lr", 1.0)), tracked.steps)
            if self.window_starts and tracked.steps:
                self.write_trace.open(tracked.parameters)
            return
        for group in optimizer.param_groups:
            for p in group["params"]:
                if id(p) in self.parameter_names and p.grad is not None and not p.grad.is_sparse:
                    values, has_gradient = _sample_values(p), _sample_values(p.grad) != 0
                    self.samples_before.append(
                        (self.parameter_names[id(p)], float(group["lr"]), p, values.clone(), has_gradient)
                    )

    def compare_windows(self, parameters: Iterable[Tensor], learning_rate: float, step: int) -> None:
        """Compare the weights with those at the latest inspected step; synchronizes the device."""
        for p in parameters:
            name = self.parameter_names.get(id(p))
            if name is None or p.grad is None or p.grad.is_sparse:
                continue
            values, has_gradient = _sample_values(p).clone(), _sample_values(p.grad) != 0
            if (start := self.window_starts.get(name)) is not None and step > start.step:
                judged = has_gradient & start.has_gradient
                changed = judged & (values != start.values)
                self.samples[name].append(
                    UpdateSample(learning_rate, int(judged.sum()), int(changed.sum()), step - start.step)
                )
            self.window_starts[name] = _WindowStart(step, values, has_gradient)

    def on_step_end(self) -> None:
        """Compare the samples after the step; synchronizes the device."""
        self.write_trace.close()
        for name, learning_rate, p, values, has_gradient in self.samples_before:
            changed = has_gradient & (_sample_values(p) != values)
            self.samples[name].append(UpdateSample(learning_rate, int(has_gradient.sum()), int(changed.sum())))
        self.samples_before.clear()
