"""Chooses the renderer that fits a sample; selects its inputs and calls the user's render function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.sample_display.arrays import as_array, is_pil_image
from nbdebug.sample_display.audio import AudioRenderer
from nbdebug.sample_display.dataset_hints import DatasetHints
from nbdebug.sample_display.images import ImageRenderer, encode_image, has_two_long_axes
from nbdebug.sample_display.table_rows import TableRowRenderer, row_values
from nbdebug.sample_display.text import TextRenderer, TokenRenderer, is_word_list
from nbdebug.sample_display.time_series import SeriesRenderer
from nbdebug.setup.batch import TARGET_KEYS
from nbdebug.setup.unpacking import batch_from_user_unpack, guess_batch
from nbdebug.tensors.pytree import tree_children

if TYPE_CHECKING:
    from nbdebug.setup import Setup

SampleState = dict[str, Any]
Renderer = Callable[[Any, bool], SampleState]
HIDDEN_KEYS = ("attention_mask", "token_type_ids", "position_ids", "special_tokens_mask", "length", "lengths")
_TEXT_KEYS = ("input_ids", "text", "sentence", "tokens")  # next to one of these, masks and lengths add nothing
_FIGURE_INCHES = {False: 2.4, True: 6.0}  # of the longer side of a figure, at 96 pixels per inch
_DPI = 96


def choose_renderer(values: Sequence[Any], hints: DatasetHints) -> Renderer:
    """Return the renderer that fits values of one form; the last resort shows the text that Python prints."""
    array = as_array(values[0])
    flat = array is not None and array.ndim == 1
    kinds: list[Any] = [TextRenderer, AudioRenderer]
    if flat and hints.vocabulary is not None:
        kinds.append(TokenRenderer)
    kinds += (
        [ImageRenderer, SeriesRenderer, TokenRenderer, TableRowRenderer]
        if flat or is_pil_image(values[0])
        else [SeriesRenderer, ImageRenderer, TokenRenderer, TableRowRenderer]
    )
    return next((renderer for kind in kinds if (renderer := kind.of(values, hints)) is not None), repr_state)


def repr_state(value: Any, full: bool) -> SampleState:
    """Return the text that Python prints for a value, after its type."""
    return {"kind": "text", "text": f"{type(value).__name__}: {value}"[: 5_000 if full else 200]}


def value_form(value: Any) -> Hashable:
    """Return what values must have in common to share a renderer."""
    if isinstance(value, str) or is_word_list(value):
        return "text"
    if is_pil_image(value):
        return "picture", value.mode
    if isinstance(value, Mapping) or hasattr(value, "items"):
        return "row"
    if isinstance(value, (tuple, list)) and len(value) == 2 and hasattr(value[0], "__array__"):
        return "pair"
    array = as_array(value)
    return type(value).__name__ if array is None else ("array", array.ndim, array.dtype.kind)


def _is_table_row(value: Any) -> bool:
    return row_values(value, None) is not None


def _is_sound(value: Any) -> bool:
    return AudioRenderer.of([value], DatasetHints()) is not None


def input_selector(setup: Setup) -> Callable[[Any], Any]:
    """Return a function that selects the model inputs of a sample, as ``setup`` does for a batch."""

    def select_inputs(sample: Any) -> Any:
        if setup.unpack is not None:
            try:
                return batch_from_user_unpack(setup.unpack(sample)).inputs
            except Exception:  # unpack supports batches only
                return without_target(sample)
        selected = guess_batch(sample, setup.eager_model, setup.loss_fn).inputs
        return without_target(sample) if selected is sample else selected

    return select_inputs


def without_target(sample: Any) -> Any:
    """Return a sample without what looks like its target: a single last value, or a key such as "label"."""
    if _is_sound(sample):
        return sample
    if isinstance(sample, Mapping):
        return {key: value for key, value in sample.items() if key not in TARGET_KEYS} or sample
    if (
        isinstance(sample, (tuple, list))
        and not hasattr(sample, "_fields")
        and len(sample) > 1
        and not _is_single_input(sample)
    ):
        inputs = list(sample[:-1]) if _is_label(sample[-1]) else list(sample)
        return inputs[0] if len(inputs) == 1 else tuple(inputs)
    return sample


def with_sample_rate(sample: Any, value: Any) -> Any:
    """Return a wave with its sample rate if the sample holds both, as in torchaudio."""
    if isinstance(sample, (tuple, list)) and len(sample) > 2 and _is_sound(tuple(sample[:2])):
        return tuple(sample[:2])
    return value


def split_inputs(value: Any) -> dict[str, Any]:
    """Return the inputs by name; a single input has the name ""."""
    if _is_single_input(value) or _is_sound(value):
        return {"": value}
    if isinstance(value, Mapping) and any(key in value for key in _TEXT_KEYS):
        value = {key: part for key, part in value.items() if key not in HIDDEN_KEYS}
    parts = tree_children(value)
    if not parts or (
        isinstance(value, Mapping) and _is_table_row(value) and not any(key in value for key in _TEXT_KEYS)
    ):
        return {"": value}
    if len(parts) == 1:
        return split_inputs(next(iter(parts.values())))
    return {f"input {key + 1}" if isinstance(key, int) else str(key): part for key, part in parts.items()}


def _is_single_input(value: Any) -> bool:
    """Check whether this is one input: no container, or a list of words or numbers."""
    if is_pil_image(value) or isinstance(value, str) or hasattr(value, "detach") or hasattr(value, "dtype"):
        return True
    return isinstance(value, (list, tuple)) and (
        is_word_list(value) or (as_array(value) is not None and not _contains_arrays(value))
    )


def _contains_arrays(values: Any) -> bool:
    """Check whether a list holds arrays, which are separate inputs."""
    return any(getattr(item, "ndim", 0) for item in values)


def _is_label(value: Any) -> bool:
    """Check whether this may be a label: one number or one text."""
    return value is None or isinstance(value, (int, float, str)) or getattr(value, "ndim", None) == 0


def call_render(render: Callable[[Any], Any], sample: Any, full: bool) -> SampleState:
    """Show a sample by the user's render function; return an error state if it raises or returns None."""
    with _close_new_figures():
        try:
            output = render(sample)
        except Exception as error:
            return error_state(f"render raised {type(error).__name__}: {error}")
        if output is None:
            return error_state("render returned None; expected a text, an image, a figure or a dictionary. Return one.")
        return _output_state(output, full)


def _output_state(output: Any, full: bool) -> SampleState:
    """Return the page state of what render returned. Only types that declare HTML are shown as HTML, never strings."""
    if isinstance(output, str) and not hasattr(output, "__html__"):
        return {"kind": "text", "text": str(output)[: 20_000 if full else 2_000]}
    if is_pil_image(output):
        return ImageRenderer(None)(output, full)
    if (figure := _get_figure(output)) is not None:
        return _figure_state(figure, full)
    for name in ("_repr_html_", "__html__"):
        if callable(html := getattr(output, name, None)) and isinstance(text := html(), str):
            return {"kind": "html", "html": text}
    array = as_array(output)
    if array is not None and has_two_long_axes(array):
        renderer = ImageRenderer.of([array], DatasetHints())
        assert renderer is not None
        return renderer(array, full)
    return choose_renderer([output], DatasetHints())(output, full)


def _get_figure(output: Any) -> Any:
    """Return the matplotlib figure that this is, or that these axes belong to; None for other objects."""
    if "matplotlib" not in sys.modules:
        return None
    if isinstance(output, np.ndarray) and output.dtype == object and output.size:
        output = output.flat[0]
    output = getattr(output, "figure", output)
    return output if hasattr(output, "savefig") and hasattr(output, "get_size_inches") else None


def _figure_state(figure: Any, full: bool) -> SampleState:
    """Render a matplotlib figure, larger than other cards so that its text stays legible."""
    from io import BytesIO

    from PIL import Image

    out = BytesIO()
    figure.savefig(
        out, format="png", dpi=_DPI * _FIGURE_INCHES[full] / max(figure.get_size_inches()), facecolor="white"
    )
    picture = Image.open(out).convert("RGB")
    src = encode_image(picture, "PNG", optimize=False)
    return {"kind": "image", "src": src, "width": picture.width, "height": picture.height}


@contextmanager
def _close_new_figures() -> Iterator[None]:
    """Close the pyplot figures that the block opens."""
    before = _open_figures()
    current = sys.modules["matplotlib.pyplot"].gcf().number if before else None
    try:
        yield
    finally:
        for number in _open_figures() - before:
            sys.modules["matplotlib.pyplot"].close(number)
        if current is not None:
            sys.modules["matplotlib.pyplot"].figure(current)


def _open_figures() -> set[int]:
    """Return the numbers of the open pyplot figures, without importing pyplot."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    return set(pyplot.get_fignums()) if pyplot is not None else set()


def error_state(text: str) -> SampleState:
    """Return the page state of a sample that cannot be shown."""
    return {"kind": "trouble", "text": text[:1_000]}
