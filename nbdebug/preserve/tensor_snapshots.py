"""Snapshots of tensors and optimizers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from nbdebug.preserve.object_snapshots import Contents, ObjectSnapshot, Snapshot

_DETACHED_WARNING = (
    "A tensor of shape {shape} was changed in place and is detached from its original graph; its values are restored."
)


class TensorSnapshot(Snapshot):
    """Snapshot of a tensor, with one clone of its values. Its gradient is set aside by reference."""

    def __init__(self, original: Tensor) -> None:
        super().__init__(original)
        self.original_class = type(original)
        self.memory = original.data
        self.is_dense = _has_dense_memory(original)
        self.clone = _clone_within_memory(_without_repeated_memory(self.memory) if self.is_dense else self.memory)
        self.requires_grad, self.grad_fn = original.requires_grad, original.grad_fn
        self.grad = original.grad if original.is_leaf or original.retains_grad else None
        self.hooks, self.accumulate_hooks = _tensor_hooks(original)
        preserve_version = torch.autograd._unsafe_preserve_version_counter  # type: ignore[attr-defined]
        self.version_guard = None if original.is_inference() else preserve_version(original)

    def contents(self) -> Contents:
        """The hook dicts and the attributes of the tensor."""
        yield "._backward_hooks", self.hooks
        yield "._post_accumulate_grad_hooks", self.accumulate_hooks
        yield "", vars(self.original)

    def set_aside(self) -> None:
        """Remove the gradient."""
        if self.grad is not None:
            self.original.grad = None

    def restore(self) -> None:
        """Restore memory, values, flags, gradient, hooks and version, in the order that torch allows."""
        if type(self.original) is not self.original_class:
            self.original.__class__ = self.original_class
        self._restore_values()
        self._restore_flags()
        if self.original.is_leaf or self.original.retains_grad:
            self.original.grad = self.grad
        self._restore_hooks()
        if self.version_guard is not None:
            self.version_guard.__exit__(None, None, None)

    def _restore_values(self) -> None:
        if not self.is_dense:
            self.original.copy_(self.clone)
            return
        if not _share_memory(self.original, self.memory):
            self.original.data = self.memory
        _without_repeated_memory(self.memory).copy_(self.clone)

    def _restore_flags(self) -> None:
        if self.original.grad_fn is not self.grad_fn:
            if self.grad_fn is None:
                self.original.detach_()
            else:
                warnings.warn(_DETACHED_WARNING.format(shape=tuple(self.original.shape)), RuntimeWarning, stacklevel=2)
        if self.original.is_leaf and self.original.requires_grad != self.requires_grad:
            self.original.requires_grad_(self.requires_grad)

    def _restore_hooks(self) -> None:
        hooks, accumulate_hooks = _tensor_hooks(self.original)
        if hooks is not self.hooks:
            self.original._backward_hooks = self.hooks
        if accumulate_hooks is not self.accumulate_hooks:
            self.original._post_accumulate_grad_hooks = self.accumulate_hooks


def _tensor_hooks(tensor: Tensor) -> tuple[Any, Any]:
    return tensor._backward_hooks, tensor._post_accumulate_grad_hooks


def _has_dense_memory(tensor: Tensor) -> bool:
    """Check whether the values are in writable strided memory."""
    try:
        return tensor.layout == torch.strided and not tensor.is_nested and tensor.data_ptr() >= 0
    except RuntimeError:
        return False


def _share_memory(first: Tensor, second: Tensor) -> bool:
    return (
        first.data_ptr() == second.data_ptr()
        and first.stride() == second.stride()
        and first.shape == second.shape
        and (first.dtype == second.dtype and first.device == second.device)
    )


def _without_repeated_memory(tensor: Tensor) -> Tensor:
    """Return the part of a tensor without repeated memory, since an expanded dimension cannot be written to."""
    for dimension, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dimension] > 1:
            tensor = tensor.narrow(dimension, 0, 1)
    return tensor


def _clone_within_memory(tensor: Tensor) -> Tensor:
    """Clone a tensor on the same device, or in CPU memory if the device is out of memory."""
    try:
        return tensor.clone()
    except torch.OutOfMemoryError:
        return tensor.cpu()


class OptimizerSnapshot(ObjectSnapshot):
    """Snapshot of a torch optimizer. The tensors of its state are copied at the first step within the block.

    Only a step changes them in place; any other in-place change cannot be undone and is reported.
    """

    def __init__(self, original: Any) -> None:
        super().__init__(original)
        self.state_tensors = list(_state_tensors(original)) if getattr(type(original).step, "hooked", False) else []
        self.versions = [_version_counter(tensor) for tensor in self.state_tensors]
        self.tensor_snapshots: list[TensorSnapshot] = []
        self.step_hook: Any = None

    def own_copies(self) -> Iterator[Any]:
        """The tensors of the state, which need no other copy."""
        yield from self.state_tensors

    def set_aside(self) -> None:
        """Register a hook for the first step."""
        if self.state_tensors:
            self.step_hook = self.original.register_step_pre_hook(lambda *_: self.copy_state())

    def copy_state(self) -> None:
        """Copy the state once."""
        if not self.tensor_snapshots:
            with torch.inference_mode(False), torch.no_grad():
                self.tensor_snapshots = [TensorSnapshot(tensor) for tensor in self.state_tensors]

    def restore(self) -> None:
        """Restore attributes and state."""
        if self.step_hook is not None:
            self.step_hook.remove()
        super().restore()
        for item in self.tensor_snapshots:
            item.restore()
        if not self.tensor_snapshots and [_version_counter(item) for item in self.state_tensors] != self.versions:
            raise RuntimeError("its state was changed in place outside its step()")


def _state_tensors(optimizer: Any) -> Iterator[Tensor]:
    """Yield the tensors in the state of an optimizer."""
    for state in optimizer.state.values():
        if isinstance(state, dict):
            yield from (value for value in state.values() if isinstance(value, Tensor))


def _version_counter(tensor: Tensor) -> int:
    """Return the version counter of a tensor; 0 for an inference tensor, which has none."""
    return 0 if tensor.is_inference() else tensor._version
