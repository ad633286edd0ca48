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
# A model that outputs probabilities instead of logits, so that its loss stays at chance.
FAULTY_RUN = """
class Faulty(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU())
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(144, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.last = nn.Linear(64, 10)

    def forward(self, x):
        return self.last(self.head(self.body(x))).softmax(1)


model = Faulty()
data = TensorDataset(torch.randn(512, 1, 12, 12), torch.randint(0, 10, (512,)))
loader = DataLoader(data, batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(torch.randn(128, 1, 12, 12), torch.randint(0, 10, (128,))), batch_size=32)
optimizer = torch.optim.Adam(model.parameters())
dbg = nbdebug.Debugger(model, loader, val_loader, loss_fn=loss_fn, optimizer=optimizer)
with dbg.watch() as run:
    train(96)
"""
MAX_FAULTY_RUN_BYTES = 120_000
PACKED = re.compile(r'atob\("([^"]*)"\)')


def run_cell(client: Any, source: str) -> list[dict[str, str]]:
    """Run a cell, and return the last form of each of its outputs."""
    outputs: dict[str, dict[str, str]] = {}

    def keep(message: dict[str, Any]) -> None:
        content = message["content"]
        assert message["msg_type"] != "error", content["evalue"]
        if message["msg_type"] in ("display_data", "update_display_data"):
            outputs[content["transient"].get("display_id", message["header"]["msg_id"])] = content["data"]

    client.execute_interactive(source, timeout=120, output_hook=keep)
    return list(outputs.values())


def script_bytes(html: str) -> int:
    """Return the bytes of a page that are script and style sheet: all that is packed but the state, and its frame."""
    (packed,) = PACKED.findall(html)
    css, source, _ = json.loads(zlib.decompress(b64decode(packed)))
    shared = len(b64encode(zlib.compress(json.dumps([css, source]).encode(), 9)))
    frame = html[html.index("<style>") :].replace(packed, "")
    return shared + len(frame.encode())


def test_outputs_of_a_notebook_are_small_on_disk() -> None:
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    try:
        assert run_cell(client, SETUP) == []
        outputs = {source: run_cell(client, source)[0] for source in CELLS}
        faulty_run = run_cell(client, FAULTY_RUN)
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
    assert "L201" in faulty_run[1]["text/plain"]
    assert len(json.dumps(faulty_run)) <= MAX_FAULTY_RUN_BYTES, [len(json.dumps(data)) for data in faulty_run]
