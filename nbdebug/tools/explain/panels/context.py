"""Comparison samples, tokens and axes that the panels of model internals share."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nbdebug.inference.model_runner import get_model_runner
from nbdebug.internals.class_similarity import ComparisonSamples, get_comparison_samples, to_classes
from nbdebug.sample_display.text import MAX_TOKENS
from nbdebug.tools.explain.request import ExplanationRequest

if TYPE_CHECKING:
    from nbdebug.tools.explain.data import ExplanationData

_MAX_TOKEN_LENGTH = 24  # characters of a token on an axis


def has_layers(explanation: ExplanationData) -> bool:
    """Check whether the model has layers that can be inspected."""
    model = explanation.model
    return isinstance(model, nn.Module) and not isinstance(model, torch.jit.ScriptModule)


def comparison_samples(explanation: ExplanationData) -> ComparisonSamples | None:
    """Return the comparison samples: training samples, or else the background; None without either."""
    if "comparison samples" not in explanation._cache:
        explanation._cache["comparison samples"] = _find_comparison_samples(explanation)
    cached: ComparisonSamples | None = explanation._cache["comparison samples"]
    return cached


def _find_comparison_samples(explanation: ExplanationData) -> ComparisonSamples | None:
    setup = explanation.setup
    if setup is not None and setup.has_training_data:
        return get_comparison_samples(setup, get_model_runner(setup), None, None)
    if explanation.background is None:
        return None
    return get_comparison_samples(explanation.model, get_model_runner(explanation.model), explanation.background, None)


def predicted_class(explanation: ExplanationData, row: int) -> int | None:
    """Return the predicted class of a sample; None for a single output."""
    scores = explanation.outputs[row]
    return int(scores.argmax()) if len(scores) > 1 else None


def true_class(explanation: ExplanationData, row: int) -> int | None:
    """Return the true class of a sample; None if unknown or not a class."""
    targets = explanation.truth
    classes = None if targets is None else to_classes(targets, len(targets))
    return None if classes is None else int(classes[row if len(classes) > 1 else 0])


def position_labels(explanation: ExplanationData, row: int, length: int) -> list[str]:
    """Return the labels of the positions of a sequence: tokens, image patches, or numbers."""
    for name, leaf in explanation.inputs_of_one(row).named_tensors:
        if leaf.dim() < 2:
            continue
        token_texts = _text_tokens(explanation, name, leaf[0]) if leaf.dim() == 2 else []
        if token_texts and leaf.shape[1] in (length, length - 1):
            rest = ["(padding)"] * (leaf.shape[1] - len(token_texts))
            return [*(["(first)"] * (length - leaf.shape[1])), *token_texts, *rest]
        if leaf.dim() == 4 and (patch_positions := _patch_labels(length)):
            return patch_positions
    return [str(position) for position in range(length)]


def _text_tokens(explanation: ExplanationData, name: str, ids: Tensor) -> list[str]:
    """Return the tokens of one text without padding; empty for other inputs."""
    if explanation.samples is None or ids.is_floating_point() or len(ids) > MAX_TOKENS[True]:
        return []
    is_single = len(explanation.inputs.named_tensors) == 1
    state = explanation.samples.render_input("" if is_single else name, ids.cpu(), True)
    return [str(token).strip()[:_MAX_TOKEN_LENGTH] or "␣" for token, _ in state.get("tokens", [])][: len(ids)]


def _patch_labels(length: int) -> list[str]:
    """Return the positions of a square of patches, optionally after a class token."""
    for prefix_tokens in (0, 1):
        side = isqrt(length - prefix_tokens)
        if side > 1 and side * side == length - prefix_tokens:
            labels = [f"{row + 1}, {column + 1}" for row in range(side) for column in range(side)]
            return [*(["(first)"] * prefix_tokens), *labels]
    return []


def to_bytes(values: NDArray[Any], low: float, high: float) -> bytes:
    """Return numbers as bytes, 0 at ``low`` and 255 at ``high``."""
    span = high - low if high > low else 1.0
    scaled = np.rint(255 * (np.asarray(values, np.float64) - low) / span)
    return np.nan_to_num(scaled).clip(0, 255).astype(np.uint8).tobytes()


def to_base64(parts: Iterable[bytes]) -> str:
    """Return bytes in base64."""
    return b64encode(b"".join(parts)).decode()


def explain_code(explanation: ExplanationData, row: int, request: ExplanationRequest | None = None) -> str:
    """Return the line of Python that explains one sample."""
    key = explanation.keys[row]
    return (request or explanation.request).to_code("sample" if key is None else str(key))
