"""The output of a running marimo cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def running_execution() -> Any:
    """Return the execution of the running cell, None between cells."""
    from marimo._runtime.context import get_context

    return get_context().execution_context


class MarimoOutput:
    """The place of one display in the output of the running cell, which can be replaced while that cell runs."""

    def __init__(self, content: Any) -> None:
        import marimo

        self._execution = running_execution()
        self._position = len(self._execution.output)
        marimo.output.append(content)

    def update(self, bundle: Mapping[str, Any], **_: Any) -> None:
        """Replace the content by an output, given by type as IPython displays it."""
        import marimo

        if running_execution() is self._execution:
            marimo.output.replace_at_index(_Output(dict(bundle)), self._position)


class _Output:
    """An output by type."""

    def __init__(self, bundle: dict[str, Any]) -> None:
        self._bundle = bundle

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return dict(self._bundle)
