"""What a kernel would send for a screen, kept."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from nbdebug.result import Result
from nbdebug.views.line_chart import LineChart
from nbdebug.views.page import View


@dataclass(frozen=True)
class Loss(Result):
    """A result as a tool makes it."""

    rows: tuple[tuple[float, float], ...] = ()

    def view(self) -> View:
        return LineChart(title="Done", series={"loss": self.rows})

    def __str__(self) -> str:
        return f"{len(self.rows)} rows"


@dataclass
class Wire:
    """What a kernel would send: messages of comms, displays, and updates of displays."""

    messages: list[tuple[dict[str, Any], list[bytes]]] = field(default_factory=list)
    displays: list[dict[str, Any]] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)
    closed: int = 0


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """A shell with a kernel, whose comms and displays write onto a list."""
    import comm
    from comm.base_comm import BaseComm
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell

    kept = Wire()

    class Comm(BaseComm):
        def publish_msg(
            self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **_: Any
        ) -> None:
            kept.closed += msg_type == "comm_close"
            if msg_type == "comm_msg" and data.get("method") == "custom":
                kept.messages.append((data["content"], buffers))

    class Publisher(DisplayPublisher):
        def publish(self, data: Any, *_: Any, update: bool = False, **__: Any) -> None:
            (kept.updates if update else kept.displays).append(data)

    monkeypatch.setattr(comm, "create_comm", Comm)
    shell = InteractiveShell.instance(display_pub_class=Publisher)
    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    yield kept
    InteractiveShell.clear_instance()


def rows_of(messages: list[tuple[dict[str, Any], list[bytes]]]) -> list[tuple[float, ...]]:
    """All rows sent, after checking that each message begins where the last one ended."""
    rows: list[tuple[float, ...]] = []
    for content, buffers in messages:
        numbers, width = array("f"), len(content["columns"])
        numbers.frombytes(buffers[0])
        assert content["first"] == len(rows)
        rows += [tuple(numbers[i : i + width]) for i in range(0, len(numbers), width)]
    return rows
