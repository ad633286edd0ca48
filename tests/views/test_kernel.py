"""Stop in a real kernel, while a synchronous cell runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

CELL = """
import time
from nbdebug.views.screen import show
from nbdebug.views.curves import Curves

heard = None
with show(Curves(stoppable=True)) as screen:
    began = time.monotonic()
    for step in range(2000):
        screen.append({"step": step, "loss": 1.0})
        time.sleep(0.005)
        if screen.stopped:
            heard = time.monotonic() - began
            break
print("heard", heard is not None, screen.trouble)
"""


@pytest.fixture
def client() -> Iterator[Any]:
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3", cwd=".")
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def ask(client: Any, kind: str) -> dict[str, Any]:
    """A request on the control channel and its answer."""
    message = client.session.msg(kind, {})
    client.control_channel.send(message)
    while True:
        reply = client.get_control_msg(timeout=20)
        if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
            return dict(reply["content"])


def test_stop_is_heard_while_the_cell_runs(client: Any) -> None:
    info = client.kernel_info(reply=True, timeout=30)["content"]
    if "kernel subshells" not in info.get("supported_features", []):
        pytest.skip("this kernel has no subshells; the interrupt of the kernel is its Stop")
    subshell = ask(client, "create_subshell_request")["subshell_id"]
    client.execute(CELL)
    said, pressed = "", False
    deadline = time.monotonic() + 30
    while "heard" not in said and time.monotonic() < deadline:
        message = client.get_iopub_msg(timeout=30)
        content = message["content"]
        said += content.get("text", "") if message["msg_type"] == "stream" else ""
        assert message["msg_type"] != "error", content
        if message["msg_type"] == "comm_msg" and content["data"].get("method") == "custom" and not pressed:
            pressed = True
            data = {"method": "custom", "content": {"kind": "stop"}}
            click = client.session.msg("comm_msg", {"comm_id": content["comm_id"], "data": data})
            click["header"]["subshell_id"] = subshell
            client.shell_channel.send(click)
    assert pressed
    assert said.strip() == "heard True"
