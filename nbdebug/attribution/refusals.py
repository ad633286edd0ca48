"""The ways in which an explanation can be refused."""

from __future__ import annotations

from nbdebug.exceptions import SetupError


class NotExplained(SetupError):
    """This method cannot explain this model; the message names what can."""


class NotDifferentiable(NotExplained):
    """No gradient reaches the inputs, or it says nothing; the message names where it ends."""


BLACK_BOX = "Use method='shapley' or method='occlusion', which need no gradients"
