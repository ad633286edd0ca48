"""Images that are crops of other images, scaled back to the same size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from nbdebug.tools.data.row_index import Floats, RowIndex, Rows, keep_nearest

_MIN_ROWS, _MIN_SIDE, _MAX_SIDE, _SIGNATURE_SIDE, _CROP_SIDE = 60, 16, 32, 12, 24
_SEARCH_SCALE, _MIN_SCALE = 0.9, 0.84
_CANDIDATES, _MAX_REFINED, _ROWS_PER_BLOCK = 20, 4_000, 128
_MAX_RATIO, _MAX_DISTANCE, _MIN_CONTRAST = 0.16, 0.2, 0.1


def find_cropped_pairs(images: Tensor) -> list[tuple[int, int, float]]:
    """Return pairs (image, crop of it) with the ratio of their distance to that of the twentieth candidate.

    ``images`` has the shape (rows, channels, height, width). The candidates of an image are the twenty images nearest
    to it or to nine crops to 90% of its sides, by an index. Then all crops to 84% or more that consist of whole pixels,
    of at most 32 × 32, are compared with the candidates. A pair has at most 0.16 of the distance of the twentieth
    candidate; crops that were scaled by other interpolation have up to 0.15, and similar digits and patches of
    photographs of the measured sets at least 0.18. Images of low contrast are left out.
    """
    gray, rows = _gray_images(images)
    if len(rows) < _MIN_ROWS or min(gray.shape[-2:]) < _MIN_SIDE:
        return []
    distances, candidates = _find_candidates(gray)
    coarse = distances[:, 0] / np.maximum(distances[:, -1], 1e-12)
    usable = np.flatnonzero(np.isfinite(distances).all(1))
    refined = usable[np.argsort(coarse[usable], kind="stable")[:_MAX_REFINED]]
    pairs: dict[tuple[int, int], float] = {}
    flat = _standardize(gray.flatten(1))
    for block in np.array_split(refined, max(-(-len(refined) // _ROWS_PER_BLOCK), 1)):
        nearest = candidates[block]
        crops = _pixel_crops(gray[torch.as_tensor(block)])
        similarity = torch.einsum("itd,ijd->itj", crops, flat[torch.as_tensor(nearest)]).amax(1)
        exact = (2 - 2 * similarity).clamp_min(0).sqrt().numpy()
        for row, others, values in zip(block, nearest, exact, strict=True):
            best, ratio = int(values.argmin()), float(values.min() / max(values.max(), 1e-12))
            if ratio < _MAX_RATIO and values[best] < _MAX_DISTANCE:
                key = (int(rows[row]), int(rows[others[best]]))
                pairs[key] = min(ratio, pairs.get(key, 1.0))
    return sorted(((*key, ratio) for key, ratio in pairs.items()), key=lambda item: item[2])


def _gray_images(images: Tensor) -> tuple[Tensor, NDArray[np.int64]]:
    """Return images of one channel and at most 32 × 32 with their positions, without those of low contrast."""
    gray = torch.nan_to_num(images.float().mean(1, keepdim=True), 0.0, 0.0, 0.0)
    if max(gray.shape[-2:]) > _MAX_SIDE:
        height, width = (min(side, _MAX_SIDE) for side in gray.shape[-2:])
        gray = F.adaptive_avg_pool2d(gray, (height, width))
    contrast = gray.flatten(1).std(1)
    rows = np.flatnonzero((contrast > _MIN_CONTRAST * contrast.median()).numpy())
    return gray[torch.as_tensor(rows)], rows


def _find_candidates(gray: Tensor) -> tuple[Floats, Rows]:
    """Return the nearest images of each image and of nine crops of it."""
    own = np.arange(len(gray))
    index = RowIndex(_signature(gray))
    distances, rows = index.nearest(_signature(gray), own, _CANDIDATES)
    for crops in _coarse_crops(gray):
        found = index.nearest(_signature(crops), own, _CANDIDATES, probes=2)
        distances, rows = np.concatenate([distances, found[0]], 1), np.concatenate([rows, found[1]], 1)
        distances, rows = keep_nearest(distances, rows, _CANDIDATES)
    return distances, rows


def _signature(gray: Tensor) -> Floats:
    small = F.adaptive_avg_pool2d(gray, (_SIGNATURE_SIDE, _SIGNATURE_SIDE)).flatten(1)
    return np.ascontiguousarray(_standardize(small).numpy(), np.float32)


def _standardize(rows: Tensor) -> Tensor:
    """Return rows of mean 0 and length 1."""
    return F.normalize(rows - rows.mean(-1, keepdim=True), dim=-1)


def _coarse_crops(gray: Tensor) -> Iterator[Tensor]:
    """Yield nine crops of each image to 90% of its sides."""
    corners = (_SEARCH_SCALE - 1, 0.0, 1 - _SEARCH_SCALE)
    for top in corners:
        for left in corners:
            window = torch.tensor([[_SEARCH_SCALE, 0, left], [0, _SEARCH_SCALE, top]])
            grid = F.affine_grid(window[None].float(), [1, 1, _CROP_SIDE, _CROP_SIDE], align_corners=False)
            blocks = torch.split(gray, 8_192)
            yield torch.cat(
                [F.grid_sample(block, grid.expand(len(block), -1, -1, -1), align_corners=False) for block in blocks]
            )


def _pixel_crops(gray: Tensor) -> Tensor:
    """Return each image and all its crops of whole pixels, scaled back, as standardized rows.

    The result has the shape (images, crops, pixels). Both sides are cropped by the same share.
    """
    height, width = gray.shape[-2:]
    parts = [_standardize(gray.flatten(1))[:, None]]
    for size in range(round(_MIN_SCALE * height), height):
        other = round(size * width / height)
        windows = gray.unfold(2, size, 1).unfold(3, other, 1)
        count = windows.shape[2] * windows.shape[3]
        scaled = F.interpolate(windows.reshape(-1, 1, size, other), (height, width), mode="bilinear")
        parts.append(_standardize(scaled.reshape(len(gray), count, -1)))
    return torch.cat(parts, 1)
