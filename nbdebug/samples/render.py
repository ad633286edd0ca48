"""What the user's own function gives: texts, pictures, figures, HTML, rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nbdebug.samples import encode
from nbdebug.samples.arrays import as_array, is_picture
from nbdebug.samples.hints import Hints
from nbdebug.samples.image import Images, has_sides
from nbdebug.samples.recognize import Shown, drawer

INCHES = {False: 2.4, True: 6.0}  # of the longer side of a figure, at 96 pixels an inch
DPI = 96


def rendered(render: Callable[[Any], Any], sample: Any, full: bool) -> Shown:
    """A sample as the user's function shows it; kind trouble where that raises or gives nothing."""
    with no_new_figures():
        try:
            found = render(sample)
        except Exception as error:
            return trouble(f"render raised {type(error).__name__}: {error}")
        if found is None:
            return trouble("render gave None; expected a text, an image, a figure or a dictionary. Return it.")
        return shown(found, full)


def shown(found: Any, full: bool) -> Shown:
    """One thing that a function gave. Only what is marked as HTML by its type is taken for it, never a text."""
    if isinstance(found, str) and not hasattr(found, "__html__"):
        return {"kind": "text", "text": str(found)[: 20_000 if full else 2_000]}
    if is_picture(found):
        return Images(None)(found, full)
    if (figure := figure_of(found)) is not None:
        return drawn(figure, full)
    for name in ("_repr_html_", "__html__"):
        if callable(html := getattr(found, name, None)) and isinstance(text := html(), str):
            return {"kind": "html", "html": text}
    array = as_array(found)
    if array is not None and has_sides(array):
        picture = Images.of([array], Hints())
        assert picture is not None
        return picture(array, full)
    return drawer([found], Hints())(found, full)


def figure_of(found: Any) -> Any:
    """The matplotlib figure that this is, or that these axes belong to."""
    if "matplotlib" not in sys.modules:
        return None
    if isinstance(found, np.ndarray) and found.dtype == object and found.size:
        found = found.flat[0]
    found = getattr(found, "figure", found)
    return found if hasattr(found, "savefig") and hasattr(found, "get_size_inches") else None


def drawn(figure: Any, full: bool) -> Shown:
    """A matplotlib figure as a picture: text in it must stay legible, so it is larger than other cards."""
    from io import BytesIO

    from PIL import Image

    out = BytesIO()
    figure.savefig(out, format="png", dpi=DPI * INCHES[full] / max(figure.get_size_inches()), facecolor="white")
    picture = Image.open(out).convert("RGB")
    src = encode.encoded(picture, "PNG", optimize=False)
    return {"kind": "image", "src": src, "width": picture.width, "height": picture.height}


@contextmanager
def no_new_figures() -> Iterator[None]:
    """A block after which pyplot knows the figures that it knew before, and no others."""
    before = figures()
    current = sys.modules["matplotlib.pyplot"].gcf().number if before else None
    try:
        yield
    finally:
        for number in figures() - before:
            sys.modules["matplotlib.pyplot"].close(number)
        if current is not None:
            sys.modules["matplotlib.pyplot"].figure(current)


def figures() -> set[int]:
    """The figures that pyplot knows, without importing it."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    return set(pyplot.get_fignums()) if pyplot is not None else set()


def trouble(text: str) -> Shown:
    """What stands in the place of a sample that cannot be shown."""
    return {"kind": "trouble", "text": text[:1_000]}
