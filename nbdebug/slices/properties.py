"""What can be told of an input at a glance: the brightness of an image, the length of a text, missing values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.slices.images import as_images, of_images
from nbdebug.slices.rows import WIDEST, Usual, is_smooth, of_rows, of_series, of_tokens
from nbdebug.slices.text import of_texts

Column = NDArray[Any]
ENOUGH = 1 << 20  # numbers that are looked at in one go; small batches wait for each other


class Properties:
    """Properties of the inputs of a pass, batch after batch; they stay on their device until ``columns`` is asked.

    What kind of input it is, and which values are usual in it, is taken from the first batch. ``padding`` and
    ``unknown`` are tokens, ``known`` are the words of a vocabulary. What is no kind of input that is known has no
    properties; neither has a pass whose batches have different ones.
    """

    def __init__(self, *, padding: int = 0, unknown: int | None = None, known: Collection[str] | None = None) -> None:
        self.padding, self.unknown, self.known = padding, unknown, known
        self.parts: list[Mapping[str, Any]] = []
        self.waiting: list[Tensor] = []
        self.usual: Usual | None = None
        self.smooth: bool | None = None

    def add(self, inputs: Any) -> None:
        """The inputs of one batch, as the model is given them."""
        if self.parts and not self.parts[0]:
            return
        small = isinstance(inputs, Tensor) and inputs.layout == torch.strided and 0 < inputs.numel() < ENOUGH // 2
        if not small or (self.waiting and not alike(self.waiting[0], inputs)):
            self.look()
        if not small:
            self.parts.append(self.measured(inputs))
            return
        self.waiting.append(inputs.detach().clone())  # a model may change its input in place
        if sum(one.numel() for one in self.waiting) >= ENOUGH:
            self.look()

    def look(self) -> None:
        """Takes the properties of the batches that wait."""
        if self.waiting:
            self.parts.append(self.measured(torch.cat(self.waiting) if len(self.waiting) > 1 else self.waiting[0]))
            self.waiting = []

    def columns(self, rows: int | None = None) -> dict[str, Column]:
        """A value of each property for each input; without those that are the same throughout.

        Where there must be so many ``rows``, those of another length are left out: inputs whose first axis is time.
        """
        self.look()
        names = list(self.parts[0]) if self.parts else []
        if any(list(part) != names for part in self.parts):
            return {}
        whole = {name: joined([part[name] for part in self.parts]) for name in names}
        return {name: values for name, values in whole.items() if rows in (None, len(values)) and varies(values)}

    def measured(self, inputs: Any) -> Mapping[str, Any]:
        """The properties of one batch; of several inputs those of the first that has any."""
        if isinstance(inputs, Tensor):
            return self.of_tensor(inputs.detach())
        if isinstance(inputs, Mapping):
            return next((found for one in inputs.values() if (found := self.measured(one))), {})
        if isinstance(inputs, (list, tuple)) and len(inputs):
            if all(isinstance(one, str) for one in inputs):
                return of_texts(inputs, self.known)
            return next((found for one in inputs if not isinstance(one, str) and (found := self.measured(one))), {})
        return {}

    def of_tensor(self, inputs: Tensor) -> Mapping[str, Tensor]:
        """The properties of a batch that is one tensor."""
        if inputs.layout != torch.strided or inputs.dim() < 2 or 0 in inputs.shape or inputs.is_complex():
            return {}
        if (images := as_images(inputs)) is not None:
            return of_images(images)
        if inputs.dim() == 2 and not inputs.is_floating_point():
            return of_tokens(inputs, self.padding, self.unknown)
        if inputs.dim() == 2:
            return self.of_rows(inputs)
        return of_series(inputs if inputs.shape[1] < inputs.shape[2] else inputs.mT) if inputs.dim() == 3 else {}

    def of_rows(self, rows: Tensor) -> Mapping[str, Tensor]:
        """Rows of a table, or series if neighboring values are alike."""
        if self.smooth is None:
            self.smooth = is_smooth(rows)
            self.usual = None if self.smooth or rows.shape[1] > WIDEST else Usual(rows)
        if self.smooth:
            return of_series(rows.unsqueeze(1))
        return of_rows(rows.float(), self.usual) if self.usual is not None else {}


def measure(inputs: Any, **told: Any) -> dict[str, Column]:
    """The properties of inputs: a batch of tensors as a model is given them, or a list of single samples.

    A list holds texts, or arrays or tensors, which may differ in size. Takes the options of ``Properties``.
    """
    found = Properties(**told)
    if isinstance(inputs, np.ndarray) and inputs.dtype.kind in "fiub":
        inputs = torch.as_tensor(inputs)
    if isinstance(inputs, (list, tuple, np.ndarray)) and len(inputs) and not isinstance(inputs[0], str):
        return of_samples(list(inputs), found)
    found.add(list(inputs) if isinstance(inputs, (list, tuple, np.ndarray)) else inputs)
    return found.columns()


def of_samples(samples: Sequence[Any], found: Properties) -> dict[str, Column]:
    """The properties of samples one by one; of images also how wide they are for their height."""
    if not all(isinstance(one, (Tensor, np.ndarray)) for one in samples):
        return {}
    arrays = [one if isinstance(one, Tensor) else np.asarray(one) for one in samples]
    if any(isinstance(one, np.ndarray) and one.dtype.kind not in "fiub" for one in arrays):
        return {}
    tensors = [torch.as_tensor(one) for one in arrays]
    if len({one.shape for one in tensors}) == 1:
        found.add(torch.stack(tensors))
        return found.columns()
    for one in tensors:
        found.add(one[None])
    images = [as_images(one[None]) for one in tensors]
    columns = found.columns()
    if all(one is not None for one in images):
        columns["aspect"] = np.array([one.shape[3] / one.shape[2] for one in images if one is not None], np.float32)
    return columns


def alike(one: Tensor, other: Tensor) -> bool:
    """Whether two batches can be put together."""
    return one.dim() > 0 and one.shape[1:] == other.shape[1:] and (one.dtype, one.device) == (other.dtype, other.device)


def joined(parts: Sequence[Any]) -> Column:
    """Batches as one column, brought from their device at once; whole numbers stay whole."""
    if not isinstance(parts[0], Tensor):
        return np.concatenate(parts)
    whole = torch.cat(list(parts))
    return np.asarray((whole.int() if not whole.is_floating_point() else whole.float()).cpu().numpy())


def varies(values: Column) -> bool:
    """Whether a column tells inputs apart."""
    known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return len(known) > 0 and bool(known.min() < known.max())
