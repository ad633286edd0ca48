"""Delay between a step of a job and its appearance in `nbdebug.attach`, for a local folder and for a URL of fsspec."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from nbdebug.watching.attached_run import POLL_SECONDS, attach

SCRIPT = """
import sys, time, torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with open(sys.argv[1], "w", buffering=1) as times:
    for step in range(150):
        loss = model(torch.randn(32, 8)).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        times.write(f"{time.time()}\\n")
        time.sleep(0.1)
"""


def measure_delays(location: str, folder: Path) -> list[float]:
    """Run a job, follow it as the display does, and return the seconds until each new last step was visible."""
    script, times = folder / "train.py", folder / "times.txt"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "nbdebug", "run", str(script), "--record", location, "--", str(times)]
    job = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    delays, last = [], 0
    while not times.exists() or len(times.read_text().split()) < 20:  # the first steps include the start of the watch
        time.sleep(0.1)
    run = attach(location)
    last = run.record.steps
    while job.poll() is None:
        time.sleep(POLL_SECONDS)
        run.update()
        now = time.time()
        happened = [float(line) for line in times.read_text().split()]
        delays += [now - happened[step - 1] for step in range(last + 1, min(run.record.steps, len(happened)) + 1)]
        last = run.record.steps
    return delays


def main() -> None:
    """Measure both kinds of folders."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for label, location in (("local folder", str(folder / "1")), ("fsspec, file://", (folder / "2").as_uri())):
            delays = measure_delays(location, folder)
            (folder / "times.txt").unlink()
            median, worst = np.median(delays), max(delays)
            print(f"{label:16} {len(delays)} steps, delay: median {median:.2f} s, longest {worst:.2f} s", flush=True)


if __name__ == "__main__":
    main()
