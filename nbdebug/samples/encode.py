"""Pictures as data: addresses, in the format that is smaller."""

from __future__ import annotations

from base64 import b64encode
from io import BytesIO
from typing import Any

from numpy import uint8
from numpy.typing import NDArray

LONGEST = {False: 96, True: 512}  # pixels of the longer side, on a card and in full
SMALL = 64 * 64  # pixels: up to here nothing is as small as PNG, and every pixel counts
QUALITY = 85
MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def image(picture: Any, full: bool) -> dict[str, Any]:
    """A PIL image as a page shows it, scaled down to what a card or the open sample has room for."""
    found = smaller(picture, LONGEST[full])
    return {"kind": "image", "src": address(found), "width": found.width, "height": found.height}


def smaller(picture: Any, longest: int) -> Any:
    """The picture, no longer than that on its longer side; each pixel is the mean of those that it stands for."""
    from PIL import Image

    if max(picture.size) <= longest:
        return picture
    share = longest / max(picture.size)
    size = tuple(max(round(share * side), 1) for side in picture.size)
    return picture.resize(size, Image.Resampling.BOX)


def address(picture: Any) -> str:
    """PNG for few pixels or transparent ones, else JPEG, else WebP for what has both."""
    if picture.width * picture.height <= SMALL or picture.mode in ("1", "P"):
        return encoded(picture, "PNG", compress_level=1)
    if picture.mode == "RGBA":
        return encoded(picture, "WEBP", quality=QUALITY, method=0)
    return encoded(picture, "JPEG", quality=QUALITY)


def encoded(picture: Any, form: str, **options: Any) -> str:
    """A picture in one format as a data: address."""
    out = BytesIO()
    picture.save(out, form, **options)
    return f"data:image/{form.lower()};base64,{b64encode(out.getvalue()).decode()}"


def of_bytes(pixels: NDArray[uint8]) -> Any:
    """Bytes (height × width × 1, 3 or 4) as a PIL image."""
    from PIL import Image

    height, width, channels = pixels.shape
    return Image.frombuffer(MODES[channels], (width, height), pixels.tobytes(), "raw", MODES[channels], 0, 1)
