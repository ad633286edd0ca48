"""Comparison samples of an attribution: training data, their mean, zeros, or shuffled values, with matching lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.inference.dataset_sampling import first_training_samples
from nbdebug.inference.inputs import ModelInputs
from nbdebug.setup import Setup
from nbdebug.tools.explain.request import BACKGROUND_DESCRIPTIONS, ExplanationRequest


def _fit_length(background: ModelInputs | None, samples: ModelInputs) -> ModelInputs | None:
    """Pad or truncate sequences of the background to the length of the samples; zeros are used as padding.

    Only the axis after the sample axis may differ, and not for images; other backgrounds are returned unchanged and
    rejected where they are used.
    """
    if background is None:
        return None
    changed = {
        number: _to_length_of(leaf, sample_leaf)
        for number, (leaf, sample_leaf) in enumerate(zip(background.leaves, samples.leaves, strict=False))
        if isinstance(leaf, Tensor) and isinstance(sample_leaf, Tensor) and _differ_in_length(leaf, sample_leaf)
    }
    return background.with_leaves(changed) if changed else background


def _differ_in_length(leaf: Tensor, sample_leaf: Tensor) -> bool:
    """Check whether two batches of sequences differ only in length."""
    same_axes = leaf.dim() == sample_leaf.dim() and 2 <= leaf.dim() <= 3
    differs = same_axes and leaf.shape[1] != sample_leaf.shape[1] and leaf.shape[2:] == sample_leaf.shape[2:]
    return differs and (leaf.dim() == 3 or not leaf.is_floating_point())


def _to_length_of(leaf: Tensor, sample_leaf: Tensor) -> Tensor:
    length = sample_leaf.shape[1]
    if leaf.shape[1] >= length:
        return leaf[:, :length]
    padded: Tensor = torch.zeros(len(leaf), length, *leaf.shape[2:], dtype=leaf.dtype, device=leaf.device)
    padded[:, : leaf.shape[1]] = leaf
    return padded


def create_background(name: str, samples: ModelInputs, data: ModelInputs | None) -> ModelInputs:
    """Return a background by name; raise SetupError for an unknown one."""
    if name not in BACKGROUND_DESCRIPTIONS:
        raise SetupError(
            f"background is {name!r}; expected {', '.join(BACKGROUND_DESCRIPTIONS)}, or samples. Choose one."
        )
    if name in ("data", "mean") and data is None:
        raise SetupError(
            f"background is {name!r} and there is no training data; expected some. Pass background=samples."
        )
    data = _fit_length(data, samples)
    if name == "data":
        assert data is not None
        return data
    source = data if name == "mean" and data is not None else samples
    has_real_inputs = any(leaf.is_floating_point() for _, leaf in source.named_tensors)
    return _replace_inputs(source, _BACKGROUND_FUNCTIONS[name], name != "mean" and not has_real_inputs)


def get_background(samples: ModelInputs, data: ModelInputs | None, request: ExplanationRequest) -> ModelInputs | None:
    """Return the background of a request; None without data, for methods that need none."""
    if request.background == "data" and data is None:
        return None
    return create_background(request.background, samples, data)


def _replace_inputs(inputs: ModelInputs, make: Callable[[Tensor], Tensor], tokens: bool = False) -> ModelInputs:
    """Return inputs whose real inputs come from ``make``; the rest is that of the first sample.

    ``tokens`` also replaces integers, if there are no real inputs.
    """
    replaced = {
        number: make(leaf.detach()) for number, _, leaf in inputs.sample_leaves if leaf.is_floating_point() or tokens
    }
    if not replaced:
        raise SetupError("the inputs are integers; expected real numbers to take a mean of. Use 'data' or 'zeros'.")
    rows = len(next(iter(replaced.values())))
    return inputs.take(torch.arange(1)).take(torch.zeros(rows, dtype=torch.long)).with_leaves(replaced)


def _shuffled_values(leaf: Tensor, count: int = 16) -> Tensor:
    """Return the values of the first sample in random order: the same distribution without structure."""
    random = torch.Generator().manual_seed(0)
    flat = leaf[0].flatten().cpu()
    rows = [flat[torch.randperm(len(flat), generator=random)] for _ in range(count)]
    return torch.stack(rows).reshape(count, *leaf.shape[1:]).to(leaf)


_BACKGROUND_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda leaf: leaf.mean(0, keepdim=True),
    "zeros": lambda leaf: torch.zeros_like(leaf[:1]),
    "shuffled": _shuffled_values,
}


def default_background(setup: Setup | None, background: Any) -> Any:
    """Return the default comparison samples: the user's, or else the first of the training data."""
    if background is not None and not isinstance(background, str):
        return background
    return first_training_samples(setup) if setup is not None and setup.has_training_data else None
