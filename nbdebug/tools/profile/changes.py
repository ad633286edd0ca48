"""Changes that are tried on copies: precision, memory format, checkpointing, accumulation, compilation, optimizers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.tensors.pytree import tree_map
from nbdebug.tools.batch_size.memory import peak_bytes
from nbdebug.tools.batch_size.search import BatchBuilder, TrainingStep
from nbdebug.tools.profile.modules import output_tensors
from nbdebug.tools.profile.trials import Candidate
from nbdebug.training.model_copy import TrainableSetup, copy_obstacle, trainable_setup

_Convert = Callable[[Batch], Batch]
_FUSED_OPTIMIZERS = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad)


class ModelChanges:
    """Makes candidates, each with a copy of the model; ``obstacle`` is the reason why there can be none."""

    def __init__(self, setup: Setup, batch: Batch, batches: Iterator[Batch], size: int) -> None:
        self.setup, self.batch, self.batches, self.size = setup, batch, batches, size
        self.obstacle = copy_obstacle(setup, batch)

    @property
    def has_double_weights(self) -> bool:
        """Check whether parameters have double precision."""
        return any(p.dtype == torch.float64 for p in self.setup.eager_model.parameters())

    def necessary(self) -> list[Candidate]:
        """Return the changes that are always tried: single precision for a model in double precision."""
        if self.obstacle or not self.has_double_weights:
            return []
        code = "model = model.float()   # and create its inputs as float32"
        return [self.candidate("dtype", "float32", code, lambda model: model.float(), convert=_to_single)]

    def fused_optimizer(self) -> list[Candidate]:
        """Return the step with fused optimizers, if all are of a kind that has them."""
        optimizers = self.setup.optimizers
        if self.obstacle or not optimizers or any(type(item) not in _FUSED_OPTIMIZERS for item in optimizers):
            return []
        if any(group.get("fused") for item in optimizers for group in item.param_groups):
            return []
        name = type(optimizers[0]).__name__
        code = f"optimizer = torch.optim.{name}(model.parameters(), lr=lr, fused=True)"
        return [self.candidate("optimizer", "fused", code, _unchanged, fused=True)]

    def optional(self) -> Iterator[Callable[[], Candidate]]:
        """Yield functions that make the changes which ``try_changes=True`` adds."""
        if self.obstacle:
            return
        kind = self.setup.model_device.type
        if not self.has_double_weights:
            code = f'with torch.autocast("{kind}", dtype=torch.bfloat16):   # around forward and loss'
            context = partial(torch.autocast, kind, dtype=torch.bfloat16)
            yield partial(self.candidate, "precision", "autocast bfloat16", code, _unchanged, context=context)
        if any(isinstance(module, nn.Conv2d) for module in self.setup.eager_model.modules()):
            code = "model = model.to(memory_format=torch.channels_last)   # and the inputs"
            convert = _to_channels_last
            yield partial(self.candidate, "memory format", "channels last", code, _channels_last, convert=convert)
        code = "x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)   # for each block in forward()"
        yield partial(self.candidate, "memory", "activation checkpointing", code, _checkpoint_activations)
        if self.size > 1:
            code = (
                f"(loss / 2).backward()   # on {self.size // 2} samples each; optimizer.step() after every second one"
            )
            yield partial(self.candidate, "memory", "accumulation of two halves", code, _unchanged, parts=2)
        yield partial(self.candidate, "compile", "torch.compile", "model = torch.compile(model)", torch.compile)

    def candidate(
        self,
        group: str,
        name: str,
        code: str,
        change: Callable[[nn.Module], Any],
        *,
        convert: _Convert = lambda batch: batch,
        context: Callable[[], AbstractContextManager[Any]] = nullcontext,
        fused: bool = False,
        parts: int = 1,
    ) -> Candidate:
        """Return the step of a changed copy on a batch, or on its ``parts``, with the difference of its output in eval
        mode."""
        with trainable_setup(self.setup, in_place=False) as copied:
            model = change(copied.setup.model)
            changed = self._changed_setup(copied, fused)
        difference = None if fused else self._output_difference(model, convert, context)
        step = TrainingStep(changed)
        batches = self.batches if parts == 1 else repeat(BatchBuilder(self.setup).batch(self.size // parts))

        def run() -> None:
            step.clear()
            with torch.enable_grad():
                for _ in range(parts):
                    with context():
                        loss = changed.output_and_loss(convert(next(batches)), model)[1] / parts
                    loss.backward()  # type: ignore[no-untyped-call]
            for optimizer in changed.optimizers:
                optimizer.step()

        peak = partial(peak_bytes, run, step.resident_tensors, step.device)
        return Candidate(group, name, self.size, run, code, difference=difference, peak=peak)

    def _changed_setup(self, copied: TrainableSetup, fused: bool) -> Setup:
        """Return the setup of a changed copy with fresh optimizers of its parameters."""
        if isinstance(copied.setup.loss_fn, nn.Module):
            copied.setup.loss_fn.to(next(copied.setup.eager_model.parameters()).dtype)
        optimizers = tuple(copied.rebuild_optimizers(self.setup.optimizers, has_scheduler=False))
        for group in (group for item in optimizers if fused for group in item.param_groups):
            group.update(fused=True, foreach=False)
        return replace(copied.setup, optimizers=optimizers)

    def _output_difference(
        self, model: nn.Module, convert: _Convert, context: Callable[[], AbstractContextManager[Any]]
    ) -> float | None:
        """Return the largest difference of the outputs in eval mode, divided by the largest value."""
        original_model = self.setup.eager_model
        with in_mode(original_model, False), in_mode(model, False), torch.no_grad():
            original = output_tensors(self.setup.predict(self.batch))
            with context():
                other = output_tensors(self.setup.predict(convert(self.batch), model))
        return max((_relative_difference(a, b) for a, b in zip(original, other, strict=False)), default=None)


def _checkpoint_activations(model: nn.Module) -> nn.Module:
    """Compute the activations within each block of a model again in the backward pass, in place of keeping them."""
    if isinstance(model, nn.Sequential):
        segments = max(math.isqrt(len(model)), 2)
        model.forward = partial(_checkpoint_segments, [*model], segments)  # type: ignore[method-assign]
        return model
    children = [*model.children()]
    for block in [item for child in children for item in (child if isinstance(child, nn.ModuleList) else [child])]:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    return model


def _checkpoint_segments(layers: list[nn.Module], segments: int, value: Any) -> Any:
    return checkpoint_sequential(layers, segments, value, use_reentrant=False)  # type: ignore[no-untyped-call]


def _unchanged(model: nn.Module) -> nn.Module:
    return model


def _relative_difference(a: Tensor, b: Tensor) -> float:
    scale = float(a.detach().double().abs().max().clamp_min(1e-30))
    return float((a.double() - b.double()).abs().max()) / scale


def _to_single(batch: Batch) -> Batch:
    """Return a batch with floating-point tensors in single precision."""
    parts = tree_map((batch.args, batch.kwargs, batch.targets), _single)
    return replace(batch, args=parts[0], kwargs=parts[1], targets=parts[2])


def _single(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value


def _channels_last(model: nn.Module) -> nn.Module:
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def _to_channels_last(batch: Batch) -> Batch:
    """Return a batch with images in the channels-last format."""
    return replace(batch, args=tree_map(batch.args, _channels_last_tensor))


def _channels_last_tensor(value: Any) -> Any:
    is_image = isinstance(value, Tensor) and value.dim() == 4
    return value.contiguous(memory_format=torch.channels_last) if is_image else value
