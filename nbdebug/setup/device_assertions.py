"""Calls that end the process, or its use of a device, instead of raising an exception.

A CUDA device refuses a class or an index that is out of range by an assertion: it fails at some later time, and all
weights on the device are lost (PyTorch documentation, "CUDA semantics", asynchronous execution). The CPU raises an
exception, which names the value. The CTC loss checks its labels on no device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nbdebug.exceptions import cut_traceback
from nbdebug.tensors.pytree import to_device

_Condition = Callable[..., "Tensor | bool"]
_CPU = torch.device("cpu")
_CHECKS_VALUES = ContextVar("checks_values", default=True)
_CHECKS_CTC_LABELS = ContextVar("checks_ctc_labels", default=True)


def refuse_device_assertions(device: torch.device) -> AbstractContextManager[Any]:
    """Return a block in which a call that would fail an assertion of the device raises the exception of the CPU.

    The block checks the values of indices, classes and probabilities, for which it waits for the device. It does
    nothing for devices other than CUDA, and inside ``without_value_checks``.
    """
    if device.type != "cuda" or not _CHECKS_VALUES.get():
        return nullcontext()
    return _AssertionGuard()  # type: ignore[no-untyped-call]


@contextmanager
def without_value_checks() -> Iterator[None]:
    """Check no values within the block, whose duration or memory is measured."""
    token = _CHECKS_VALUES.set(False)
    try:
        yield
    finally:
        _CHECKS_VALUES.reset(token)


@contextmanager
def refuse_ctc_labels_out_of_range() -> Iterator[None]:
    """Raise IndexError within the block where a CTC loss is called with a label for which there is no output.

    torch reads and writes outside of the memory of the outputs for it. Does nothing inside ``with_labels_of_user``.
    """
    original = torch.ctc_loss

    def checked(
        log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, *args: Any, **kwargs: Any
    ) -> Tensor:
        labels = targets
        if targets.dim() == 2:  # rows with padding, which is not read
            lengths = torch.as_tensor(target_lengths, device=targets.device)
            labels = targets[torch.arange(targets.shape[1], device=targets.device) < lengths[:, None]]
        invalid = labels[(labels < 0) | (labels >= log_probs.shape[-1])]
        if invalid.numel():
            raise IndexError(f"Target {int(invalid[0])} is out of bounds.")
        return original(log_probs, targets, input_lengths, target_lengths, *args, **kwargs)

    if not _CHECKS_CTC_LABELS.get():
        yield
        return
    torch.ctc_loss = checked
    try:
        yield
    finally:
        torch.ctc_loss = original


@contextmanager
def with_labels_of_user() -> Iterator[None]:
    """Accept all labels within the block, as the user's own loop does with them."""
    token = _CHECKS_CTC_LABELS.set(False)
    try:
        yield
    finally:
        _CHECKS_CTC_LABELS.reset(token)


class _AssertionGuard(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Repeats a call with invalid values on the CPU, which raises."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        arguments = kwargs or {}
        if not is_accepted(func, args, arguments):
            func(*to_device(args, _CPU), **to_device(arguments, _CPU))
        return func(*args, **arguments)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        """Leave, and take the frames of this class out of a traceback, which ends in the line of the user."""
        cut_traceback(traceback, _AssertionGuard.__torch_dispatch__.__code__)
        super().__exit__(kind, error, traceback)  # type: ignore[no-untyped-call]


def is_accepted(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return whether the values of a call of an ATen operator are those that it accepts, as far as they are known."""
    condition = _CONDITIONS.get(getattr(func, "overloadpacket", None))
    if condition is None or not all(map(_has_values, args)):
        return True
    names = [argument.name for argument in func._schema.arguments]
    return bool(condition(**{**dict(zip(names, args, strict=False)), **kwargs}))


def _has_values(argument: Any) -> bool:
    return not isinstance(argument, Tensor) or not (argument.is_meta or argument.is_nested or argument.is_sparse)


def _within(indices: Tensor, low: int, high: int) -> Tensor:
    """Return whether all indices are at least ``low`` and less than ``high``."""
    return ((indices >= low) & (indices < high)).all()


def _embedding(weight: Tensor, indices: Tensor, **_: Any) -> Tensor:
    return _within(indices, 0, weight.shape[0])


def _nll_loss(self: Tensor, target: Tensor, ignore_index: int = -100, **_: Any) -> Tensor:
    classes = self.shape[1 if self.dim() > 1 else 0]
    return ((target == ignore_index) | ((target >= 0) & (target < classes))).all()


def _along_axis(self: Tensor, dim: int, index: Tensor, **_: Any) -> Tensor:
    return _within(index, 0, self.shape[dim] if self.dim() else 1)


def _index(self: Tensor, indices: list[Tensor | None], **_: Any) -> bool:
    masks = (torch.bool, torch.uint8)
    if any(index is not None and index.dtype in masks for index in indices):
        return True  # a mask is checked by its shape
    pairs = zip(self.shape, indices, strict=False)
    return all(bool(_within(index, -size, size)) for size, index in pairs if index is not None)


def _take(self: Tensor, index: Tensor, **_: Any) -> Tensor:
    return _within(index, -self.numel(), self.numel())


def _are_probabilities(self: Tensor, p: float | None = None, **_: Any) -> Tensor | bool:
    return p is not None or ((self >= 0) & (self <= 1)).all()


def _are_weights(self: Tensor, **_: Any) -> Tensor:
    return (self.isfinite() & (self >= 0)).all() & (self.sum(-1) > 0).all()


def _margin_loss(self: Tensor, target: Tensor, **_: Any) -> Tensor:
    return _within(target, 0, self.shape[-1])


_CALLS_ALONG_AXIS = (
    *("gather", "index_select", "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce"),
    *("scatter_reduce_", "index_add", "index_add_", "index_copy", "index_copy_", "index_fill", "index_fill_"),
)
_ATEN = torch.ops.aten
_CONDITIONS: dict[Any, _Condition] = {
    _ATEN.embedding: _embedding,
    _ATEN._embedding_bag: _embedding,
    _ATEN._embedding_bag_forward_only: _embedding,
    _ATEN.nll_loss_forward: _nll_loss,
    _ATEN.nll_loss2d_forward: _nll_loss,
    _ATEN.binary_cross_entropy: _are_probabilities,
    _ATEN.multi_margin_loss: _margin_loss,
    _ATEN.index: _index,
    _ATEN.index_put: _index,
    _ATEN.index_put_: _index,
    _ATEN._index_put_impl_: _index,
    _ATEN.take: _take,
    _ATEN.bernoulli: _are_probabilities,
    _ATEN.multinomial: _are_weights,
    **{getattr(_ATEN, name): _along_axis for name in _CALLS_ALONG_AXIS},
}
