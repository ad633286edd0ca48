"""A panel: a part of a page of its own, computed with the page or when it is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Shown = TypeVar("Shown", contravariant=True)


@dataclass(frozen=True)
class Panel(Generic[Shown]):
    """One panel of the page of a result: its name, its title, what it is for, and what its module draws.

    ``state`` is computed when the page is made where ``quick``, else when the panel is opened; it may be asked again
    with options of the page. What it ``follows`` are controls of the page by name: its options hold what they say, and
    it is made anew when they change. ``html`` is the same as plain, escaped HTML.
    """

    name: str
    title: str
    fits: Callable[[Shown], bool]
    state: Callable[..., dict[str, Any]]
    html: Callable[[dict[str, Any]], str]
    quick: bool = True
    follows: tuple[str, ...] = ()
