"""Samples that cannot stand in one batch, with what to do about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbdebug.exceptions import SetupError, first_line
from nbdebug.setup.trees import leaves

ALONE = "Run the loader's collate_fn on them to see it alone"


def is_picture(leaf: Any) -> bool:
    """Whether a leaf is a picture of PIL, which need not be installed."""
    return any(one.__module__ == "PIL.Image" and one.__name__ == "Image" for one in type(leaf).__mro__)


def refuse_pictures(samples: Any) -> None:
    """Raises SetupError for pictures that are no tensors yet."""
    if any(is_picture(leaf) for _, leaf in leaves(samples)):
        raise SetupError(
            "a sample holds a PIL image; expected tensors. Give the data set a transform, such as "
            "torchvision.transforms.ToTensor(), or pass transform(image)."
        )


def refused(samples: Sequence[Any], error: Exception, act: str = ALONE) -> SetupError:
    """What is said where collating raised; raises it itself where the samples hold pictures."""
    refuse_pictures(samples)
    count = f"{len(samples)} samples" if len(samples) != 1 else "a sample"
    said = f"{type(error).__name__} when collated: {first_line(error)}"
    return SetupError(f"{count} raised {said}; expected tensors of one shape. {act}.")
