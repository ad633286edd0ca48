"""Pictures read back from what a page is given."""

from __future__ import annotations

from base64 import b64decode
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image


def pixels(shown: dict[str, Any]) -> np.ndarray:
    """The pixels of an image that is shown."""
    assert shown["kind"] == "image", shown
    found = np.asarray(Image.open(BytesIO(b64decode(shown["src"].partition(",")[2]))))
    assert found.shape[:2] == (shown["height"], shown["width"])
    return found
