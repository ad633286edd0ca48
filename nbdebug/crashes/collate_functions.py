"""Collate functions for samples that the default one cannot stack: padded, resized, kept as lists, or left out."""

from __future__ import annotations

import ast
from collections import Counter
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset

from nbdebug.crashes.crash import Crash
from nbdebug.crashes.creations import crash_files
from nbdebug.finding import Edit
from nbdebug.source.edits import append_argument
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, syntax_tree

_STACKED = "torch.utils.data.default_collate([{part} for sample in samples])"
_PADDED = "torch.nn.utils.rnn.pad_sequence([torch.as_tensor({part}{dtype}) for sample in samples], batch_first=True)"
_RESIZED = "torch.stack([torch.nn.functional.interpolate({part}[None], size={size})[0] for sample in samples])"
_LISTED = "[{part} for sample in samples]"


def collate_function(samples: list[Any]) -> str:
    """Return the source of a collate function ``collate(samples)`` for samples like some; "" if none fits."""
    complete = [sample for sample in samples if not has_none(sample)]
    if not complete:
        return ""
    lines = ["def collate(samples):"]
    if len(complete) < len(samples):
        lines.append("    samples = [sample for sample in samples if sample is not None]")
        if any(sample is not None and has_none(sample) for sample in samples):
            lines[-1] = "    samples = [sample for sample in samples if all(part is not None for part in sample)]"
    first = complete[0]
    if isinstance(first, tuple) and not hasattr(first, "_fields"):
        parts = [_part([sample[i] for sample in complete], f"sample[{i}]") for i in range(len(first))]
        body = f"({', '.join(parts)},)"
    elif isinstance(first, dict):
        entries = [f"{key!r}: {_part([sample[key] for sample in complete], f'sample[{key!r}]')}" for key in first]
        body = "{" + ", ".join(entries) + "}"
    else:
        body = _part(complete, "sample")
    return "\n".join([*lines, f"    return {body}"])


def has_none(sample: Any) -> bool:
    """Return whether a sample, or a part of it, is None."""
    return sample is None or (isinstance(sample, (tuple, list)) and any(part is None for part in sample))


def _part(values: list[Any], text: str) -> str:
    shapes = [_shape(value) for value in values]
    if all(shape is None for shape in shapes):
        is_stackable = all(isinstance(value, (int, float, str, dict, tuple, Tensor)) for value in values)
        return (_STACKED if is_stackable else _LISTED).format(part=text)
    sizes = [shape for shape in shapes if shape is not None]
    if len({*sizes}) == 1 and len(sizes) == len(values) and not isinstance(values[0], list):
        return _STACKED.format(part=text)
    if len({len(size) for size in sizes}) == 1 and len({size[1:] for size in sizes}) == 1:
        return _PADDED.format(part=text, dtype=", dtype=torch.float32" if _has_fractions(values) else "")
    if all(isinstance(value, Tensor) and value.dim() == 3 and value.is_floating_point() for value in values):
        size = Counter(size[1:] for size in sizes).most_common(1)[0][0]
        return _RESIZED.format(part=text, size=tuple(size))
    return _LISTED.format(part=text)


def _has_fractions(values: list[Any]) -> bool:
    return any(isinstance(item, float) for value in values if isinstance(value, list) for item in value)


def _shape(value: Any) -> tuple[int, ...] | None:
    """Return the shape of an array, a tensor or a list of numbers; None for other values."""
    if isinstance(value, (Tensor, np.ndarray)):
        return tuple(value.shape)
    is_list = isinstance(value, list) and all(isinstance(item, (int, float)) for item in value)
    return (len(value),) if is_list else None


def _reads_another_class(crash: Crash, loader: ast.Call) -> bool:
    """Return whether the dataset of a loader is of another class than the one whose samples could not be collated."""
    fetcher = next((f.variables.get("self") for f in crash.frames if f.is_in("utils/data/_utils/fetch")), None)
    dataset = getattr(fetcher, "dataset", None)
    argument = next((k.value for k in loader.keywords if k.arg == "dataset"), loader.args[0] if loader.args else None)
    if dataset is None or argument is None:
        return False
    if isinstance(argument, ast.Call):
        name = call_name(argument)
        return name[:1].isupper() and name != type(dataset).__name__
    values = (
        (frame.variables.get(argument.id) for frame in crash.user_frames()) if isinstance(argument, ast.Name) else ()
    )
    known = [value for value in values if isinstance(value, Dataset)]
    return bool(known) and all(type(value) is not type(dataset) for value in known)


def use_collate_function(crash: Crash, source: str) -> tuple[SourceLine | None, tuple[Edit, ...]]:
    """Return the line of the first loader without a collate function, and the edits that give one to all such.

    Loaders of datasets that are known to be of another class than the one that was read are left as they are.
    """
    loaders = [
        (file, node)
        for file in sorted(crash_files(crash))
        for node in ast.walk(syntax_tree(file) or ast.Module([], []))
        if isinstance(node, ast.Call) and call_name(node) == "DataLoader" and not _reads_another_class(crash, node)
    ]
    own = [(file, call) for file, call in loaders if not any(k.arg == "collate_fn" for k in call.keywords)]
    tree = syntax_tree(own[0][0]) if own else None
    if not source or tree is None:
        return None, ()
    file = own[0][0]
    first = min(call.lineno for path, call in own if path == file)
    outer = next(s for s in tree.body if s.lineno <= first <= (s.end_lineno or s.lineno))
    number = min([outer.lineno, *(decorator.lineno for decorator in getattr(outer, "decorator_list", ()))])
    imported = [alias for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
    has_torch = any(alias.name == "torch" and not alias.asname for alias in imported)
    text = ("" if has_torch else "import torch\n\n") + source + "\n\n\n"
    uses = (append_argument(path, call, "collate_fn=collate") for path, call in own)
    return SourceLine(file, first), (*uses, Edit(file, number, 0, number, 0, text))
