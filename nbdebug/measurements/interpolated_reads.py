"""Masks of classes that a dataset interpolates while it is read, so that the numbers between two classes appear."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.data import TensorDataset

from nbdebug.measurements.registry import slow_measurement
from nbdebug.measurements.sample_variants import sample_arrays
from nbdebug.preserve import Preserve
from nbdebug.setup import Setup
from nbdebug.setup.loaders import get_visited_indices, is_map_style
from nbdebug.setup.time_limit import sample_time_limit
from nbdebug.source.location import SourceLine, get_line_from_frame

_SAMPLES, _MIN_SIDE, _MAX_CLASSES = 8, 8, 64
_TORCH_CALLS = ("interpolate", "upsample", "grid_sample")
_SCIPY_CALLS = ("zoom", "rotate", "shift", "affine_transform", "map_coordinates")
_ROUNDINGS: tuple[Callable[[Any], Any], ...] = (np.round, np.trunc, np.floor, np.ceil)
_MAX_CHANGES, _MAX_NEIGHBORS, _FEW_CLASSES = 0.3, 0.75, 3  # shares of pixels with a change, and of changes by one
_MIN_WEIGHT = 0.02  # of a class at a pixel, below which no pixel of the class is near; cubic splines have tails
_Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class InterpolatedReads:
    """The pixels of masks to which an interpolation gave a class that no pixel near them has.

    ``function`` is called on ``line``. ``wrong`` of the ``pixels`` in ``masks`` masks have such a class. ``between`` is
    the most frequent (class, lower class, higher class).
    """

    function: str
    line: SourceLine | None
    masks: int
    pixels: int
    wrong: int
    between: tuple[int, int, int]


@dataclass(frozen=True)
class _InterpolatingCall:
    """A call with one array of whole numbers; ``repeat`` calls the same function with other values in its place."""

    function: str
    line: SourceLine | None
    values: _Array
    result: _Array
    repeat: Callable[[_Array], _Array]


@slow_measurement
def interpolated_reads(setup: Setup) -> InterpolatedReads | None:
    """Masks of eight samples that an interpolating call in the dataset made, with the pixels of wrong classes.

    A class is wrong where the same call, with ones for the pixels of that class and zeros for others, has no weight.
    """
    loader = setup.train_loader
    if not is_map_style(loader) or isinstance(loader.dataset, TensorDataset):
        return None
    dataset: Any = loader.dataset
    parts: dict[tuple[str, SourceLine | None], list[tuple[int, _Array]]] = {}
    try:
        with Preserve(dataset):
            for index in get_visited_indices(loader)[:_SAMPLES]:
                calls = list[_InterpolatingCall]()
                with sample_time_limit(), _recorded(calls):
                    masks = [array for array in sample_arrays(dataset[index]) if array.dtype.kind in "iu"]
                for call in calls:
                    for mask in masks:
                        if (wrong := _wrong_pixels(call, mask)) is not None:
                            parts.setdefault((call.function, call.line), []).append((mask.size, wrong))
    except Exception:  # samples that cannot be read are reported elsewhere
        return None
    results = [_summarize(*call, masks_of_call) for call, masks_of_call in parts.items()]
    return max((result for result in results if result.wrong), key=lambda result: result.wrong, default=None)


def _summarize(function: str, line: SourceLine | None, parts: list[tuple[int, _Array]]) -> InterpolatedReads:
    wrong = np.concatenate([part for _, part in parts])
    triples, counts = np.unique(wrong, axis=0, return_counts=True) if len(wrong) else (np.zeros((1, 3)), np.zeros(1))
    number, low, high = (int(value) for value in triples[counts.argmax()])
    return InterpolatedReads(
        function, line, len(parts), sum(size for size, _ in parts), len(wrong), (number, low, high)
    )


def _wrong_pixels(call: _InterpolatingCall, mask: _Array) -> _Array | None:
    """Return the class of each wrong pixel, with the lowest and the highest class near it; None for another mask."""
    result = call.result.reshape(-1)
    if mask.size != result.size or not any(
        np.array_equal(rounding(result), mask.reshape(-1)) for rounding in _ROUNDINGS
    ):
        return None
    classes = np.unique(call.values)
    near = np.stack([call.repeat(call.values == number).reshape(-1) for number in classes]) > _MIN_WEIGHT
    numbers = mask.reshape(-1)
    positions = np.searchsorted(classes, numbers).clip(max=len(classes) - 1)
    is_near = near[positions, np.arange(len(numbers))] & (classes[positions] == numbers)
    low = classes[near.argmax(0)]
    high = classes[len(classes) - 1 - near[::-1].argmax(0)]
    is_wrong = ~is_near & near.any(0) & (low < numbers) & (numbers < high)
    return np.stack([numbers[is_wrong], low[is_wrong], high[is_wrong]], 1).astype(np.int64)


def _holds_classes(values: _Array) -> bool:
    """Return whether an array holds a map of three or more classes, as whole numbers."""
    if values.dtype.kind not in "fiu" or values.ndim < 2 or min(values.shape[-2:]) < _MIN_SIDE:
        return False
    numbers = np.unique(values)
    is_whole = bool(np.isfinite(numbers).all()) and np.array_equal(numbers, np.round(numbers))
    is_class = is_whole and 1 < len(numbers) <= _MAX_CLASSES and float(numbers[-1] - numbers[0]) > 1
    return is_class and not _are_levels(values, len(numbers))


def _are_levels(values: _Array, count: int) -> bool:
    """Return whether numbers change from pixel to pixel, or, if there are four or more, mostly to the next one.

    Those are bins of a depth or another quantity, between which a mean is right.
    """
    steps = np.abs(np.diff(values.astype(np.float64), axis=-1))
    steps = steps[steps > 0]
    are_gradual = bool(np.mean(steps == 1) > _MAX_NEIGHBORS) if len(steps) else False
    return len(steps) > _MAX_CHANGES * values.size or (count > _FEW_CLASSES and are_gradual)


@contextmanager
def _recorded(calls: list[_InterpolatingCall]) -> Iterator[None]:
    """Record the calls of torch and of ``scipy.ndimage`` that make other numbers of a map of classes."""
    module = sys.modules.get("scipy.ndimage")
    originals = {name: getattr(module, name) for name in _SCIPY_CALLS} if module is not None else {}
    for name, function in originals.items():
        setattr(module, name, _recording(name, function, calls))
    try:
        with _InterpolationRecorder(calls):
            yield
    finally:
        for name, function in originals.items():
            setattr(module, name, function)


def _recording(name: str, function: Callable[..., Any], calls: list[_InterpolatingCall]) -> Callable[..., Any]:
    """Return a function of ``scipy.ndimage`` that records its calls."""

    def record(values: Any, *args: Any, **kwargs: Any) -> Any:
        result = function(values, *args, **kwargs)
        if isinstance(values, np.ndarray) and isinstance(result, np.ndarray) and _holds_classes(values):
            line = get_line_from_frame(sys._getframe(1))
            # The result has the dtype of the values: that of whole numbers is rounded.
            calls.append(
                _InterpolatingCall(
                    name, line, values, result, lambda other: function(other.astype(np.float64), *args, **kwargs)
                )
            )
        return result

    return record


class _InterpolationRecorder(TorchFunctionMode):
    """Records the interpolating calls of torch."""

    def __init__(self, calls: list[_InterpolatingCall]) -> None:
        super().__init__()
        self._calls = calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        values = args[0] if args else kwargs.get("input")
        if name in _TORCH_CALLS and isinstance(values, Tensor) and isinstance(result, Tensor):
            array = values.detach().cpu().numpy()
            if _holds_classes(array):
                rest, options = args[1:], {key: value for key, value in kwargs.items() if key != "input"}

                def repeat(other: _Array) -> _Array:
                    with torch.no_grad(), torch._C.DisableTorchFunction():
                        output = func(torch.from_numpy(other).to(values), *rest, **options)
                    return np.asarray(output.cpu())

                line = get_line_from_frame(sys._getframe(1))
                self._calls.append(_InterpolatingCall(name, line, array, result.detach().cpu().numpy(), repeat))
        return result
