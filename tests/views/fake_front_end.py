"""A fake notebook front end that records what a kernel sends."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from nbdebug.result import Result
from nbdebug.views import kernel_bridge
from nbdebug.views.line_chart import LineChart
from nbdebug.views.live import LiveScreen, Screen
from nbdebug.views.page import View


@dataclass(frozen=True)
class LossResult(Result):
    """A result with a loss curve."""

    rows: tuple[tuple[float, float], ...] = ()

    def view(self) -> View:
        return LineChart(title="Done", series={"loss": self.rows})

    def to_text(self) -> str:
        return f"{len(self.rows)} rows"


@dataclass
class FrontEnd:
    """Messages, displays, updates of displays, and the tools that a kernel has announced and ended."""

    messages: list[tuple[dict[str, Any], list[bytes]]] = field(default_factory=list)
    displays: list[dict[str, Any]] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)
    announced: list[dict[str, Any]] = field(default_factory=list)
    ended: list[dict[str, Any]] = field(default_factory=list)


def install_front_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[FrontEnd]:
    """Run a shell with a kernel whose comms and displays write to a front end."""
    import comm
    from comm.base_comm import BaseComm
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell

    front_end = FrontEnd()

    class Comm(BaseComm):
        def publish_msg(
            self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **_: Any
        ) -> None:
            if msg_type == "comm_msg" and data.get("method") == "custom":
                if data["content"].get("kind") == "ended":
                    front_end.ended += data["content"]["runs"]
                elif data["content"].get("kind") == "connected":
                    front_end.announced += data["content"]["runs"]
                else:
                    front_end.messages.append((data["content"], buffers))

    class Publisher(DisplayPublisher):
        def publish(self, data: Any, *_: Any, update: bool = False, **__: Any) -> None:
            (front_end.updates if update else front_end.displays).append(data)

    monkeypatch.setattr(comm, "create_comm", Comm)
    for name in ("_bridge", "_run_requests"):
        monkeypatch.setattr(kernel_bridge, name, None)
    shell = InteractiveShell.instance(display_pub_class=Publisher)
    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    yield front_end
    InteractiveShell.clear_instance()


def received_rows(messages: list[tuple[dict[str, Any], list[bytes]]]) -> list[tuple[float, ...]]:
    """All rows of the messages, after a check that each begins where the previous one ended."""
    rows: list[tuple[float, ...]] = []
    for content, buffers in messages:
        numbers, width = array("f"), len(content["columns"])
        numbers.frombytes(buffers[0])
        assert content["first"] == len(rows)
        rows += [tuple(numbers[i : i + width]) for i in range(0, len(numbers), width)]
    return rows


def request_of_page(screen: Screen, **content: Any) -> None:
    """Send a request as the page of a screen does."""
    assert isinstance(screen, LiveScreen)
    assert screen.page is not None
    kernel_bridge._bridge._handle_custom_msg({**content, "run": screen.page.run}, [])
