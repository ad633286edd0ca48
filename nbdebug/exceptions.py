"""The two ways in which a check can fail without being broken."""

from __future__ import annotations


class SetupError(ValueError):
    """The user's objects or arguments cannot be used as they are; the message names the next act."""


class NotChecked(Exception):
    """A measurement that cannot be made here; the text says why and is shown beside the rules that wanted it."""
