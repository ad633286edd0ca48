"""Simple properties of texts."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray


def of_texts(texts: Sequence[str], known: Collection[str] | None = None) -> dict[str, NDArray[np.float64]]:
    """Length in characters and words, digits, share of upper case; of a told vocabulary the words that are unknown."""
    letters = [sum(map(str.isalpha, text)) for text in texts]
    found = {
        "length": [len(text) for text in texts],
        "words": [len(text.split()) for text in texts],
        "digits": [sum(map(str.isdigit, text)) for text in texts],
        "upper case": [sum(map(str.isupper, text)) / max(count, 1) for text, count in zip(texts, letters, strict=True)],
    }
    if known is not None:
        found["unknown words"] = [sum(word not in known for word in text.split()) for text in texts]
    return {name: np.array(values, np.float64) for name, values in found.items()}
