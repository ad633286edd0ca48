"""Which kind a sample is of, told from the sample and from others of its data set."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from nbdebug.samples.arrays import as_array, is_picture
from nbdebug.samples.audio import Sound
from nbdebug.samples.hints import Hints
from nbdebug.samples.image import Images
from nbdebug.samples.series import Series
from nbdebug.samples.table import Rows, cells
from nbdebug.samples.text import Strings, TokenIds, is_words

Shown = dict[str, Any]
Drawer = Callable[[Any, bool], Shown]


def drawer(values: Sequence[Any], hints: Hints) -> Drawer:
    """How values of one form are shown; whatever is of no kind, as the text that Python has for it."""
    array = as_array(values[0])
    flat = array is not None and array.ndim == 1
    kinds: list[Any] = [Strings, Sound]
    if flat and hints.vocabulary is not None:
        kinds.append(TokenIds)
    kinds += [Images, Series, TokenIds, Rows] if flat or is_picture(values[0]) else [Series, Images, TokenIds, Rows]
    return next((found for kind in kinds if (found := kind.of(values, hints)) is not None), as_text)


def as_text(value: Any, full: bool) -> Shown:
    """What Python writes of a thing, behind the name of its type."""
    return {"kind": "text", "text": f"{type(value).__name__}: {value}"[: 5_000 if full else 200]}


def form(value: Any) -> Hashable:
    """What values must have in common to be shown in the same way."""
    if isinstance(value, str) or is_words(value):
        return "text"
    if is_picture(value):
        return "picture", value.mode
    if isinstance(value, Mapping) or hasattr(value, "items"):
        return "row"
    if isinstance(value, (tuple, list)) and len(value) == 2 and hasattr(value[0], "__array__"):
        return "pair"
    array = as_array(value)
    return type(value).__name__ if array is None else ("array", array.ndim, array.dtype.kind)


def is_row(value: Any) -> bool:
    """Whether a mapping is one row of plain values, and not several inputs."""
    return cells(value, None) is not None


def is_sound(value: Any) -> bool:
    """Whether a pair or a mapping is a wave with its rate."""
    return Sound.of([value], Hints()) is not None
