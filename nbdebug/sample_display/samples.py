"""Fetches samples by dataset index and shows them as cards."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.preserve import Preserve, seed_all
from nbdebug.preserve.process_snapshots import GeneratorSnapshot
from nbdebug.preserve.traversal import Traversal
from nbdebug.sample_display.arrays import as_array
from nbdebug.sample_display.dataset_hints import DatasetHints
from nbdebug.sample_display.modality import (
    Renderer,
    SampleState,
    call_render,
    choose_renderer,
    error_state,
    repr_state,
    split_inputs,
    value_form,
    with_sample_rate,
    without_target,
)
from nbdebug.setup.time_limit import UserCodeTimeout, sample_time_limit
from nbdebug.tensors.pytree import tree_leaves

_SEED = 0x5EED
_DIGEST_BYTES = 6
_MAX_CACHED_CARDS = {False: 512, True: 16}  # cached cards and open samples
_MAX_EXAMPLES = 200  # samples that determine the renderer, the scale and the typical values
_MIN_EXAMPLES = 8
_MAX_SECONDS, _MAX_BYTES = 0.2, 32_000_000  # limits beyond the minimum number of samples


def fetch_samples(source: Any, dataset_indices: Iterable[int]) -> Iterator[tuple[int, Any]]:
    """Yield the samples at ``places``, each with its index; an exception stands for the sample that raised it.

    The random state is seeded by the index, so that random augmentation is reproducible. Consume the generator at once:
    the user's random state is set aside until it is exhausted.
    """
    dataset_indices = list(dataset_indices)
    if not dataset_indices:
        return
    walk = Traversal()
    with Preserve(loaders=(source,)):
        walk.take_loader_snapshot(source)
        generators = [item for _, item in walk.snapshots if isinstance(item, GeneratorSnapshot)]
        for index in dataset_indices:
            seed_all(_SEED + int(index))
            for generator in generators:
                generator.restore()
            try:
                sample = _get_sample(source, int(index))
            except Exception as error:
                sample = error
            except UserCodeTimeout as error:
                sample = TimeoutError(*error.args)
            yield index, sample


def _get_sample(source: Any, index: int) -> Any:
    if hasattr(source, "iloc"):
        return source.iloc[index]
    with sample_time_limit():
        return source[index]


def evenly_spaced_indices(length: int, max_count: int) -> list[int]:
    """Return at most ``most`` indices, evenly spaced over a data set of this length."""
    count = min(length, max_count)
    return sorted({(2 * i + 1) * length // (2 * count) for i in range(count)})


def _fingerprint(sample: Any) -> str:
    """Return 12 hexadecimal digits that hash the values, shapes and types of a sample; equal in every session."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for path, leaf in tree_leaves(sample):
        digest.update(repr(path).encode())
        array = as_array(leaf)
        if array is not None:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        elif isinstance(leaf, bytes):
            digest.update(leaf)
        elif isinstance(leaf, (str, int, float, type(None))):
            digest.update(repr(leaf).encode())
        elif hasattr(leaf, "to_json"):
            digest.update(leaf.to_json().encode())
        else:
            digest.update(type(leaf).__name__.encode())  # its repr may contain its address
    return digest.hexdigest()


class SampleDisplay:
    """Shows the samples of a data set, or of a sequence of inputs, as cards on a page.

    ``source[place]`` is a sample as the data set returns it. ``inputs`` selects the model inputs of a sample (by
    default, everything that does not look like a target). ``render`` is the user's function that shows a sample; it
    returns a text, an image, an array, a matplotlib figure, an object with ``_repr_html_`` or a dictionary of values.
    ``decode`` reads token ids: a tokenizer, a list or dictionary of tokens, or a function. ``rate`` is the sample rate
    of sounds. ``stretch`` scales each picture to its own range instead of using one scale for all. ``near`` holds more
    objects to search for a vocabulary and a normalization, such as a collate function.
    """

    def __init__(
        self,
        source: Any,
        *,
        inputs: Callable[[Any], Any] | None = None,
        render: Callable[[Any], Any] | None = None,
        feature_names: Sequence[str] | None = None,
        decode: Any = None,
        rate: int | None = None,
        stretch: bool = False,
        near: Sequence[Any] = (),
    ) -> None:
        self.source, self.inputs, self.render, self.feature_names = source, inputs, render, feature_names
        self.hints = DatasetHints(source, near, feature_names, decode, rate, stretch)
        self.cards: dict[bool, OrderedDict[int, SampleState]] = {False: OrderedDict(), True: OrderedDict()}
        self.examples: dict[Hashable, list[Any]] | None = None
        self.renderers: dict[Hashable, Renderer] = {}

    def for_dataset(self, source: Any, near: Sequence[Any] = ()) -> SampleDisplay:
        """Return a display of another data set of the same form, with the same settings."""
        hints = self.hints
        settings: dict[str, Any] = {"decode": hints.decode, "rate": hints.rate, "stretch": hints.stretch, "near": near}
        return SampleDisplay(
            source, inputs=self.inputs, render=self.render, feature_names=self.feature_names, **settings
        )

    def show(self, dataset_index: int, full: bool = False) -> SampleState:
        """Return the page state of one sample: ``kind`` and its data, or an error state."""
        return self.show_many([dataset_index], full)[0]

    def show_many(self, dataset_indices: Iterable[int], full: bool = False) -> list[SampleState]:
        """Return the page states of several samples, fetched together."""
        cards, indices = self.cards[full], list(dataset_indices)
        missing = list(dict.fromkeys(index for index in indices if index not in cards))
        try:
            new_cards = {
                index: self.card_or_error(index, sample, full) for index, sample in fetch_samples(self.source, missing)
            }
        except SetupError as error:  # the state of the data set cannot be preserved, so it is not read
            return [error_state(str(error)) for _ in indices]
        states = [new_cards[index] if index in new_cards else cards[index] for index in indices]
        cards.update(new_cards)
        for index in indices:
            cards.move_to_end(index)
        while len(cards) > _MAX_CACHED_CARDS[full]:
            cards.popitem(last=False)
        return states

    def fingerprints(self, dataset_indices: Iterable[int]) -> dict[int, str]:
        """Return the fingerprint of each sample without its target; "" if the sample cannot be read."""
        return {index: self.fingerprint(sample) for index, sample in fetch_samples(self.source, dataset_indices)}

    def fingerprint(self, sample: Any) -> str:
        """Return the fingerprint of the inputs of a sample."""
        try:
            return "" if isinstance(sample, Exception) else _fingerprint(self.named_inputs(sample))
        except Exception:
            return ""

    def card_or_error(self, dataset_index: int, sample: Any, full: bool) -> SampleState:
        """Return the page state of a sample, or an error state; an exception stands for the sample that raised it."""
        if isinstance(sample, Exception):
            return error_state(f"sample {dataset_index} raised {type(sample).__name__}: {sample}")
        try:
            return self.render_sample(sample, full)
        except Exception as error:
            return error_state(f"sample {dataset_index} cannot be shown: {type(error).__name__}: {error}")

    def render_sample(self, sample: Any, full: bool) -> SampleState:
        """Return the page state of a sample: the user's rendering, or its inputs."""
        if self.render is not None:
            return call_render(self.render, sample, full)
        parts = [(name, self.render_input(name, value, full)) for name, value in self.named_inputs(sample).items()]
        return parts[0][1] if len(parts) == 1 else {"kind": "parts", "parts": [list(part) for part in parts]}

    def named_inputs(self, sample: Any) -> dict[str, Any]:
        """Return the inputs of a sample by name."""
        value = self.inputs(sample) if self.inputs is not None else without_target(sample)
        return split_inputs(with_sample_rate(sample, value))

    def render_input(self, name: str, value: Any, full: bool) -> SampleState:
        """Return the page state of one input, rendered like others of its form, or on its own if that fails."""
        key = (name, value_form(value))
        if key not in self.renderers:
            self.renderers[key] = choose_renderer(self.example_inputs().pop(key, []) or [value], self.hints)
        try:
            return self.renderers[key](value, full)
        except Exception:
            return _render_alone(value, self.hints, full)

    def example_inputs(self) -> dict[Hashable, list[Any]]:
        """Return inputs of samples from all over the data set, by name and form."""
        if self.examples is not None:
            return self.examples
        self.examples = {}
        start, total_bytes = time.perf_counter(), 0
        order = np.random.default_rng(0).permutation(evenly_spaced_indices(_sample_count(self.source), _MAX_EXAMPLES))
        for count, (_, sample) in enumerate(fetch_samples(self.source, order)):
            if count >= _MIN_EXAMPLES and (time.perf_counter() - start > _MAX_SECONDS or total_bytes > _MAX_BYTES):
                break
            try:
                parts = {} if isinstance(sample, Exception) else self.named_inputs(sample)
            except Exception:
                continue
            for name, value in parts.items():
                self.examples.setdefault((name, value_form(value)), []).append(value)
                total_bytes += int(getattr(value, "nbytes", 0) or 0)
        return self.examples


def _render_alone(value: Any, hints: DatasetHints, full: bool) -> SampleState:
    """Render a value on its own; the last resort is the text that Python prints."""
    try:
        return choose_renderer([value], hints)(value, full)
    except Exception:
        return repr_state(value, full)


def _sample_count(source: Any) -> int:
    """Return the number of samples; 0 if unknown."""
    try:
        return len(source)
    except (TypeError, NotImplementedError, AttributeError):
        shape = getattr(source, "shape", None)  # of sparse matrices
        return int(shape[0]) if shape else 0
