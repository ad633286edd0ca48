"""Simple properties of inputs: brightness, length, missing values, clusters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.predictions.table import PredictionTable
from nbdebug.statistics.intervals import MAD_TO_SIGMA

_MAX_PIXEL_ROWS = 12  # maximum rows of pixels that are read
_IMAGE_SIDE_LIMITS = (8, 4)  # minimum length of the shorter side, and maximum aspect ratio
_MAX_BARE_ASPECT = 2  # maximum aspect ratio without a channel axis: such a tensor may also be a series
_MAX_DEVIATIONS = 3.5  # threshold in robust deviations
_MAX_FEATURES = 128  # with more features the columns are not named attributes
_REFERENCE_ROWS = 512  # rows from which typical values are estimated
_MIN_SERIES_LENGTH, _MIN_AUTOCORRELATION = 16, 0.7  # minimum length and minimum lag-1 autocorrelation of a series
_PropertyColumn = NDArray[Any]
MIN_PENDING_ELEMENTS = 1 << 20  # small batches are collected until they have this many numbers
_MAX_CLUSTERS, _ROWS_PER_CLUSTER, _CLUSTER_COLUMN = 16, 50, "cluster"


def _as_images(inputs: Tensor) -> Tensor | None:
    """Return a batch as (samples, channels, height, width), or None if it does not hold images.

    Accepts channels first or last (1, 3 or 4), and no channel axis.
    """
    if inputs.dim() == 3 and _is_image_shape(inputs.shape[1], inputs.shape[2], _MAX_BARE_ASPECT):
        return inputs.unsqueeze(1)
    if inputs.dim() != 4:
        return None
    if inputs.shape[1] not in (1, 3, 4) and inputs.shape[3] in (1, 3, 4):
        inputs = inputs.movedim(3, 1)
    return inputs if _is_image_shape(inputs.shape[2], inputs.shape[3]) else None


def _is_image_shape(height: int, width: int, max_aspect: int = _IMAGE_SIDE_LIMITS[1]) -> bool:
    """Return whether two sides have the size and the aspect ratio of an image."""
    short, long = sorted((height, width))
    return short >= _IMAGE_SIDE_LIMITS[0] and long <= max_aspect * short


def _image_properties(images: Tensor) -> dict[str, Tensor]:
    """Return properties of images (samples, channels, height, width) on their device, from a subset of pixel rows.

    Brightness is the mean and contrast the standard deviation, in the units of the model input. Sharpness is the
    variance of the Laplacian (Pech-Pacheco et al. 2000, doi:10.1109/ICPR.2000.903548), of the green channel in color
    images; colorfulness that of Hasler and Süsstrunk 2003, doi:10.1117/12.477378.
    """
    step = -(-images.shape[2] // _MAX_PIXEL_ROWS)
    pixels = images[:, :3, ::step].float()
    is_color = pixels.shape[1] == 3
    contrast, brightness = _std_and_mean(pixels.mean(1) if is_color else pixels[:, 0])
    deviation, _ = _std_and_mean(_laplacian(images[:, 1 if is_color else 0], step))
    properties = {"brightness": brightness, "contrast": contrast, "sharpness": deviation * deviation}
    if is_color:
        properties["colorfulness"] = _colorfulness(pixels[..., ::2, :])
    return properties


def _std_and_mean(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the standard deviation and the mean of each sample."""
    flat = values.flatten(1)
    mean = flat.mean(1)
    return torch.linalg.vector_norm(flat - mean[:, None], dim=1) / flat.shape[1] ** 0.5, mean


def _laplacian(plane: Tensor, step: int) -> Tensor:
    """Return the Laplacian of every ``step``-th row of pixels."""
    above, center, below = (plane[:, first:last:step].float() for first, last in ((0, -2), (1, -1), (2, None)))
    result: Tensor = above + below
    result.sub_(center, alpha=4)
    return result[..., 1:-1] + center[..., :-2] + center[..., 2:]


def _colorfulness(colors: Tensor) -> Tensor:
    red, green, blue = colors.unbind(1)
    (a, mean_a), (b, mean_b) = _std_and_mean(red - green), _std_and_mean((red + green) / 2 - blue)
    return torch.hypot(a, b) + 0.3 * torch.hypot(mean_a, mean_b)


def _token_properties(tokens: Tensor, padding: int = 0, unknown: int | None = None) -> dict[str, Tensor]:
    """Return the length of token sequences (samples, time) without trailing padding, and unknown tokens if given."""
    is_token = tokens != padding
    positions = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
    properties = {"length": (is_token * positions).amax(1)}
    if unknown is not None:
        properties["unknown tokens"] = (tokens == unknown).sum(1)
    return properties


class _OutlierBounds:
    """Median and robust deviation of each feature, from the first rows."""

    def __init__(self, rows: Tensor) -> None:
        rows = rows[:_REFERENCE_ROWS].float()
        self.median = rows.nanmedian(0).values
        self.deviation = (rows - self.median).abs().nanmedian(0).values * MAD_TO_SIGMA

    def count_outliers(self, rows: Tensor) -> Tensor:
        """Return the number of outlying values in each row.

        The limit is 3.5 robust deviations: Iglewicz and Hoaglin 1993, How to detect and handle outliers.
        """
        return (((rows - self.median).abs() > _MAX_DEVIATIONS * self.deviation) & (self.deviation > 0)).sum(1)


def _row_properties(rows: Tensor, outlier_bounds: _OutlierBounds) -> dict[str, Tensor]:
    """Count missing and odd values in table rows (samples, features)."""
    return {"missing values": rows.isnan().sum(1), "odd values": outlier_bounds.count_outliers(rows)}


def _series_properties(series: Tensor) -> dict[str, Tensor]:
    """Return level, spread and trend of series (samples, channels, time), over all channels.

    The trend is the rise of the least-squares line from end to end.
    """
    values = series.float()
    deviation, mean = torch.std_mean(values.flatten(1), dim=1, correction=0)
    count = values.shape[-1]
    time = torch.linspace(-0.5, 0.5, count, device=values.device)
    slope = (values.mean(1) * time).sum(1) / (time * time).sum()
    return {"level": mean, "spread": deviation, "trend": slope}


def _is_series(rows: Tensor) -> bool:
    """Return whether rows (samples, time) are series: long, with high lag-1 autocorrelation."""
    if rows.shape[1] < _MIN_SERIES_LENGTH:
        return False
    centered = rows.float() - rows.float().mean(1, keepdim=True)
    autocorrelation = (centered[:, 1:] * centered[:, :-1]).sum() / (centered * centered).sum().clamp(min=1e-12)
    return bool(autocorrelation > _MIN_AUTOCORRELATION)


def _text_properties(texts: Sequence[str], vocabulary: Collection[str] | None = None) -> dict[str, NDArray[np.float64]]:
    """Return length in characters and words, digits, share of upper case, and words outside the vocabulary if given."""
    letters = [sum(map(str.isalpha, text)) for text in texts]
    properties = {
        "length": [len(text) for text in texts],
        "words": [len(text.split()) for text in texts],
        "digits": [sum(map(str.isdigit, text)) for text in texts],
        "upper case": [sum(map(str.isupper, text)) / max(count, 1) for text, count in zip(texts, letters, strict=True)],
    }
    if vocabulary is not None:
        properties["unknown words"] = [sum(word not in vocabulary for word in text.split()) for text in texts]
    return {name: np.array(values, np.float64) for name, values in properties.items()}


class InputProperties:
    """Properties of the inputs of a pass, batch by batch; they stay on their device until ``columns`` is called.

    The kind of input and its typical values are taken from the first batch. ``padding`` and ``unknown`` are tokens,
    ``vocabulary`` is a collection of words. Inputs of an unknown kind, or of kinds that differ between batches, have no
    properties.
    """

    def __init__(
        self, *, padding: int = 0, unknown: int | None = None, vocabulary: Collection[str] | None = None
    ) -> None:
        self.padding, self.unknown, self.vocabulary = padding, unknown, vocabulary
        self.parts: list[Mapping[str, Any]] = []
        self.pending: list[Tensor] = []
        self.outlier_bounds: _OutlierBounds | None = None
        self.is_series: bool | None = None

    def add(self, inputs: Any) -> None:
        """Add the inputs of one batch, as the model receives them."""
        if self.parts and not self.parts[0]:
            return
        is_small = (
            isinstance(inputs, Tensor)
            and inputs.layout == torch.strided
            and 0 < inputs.numel() < MIN_PENDING_ELEMENTS // 2
        )
        if not is_small or (self.pending and not _can_concatenate(self.pending[0], inputs)):
            self.measure_pending()
        if not is_small:
            self.parts.append(self.measure(inputs))
            return
        self.pending.append(inputs.detach().clone())  # a model may change its input in place
        if sum(batch.numel() for batch in self.pending) >= MIN_PENDING_ELEMENTS:
            self.measure_pending()

    def measure_pending(self) -> None:
        """Compute the properties of the pending batches."""
        if self.pending:
            self.parts.append(self.measure(torch.cat(self.pending) if len(self.pending) > 1 else self.pending[0]))
            self.pending = []

    def columns(self, rows: int | None = None) -> dict[str, _PropertyColumn]:
        """Return one value of each property per input, without constant properties.

        With ``rows``, columns of another length are left out, as for inputs whose first axis is time.
        """
        self.measure_pending()
        names = list(self.parts[0]) if self.parts else []
        if any(list(part) != names for part in self.parts):
            return {}
        all_columns = {name: _concatenate_parts([part[name] for part in self.parts]) for name in names}
        return {name: values for name, values in all_columns.items() if rows in (None, len(values)) and _varies(values)}

    def measure(self, inputs: Any) -> Mapping[str, Any]:
        """Return the properties of one batch; of several inputs, those of the first that has any."""
        if isinstance(inputs, Tensor):
            return self.measure_tensor(inputs.detach())
        if isinstance(inputs, Mapping):
            return next((properties for item in inputs.values() if (properties := self.measure(item))), {})
        if isinstance(inputs, (list, tuple)) and len(inputs):
            if all(isinstance(item, str) for item in inputs):
                return _text_properties(inputs, self.vocabulary)
            return next(
                (properties for item in inputs if not isinstance(item, str) and (properties := self.measure(item))), {}
            )
        return {}

    def measure_tensor(self, inputs: Tensor) -> Mapping[str, Tensor]:
        """Return the properties of a batch that is one tensor."""
        if inputs.layout != torch.strided or inputs.dim() < 2 or 0 in inputs.shape or inputs.is_complex():
            return {}
        if (images := _as_images(inputs)) is not None:
            return _image_properties(images)
        if inputs.dim() == 2 and not inputs.is_floating_point():
            return _token_properties(inputs, self.padding, self.unknown)
        if inputs.dim() == 2:
            return self.measure_rows(inputs)
        return (
            _series_properties(inputs if inputs.shape[1] < inputs.shape[2] else inputs.mT) if inputs.dim() == 3 else {}
        )

    def measure_rows(self, rows: Tensor) -> Mapping[str, Tensor]:
        """Treat rows as a table or, if adjacent values are correlated, as series."""
        if self.is_series is None:
            self.is_series = _is_series(rows)
            self.outlier_bounds = None if self.is_series or rows.shape[1] > _MAX_FEATURES else _OutlierBounds(rows)
        if self.is_series:
            return _series_properties(rows.unsqueeze(1))
        return _row_properties(rows.float(), self.outlier_bounds) if self.outlier_bounds is not None else {}


def measure_properties(inputs: Any, **options: Any) -> dict[str, _PropertyColumn]:
    """Return the properties of inputs: a batch of tensors as the model receives it, or a list of single samples.

    A list holds texts, or arrays or tensors, which may differ in size. Accepts the options of ``InputProperties``.
    """
    properties = InputProperties(**options)
    if isinstance(inputs, np.ndarray) and inputs.dtype.kind in "fiub":
        inputs = torch.as_tensor(inputs)
    if isinstance(inputs, (list, tuple, np.ndarray)) and len(inputs) and not isinstance(inputs[0], str):
        return _measure_samples(list(inputs), properties)
    properties.add(list(inputs) if isinstance(inputs, (list, tuple, np.ndarray)) else inputs)
    return properties.columns()


def _measure_samples(samples: Sequence[Any], properties: InputProperties) -> dict[str, _PropertyColumn]:
    """Return the properties of samples one by one; for images also the aspect ratio."""
    if not all(isinstance(sample, (Tensor, np.ndarray)) for sample in samples):
        return {}
    arrays = [sample if isinstance(sample, Tensor) else np.asarray(sample) for sample in samples]
    if any(isinstance(sample, np.ndarray) and sample.dtype.kind not in "fiub" for sample in arrays):
        return {}
    tensors = [torch.as_tensor(sample) for sample in arrays]
    if len({sample.shape for sample in tensors}) == 1:
        properties.add(torch.stack(tensors))
        return properties.columns()
    for sample in tensors:
        properties.add(sample[None])
    images = [_as_images(sample[None]) for sample in tensors]
    columns = properties.columns()
    if all(sample is not None for sample in images):
        columns["aspect"] = np.array(
            [sample.shape[3] / sample.shape[2] for sample in images if sample is not None], np.float32
        )
    return columns


def _can_concatenate(batch: Tensor, other: Tensor) -> bool:
    """Return whether two batches can be concatenated."""
    return (
        batch.dim() > 0
        and batch.shape[1:] == other.shape[1:]
        and (batch.dtype, batch.device) == (other.dtype, other.device)
    )


def _concatenate_parts(parts: Sequence[Any]) -> _PropertyColumn:
    """Concatenate parts into one column with a single device transfer; integers stay integers."""
    if not isinstance(parts[0], Tensor):
        return np.concatenate(parts)
    combined = torch.cat(list(parts))
    return np.asarray((combined.int() if not combined.is_floating_point() else combined.float()).cpu().numpy())


def _varies(values: _PropertyColumn) -> bool:
    """Return whether a column is not constant."""
    finite = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return len(finite) > 0 and bool(finite.min() < finite.max())


def _cluster_rows(embedding: NDArray[np.floating[Any]], count: int | None = None, seed: int = 0) -> NDArray[np.str_]:
    """Return the cluster of each row of an embedding (rows, features), as text; "" for non-finite rows.

    Mini-batch k-means (Sculley 2010, doi:10.1145/1772690.1772862) with 2 to 16 clusters of about 50 rows or more.
    """
    from sklearn.cluster import MiniBatchKMeans

    flat = np.asarray(embedding, np.float32).reshape(len(embedding), -1)
    is_finite = np.isfinite(flat).all(1)
    count = count or int(np.clip(is_finite.sum() // _ROWS_PER_CLUSTER, 2, _MAX_CLUSTERS))
    labels = np.full(len(flat), "", "U3")
    if is_finite.sum() > count:
        model = MiniBatchKMeans(count, random_state=seed, batch_size=1024, n_init=1)
        labels[is_finite] = model.fit_predict(flat[is_finite]).astype(str)
    return labels


def add_clusters(table: PredictionTable) -> None:
    """Add the column ``cluster`` to a table that has an embedding, once, so that queries can use it."""
    if table.embedding is not None and _CLUSTER_COLUMN not in table.columns and len(table) > 2 * _ROWS_PER_CLUSTER:
        table.columns[_CLUSTER_COLUMN] = _cluster_rows(table.embedding)
