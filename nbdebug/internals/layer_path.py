"""The path of a sample through the layers, compared with other samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.hooks.module_hooks import hooked
from nbdebug.inference.inputs import ModelInputs
from nbdebug.inference.model_runner import ModelRunner, get_model_runner
from nbdebug.inference.outputs import output_table
from nbdebug.internals.activations import class_statistics
from nbdebug.internals.class_similarity import (
    ActivationSummary,
    ClassMeans,
    ComparisonSamples,
    get_comparison_samples,
    summarize_activations,
)
from nbdebug.internals.layers import (
    LayerCall,
    LayerCalls,
    list_layer_calls,
    move_samples_first,
    output_tensors,
    to_dense_real,
    with_free_length,
)
from nbdebug.result import TextRepr
from nbdebug.setup import Setup
from nbdebug.setup.class_names import class_name

_Array = NDArray[Any]
SIZE_MEASURES = ("root mean square", "mean", "share of zeros")
_CallKey = tuple[str, int]  # layer name and call number
_MAX_PATH_LAYERS = 64  # maximum number of layers of a path
_MAX_CLASSES = 10  # classes that the sample is compared with
_MIN_SAMPLES_PER_CLASS = 2  # samples per class that are needed for a mean


def _describe_departure(path: LayerPath) -> str:
    """Return one or two sentences, based only on the layers that separate the classes."""
    if not path.classes:
        return "Only activation sizes are compared: fewer than two classes have samples."
    nearest = path.nearest
    readable = [i for i, item in enumerate(nearest) if item is not None]
    if not readable:
        return "No layer separates the classes better than chance, so the path cannot be interpreted."
    reference_class = path.predicted if path.truth is None else path.truth
    if reference_class is None:
        return f"At the last layer, the sample is most similar to {_name_class(path, nearest[readable[-1]])}."
    reference_name = (
        f"{_name_class(path, reference_class)} ({'its true class' if path.truth is not None else 'the prediction'})"
    )
    if reference_class not in path.classes:
        return (
            f"No other sample has class {reference_name}; at the last layer, the sample is most similar to "
            f"{_name_class(path, nearest[readable[-1]])}."
        )
    matching = [i for i in readable if nearest[i] == reference_class]
    if not matching:
        return (
            f"The sample is not most similar to {reference_name} at any layer; at the last layer, it is most similar "
            f"to {_name_class(path, nearest[readable[-1]])}."
        )
    last_match = matching[-1]
    later_layers = [i for i in readable if i > last_match]
    if later_layers:
        return (
            f"The sample is most similar to {reference_name} up to layer {path.layers[last_match].title}, and to "
            f"{_name_class(path, nearest[later_layers[-1]])} from layer {path.layers[later_layers[0]].title} on."
        )
    first_match = next(
        i for n, i in enumerate(readable) if all(nearest[item] == reference_class for item in readable[n:])
    )
    if first_match == readable[0]:
        return f"The sample is most similar to {reference_name} at every layer that separates the classes."
    earlier_class = nearest[max(i for i in readable if i < first_match)]
    return (
        f"The sample is most similar to {reference_name} from layer {path.layers[first_match].title} on, and to "
        f"{_name_class(path, earlier_class)} before."
    )


def _name_class(path: LayerPath, class_index: int | None) -> str:
    return "no class" if class_index is None else path.class_name(class_index)


@dataclass(frozen=True)
class LayerPath(TextRepr):
    """Activation sizes and class similarities of a sample at each of its ``layers``; arrays have a row per layer.

    ``sizes`` are the ``SIZE_MEASURES`` of the sample, layers × 3, ``comparison_sizes`` those of the other samples,
    samples × layers × 3. ``cosines`` to the means of ``classes`` are layers × classes. ``separated_share`` is the share
    of other samples that are most similar to their own class mean, each left out of it; NaN if there are none.
    ``labels`` are the classes of the other samples, ``counts`` their number per class.
    """

    layers: tuple[LayerCall, ...]
    sizes: _Array = field(repr=False)
    comparison_sizes: _Array = field(repr=False)
    labels: _Array | None = field(repr=False)
    classes: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    cosines: _Array = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    separated_share: _Array = field(default_factory=lambda: np.zeros(0), repr=False)
    predicted: int | None = None
    truth: int | None = None
    class_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    def class_name(self, class_index: int) -> str:
        """Return the name of a class."""
        return class_name(self.class_names, class_index)

    def comparison_statistics(self, class_index: int | None = None) -> tuple[_Array, _Array, int]:
        """Return mean and standard deviation of other samples, layers × 3, of a class or of all; and their number."""
        return class_statistics(self.comparison_sizes, self.labels, class_index)

    @property
    def separates_classes(self) -> _Array:
        """The layers that separate the classes by three standard errors more than chance."""
        if not len(self.classes):
            return np.zeros(len(self.layers), bool)
        separated, sample_count = self.separated_share, max(sum(self.counts), 1)
        error = np.sqrt(np.maximum(separated * (1 - separated), 0.25 / sample_count) / sample_count)
        return np.asarray(separated - 3 * error > 1 / len(self.classes))

    @property
    def nearest(self) -> list[int | None]:
        """The most similar class at each layer; None if the layer does not separate the classes."""
        readable = self.separates_classes
        return [
            self.classes[int(np.nanargmax(row))] if readable[i] and not np.isnan(row).all() else None
            for i, row in enumerate(self.cosines)
        ]

    @property
    def description(self) -> str:
        """Description of where the sample departs from its class."""
        return _describe_departure(self)

    def to_text(self) -> str:
        """Return the result as plain text."""
        lines = [
            f"nbdebug path through {len(self.layers)} layers, compared with {len(self.comparison_sizes)} samples",
            f"  {self.description}",
        ]
        for i, (layer, nearest) in enumerate(zip(self.layers, self.nearest, strict=True)):
            similarity_text = (
                ""
                if nearest is None
                else f"  most similar to {self.class_name(nearest)} (classes separated: {self.separated_share[i]:.0%})"
            )
            size, mean, zeros = self.sizes[i]
            lines.append(f"  {layer.title}: rms {size:.3g}, mean {mean:.3g}, zeros {zeros:.0%}{similarity_text}")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


@dataclass
class _PathRecorder:
    """The layers of a path, and the activation summaries of a run; requires an open model runner."""

    runner: ModelRunner
    steps: Sequence[LayerCall]
    calls: Counter[str] = field(default_factory=Counter)
    summaries: dict[_CallKey, ActivationSummary] = field(default_factory=dict)
    size: int = 1

    def run(self, inputs: ModelInputs) -> tuple[dict[_CallKey, ActivationSummary], Tensor | None]:
        """Return the summaries of samples, and the outputs as samples × outputs, if they have this form."""
        self.calls, self.summaries, self.size = Counter(), {}, inputs.size
        layer_by_key = {(step.name, step.call): step for step in self.steps}
        hooks = {
            self.runner.model.get_submodule(name): partial(self._on_output, layer_by_key, name)
            for name in {step.name for step in self.steps}
        }
        with hooked(hooks):
            output = self.runner.run(inputs)
            return self.summaries, self.outputs(output)

    def _on_output(self, layer_by_key: dict[_CallKey, LayerCall], name: str, _: Any, __: Any, output: Any) -> None:
        key = (name, self.calls[name])
        self.calls[name] += 1
        layer = layer_by_key.get(key)
        if layer is None or layer.shape is None:
            return
        tensor = dict(output_tensors(output)).get(next(iter(layer.shapes)))
        if tensor is None:
            return
        shape = with_free_length(layer.shape, layer.channels_last)
        if (values := move_samples_first(to_dense_real(tensor, copy=False), self.size, shape)) is not None:
            self.summaries[key] = summarize_activations(values, layer)

    def outputs(self, output: Any) -> Tensor | None:
        """Return the scores of each sample; None for outputs of another form."""
        try:
            return output_table(output, self.size).detach().float().cpu()
        except SetupError:
            return None


def _select_path_layers(calls: LayerCalls) -> tuple[LayerCall, ...]:
    """Return the layers of a path: all with new outputs, or an evenly spaced selection."""
    distinct = calls.distinct
    if len(distinct) <= _MAX_PATH_LAYERS:
        return distinct
    indices = torch.linspace(0, len(distinct) - 1, _MAX_PATH_LAYERS).round().long().tolist()
    return tuple(distinct[index] for index in indices)


@dataclass
class _PathComparison:
    """A sample with its activation summary at each layer, and the samples to compare with."""

    recorder: _PathRecorder
    sample_summaries: dict[_CallKey, ActivationSummary]
    scores: Tensor | None
    comparison: ComparisonSamples

    @property
    def call_keys(self) -> list[_CallKey]:
        """The layer calls of the path."""
        return [(step.name, step.call) for step in self.recorder.steps]

    def build_path(self, truth: int | None, names: tuple[str, ...] | None, notes: list[str]) -> LayerPath:
        """Build the path with all comparisons."""
        labels, label_notes = self._comparison_labels()
        predicted = self._predicted_class(labels)
        classes = [] if labels is None else self._compared_classes(labels, predicted, truth)
        sizes, means = self._first_pass(labels, classes)
        labels = None if labels is None else labels[: len(sizes)]
        cosines, separated = self._second_pass(labels, means)
        counts = tuple(0 if labels is None else int((labels == label).sum()) for label in classes)
        layers = tuple(self.recorder.steps)
        own_sizes = torch.stack([self.sample_summaries[key].sizes[0] for key in self.call_keys]).double().numpy()
        return LayerPath(
            layers, own_sizes, sizes, None if labels is None else labels.numpy(), tuple(classes), counts, cosines,
            separated, predicted, truth, names, (*notes, *label_notes),
        )  # fmt: skip

    def _comparison_labels(self) -> tuple[Tensor | None, list[str]]:
        """Return the classes of the other samples; predicted classes if nothing else is known."""
        if (
            self.comparison.labels is not None
            or not self.comparison.may_use_predictions
            or self.scores is None
            or len(self.scores[0]) < 2
        ):
            return self.comparison.labels, []
        output_recorder = _PathRecorder(self.recorder.runner, ())
        chunks = [
            scores.argmax(1)
            for _, scores in map(output_recorder.run, self.comparison.iterate_chunks())
            if scores is not None
        ]
        labels = torch.cat(chunks)
        self.comparison = self.comparison.take_first(len(labels))
        label_notes = ["The true classes of the other samples are unknown, so their predicted classes are used."]
        return (labels, label_notes) if len(labels) == len(self.comparison) else (None, [])

    def _predicted_class(self, labels: Tensor | None) -> int | None:
        """Return the predicted class; a single output is split at 0, or at 0.5 for a probability."""
        if self.scores is None or labels is None:
            return None
        if self.scores.shape[1] > 1:
            return int(self.scores.argmax(1))
        value = float(self.scores[0, 0])
        return None if int(labels.max()) > 1 else int(value > (0.5 if 0 <= value <= 1 else 0))

    def _compared_classes(self, labels: Tensor, predicted: int | None, truth: int | None) -> list[int]:
        """Return the classes to compare with: the true one, the predicted one, and other likely ones."""
        counts = torch.bincount(labels)
        candidates = [int(label) for label in (counts >= _MIN_SAMPLES_PER_CLASS).nonzero()[:, 0]]
        has_several_outputs = self.scores is not None and self.scores.shape[1] > 1
        likely = {} if not has_several_outputs else dict(enumerate(self.scores[0].tolist()))  # type: ignore[index]
        own_classes = [label for label in (truth, predicted) if label in candidates]
        rest = sorted(
            (label for label in candidates if label not in own_classes),
            key=lambda label: (-likely.get(label, 0.0), label),
        )
        chosen = sorted([*dict.fromkeys(own_classes), *rest][:_MAX_CLASSES])
        return chosen if len(chosen) > 1 else []

    def _first_pass(self, labels: Tensor | None, classes: list[int]) -> tuple[np.ndarray, list[ClassMeans]]:
        """Return the sizes of all other samples, samples × layers × 3, and the class means at each layer."""
        means = [
            ClassMeans(torch.tensor(classes), self.sample_summaries[key].vectors.shape[1]) for key in self.call_keys
        ]
        sizes, start = [], 0
        for summaries, _ in map(self.recorder.run, self.comparison.iterate_chunks()):
            size = self.recorder.size
            sizes.append(torch.stack([_sizes_or_nan(summaries.get(key), size) for key in self.call_keys], 1))
            if labels is not None and classes:
                for key, mean in zip(self.call_keys, means, strict=True):
                    if key in summaries:
                        mean.add(summaries[key].vectors, labels[start : start + size])
            start += size
        self.comparison = self.comparison.take_first(start)
        return torch.cat(sizes).double().numpy(), means if classes else []

    def _second_pass(self, labels: Tensor | None, means: list[ClassMeans]) -> tuple[np.ndarray, np.ndarray]:
        """In a second pass, return cosines, layers × classes, and the share of others each layer separates."""
        count = len(self.call_keys)
        if labels is None or not means:
            return np.full((count, 0), np.nan), np.full(count, np.nan)
        cosines = [
            mean.cosines(self.sample_summaries[key].vectors)[0] for key, mean in zip(self.call_keys, means, strict=True)
        ]
        correct, totals, start = torch.zeros(count), torch.zeros(count), 0
        for summaries, _ in map(self.recorder.run, self.comparison.iterate_chunks(limited=False)):
            own_labels = labels[start : start + self.recorder.size]
            start += self.recorder.size
            for i, (key, mean) in enumerate(zip(self.call_keys, means, strict=True)):
                if key in summaries:
                    hits = _resembles_own_class(mean, summaries[key].vectors, own_labels)
                    correct[i] += hits.sum()
                    totals[i] += len(hits)
        return torch.stack(cosines).numpy(), (correct / totals).double().numpy()


def _sizes_or_nan(summary: ActivationSummary | None, size: int) -> Tensor:
    """Return the sizes of some samples; NaN if a layer was not reached."""
    return torch.full((size, 3), torch.nan) if summary is None else summary.sizes


def _resembles_own_class(mean: ClassMeans, vectors: Tensor, labels: Tensor) -> Tensor:
    """Check which samples are most similar to their own class mean, each left out of it."""
    has_class = mean.membership(labels).any(1)
    nearest = mean.cosines(vectors[has_class], labels[has_class]).nan_to_num(-2).argmax(1)
    return mean.classes[nearest] == labels[has_class]


def layer_path(
    setup_or_model: Any, inputs: Any, truth: int | None = None, background: Any = None, labels: Any = None, row: int = 0
) -> LayerPath:
    """Compare the activations of a sample at each layer with other samples: their size, and the class they resemble.

    The other samples are the first training samples of a Setup, or the ``background`` with its ``labels``; without
    labels, predicted classes are used. Activations are reduced to at most 4096 values: positions of a sequence are
    averaged, and large maps are pooled. Raises SetupError without other samples, and for a model without Python layers.
    """
    runner = get_model_runner(setup_or_model)
    model_inputs = runner.inputs(inputs)
    if not 0 <= row < model_inputs.size:
        raise SetupError(f"row is {row}; expected 0 to {model_inputs.size - 1}. Pass the index of a sample.")
    sample = model_inputs.take(torch.tensor([row]))
    other_samples = get_comparison_samples(setup_or_model, runner, background, labels, sample).without(sample)
    if not len(other_samples):
        raise SetupError("the background has no other samples; expected at least one. Pass more samples.")
    names = setup_or_model.class_names if isinstance(setup_or_model, Setup) else None
    with runner.open():
        calls = list_layer_calls(runner, sample)
        summaries, scores = _PathRecorder(runner, _select_path_layers(calls)).run(sample)
        steps = tuple(step for step in _select_path_layers(calls) if (step.name, step.call) in summaries)
        notes = [*calls.notes, *runner.notes]
        if any(step.channels_last and len(step.shape or ()) == 2 for step in steps):
            notes.append("Positions of a sequence are averaged, including padding.")
        if len(calls.distinct) > len(steps):
            notes.append(f"{len(steps)} of {len(calls.distinct)} layers are shown.")
        comparison = _PathComparison(_PathRecorder(runner, steps), summaries, scores, other_samples)
        return comparison.build_path(truth, tuple(names) if names else None, notes)
