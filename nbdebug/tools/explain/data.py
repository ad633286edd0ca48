"""The data of an explanation: samples, model outputs, and attributions so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from nbdebug.attribution import Attribution
from nbdebug.exceptions import SetupError
from nbdebug.inference.inputs import ModelInputs, as_inputs
from nbdebug.tools.explain.request import ExplanationRequest
from nbdebug.tools.explain.samples import ExplainedSamples, resolve_samples
from nbdebug.validation import argument_error, as_index

if TYPE_CHECKING:
    from torch import Tensor
    from typing_extensions import Self

    from nbdebug.sample_display import SampleDisplay
    from nbdebug.setup import Batch, Setup


@dataclass(frozen=True, eq=False)
class ExplanationData:
    """One or a few samples, the model outputs for them, and their attributions; panels and page requests read them.

    ``attribution`` is the first one, of all samples; ``attribute()`` computes others. ``background`` holds the default
    comparison samples. ``setup`` is None for a black box. ``_cache`` holds everything computed so far.
    """

    model: Any = field(repr=False)
    explained_samples: ExplainedSamples = field(repr=False)
    request: ExplanationRequest
    attribution: Attribution
    background: Batch | None = field(default=None, repr=False)
    setup: Setup | None = field(default=None, repr=False)
    samples: SampleDisplay | None = field(default=None, repr=False)
    score: Callable[[Any], Any] | None = field(default=None, repr=False)
    seconds: float = 0.0
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Remember the first attribution."""
        self._cache.setdefault("computed", {self.request.key: (self.request, self.attribution)})

    @property
    def batch(self) -> Batch:
        """The explained samples."""
        return self.explained_samples.batch

    @property
    def inputs(self) -> ModelInputs:
        """The inputs of the explained samples."""
        return self.explained_samples.inputs

    @cached_property
    def background_inputs(self) -> ModelInputs | None:
        """The inputs of the default comparison samples."""
        return None if self.background is None else as_inputs(self.background, None, "background")

    @property
    def keys(self) -> tuple[int | None, ...]:
        """The dataset index of each sample; None for a sample passed by the user."""
        return self.explained_samples.keys

    @property
    def loader(self) -> Any:
        """The loader of the samples, or None."""
        return self.explained_samples.loader

    @property
    def dataset(self) -> Any:
        """The data set of the samples, or None."""
        return getattr(self.explained_samples.loader, "dataset", None)

    @property
    def truth(self) -> Tensor | None:
        """The true class or value of each sample, or None."""
        return self.explained_samples.truth

    @property
    def outputs(self) -> Tensor:
        """The model outputs, samples × outputs."""
        assert self.attribution.outputs is not None
        return torch.from_numpy(self.attribution.outputs)

    def __len__(self) -> int:
        return len(self.explained_samples.keys)

    def check_row(self, number: Any) -> int:
        """Return the number of a sample; raise SetupError if it does not exist."""
        row_index = as_index(number)
        if row_index is None or not 0 <= row_index < len(self):
            raise argument_error("row", number, f"0 to {len(self) - 1}", "Choose one of the samples")
        return row_index

    def batch_of_one(self, row: int) -> Batch:
        """Return one sample with its target as a batch of one."""
        inputs = self.inputs_of_one(row := self.check_row(row))
        targets = tuple(target[row : row + 1] if hasattr(target, "dim") else target for target in self.batch.targets)
        return replace(inputs.batch, targets=targets)

    def inputs_of_one(self, row: int) -> ModelInputs:
        """Return the inputs of one sample."""
        return self.inputs.take(torch.tensor([self.check_row(row)]))

    @property
    def setup_or_model(self) -> Any:
        """The explained object: the setup, or the black box."""
        return self.model if self.setup is None else self.setup

    def attribute(self, **changes: Any) -> Attribution:
        """Return another attribution of the same samples, computed once; raise SetupError if it does not apply.

        Takes ``method``, ``target``, ``background`` by name, ``space`` and ``options``; the defaults are those of the
        explanation.
        """
        request = self.request.replace(**changes)
        cached: dict[Any, tuple[ExplanationRequest, Attribution]] = self._cache["computed"]
        if request.key not in cached:
            args = self.setup_or_model, self.background_inputs, request, self.score
            cached[request.key] = (request, self.explained_samples.attribute(*args))
        return cached[request.key][1]

    def computed(self) -> list[tuple[ExplanationRequest, Attribution]]:
        """Return all attributions so far with their requests; the first is ``attribution``."""
        return list(self._cache["computed"].values())

    def for_sample(self, row: int) -> Self:
        """Return the explanation of one of the samples alone."""
        row = self.check_row(row)
        samples = replace(self.explained_samples, batch=self.batch_of_one(row), keys=(self.keys[row],))
        return self.for_samples(samples)

    def for_dataset_index(self, key: int) -> Self:
        """Return the explanation of another sample of the same data set; raise SetupError without a data set."""
        if self.setup is None or self.dataset is None:
            raise SetupError(
                "the sample does not come from a data set; expected one that does. Explain a sample by its index first."
            )
        if (dataset_index := as_index(key)) is None:
            raise argument_error("key", key, "a dataset index", "Pass a number")
        return self.for_samples(resolve_samples(self.setup, self.model, dataset_index, self.loader))

    def for_samples(self, samples: ExplainedSamples) -> Self:
        """Return the explanation of other samples with the same request."""
        attribution = samples.attribute(self.setup_or_model, self.background_inputs, self.request, self.score)
        return replace(self, explained_samples=samples, attribution=attribution, seconds=attribution.seconds, _cache={})

    def sample_name(self, row: int) -> str:
        """Return the name of a sample."""
        key = self.keys[row := self.check_row(row)]
        return f"sample {key}" if key is not None else f"given sample {row}" if len(self) > 1 else "the given sample"
