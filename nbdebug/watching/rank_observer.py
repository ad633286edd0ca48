"""Observes what ranks must compare: their samples, weights, random states, passes and times."""

from __future__ import annotations

import random
import socket
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

from nbdebug.distributed.parallel_models import ModelPart, find_pipeline_stages
from nbdebug.distributed.rank_report import CodePlace, RankReport, lower_quartile_or_zero, median_or_zero
from nbdebug.hooks.module_hooks import observe_forward_passes
from nbdebug.hooks.training_events import (
    BackwardRoots,
    is_iterator_of,
    observe_all_steps,
    observe_backward_passes,
    observe_batches,
)
from nbdebug.setup import Setup, loaders
from nbdebug.setup.losses import ignore_index
from nbdebug.source.location import SourceLine
from nbdebug.tensors.hashing import hash_tensor
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.tensors.sampling import strided_sample

_HASHED_BATCHES, _MAX_HASHES, _VALUES_PER_SAMPLE = 64, 4096, 64
_VALUES_PER_PARAMETER, _MAX_PARAMETERS = 1024, 1000
_RANDOM_STEPS, _TIMED_STEPS, _GRADIENT_STEPS = 3, 64, 2


class RankObserver:
    """Observes the loop of this rank; ``report`` describes what it has observed so far.

    Most of it is measured in the first steps and at the end; later steps count passes and read the clock.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup, self.model = setup, setup.eager_model
        model = getattr(setup.model, "_orig_mod", setup.model)
        self.wrapper = model if isinstance(model, DistributedDataParallel) else None
        self.steps = self.passes = self.wrapper_passes = self.backwards = self.unsynchronized_backwards = 0
        self.epoch_batches, self.batch_rows, self.batch_targets = list[int](), list[int](), list[int]()
        self.sample_hashes, self.random_states = list[int](), dict[str, list[int]]()
        self.local_batch_norms: dict[str, Any] = {}
        self.root_function, self.joins = "", False
        self.own_seconds, self.step_seconds = deque[float](maxlen=_TIMED_STEPS), deque[float](maxlen=_TIMED_STEPS)
        self.iterator: weakref.ref[Any] | None = None
        self.step_began, self.in_backward = time.perf_counter(), False
        self.planned_batches = loaders.batch_count(setup.train_loader) or 0
        self.initial_weights = self.hash_weights()
        self.with_gradient: set[str] = set()

    def hooks(
        self, timed: Callable[[str, Callable[..., Any]], Callable[..., Any]]
    ) -> list[AbstractContextManager[Any]]:
        """Return all hooks; ``timed`` wraps each callback, by the name of its activity."""
        hooks: list[AbstractContextManager[Any]] = [
            observe_batches(timed("samples of ranks", self.on_batch)),
            observe_backward_passes(timed("passes of ranks", self.on_backward_begin), self.on_backward_end),
            observe_all_steps(lambda *_: None, timed("steps of ranks", self.on_step_end)),
            observe_forward_passes(self.model, timed("model of ranks", self.on_pass), _ignore, lambda: False),
        ]
        if self.wrapper is not None:
            on_call = timed("wrapper of ranks", self.on_wrapper_call)
            hooks.append(observe_forward_passes(self.wrapper, on_call, _ignore, lambda: False))
        return hooks

    def on_batch(self, event: tuple[Any, Any, float]) -> None:
        """Count a batch, and hash its samples if it is one of the first."""
        iterator, batch, _ = event
        if not is_iterator_of(iterator, self.setup.train_loader):
            return
        if self.iterator is None or self.iterator() is not iterator:
            self.iterator = weakref.ref(iterator)
            self.epoch_batches.append(0)
        self.epoch_batches[-1] += 1
        if sum(self.epoch_batches) <= _HASHED_BATCHES:
            tensors = [tensor for tensor in tree_tensors(batch) if tensor.dim()]
            if tensors:
                self.batch_rows.append(len(tensors[0]))
                self.batch_targets.append(self.count_targets(tensors))
            if tensors and len(self.epoch_batches) == 1 and len(self.sample_hashes) < _MAX_HASHES:
                self.sample_hashes += _hash_samples(tensors[0])

    def count_targets(self, tensors: list[Tensor]) -> int:
        """Return the number of targets in a batch that the loss does not ignore."""
        targets, ignored = tensors[-1], ignore_index(self.setup.loss_fn)
        if len(tensors) < 2 or targets.is_floating_point():
            return len(tensors[0])
        return int((targets != ignored).sum())

    def on_wrapper_call(self, *_: Any) -> None:
        """Count a call of the wrapper that trains."""
        self.wrapper_passes += torch.is_grad_enabled()

    def on_pass(self, *_: Any) -> None:
        """Count a pass that trains, and hash the random state before the first ones."""
        if not torch.is_grad_enabled() or not self.model.training:
            return
        self.passes += 1
        if self.passes <= _RANDOM_STEPS:
            for name, number in _hash_random_states(self.setup.model_device).items():
                self.random_states.setdefault(name, []).append(number)

    def on_backward_begin(self, roots: BackwardRoots) -> None:
        """Read the clock before a backward pass, which waits for the other ranks."""
        now = time.perf_counter()
        if not self.in_backward:
            self.own_seconds.append(now - self.step_began)
        self.in_backward = True
        self.backwards += 1
        if self.backwards == 1:
            self.describe_first_pass(roots)
        if self.wrapper is not None and not self.wrapper.require_backward_grad_sync:
            self.unsynchronized_backwards += 1

    def describe_first_pass(self, roots: BackwardRoots) -> None:
        """Note what computed the loss, the layers that normalize within this rank, and whether uneven inputs join."""
        find_pipeline_stages()  # the loop may create its own
        self.root_function = type(roots[0].grad_fn).__name__ if roots else ""
        self.local_batch_norms = {name: m for name, m in self.model.named_modules() if _is_local_batch_norm(m)}
        self.joins = self.is_joining

    @property
    def is_joining(self) -> bool:
        """True within ``wrapper.join()``, which serves the ranks that still train when this one has ended."""
        return bool(getattr(getattr(self.wrapper, "_join_config", None), "enable", False))

    def on_backward_end(self, _: BackwardRoots) -> None:
        """Mark the end of a backward pass."""
        self.in_backward = False
        if self.steps < _GRADIENT_STEPS:
            self.with_gradient |= {name for name, p in self.model.named_parameters() if p.grad is not None}

    def on_step_end(self, *_: Any) -> None:
        """Read the clock after a step."""
        now = time.perf_counter()
        self.step_seconds.append(now - self.step_began)
        self.step_began = now
        self.steps += 1

    def hash_weights(self) -> dict[str, int]:
        """Return hashes of samples of all parameters that every rank holds whole."""
        if self.setup.model_part is not ModelPart.WHOLE:
            return {}
        named = list(self.model.named_parameters())[:_MAX_PARAMETERS]
        return {name: hash_tensor(strided_sample(p, _VALUES_PER_PARAMETER)) for name, p in named}

    def report(self, rank: int, lines: dict[str, SourceLine], busiest: SourceLine | None, error: str) -> RankReport:
        """Return what this rank has observed; synchronizes the device."""
        sampler = getattr(self.setup.train_loader, "sampler", None)
        trainable = [name for name, p in self.model.named_parameters() if p.requires_grad]
        has_passed = bool(self.backwards and self.with_gradient)
        report = RankReport(
            rank=rank,
            host=socket.gethostname(),
            steps=self.steps,
            error=error,
            epoch_batches=tuple(self.epoch_batches),
            planned_batches=self.planned_batches,
            batch_rows=tuple(self.batch_rows),
            batch_targets=tuple(self.batch_targets),
            sample_hashes=tuple(self.sample_hashes),
            dataset_samples=loaders.dataset_length(self.setup.train_loader) or 0,
            sampler_seed=sampler.seed if isinstance(sampler, DistributedSampler) else None,
            initial_weights=self.initial_weights,
            final_weights=self.hash_weights(),
            batch_statistics={name: hash_tensor(m.running_mean) for name, m in self.local_batch_norms.items()},
            local_batch_norms=tuple(self.local_batch_norms),
            root_function=self.root_function,
            joins=self.joins,
            without_gradient=tuple(n for n in trainable if has_passed and n not in self.with_gradient),
            passes=self.passes,
            backwards=self.backwards,
            unsynchronized_backwards=self.unsynchronized_backwards,
            random_states={name: tuple(numbers) for name, numbers in self.random_states.items()},
            own_seconds=median_or_zero(self.own_seconds),
            least_own_seconds=lower_quartile_or_zero(self.own_seconds),
            step_seconds=median_or_zero(self.step_seconds),
            busiest_line=to_place(busiest) if busiest else None,
            lines={event: to_place(line) for event, line in lines.items()},
            wrapper="fully_shard" if self.setup.model_part is ModelPart.FULLY_SHARDED else "",
            model_part=self.setup.model_part.value,
        )
        return report if self.wrapper is None else self.describe_wrapper(report, self.wrapper)

    def describe_wrapper(self, report: RankReport, wrapper: DistributedDataParallel) -> RankReport:
        """Return a report with the settings of the wrapper, and with what passes around it."""
        known = {id(p) for p in getattr(wrapper, "_module_parameters", wrapper.parameters())}
        names = (name for name, p in self.model.named_parameters() if p.requires_grad and id(p) not in known)
        return replace(
            report,
            wrapper="DistributedDataParallel",
            broadcasts_buffers=bool(wrapper.broadcast_buffers),
            unsynchronized_parameters=tuple(names),
            bypassing_passes=max(0, self.passes - self.wrapper_passes),
        )


def to_place(line: SourceLine) -> CodePlace:
    """Return a line as plain data."""
    return CodePlace(line.file, line.number, line.function)


def _is_local_batch_norm(module: nn.Module) -> bool:
    """Return whether a layer normalizes with the statistics of the batch of this rank."""
    is_local = isinstance(module, nn.modules.batchnorm._BatchNorm) and not isinstance(module, nn.SyncBatchNorm)
    return is_local and module.training and module.running_mean is not None


def _hash_samples(values: Tensor) -> list[int]:
    """Return a hash of some values of each sample of a batch in the memory of the host; empty for any other."""
    if not values.is_cpu or values.layout is not torch.strided or not values.numel():
        return []
    flat = values.detach().reshape(len(values), -1)
    rows = flat[:, :: max(1, flat.shape[1] // _VALUES_PER_SAMPLE)].contiguous().view(torch.uint8)
    return [int.from_bytes(blake2b(row.tobytes(), digest_size=7).digest(), "little") for row in rows.numpy()]


def _hash_random_states(device: torch.device) -> dict[str, int]:
    """Return a hash of the state of each generator, by name."""
    numpy_state: Any = np.random.get_state(legacy=True)
    states = {
        "torch": hash_tensor(torch.random.get_rng_state()),
        "numpy.random": hash_tensor(torch.from_numpy(numpy_state[1].view(np.int32))) ^ int(numpy_state[2]),
        "random": hash(random.getstate()[1]),
    }
    if device.type == "cuda":
        states["torch on the GPU"] = hash_tensor(torch.cuda.get_rng_state(device))
    return states


def _ignore(_: Any) -> None:
    """Ignore an output."""
