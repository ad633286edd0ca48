"""The samples to explain, by dataset index or passed by the user, with their true labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from nbdebug.attribution import Attribution, attribute
from nbdebug.exceptions import SetupError
from nbdebug.inference.inputs import ModelInputs, as_inputs, as_tensors
from nbdebug.preserve import Preserve
from nbdebug.sample_display.samples import fetch_samples
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import is_map_style
from nbdebug.setup.unpacking import collate_error
from nbdebug.tensors.pytree import describe_tensors, tree_map, tree_tensors
from nbdebug.tools.explain.backgrounds import get_background
from nbdebug.tools.explain.request import ExplanationRequest
from nbdebug.validation import as_index, describe_type

_MAX_SAMPLES = 64


@dataclass(frozen=True)
class ExplainedSamples:
    """Samples as one batch; ``keys`` are their dataset indices, None for samples passed by the user."""

    batch: Batch
    keys: tuple[int | None, ...]
    loader: Any = None

    @cached_property
    def inputs(self) -> ModelInputs:
        """The inputs alone; raises SetupError for inputs without samples."""
        return as_inputs(self.batch, None)

    @property
    def truth(self) -> Tensor | None:
        """The true classes or values, one per sample, from the targets or labels; None if there are none."""
        target = self.batch.target_or_label
        if not isinstance(target, Tensor) or target.numel() != len(self.keys):
            return None
        return target.detach().reshape(-1).cpu()

    def attribute(
        self,
        setup_or_model: Any,
        background: ModelInputs | None,
        request: ExplanationRequest,
        score: Callable[[Any], Any] | None,
    ) -> Attribution:
        """Compute an attribution; ``background`` holds the default comparison samples."""
        return attribute(
            setup_or_model, self.inputs, request.target, request.method,
            get_background(self.inputs, background, request), space=request.space, labels=self.truth, score=score,
            **request.options,
        )  # fmt: skip


def resolve_samples(setup: Setup | None, model: Any, sample: Any, loader: Any) -> ExplainedSamples:
    """Return the samples of an index, of several indices, or as passed; raise SetupError for other values."""
    if setup is None:
        inputs = as_inputs(sample, model)
        return ExplainedSamples(sample if isinstance(sample, Batch) else inputs.batch, (None,) * inputs.size)
    has_loader = setup.has_training_data or not isinstance(loader, str | None)
    loader = setup.resolve_loader(loader) if has_loader else None
    if (indices := _to_indices(sample)) is None:
        return _user_samples(setup, sample)
    _check_indices(indices, loader)
    keys = tuple(dataset_index % len(loader.dataset) for dataset_index in indices)
    samples = []
    for dataset_index, raw_sample in fetch_samples(loader.dataset, keys):
        if isinstance(raw_sample, Exception):
            raise SetupError(
                f"sample {dataset_index} raised {type(raw_sample).__name__}: {raw_sample}; expected a sample. "
                "Fix the data set."
            ) from raw_sample
        samples.append(raw_sample)
    with _collating(setup, samples):
        return ExplainedSamples(setup.split_batch(_get_collate(loader)(samples)), keys, loader)


def _to_indices(sample: Any) -> list[int] | None:
    """Return dataset indices from one or several numbers; None for anything else."""
    if isinstance(sample, (bool, type)):
        raise SetupError(f"sample is {sample}; expected a dataset index or a sample. Pass a number.")
    if (dataset_index := as_index(sample)) is not None:
        return [dataset_index]
    plain = isinstance(sample, (list, tuple, range)) and len(sample) > 0
    if plain and all(isinstance(item, Integral) and not isinstance(item, bool) for item in sample):
        return [int(item) for item in sample]
    return None


def _check_indices(indices: Sequence[int], loader: Any) -> None:
    """Raise SetupError for indices that are not in the data set of a loader."""
    if len(indices) > _MAX_SAMPLES:
        raise SetupError(
            f"sample is {len(indices)} indices; expected up to {_MAX_SAMPLES}. "
            "Use dbg.importance() for the whole data set."
        )
    if loader is None:
        raise SetupError(
            f"sample is {indices[0]} and there is no loader; expected a loader with that index in its data set. "
            "Pass the sample itself, or train_loader= next to the model."
        )
    if not is_map_style(loader):
        raise SetupError(
            f"the loader is {describe_type(loader)}, whose samples have no index; expected a DataLoader over an "
            "indexed data set. Pass the sample itself."
        )
    size = len(loader.dataset)
    if not size:
        raise SetupError("the data set has 0 samples; expected at least one. Check what it reads.")
    for dataset_index in indices:
        if not -size <= dataset_index < size:
            raise SetupError(f"sample is {dataset_index}; expected 0 to {size - 1}. Choose one in the error browser.")


@contextmanager
def _collating(setup: Setup, samples: Sequence[Any]) -> Iterator[None]:
    """Preserve the setup while samples are collated; raise SetupError if they do not fit in one batch."""
    try:
        with Preserve(*setup.mutable_objects):
            yield
    except SetupError:
        raise
    except Exception as error:
        raise collate_error(samples, error, "Explain them one by one") from error


def _get_collate(loader: Any) -> Callable[[Any], Any]:
    return getattr(loader, "collate_fn", None) or torch.utils.data.default_collate


def _user_samples(setup: Setup, sample: Any) -> ExplainedSamples:
    """Return samples passed by the user: a batch of inputs, a single input, or a sample with its target."""
    if sample is None or isinstance(sample, (str, float)) or (isinstance(sample, (list, tuple)) and not sample):
        raise SetupError(f"sample is {sample!r}; expected a dataset index or a sample. Pass a number.")
    if isinstance(sample, Batch):
        return ExplainedSamples(sample, (None,) * sample.size)
    if not setup.has_training_data:
        inputs = as_inputs(sample, setup.eager_model)
        return ExplainedSamples(inputs.batch, (None,) * inputs.size)
    first = next(iter(setup.batches(1)))
    converted = as_tensors(sample)
    is_tuple = isinstance(converted, (tuple, list)) and len(converted) > 1
    matching = None if is_tuple and len(converted) != len(first.args) else _match_axes(converted, _axis_counts(first))
    if matching is not None:
        inputs = as_inputs(matching, setup.eager_model)
        return ExplainedSamples(inputs.batch, (None,) * inputs.size)
    samples = [tuple(converted) if is_tuple else converted]
    with _collating(setup, samples):
        batch = setup.split_batch(_get_collate(setup.train_loader)(samples))
    if _axis_counts(batch) != _axis_counts(first):
        raise SetupError(
            f"sample is {describe_tensors(sample)}; expected {describe_tensors(first.inputs)} as in the training data, "
            "or one sample. Pass a dataset index, or such a tensor."
        )
    return ExplainedSamples(batch, (None,), setup.train_loader)


def _match_axes(sample: Any, expected_axes: list[int]) -> Any:
    """Return inputs with as many axes as expected, to which a single sample adds one; None for other inputs."""
    sample_axes = [tensor.dim() for tensor in tree_tensors(sample)]
    if sample_axes == expected_axes:
        return sample
    if expected_axes and [dim + 1 for dim in sample_axes] == expected_axes:
        return tree_map(sample, lambda leaf: leaf[None] if isinstance(leaf, Tensor) else leaf)
    return None


def _axis_counts(batch: Batch) -> list[int]:
    return [tensor.dim() for _, tensor in ModelInputs.of(batch).named_tensors]
