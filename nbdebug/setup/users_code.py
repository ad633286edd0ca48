"""The border to the user's code: what it raises is told with its line and the next act."""

from __future__ import annotations

from collections.abc import Callable

from nbdebug.exceptions import SetupError
from nbdebug.graph.source import from_exception
from nbdebug.setup.failures import refusal


class users_code:
    """A block that runs model and loss; what they raise becomes a SetupError that says ``when``."""

    __slots__ = ("when",)

    def __init__(self, when: Callable[[], str]) -> None:
        self.when = when

    def __enter__(self) -> None:
        """Nothing yet: the block stands around each batch."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Tells what was raised; a SetupError is told already."""
        if isinstance(error, Exception) and not isinstance(error, SetupError):
            raise told(error, self.when()) from error


def told(error: Exception, when: str) -> SetupError:
    """What is said of an error that model or loss raised: where, and the next act."""
    line = from_exception(error)
    place = f" at {line.file}, line {line.number}: {line.text.strip()}" if line else ""
    return refusal(error, f"the model or the loss raised {type(error).__name__} {when}: {error}{place}")
