"""Tensors: the same object in the same memory with the same values, flags, gradient, hooks and version."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from nbdebug.preserve.kept import Inside, Kept

_LOST_LINK = (
    "A tensor of shape {shape} was changed in place and has lost its link to the graph it came from; "
    "its values are restored."
)


class KeptTensor(Kept):
    """One tensor, its values cloned once. Its gradient is set aside untouched, by reference."""

    def __init__(self, thing: Tensor) -> None:
        super().__init__(thing)
        self.kind = type(thing)
        self.memory = thing.data
        self.dense = _is_dense(thing)
        self.clone = _clone(_once(self.memory) if self.dense else self.memory)
        self.requires_grad, self.node = thing.requires_grad, thing.grad_fn
        self.grad = thing.grad if thing.is_leaf or thing.retains_grad else None
        self.hooks, self.accumulate_hooks = _hooks(thing)
        self.version = None if thing.is_inference() else torch.autograd._unsafe_preserve_version_counter(thing)  # type: ignore[attr-defined]

    def inside(self) -> Inside:
        """The hook dicts and the attributes of the tensor."""
        yield "._backward_hooks", self.hooks
        yield "._post_accumulate_grad_hooks", self.accumulate_hooks
        yield "", vars(self.thing)

    def set_aside(self) -> None:
        """Leave the tensor without a gradient."""
        if self.grad is not None:
            self.thing.grad = None

    def restore(self) -> None:
        """Put back memory, values, flags, gradient, hooks and version, in the order in which they allow each other."""
        if type(self.thing) is not self.kind:
            self.thing.__class__ = self.kind
        self._restore_values()
        self._restore_flags()
        if self.thing.is_leaf or self.thing.retains_grad:
            self.thing.grad = self.grad
        self._restore_hooks()
        if self.version is not None:
            self.version.__exit__(None, None, None)

    def _restore_values(self) -> None:
        if not self.dense:
            self.thing.copy_(self.clone)
            return
        if not _same_memory(self.thing, self.memory):
            self.thing.data = self.memory
        _once(self.memory).copy_(self.clone)

    def _restore_flags(self) -> None:
        if self.thing.grad_fn is not self.node:
            if self.node is None:
                self.thing.detach_()
            else:
                warnings.warn(_LOST_LINK.format(shape=tuple(self.thing.shape)), RuntimeWarning, stacklevel=2)
        if self.thing.is_leaf and self.thing.requires_grad != self.requires_grad:
            self.thing.requires_grad_(self.requires_grad)

    def _restore_hooks(self) -> None:
        hooks, accumulate_hooks = _hooks(self.thing)
        if hooks is not self.hooks:
            self.thing._backward_hooks = self.hooks
        if accumulate_hooks is not self.accumulate_hooks:
            self.thing._post_accumulate_grad_hooks = self.accumulate_hooks


def _hooks(tensor: Tensor) -> tuple[Any, Any]:
    return tensor._backward_hooks, tensor._post_accumulate_grad_hooks


def _is_dense(tensor: Tensor) -> bool:
    """Whether the values lie in memory of their own that can be written to through an alias."""
    try:
        return tensor.layout == torch.strided and not tensor.is_nested and tensor.data_ptr() >= 0
    except RuntimeError:
        return False


def _same_memory(one: Tensor, other: Tensor) -> bool:
    return one.data_ptr() == other.data_ptr() and one.stride() == other.stride() and one.shape == other.shape and (
        one.dtype == other.dtype and one.device == other.device)  # fmt: skip


def _once(tensor: Tensor) -> Tensor:
    """The part of the tensor that repeats no memory; an expanded dimension cannot be written to."""
    for dimension, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dimension] > 1:
            tensor = tensor.narrow(dimension, 0, 1)
    return tensor


def _clone(tensor: Tensor) -> Tensor:
    """A copy on the same device, or in main memory when the device has no room for it."""
    try:
        return tensor.clone()
    except torch.OutOfMemoryError:
        return tensor.cpu()
