"""The two ways in which a check can fail without being broken, and what an error says in a line."""

from __future__ import annotations


class SetupError(ValueError):
    """The user's objects or arguments cannot be used as they are; the message names the next act."""


class NotChecked(Exception):
    """A measurement that cannot be made here; the text says why and is shown beside the rules that wanted it."""


def first_line(error: BaseException, most: int = 120) -> str:
    """The first line of what an error says, cut to so many letters; its type where it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0][:most]
