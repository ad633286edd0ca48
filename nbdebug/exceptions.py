"""Exceptions of the package, and the first line of an error message."""

from __future__ import annotations


class SetupError(ValueError):
    """The user's objects or arguments cannot be used as they are; the message says what to do next."""


class UnknownOption(SetupError, TypeError):
    """A keyword that a call does not have; the message names the nearest valid one."""


class NotChecked(Exception):
    """A measurement is not possible here; the reason is shown with the rules that need it."""


def first_line(error: BaseException, max_length: int = 120) -> str:
    """Return the first line of an exception's message, truncated; its type if the message is empty."""
    return (str(error).splitlines() or [type(error).__name__])[0][:max_length]


class NotExplained(SetupError):
    """The method cannot explain this model; the message names methods that can."""


class NotDifferentiable(NotExplained):
    """No gradient, or only a zero gradient, reaches the inputs; the message names where it ends."""


USE_BLACK_BOX_METHOD = "Use method='shapley' or method='occlusion', which need no gradients"
