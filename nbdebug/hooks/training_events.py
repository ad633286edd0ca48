"""Hooks on the events of training steps, and an enum of how much of a step is recorded."""

from __future__ import annotations

import functools
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import dataloader as torch_dataloader

from nbdebug.setup.setup import unwrap_optimizer
from nbdebug.tensors.pytree import tree_tensors

BackwardRoots = tuple[Tensor, ...]
_OptimizerCallback = Callable[[torch.optim.Optimizer], None]
_GradScalerEvent = Literal["scale", "unscale", "step", "skipped", "stepped"]
_BatchCallback = Callable[[tuple[Any, Any, float]], None]


class StepVisibility(Enum):
    """How much of a training step is recorded; snapshots and gradient norms are scheduled separately.

    In ``ALL_EVENTS`` steps the order of all events is tracked; in the others they are only counted.
    ``LOSS_AND_REPLAY`` steps still record the loss and the other numbers of a step, and the pass from which it can be
    rerun; ``LOSS_ONLY`` steps only their loss and learning rate.
    """

    ALL_EVENTS = auto()
    LOSS_AND_REPLAY = auto()
    LOSS_ONLY = auto()


# Compared at every event; before Python 3.12 it takes ten times as long to get a member from its class.
ALL_EVENTS, LOSS_AND_REPLAY, LOSS_ONLY = StepVisibility


@contextmanager
def observe_backward_passes(
    on_begin: Callable[[BackwardRoots], Any], on_end: Callable[[BackwardRoots], None]
) -> Iterator[None]:
    """Call ``on_begin`` before and ``on_end`` after each ``backward()`` within the block, with its root tensors.

    ``on_end`` is skipped if ``on_begin`` returns True. Restores ``torch.autograd.backward``, which every tensor's
    ``backward`` calls, when the block ends.
    """
    original = torch.autograd.backward

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        roots = (
            (tensors,)
            if isinstance(tensors, Tensor)
            else tuple(tensor for tensor in tensors if isinstance(tensor, Tensor))
        )
        skips_end = on_begin(roots)
        original(tensors, *args, **kwargs)
        if skips_end is not True:
            on_end(roots)

    torch.autograd.backward = backward
    try:
        yield
    finally:
        torch.autograd.backward = original


@contextmanager
def _observe_steps(
    optimizers: Iterable[torch.optim.Optimizer], on_begin: _OptimizerCallback, on_end: _OptimizerCallback
) -> Iterator[None]:
    """Call ``on_begin`` before and ``on_end`` after each step of the optimizers within the block."""
    with ExitStack() as hooks:
        for observed_optimizer in optimizers:
            hooks.callback(observed_optimizer.register_step_pre_hook(lambda optimizer, *_: on_begin(optimizer)).remove)
            hooks.callback(observed_optimizer.register_step_post_hook(lambda optimizer, *_: on_end(optimizer)).remove)
        yield


@contextmanager
def observe_all_steps(on_begin: Callable[..., None], on_end: Callable[..., None]) -> Iterator[None]:
    """Call ``on_begin`` and ``on_end`` with torch's hook arguments around each step of any optimizer in the block."""
    with ExitStack() as hooks:
        hooks.callback(register_optimizer_step_pre_hook(on_begin).remove)
        hooks.callback(register_optimizer_step_post_hook(on_end).remove)
        yield


def has_closure(args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> bool:
    """Return whether the arguments of an optimizer's step, after the optimizer itself, contain a closure."""
    return any(callable(argument) for argument in (*args[1:], *(kwargs or {}).values()))


@contextmanager
def observe_matching_steps(
    accepts: Callable[[torch.optim.Optimizer], bool], on_begin: _OptimizerCallback, on_end: _OptimizerCallback
) -> Iterator[None]:
    """Call ``on_begin`` and ``on_end`` around each step, even nested, of optimizers for which ``accepts`` is true."""

    def before(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if accepts(optimizer):
            on_begin(optimizer)

    def after(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if accepts(optimizer):
            on_end(optimizer)

    with observe_all_steps(before, after):
        yield


@contextmanager
def observe_calls(cls: type, method: str, on_call: Callable[[Any], None]) -> Iterator[None]:
    """Call ``on_call`` with the object before each call of a method of a class within the block.

    Restores the class when the block ends. Overrides in subclasses are not observed.
    """
    with observe_call_arguments(cls, method, lambda call: on_call(call[0])):
        yield


@contextmanager
def observe_call_arguments(cls: type, method: str, on_call: Callable[[Any], None]) -> Iterator[None]:
    """Call ``on_call`` with (object, args, kwargs) before each call of a method of a class within the block."""

    def call_observed(original: Any, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        on_call((owner, args, kwargs))
        return original(owner, *args, **kwargs)

    with _method_replaced(cls, method, call_observed):
        yield


@contextmanager
def observe_scheduler_steps(cls: type, on_step: Callable[[Any], None]) -> Iterator[None]:
    """Call ``on_step`` with (scheduler, args, kwargs) before each step of a class of schedulers within the block.

    The first step of a scheduler, and one with arguments, may warn about its caller, which remains the user's line.
    """

    def step_observed(original: Any, scheduler: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        on_step((scheduler, args, kwargs))
        if getattr(scheduler, "_step_count", 0) != 1 and not args and not kwargs:
            return original(scheduler)
        with _warnings_raised_at(sys._getframe(2)):
            return original(scheduler, *args, **kwargs)

    with _method_replaced(cls, "step", step_observed):
        yield


@contextmanager
def _warnings_raised_at(frame: types.FrameType) -> Iterator[None]:
    """Give the warnings within the block the line that a frame runs, and then to the filters of the user."""
    with warnings.catch_warnings(record=True) as raised_warnings:
        warnings.simplefilter("always")
        yield
    for warning in raised_warnings:
        module, registry = frame.f_globals.get("__name__"), frame.f_globals.setdefault("__warningregistry__", {})
        place = frame.f_code.co_filename, frame.f_lineno
        warnings.warn_explicit(warning.message, warning.category, *place, module=module, registry=registry)


@contextmanager
def observe_results(cls: type, method: str, on_result: Callable[[Any], None]) -> Iterator[None]:
    """Call ``on_result`` with (object, args, kwargs, result) after each call of a method of a class in the block."""

    def call_observed(original: Any, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = original(owner, *args, **kwargs)
        on_result((owner, args, kwargs, result))
        return result

    with _method_replaced(cls, method, call_observed):
        yield


@contextmanager
def _method_replaced(cls: type, method: str, replacement: Callable[..., Any]) -> Iterator[None]:
    """Replace a method of a class within the block by a function of the method, its object and its arguments."""
    own_method = vars(cls).get(method)
    original = getattr(cls, method)

    @functools.wraps(original)
    def observed_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return replacement(original, self, args, kwargs)

    setattr(cls, method, observed_call)
    try:
        yield
    finally:
        if own_method is None:
            delattr(cls, method)
        else:
            setattr(cls, method, own_method)


@dataclass(frozen=True)
class ClippingCall:
    """A clipping call: its parameters, its limit, and the gradient norm (None if it clips by value)."""

    parameters: tuple[Tensor, ...]
    limit: float
    norm: Tensor | None


@contextmanager
def observe_clipping(on_clipping: Callable[[ClippingCall], None]) -> Iterator[None]:
    """Call ``on_clipping`` after each gradient clipping within the block.

    Users import these functions by name, so the function inside torch's own ``no_grad`` wrapper is replaced, and
    restored when the block ends. If torch does not wrap them, nothing is observed.
    """

    def clip_by_norm(
        original: Any, clipped: tuple[Tensor, ...], parameters: Any, limit: float, *args: Any, **kwargs: Any
    ) -> Any:
        norm = original(parameters, limit, *args, **kwargs)
        on_clipping(ClippingCall(clipped, float(limit), norm if isinstance(norm, Tensor) else None))
        return norm

    def clip_by_value(
        original: Any, clipped: tuple[Tensor, ...], parameters: Any, limit: float, *args: Any, **kwargs: Any
    ) -> Any:
        original(parameters, limit, *args, **kwargs)
        on_clipping(ClippingCall(clipped, float(limit), None))

    with (
        _replace_wrapped_function(clip_grad_norm_, "max_norm", clip_by_norm),
        _replace_wrapped_function(clip_grad_value_, "clip_value", clip_by_value),
    ):
        yield


@contextmanager
def _replace_wrapped_function(wrapper: Any, limit: str, replacement: Callable[..., Any]) -> Iterator[None]:
    """Replace a wrapped function within the block, and list its parameters before the call."""
    cell = dict(zip(wrapper.__code__.co_freevars, wrapper.__closure__ or (), strict=True)).get("func")
    if cell is None:
        yield
        return
    original = cell.cell_contents

    def call(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        parameter_tuple = (parameters,) if isinstance(parameters, Tensor) else tuple(parameters)
        # Torch warns about an empty generator, so a generator stays one.
        passed_parameters = (
            (parameter for parameter in parameter_tuple)
            if isinstance(parameters, types.GeneratorType)
            else parameter_tuple
        )
        if limit in kwargs:
            args = (kwargs.pop(limit), *args)
        return replacement(original, parameter_tuple, passed_parameters, *args, **kwargs)

    with ExitStack() as undo:
        undo.callback(setattr, cell, "cell_contents", original)
        cell.cell_contents = call
        yield


@dataclass(frozen=True)
class GradScalerCall:
    """A call; ``losses`` are the output of "scale". "step" comes before the step, "skipped" or "stepped" after it."""

    kind: _GradScalerEvent
    scaler: Any
    optimizer: torch.optim.Optimizer | None = None
    losses: tuple[Tensor, ...] = ()


@contextmanager
def observe_grad_scaler(on_call: Callable[[GradScalerCall], None]) -> Iterator[None]:
    """Call ``on_call`` for the calls of every enabled GradScaler within the block; restores the class at its end."""
    scaler_class = torch.amp.GradScaler
    scale, unscale, step = scaler_class.scale, scaler_class.unscale_, scaler_class.step

    @functools.wraps(scale)
    def observed_scale(self: Any, outputs: Any) -> Any:
        scaled_outputs = scale(self, outputs)
        if self.is_enabled():
            on_call(GradScalerCall("scale", self, losses=tuple(tree_tensors(scaled_outputs))))
        return scaled_outputs

    @functools.wraps(unscale)
    def observed_unscale(self: Any, optimizer: Any) -> None:
        unscale(self, optimizer)
        if self.is_enabled():
            on_call(GradScalerCall("unscale", self, optimizer))

    @functools.wraps(step)
    def observed_step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.is_enabled():
            return step(self, optimizer, *args, **kwargs)
        on_call(GradScalerCall("step", self, optimizer))
        with _collect_steps(optimizer) as steps:
            result = step(self, optimizer, *args, **kwargs)
        on_call(GradScalerCall("stepped" if steps else "skipped", self, optimizer))
        return result

    with ExitStack() as undo:
        for original, replacement in ((scale, observed_scale), (unscale, observed_unscale), (step, observed_step)):
            undo.callback(setattr, scaler_class, original.__name__, original)
            setattr(scaler_class, original.__name__, replacement)
        yield


@contextmanager
def _collect_steps(optimizer: torch.optim.Optimizer) -> Iterator[list[bool]]:
    """Collect the steps that an optimizer makes within the block.

    An optimizer that unscales gradients itself, as with ``fused=True``, is always called and receives ``found_inf``,
    which is read only if that needs no synchronization.
    """
    steps: list[bool] = []

    def after_step(stepped_optimizer: Any, *_: Any) -> None:
        found_inf = getattr(stepped_optimizer, "found_inf", None)
        if found_inf is None or found_inf.is_cuda or not float(found_inf):
            steps.append(True)

    stepping_optimizers = unwrap_optimizer(optimizer)
    if not stepping_optimizers:  # an object of the user's, whose steps cannot be observed
        yield [True]
        return
    with ExitStack() as hooks:
        for stepping_optimizer in stepping_optimizers:
            hooks.callback(stepping_optimizer.register_step_post_hook(after_step).remove)
        yield steps


def gradient_scale(optimizer: torch.optim.Optimizer) -> Tensor | None:
    """Return the scale of the gradients at the start of a step that unscales them itself; None for any other."""
    scale = getattr(optimizer, "grad_scale", None)
    return scale if isinstance(scale, Tensor) else None


@contextmanager
def observe_batches(on_batch: _BatchCallback) -> Iterator[None]:
    """Call ``on_batch`` with (iterator, batch, seconds waited) for each batch of any DataLoader within the block.

    Restores the iterators' own ``__next__`` when the block ends. Other iterables are not observed.
    """
    iterator_class = torch_dataloader._BaseDataLoaderIter
    original = iterator_class.__next__

    @functools.wraps(original)
    def observed_next(self: Any) -> Any:
        start = time.perf_counter()
        batch = original(self)
        on_batch((self, batch, time.perf_counter() - start))
        return batch

    iterator_class.__next__ = observed_next  # type: ignore[method-assign]
    try:
        yield
    finally:
        iterator_class.__next__ = original  # type: ignore[method-assign]


def is_iterator_of(iterator: Any, loader: Any) -> bool:
    """Check whether a loader created an iterator: both have the same dataset and the same batch sampler.

    A loader that stands for another one, which the loop iterates over, has it as ``iterated_loader``.
    """
    loader = getattr(loader, "iterated_loader", loader)
    dataset, sampler = getattr(loader, "dataset", None), getattr(loader, "_index_sampler", None)
    return dataset is not None and iterator._dataset is dataset and iterator._index_sampler is sampler
