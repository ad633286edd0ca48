"""Features of the inputs: columns, steps, channels, image patches, tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.attribution.input_features import EmbeddingRecorder, is_integer, matching_column
from nbdebug.exceptions import SetupError
from nbdebug.formatting import named_patches, range_name, split_evenly
from nbdebug.inference.dataset_sampling import SampledBatch
from nbdebug.inference.inputs import ModelInputs, has_row_per_sample
from nbdebug.sample_display.modality import HIDDEN_KEYS
from nbdebug.setup import Setup
from nbdebug.setup.batch import TARGET_KEYS

_Array = NDArray[Any]
_TOKEN_CAVEAT = (
    "a token is permuted by inserting the tokens of other samples at its positions; these also affect the metric, so "
    "uninformative tokens may seem important next to informative ones"
)
_MAX_STEPS, _MAX_TOKENS, _MAX_CHANNELS, _INSPECTED_SAMPLES = 16, 40, 64, 64


@dataclass(frozen=True)
class InputFeature:
    """A part of one input: the slices ``slices`` of each sample, or all positions of a ``token``.

    ``kind`` is "column", "step", "channel", "patch", "token" or "input"; ``leaf`` is the index of the input.
    """

    name: str
    input: str
    kind: str
    leaf: int
    slices: tuple[slice, ...] = ()
    token: int | None = None

    def with_donors(self, leaf: Tensor, donors: Tensor) -> Tensor:
        """Replace the feature with its values in other samples."""
        if self.token is not None:
            return torch.where(leaf == self.token, leaf[donors], leaf)
        result, index = leaf.clone(), (slice(None), *self.slices)
        result[index] = leaf[index][donors]
        return result

    def sum_attributions(self, values: _Array, leaf: _Array) -> _Array:
        """Sum the attributions to the feature, one number per sample."""
        if self.token is not None:
            return np.asarray((values * (leaf == self.token)).sum(1))
        return np.asarray(values[(slice(None), *self.slices)].reshape(len(values), -1).sum(1))

    def sample_values(self, leaf: Tensor) -> _Array:
        """Return the feature's value per sample: the value, the mean of several, or the count of a token."""
        selected = leaf == self.token if self.token is not None else leaf[(slice(None), *self.slices)]
        values = selected.reshape(len(leaf), -1).double()
        return (values.sum(1) if self.token is not None else values.mean(1)).cpu().numpy()


def find_features(
    setup: Setup, sampled: SampledBatch, decode: Callable[[int], str] | None = None
) -> tuple[list[InputFeature], list[str]]:
    """Return the features of all inputs, and notes; raise SetupError if no input has a row per sample."""
    inputs, features = sampled.inputs, list[InputFeature]()
    usable_inputs = [
        (number, name, leaf)
        for number, (name, leaf) in enumerate(zip(inputs.names, inputs.leaves, strict=True))
        if has_row_per_sample(leaf, len(sampled)) and _is_model_input(name) and not leaf.is_complex()
    ]
    for number, name, leaf in usable_inputs:
        features += _input_features(setup, inputs, number, name, leaf, decode)
    if not features:
        raise SetupError(
            "the inputs have no tensor with one row per sample; expected numbers or tokens. Pass forward= and "
            "unpack= so that the model gets tensors."
        )
    if len(usable_inputs) > 1:
        features = [replace(feature, name=f"{feature.input}: {feature.name}") for feature in features]
    notes = _name_count_notes(setup, [leaf.shape[1] for _, _, leaf in usable_inputs if leaf.dim() == 2])
    return features, [*notes, *([_TOKEN_CAVEAT] if any(feature.token is not None for feature in features) else [])]


def _is_model_input(name: str) -> bool:
    """Check for an input that is neither a mask nor a target."""
    input_name = name.rsplit(".")[-1]
    return input_name not in HIDDEN_KEYS and input_name not in TARGET_KEYS


def _name_count_notes(setup: Setup, widths: list[int]) -> list[str]:
    """Return a note if the number of feature names fits no input."""
    names = setup.feature_names
    if not names or len(names) in widths:
        return []
    expected = " or ".join(map(str, widths)) or "none, since no input is a table"
    return [f"feature_names has {len(names)} names; expected {expected}. Column numbers are used instead"]


def _input_features(
    setup: Setup, inputs: ModelInputs, number: int, name: str, leaf: Tensor, decode: Callable[[int], str] | None
) -> Iterator[InputFeature]:
    """Yield the features of one input according to its shape."""
    if leaf.dim() == 2 and is_integer(leaf) and _is_tokens(setup, inputs, leaf):
        yield from _token_features(name, number, leaf, decode)
    elif leaf.dim() == 2:
        names = setup.feature_names or []
        column_names = names if len(names) == leaf.shape[1] else [f"column {j}" for j in range(leaf.shape[1])]
        yield from (
            InputFeature(column_name, name, "column", number, (slice(j, j + 1),))
            for j, column_name in enumerate(column_names)
        )
    elif leaf.dim() == 3:
        yield from _series_features(name, number, leaf.shape[1:])
    elif leaf.dim() == 4:
        yield from _image_features(name, number, leaf.shape[1:])
    else:
        yield InputFeature(name, name, "column" if leaf.dim() == 1 else "input", number)


def _is_tokens(setup: Setup, inputs: ModelInputs, leaf: Tensor) -> bool:
    """Check for an embedding that takes the whole input; columns with separate embeddings are categories."""
    rows = torch.arange(min(_INSPECTED_SAMPLES, len(leaf)))
    first_samples, recorder = inputs.take(rows).batch, EmbeddingRecorder(setup.eager_model)
    with torch.no_grad(), recorder.recording():
        setup.predict(first_samples)
    return any(matching_column(ids, leaf[: len(rows)]) == -1 for _, _, ids, _ in recorder.calls)


def _token_features(
    name: str, number: int, leaf: Tensor, decode: Callable[[int], str] | None
) -> Iterator[InputFeature]:
    """Yield the tokens that occur in most samples."""
    token_ids, counts = torch.unique(
        torch.cat([sample.unique() for sample in leaf]) if len(leaf) else leaf.reshape(-1), return_counts=True
    )
    for i in torch.argsort(counts, descending=True, stable=True)[:_MAX_TOKENS].tolist():
        token = int(token_ids[i])
        yield InputFeature(decode(token) if decode else f"token {token}", name, "token", number, (), token)


def _series_features(name: str, number: int, shape: Sequence[int]) -> Iterator[InputFeature]:
    """Yield time steps along the longer axis, and the channels of the other axis."""
    time = 0 if shape[0] >= shape[1] else 1
    everything = slice(None)
    for start, stop in split_evenly(shape[time], _MAX_STEPS):
        step_name = range_name("step", start, stop)
        yield InputFeature(
            step_name, name, "step", number, (slice(start, stop),) if time == 0 else (everything, slice(start, stop))
        )
    if 1 < shape[1 - time] <= _MAX_CHANNELS:
        for c in range(shape[1 - time]):
            channel_slice = slice(c, c + 1)
            yield InputFeature(
                f"channel {c}", name, "channel", number, (everything, channel_slice) if time == 0 else (channel_slice,)
            )


def _image_features(name: str, number: int, shape: Sequence[int]) -> Iterator[InputFeature]:
    """Yield the patches of a grid, and the channels, which come first or last."""
    channels_last, everything = has_channels_last(shape), slice(None)
    channels, height, width = (shape[2], shape[0], shape[1]) if channels_last else tuple(shape)
    for *box, patch_name in named_patches(height, width):
        yield InputFeature(patch_name, name, "patch", number, tuple(box) if channels_last else (everything, *box))
    if 1 < channels <= _MAX_CHANNELS:
        for c in range(channels):
            channel_slice = slice(c, c + 1)
            yield InputFeature(
                f"channel {c}",
                name,
                "channel",
                number,
                (everything, everything, channel_slice) if channels_last else (channel_slice,),
            )


def has_channels_last(shape: Sequence[int]) -> bool:
    """Check for images with channels last."""
    return shape[2] <= 4 < shape[0]


def feature_matrix(inputs: ModelInputs, features: Sequence[InputFeature]) -> _Array:
    """Return the values of the features, samples × features."""
    return np.stack([feature.sample_values(inputs.leaves[feature.leaf]) for feature in features], 1)
