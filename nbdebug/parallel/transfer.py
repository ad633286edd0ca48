"""Objects on their way to a worker and back: by cloudpickle, which takes along what a notebook cell defines."""

from __future__ import annotations

import inspect
import pickle
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from nbdebug.exceptions import SetupError

_MAX_DEPTH = 8  # of the attributes that lead to an object that cannot be sent


class RemoteTraceback(Exception):
    """The traceback of an exception in a worker, as its cause."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True)
class Outcome:
    """The result of a task, or the exception that it raised with its traceback."""

    value: Any = None
    error: BaseException | None = None
    traceback: str = ""

    def unwrap(self) -> Any:
        """Return the result, or raise the exception."""
        if self.error is not None:
            raise self.error from RemoteTraceback(self.traceback)
        return self.value


def run_task(task: Callable[[Any], Any], item: Any) -> bytes:
    """Run a task in a worker, and return its encoded outcome."""
    try:
        return encode(Outcome(task(item)), "the result")
    except Exception as error:
        text = traceback.format_exc()
        try:
            pickle.loads(encoded := encode(Outcome(error=error, traceback=text), "the error"))
        except Exception:  # an exception of the user with an own constructor, for example
            encoded = encode(Outcome(error=RuntimeError(f"{type(error).__name__}: {error}"), traceback=text), "")
        return encoded


def decode(data: bytes) -> Any:
    """Return what ``encode`` has written in this process or in a worker of it."""
    return pickle.loads(data)


def encode(value: Any, name: str) -> bytes:
    """Return an object as bytes; raise SetupError, with the path of the part that is to blame, if that fails."""
    import cloudpickle

    try:
        encoded: bytes = cloudpickle.dumps(value)
    except Exception as error:
        path, part = _find_unsendable(name, value, cloudpickle.dumps)
        raise SetupError(
            f"{path} is a {type(part).__name__} that cannot be sent to a worker ({type(error).__name__}: {error}); "
            "expected an object that can be pickled. Open files, locks and connections where they are used, or leave "
            "workers and backend out."
        ) from error
    return encoded


def _find_unsendable(path: str, value: Any, dump: Callable[[Any], bytes]) -> tuple[str, Any]:
    """Return the innermost part of an object that cannot be encoded, with its path."""
    for _ in range(_MAX_DEPTH):
        for name, part in _parts(value):
            try:
                dump(part)
            except Exception:
                path, value = name if isinstance(value, partial) else f"{path}{name}", part
                break
        else:
            break
    return path, value


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of an object with their names."""
    if isinstance(value, partial):
        yield from ((type(part).__name__, part) for part in (*value.args, *value.keywords.values()))
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{number}]", part) for number, part in enumerate(value))
    elif inspect.isfunction(value):
        variables = inspect.getclosurevars(value)
        yield from ((f", variable {name}", part) for name, part in {**variables.nonlocals, **variables.globals}.items())
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        yield from ((f".{name}", part) for name, part in vars(value).items())
