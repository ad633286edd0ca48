"""The border to the user's code: what it raises is told with its line and the next act."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nbdebug.exceptions import SetupError
from nbdebug.graph.source import from_exception
from nbdebug.setup.failures import refusal


@contextmanager
def users_code(when: Callable[[], str]) -> Iterator[None]:
    """A block that runs model and loss; what they raise becomes a SetupError that says ``when``."""
    try:
        yield
    except SetupError:
        raise
    except Exception as error:
        line = from_exception(error)
        place = f" at {line.file}, line {line.number}: {line.text.strip()}" if line else ""
        raise refusal(error, f"the model or the loss raised {type(error).__name__} {when()}: {error}{place}") from error
