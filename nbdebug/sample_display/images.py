"""Renders images: layout, encoding, and flat vectors that are pictures."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from io import BytesIO
from math import ceil, isqrt
from typing import Any

import numpy as np
from numpy import uint8
from numpy.typing import NDArray

from nbdebug.sample_display.arrays import Array, as_array, is_pil_image
from nbdebug.sample_display.dataset_hints import DatasetHints
from nbdebug.sample_display.image_normalization import PixelScale, choose_scale
from nbdebug.sample_display.time_series import neighbor_distance

_MAX_COLOR_CHANNELS = 4
_MAX_TILES = {False: 4, True: 16}  # tiled channels or frames, on a card and on the open sample
MAX_SIDE = {False: 96, True: 512}  # pixels of the longer side, on a card and on the open sample
_MAX_PNG_PIXELS = 64 * 64  # pixels; up to this size PNG is the smallest format, and lossless
_LOSSY_QUALITY = 85
_PIL_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_MIN_SIDE = 3
_NON_FINITE_COLOR = (255, 0, 255)  # magenta, which is rare in pictures
_MAX_NEIGHBOR_DISTANCE = 0.8  # mean difference of neighbors relative to that of random pixels


def _squeeze_image(values: Array) -> Array:
    """Remove axes of length one, as long as more than two axes are left."""
    while values.ndim > 3 or (values.ndim == 3 and values.shape[0] != 1 and values.shape[-1] != 1):
        axis = next((at for at, length in enumerate(values.shape) if length == 1), None)
        if axis is None:
            break
        values = values.squeeze(axis)
    return values


def to_height_width_channels(values: Array) -> Array:
    """Return a picture as height × width × channels; frames of a video or slices of a volume become channels.

    The channel axis is one of at most 4 elements, the first axis before the last, or else the shorter of the two.
    """
    values = _squeeze_image(values)
    if values.ndim == 2:
        return values[:, :, None]
    if values.ndim > 3:
        return _frames_to_channels(values)
    return values if _is_channels_last(values.shape) else values.transpose(1, 2, 0)


def _is_channels_last(shape: tuple[int, ...]) -> bool:
    first, last = shape[0], shape[-1]
    if first <= _MAX_COLOR_CHANNELS and last <= _MAX_COLOR_CHANNELS:
        return last in (1, 3) and first not in (1, 3)
    if min(first, last) <= _MAX_COLOR_CHANNELS:
        return last <= _MAX_COLOR_CHANNELS
    return last < first and last < shape[1]


def _frames_to_channels(values: Array) -> Array:
    """Return the frames of a video as grayscale channels."""
    axis = next((at for at in (-1, 1, 0) if values.shape[at] in (1, 3)), 0)
    gray = values.mean(axis) if values.dtype.kind == "f" else values.astype(np.float32).mean(axis)
    flat = gray.reshape(-1, *gray.shape[-2:])
    return np.asarray(flat.transpose(1, 2, 0))


def _displayable_image(picture: Array, full: bool) -> Array:
    """Return grayscale or RGB(A) pictures unchanged, and tile the channels of others in grayscale."""
    count = picture.shape[-1]
    if count in (1, 3) or (count == _MAX_COLOR_CHANNELS and not lacks_alpha(picture)):
        return picture
    return tile_channels(picture, _MAX_TILES[full])


def lacks_alpha(picture: Array) -> bool:
    """Check whether the fourth of four channels is not an alpha channel, since it is opaque nowhere."""
    alpha = picture[..., 3]
    top: Any = 255 if picture.dtype.kind in "iu" else 1
    return not (bool((alpha >= 0).all()) and float(alpha.max()) == top)


def tile_channels(picture: Array, max_tiles: int) -> Array:
    """Tile at most ``most`` channels, evenly spaced, into one grayscale picture."""
    channels = np.unique(np.linspace(0, picture.shape[-1] - 1, max_tiles).round().astype(int))
    across = isqrt(len(channels) - 1) + 1
    down = ceil(len(channels) / across)
    height, width = picture.shape[:2]
    out = np.zeros((down * height, across * width, 1), picture.dtype)
    for number, channel in enumerate(channels):
        row, column = divmod(number, across)
        out[row * height : (row + 1) * height, column * width : (column + 1) * width, 0] = picture[..., channel]
    return out


def _image_state(picture: Any, full: bool) -> dict[str, Any]:
    """Return the page state of a PIL image, downscaled to a card or to the open sample."""
    scaled = downscale(picture, MAX_SIDE[full])
    return {"kind": "image", "src": image_data_url(scaled), "width": scaled.width, "height": scaled.height}


def downscale(picture: Any, max_side: int) -> Any:
    """Downscale a PIL image so that its longer side is at most ``longest`` pixels, averaging over areas."""
    from PIL import Image

    if max(picture.size) <= max_side:
        return picture
    share = max_side / max(picture.size)
    size = tuple(max(round(share * side), 1) for side in picture.size)
    return picture.resize(size, Image.Resampling.BOX)


def image_data_url(picture: Any) -> str:
    """Encode a PIL image as a data: URL: PNG if small, WebP if transparent, else JPEG."""
    if picture.width * picture.height <= _MAX_PNG_PIXELS or picture.mode in ("1", "P"):
        return encode_image(picture, "PNG", compress_level=1)
    if picture.mode == "RGBA":
        return encode_image(picture, "WEBP", quality=_LOSSY_QUALITY, method=0)
    return encode_image(picture, "JPEG", quality=_LOSSY_QUALITY)


def encode_image(picture: Any, form: str, **options: Any) -> str:
    """Encode a PIL image in one format as a data: URL."""
    out = BytesIO()
    picture.save(out, form, **options)
    return f"data:image/{form.lower()};base64,{b64encode(out.getvalue()).decode()}"


def pil_image_from_bytes(pixels: NDArray[uint8]) -> Any:
    """Return bytes (height × width × 1, 3 or 4) as a PIL image."""
    from PIL import Image

    height, width, channels = pixels.shape
    return Image.frombuffer(_PIL_MODES[channels], (width, height), pixels.tobytes(), "raw", _PIL_MODES[channels], 0, 1)


@dataclass
class ImageRenderer:
    """Renders pictures of one data set, all on one scale; ``side`` is the side of square pictures stored flat."""

    scale: PixelScale | None
    side: int | None = None
    stretch: bool = False

    @classmethod
    def of(cls, values: Sequence[Any], hints: DatasetHints) -> ImageRenderer | None:
        """Return the renderer if all values are pictures, else None."""
        if all(is_pil_image(array) and array.mode != "F" and not array.mode.startswith("I") for array in values):
            return cls(None, stretch=hints.stretch)
        arrays = [array for value in values if (array := as_array(value)) is not None]
        if len(arrays) < len(values):
            return None
        side = _flat_image_side(arrays, hints)
        if side is None and not all(map(has_two_long_axes, arrays)):
            return None
        pictures = [to_height_width_channels(unflatten(array, side)) for array in arrays]
        alike = [array for array in pictures if array.shape[-1] == pictures[0].shape[-1]]
        return cls(choose_scale(alike, hints.normalization), side, hints.stretch)

    def __call__(self, value: Any, full: bool) -> dict[str, Any]:
        """Return the JSON state of the picture, at the larger size if ``full``."""
        if self.scale is None:
            picture = value if value.mode in _PIL_MODES.values() else value.convert("RGB")
            return _image_state(picture, full)
        array = as_array(value)
        assert array is not None
        picture = _block_means(
            _displayable_image(to_height_width_channels(unflatten(array, self.side)), full), MAX_SIDE[full]
        )
        scale = choose_scale([picture]) if self.stretch else self.scale
        state = _image_state(pil_image_from_bytes(_to_pixels(picture, scale)), full)
        return {**state, "scale": scale.description} if full else state


def _to_pixels(picture: Array, scale: PixelScale) -> NDArray[np.uint8]:
    """Return a picture as bytes, with non-finite pixels in magenta."""
    pixels = scale.to_bytes(picture)
    if picture.dtype.kind == "f" and not np.isfinite(picture.sum(dtype=np.float64)):
        non_finite = ~np.isfinite(picture).all(-1)
        pixels = np.repeat(pixels, 3, -1) if pixels.shape[-1] == 1 else pixels.copy()
        pixels[non_finite, :3] = _NON_FINITE_COLOR
        pixels[non_finite, 3:] = 255
    return pixels


def _block_means(picture: Array, max_side: int) -> Array:
    """Return a large float picture averaged over squares of n × n pixels, at least ``longest`` pixels long.

    A single non-finite value makes its square non-finite, so it stays visible. Bytes are left to PIL.
    """
    factor = max(picture.shape[:2]) // max_side
    if picture.dtype.kind != "f" or factor < 2:
        return picture
    height, width = (max(side // factor, 1) * factor for side in picture.shape[:2])
    step = [min(factor, side) for side in picture.shape[:2]]
    rows = reduce(np.add, [picture[at : height : step[0], :width] for at in range(step[0])])
    return reduce(np.add, [rows[:, at :: step[1]] for at in range(step[1])]) / np.float32(step[0] * step[1])


def unflatten(values: Array, side: int | None) -> Array:
    """Return a flat vector as its square picture, complex numbers as magnitudes, and other arrays unchanged."""
    if values.dtype.kind == "c":
        values = np.abs(values)
    if side is None:
        return values
    flat = values.reshape(-1)
    return flat.reshape(side, side) if flat.size == side * side else flat.reshape(3, side, side)


def has_two_long_axes(values: Array) -> bool:
    """Check whether an array has two axes of at least 3 elements."""
    shape = sorted(_squeeze_image(values).shape) if values.ndim > 1 else []
    return len(shape) > 1 and shape[-2] >= _MIN_SIDE


def _flat_image_side(arrays: Sequence[Array], hints: DatasetHints) -> int | None:
    """Return the side of the square pictures that flat vectors hold; None if vertical neighbors differ too much."""
    size = arrays[0].size
    flat = all(array.size == size and array.ndim and max(array.shape) == size for array in arrays)
    side = isqrt(size)
    if side * side != size:
        side = isqrt(size // 3)
    if not flat or not _are_unnamed(hints.columns) or side < 8 or size not in (side * side, 3 * side * side):
        return None
    pictures = np.stack([unflatten(array, side).astype(np.float64).reshape(-1, side, side)[0] for array in arrays])
    vertical, horizontal = neighbor_distance(pictures, 1), neighbor_distance(pictures, 2)
    half_row_apart = neighbor_distance(pictures.reshape(len(pictures), -1), 1, side // 2)
    is_smooth = vertical + horizontal < 2 * _MAX_NEIGHBOR_DISTANCE and max(vertical, horizontal) < 0.95
    return (
        side if is_smooth and vertical < 0.95 * half_row_apart else None
    )  # in a plain series, values half a row apart are even closer


def _are_unnamed(names: Sequence[str] | None) -> bool:
    """Check whether columns have no meaningful names: none at all, or numbered ones such as pixel12."""
    return names is None or len({re.sub(r"\d+", "", name) for name in names}) == 1
