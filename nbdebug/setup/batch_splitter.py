"""Splits batches quickly, by reusing the split of the first batch of the same form."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from nbdebug.setup import unpacking
from nbdebug.setup.batch import Batch
from nbdebug.setup.setup import Setup

_PLAIN_TYPES = {Tensor}


class _PartKeys(NamedTuple):
    """Keys of a raw batch under which its parts are: positional arguments, keyword arguments, then targets."""

    keys: tuple[Any, ...]
    argument_count: int
    keyword_names: tuple[str, ...]


class BatchSplitter:
    """Fast ``setup.split_batch(raw)`` for tuples, lists and mappings of plain tensors."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.device, self.infers_parts = setup, setup.model_device, setup.unpack is None
        self.keys_by_form: dict[Hashable, _PartKeys | None] = {}

    def __call__(self, raw: Any) -> Batch:
        """Return the inputs and targets of a raw batch, on the model's device."""
        form = _batch_form(raw) if self.infers_parts else None
        part_keys = self.keys_by_form.get(form)
        if part_keys is None:
            return self.split(raw, form)
        keys, argument_count, names = part_keys
        device = self.device
        parts = [part if (part := raw[key]).device == device else part.to(device) for key in keys]
        targets_start = argument_count + len(names)
        keyword_arguments = dict(zip(names, parts[argument_count:targets_start], strict=True)) if names else {}
        return Batch(tuple(parts[:argument_count]), keyword_arguments, tuple(parts[targets_start:]), raw=raw)

    def split(self, raw: Any, form: Hashable) -> Batch:
        """Split a raw batch by the setup, and remember the keys for its form."""
        batch = self.setup.split_batch(raw)
        if form is not None and form not in self.keys_by_form:
            self.keys_by_form[form] = self.part_keys(raw) if self.setup.guesses_targets else None
        return batch

    def part_keys(self, raw: Any) -> _PartKeys | None:
        """Return the keys of the parts; None if a part is not one of the tensors of the raw batch."""
        batch = unpacking.guess_batch(raw, self.setup.eager_model, self.setup.loss_fn)
        keys = {id(value): key for key, value in _keyed_parts(raw)}
        parts = [*batch.args, *batch.kwargs.values(), *batch.targets]
        if len(keys) < len(raw) or any(id(part) not in keys for part in parts):
            return None
        return _PartKeys(tuple(keys[id(part)] for part in parts), len(batch.args), tuple(batch.kwargs))


def _batch_form(raw: Any) -> Hashable | None:
    """Return a key for batches that split in the same way; None unless the batch contains only plain tensors."""
    if isinstance(raw, (tuple, list)) and not hasattr(raw, "_fields"):
        return len(raw) if _PLAIN_TYPES.issuperset(map(type, raw)) and raw else None
    if isinstance(raw, Mapping):
        return tuple(raw) if _PLAIN_TYPES.issuperset(map(type, raw.values())) and raw else None
    return None


def _keyed_parts(raw: Any) -> list[tuple[Any, Any]]:
    return list(raw.items()) if isinstance(raw, Mapping) else list(enumerate(raw))
