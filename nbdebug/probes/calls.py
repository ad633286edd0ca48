"""Calls of a method of a running loop, such as the clearing of gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def calls(kind: type, method: str, heard: Callable[[Any], None]) -> Iterator[None]:
    """A block in which each call of a method of a class is told of, with its object, before it runs.

    The class is put back as it was when the block ends. What a subclass has of its own is not heard.
    """
    with arguments(kind, method, lambda given: heard(given[0])):
        yield


@contextmanager
def arguments(kind: type, method: str, heard: Callable[[Any], None]) -> Iterator[None]:
    """The same, with the object and the arguments: ``heard`` is given (object, args, kwargs)."""
    own = vars(kind).get(method)
    original = getattr(kind, method)

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        heard((self, args, kwargs))
        return original(self, *args, **kwargs)

    setattr(kind, method, call)
    try:
        yield
    finally:
        if own is None:
            delattr(kind, method)
        else:
            setattr(kind, method, own)
