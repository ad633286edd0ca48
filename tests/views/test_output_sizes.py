"""Tests of what the outputs of one notebook weigh on disk, and how much of that is script and style sheet."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode, b64encode
from typing import Any

import pytest

from tests.lab.conftest import SLOW_SETUP

# A target that can be learned, with which a checkup has nothing to say.
SETUP = f"""{SLOW_SETUP}
SlowModel.forward = lambda self, x: self.layer(x)
x = torch.randn(512, 4)
loader = DataLoader(TensorDataset(x, x[:, :3].argmax(1)), batch_size=32, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
"""
# Of each output, the largest number of bytes: in all, and of script and style sheet.
CELLS = {
    "dbg.checkup();": (25_000, 15_000),
    "with dbg.watch() as run:\n    train(300)": (120_000, 37_500),
    "result = dbg.lr_range(steps=60)": (90_000, 25_000),
    "result = dbg.overfit()": (50_000, 20_500),
    "result = dbg.profile()": (50_000, 18_000),
}
MAX_NOTEBOOK_BYTES = 300_000
PACKED = re.compile(r'atob\("([^"]*)"\)')


def first_output(client: Any, source: str) -> dict[str, str]:
    """Run a cell, and return the last form of its first output; empty without one."""
    outputs: dict[str, dict[str, str]] = {}

    def keep(message: dict[str, Any]) -> None:
        content = message["content"]
        assert message["msg_type"] != "error", content["evalue"]
        if message["msg_type"] in ("display_data", "update_display_data"):
            outputs[content["transient"].get("display_id", message["header"]["msg_id"])] = content["data"]

    client.execute_interactive(source, timeout=120, output_hook=keep)
    return next(iter(outputs.values()), {})


def script_bytes(html: str) -> int:
    """Return the bytes of a page that are script and style sheet: all that is packed but the state, and its frame."""
    (packed,) = PACKED.findall(html)
    css, source, _ = json.loads(zlib.decompress(b64decode(packed)))
    shared = len(b64encode(zlib.compress(json.dumps([css, source]).encode(), 9)))
    frame = html[html.index("<style>") :].replace(packed, "")
    return shared + len(frame.encode())


def test_five_outputs_of_a_notebook_are_small_on_disk() -> None:
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    try:
        assert first_output(client, SETUP) == {}
        outputs = {source: first_output(client, source) for source in CELLS}
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    sizes = {
        source: (len(json.dumps(data).encode()), script_bytes(data["text/html"])) for source, data in outputs.items()
    }
    for source, limits in CELLS.items():
        assert all(size <= limit for size, limit in zip(sizes[source], limits, strict=True)), sizes
    assert sum(total for total, _ in sizes.values()) <= MAX_NOTEBOOK_BYTES, sizes
    assert "no findings" in outputs["dbg.checkup();"]["text/plain"]
