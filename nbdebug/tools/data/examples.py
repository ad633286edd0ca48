"""Samples as they enter the model: several times and before the transform if augmented, and without normalization."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from torch.utils.data import Subset

from nbdebug.preserve import seed_all
from nbdebug.sample_display.modality import SampleState, input_selector
from nbdebug.sample_display.samples import SampleDisplay
from nbdebug.setup import Setup
from nbdebug.setup.loaders import reads_tensor_dataset
from nbdebug.tools.data.reading import SplitReader
from nbdebug.tools.data.split_profile import SPLIT_NAMES, SplitAccumulator
from nbdebug.tools.data.view import CardGroup, CardRow, SampleCard

_MAX_SAMPLES, _READINGS = 6, 4


def make_display(setup: Setup, reader: SplitReader) -> SampleDisplay | None:
    """Return the display of a split whose samples can be read by index; None for others."""
    if not reader.is_indexed:
        return None
    near = [getattr(reader.loader, "collate_fn", None)]
    names = setup.feature_names
    return SampleDisplay(reader.loader.dataset, inputs=input_selector(setup), feature_names=names, near=near)


def example_groups(
    setup: Setup, accumulators: Sequence[SplitAccumulator], displays: dict[str, SampleDisplay], seed: int
) -> tuple[CardGroup, ...]:
    """Return the first samples that were read of each split, decoded."""
    groups = []
    for accumulator in accumulators:
        display = displays.get(accumulator.reader.split)
        if display is not None:
            groups.append(_indexed_examples(accumulator, display, seed))
        elif accumulator.parts:
            groups.append(_streamed_examples(setup, accumulator))
    return tuple(group for group in groups if group.rows)


def _indexed_examples(accumulator: SplitAccumulator, display: SampleDisplay, seed: int) -> CardGroup:
    """Read some samples several times, each time with other random numbers."""
    reader = accumulator.reader
    original = _without_transform(reader.loader.dataset)
    rows, is_random = [], False
    order = [index for index in reader.order or () if index not in reader.failures]
    for index in order[:_MAX_SAMPLES]:
        readings = [_read_again(reader, index, seed + number) for number in range(_READINGS)]
        prints = [display.fingerprint(reading) for reading in readings]
        is_augmented = len(set(prints)) > 1
        is_random = is_random or is_augmented
        cards = [_card(display, index, reading) for reading in readings[: _READINGS if is_augmented else 1]]
        if is_augmented and original is not None:
            cards = [*_cards_before(display, original, index, seed), *cards]
        received = [] if is_augmented else _as_received(display, readings[0])
        if received:
            cards = [replace(cards[0], caption="normalization undone"), *received]
        rows.append(CardRow(cards, f"sample {index}"))
    title = f"{SPLIT_NAMES[reader.split].capitalize()} samples"
    note = (
        f"Each sample is read {_READINGS} times: it is augmented at random. "
        if is_random
        else f"Reading a sample {_READINGS} times gives the same values each time. "
    )
    return CardGroup(title, rows, note + _normalization_note(display, reader, order))


def is_augmented(reader: SplitReader, displays: dict[str, SampleDisplay]) -> bool:
    """Return whether one of the first samples differs when it is read again."""
    display = displays.get(reader.split)
    if display is None or reads_tensor_dataset(reader.loader):
        return False
    first = [index for index in reader.order or () if index not in reader.failures][:_MAX_SAMPLES]
    readings = [[_read_again(reader, index, seed) for seed in range(_READINGS)] for index in first]
    return any(len({display.fingerprint(reading) for reading in samples}) > 1 for samples in readings)


def _read_again(reader: SplitReader, index: int, seed: int) -> Any:
    """Return a sample, or the exception that it raises, with other random numbers."""
    seed_all(seed)
    try:
        return reader.loader.dataset[index]
    except Exception as error:
        return error


def _without_transform(dataset: Any) -> Any:
    """Return a shallow copy of a dataset, or of that under subsets, whose ``transform`` is None; None without one."""
    if isinstance(dataset, Subset):
        inner = _without_transform(dataset.dataset)
        return None if inner is None else Subset(inner, dataset.indices)
    if getattr(dataset, "transform", None) is None:
        return None
    try:
        original = copy(dataset)
        original.transform = None
        if hasattr(original, "transforms"):  # of torchvision, which applies it instead
            original.transforms = None
    except Exception:
        return None
    return original


def _cards_before(display: SampleDisplay, original: Any, index: int, seed: int) -> list[SampleCard]:
    """Return the card of a sample before its transform; empty if the dataset cannot do without it."""
    seed_all(seed)
    try:
        sample = original[index]
    except Exception:
        return []
    return [SampleCard("before the transform", display.card_or_error(index, sample, False))]


def _card(display: SampleDisplay, index: int, sample: Any) -> SampleCard:
    return SampleCard("", display.card_or_error(index, sample, False))


def _as_received(display: SampleDisplay, sample: Any) -> list[SampleCard]:
    """Return the card of an image on the scale of its own values, if the display undoes a normalization."""
    state = _full_state(display, sample)
    if "undone" not in str(state.get("scale", "")):
        return []
    own_scale = SampleDisplay([sample], inputs=display.inputs, stretch=True)
    return [SampleCard("as received, on its own scale", own_scale.card_or_error(0, sample, False))]


def _full_state(display: SampleDisplay, sample: Any) -> SampleState:
    try:
        return display.render_sample(sample, True)
    except Exception:
        return {}


def _normalization_note(display: SampleDisplay, reader: SplitReader, order: Sequence[int]) -> str:
    """Return which scale the images are shown on."""
    if not order:
        return ""
    scale = _full_state(display, _read_again(reader, order[0], 0)).get("scale")
    return f"Images: {scale}." if scale else ""


def _streamed_examples(setup: Setup, accumulator: SplitAccumulator) -> CardGroup:
    """Return the first samples of a stream, from the stored rows."""
    part = accumulator.parts[0]
    count = min(len(part.indices), _MAX_SAMPLES)
    inputs = [{name: tensor[row] for name, tensor in part.inputs.items() if len(tensor) > row} for row in range(count)]
    samples = [next(iter(row.values())) if len(row) == 1 else row for row in inputs]
    display = SampleDisplay(samples, inputs=lambda sample: sample, feature_names=setup.feature_names)
    rows = [
        CardRow([SampleCard("", state)], f"sample {row}") for row, state in enumerate(display.show_many(range(count)))
    ]
    return CardGroup(f"{SPLIT_NAMES[part.split].capitalize()} samples", rows, "The first samples of the stream.")
