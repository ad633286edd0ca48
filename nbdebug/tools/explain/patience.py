"""What a page may ask for without being asked back: what takes longer is told, and computed when it is asked again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nbdebug.attribution.watch import TooSlow, Watch, watched
from nbdebug.views.answers import progress
from nbdebug.views.plain import rounded

LIMIT = 20.0  # seconds


def patiently(asked: Mapping[str, Any], answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer, of which the page is told how far it is; or ``slow``, the seconds that it would take.

    ``sure`` in what is asked means that it may take as long as it takes.
    """
    watch = Watch(None if asked.get("sure") else LIMIT, told)
    try:
        with watched(watch):
            return answer()
    except TooSlow as slow:
        return {"slow": rounded(slow.seconds, 2)}


def told(watch: Watch) -> None:
    """Tells the page how long it has been at work, and how long it has to go."""
    left = watch.left
    progress(spent=rounded(watch.spent, 3), left=None if left is None else rounded(left, 2))
