"""The animation of the README: a run of the user's own loop under `watch`, in JupyterLab, with a fault.

`python -m tests.lab.animation` runs it and writes the file.
"""

from __future__ import annotations

import io
import tempfile
import time
from pathlib import Path

from PIL import Image

from tests.browser import launch_chromium
from tests.lab.lab_page import LabPage
from tests.lab.pictures import PICTURES
from tests.lab.server import run_server

SETUP = """
import nbdebug, torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
labels = torch.tensor(digits.target)
loader = DataLoader(TensorDataset(images[:1500], labels[:1500]), batch_size=64, shuffle=True)
val_loader = DataLoader(TensorDataset(images[1500:], labels[1500:]), batch_size=128)
model = nn.Sequential(
    nn.Conv2d(1, 48, 3, padding=1), nn.ReLU(), nn.Conv2d(48, 48, 3, padding=1), nn.ReLU(),
    nn.MaxPool2d(2), nn.Flatten(), nn.Linear(768, 64), nn.ReLU(), nn.Linear(64, 10),
)
loss_fn, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.05)
dbg = nbdebug.Debugger(model, loader, val_loader, loss_fn=loss_fn, optimizer=optimizer)
"""
LOOP = """with dbg.watch():
    for epoch in range(60):
        for x, y in loader:
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()"""
NAME = "watch.ipynb"
SIZE, HEIGHT = (900, 1500), 1150  # of the window, and of the animation
RUN_SECONDS, PAUSE, END_SECONDS = 14, 0.5, 5  # until the Stop button is clicked, between two pictures, at the end
COLORS = 128
MAX_BYTES = 2_000_000


def main() -> None:
    """Run the notebook, and write its pictures as one animation."""
    with (
        launch_chromium() as browser,
        tempfile.TemporaryDirectory() as folder,
        run_server(browser, Path(folder, "lab")) as lab,
        lab.open(lab.write(NAME, SETUP, LOOP), size=SIZE) as page,
    ):
        page.run_cells(0)
        page.run_cell(1)
        write_animation(take_frames(page), PICTURES / "watch.gif")


def take_frames(lab: LabPage) -> list[Image.Image]:
    """Take pictures of the second cell while it runs, when its Stop button is clicked, and of its result."""
    cell = lab.page.locator(".jp-Notebook .jp-Cell").nth(1)
    cell.evaluate("node => node.scrollIntoView()")
    box = cell.bounding_box()
    clip = {"x": box["x"], "y": box["y"], "width": box["width"], "height": HEIGHT}

    def take() -> Image.Image:
        return Image.open(io.BytesIO(lab.page.screenshot(clip=clip))).convert("RGB")

    frames, start = [], time.monotonic()
    for number in range(round(RUN_SECONDS / PAUSE)):
        lab.page.wait_for_timeout(max(0.0, 1000 * (start + number * PAUSE - time.monotonic())))
        frames.append(take())
    lab.output(1).get_by_role("button", name="Stop").click()
    frames += [take()] * 2
    lab.wait_idle()
    lab.page.mouse.move(0, 0)
    lab.output(1).locator(".nb-card").first.evaluate("node => node.scrollIntoView({block: 'center'})")
    lab.page.wait_for_timeout(1000)
    return frames + [take()] * round(END_SECONDS / PAUSE)


def write_animation(frames: list[Image.Image], path: Path) -> None:
    """Write pictures with one palette, which keeps the file small; raises ValueError if it is above the limit."""
    width, height = frames[0].size
    samples = Image.new("RGB", (2 * width, height))
    for number, frame in enumerate((frames[0], frames[-1])):
        samples.paste(frame, (number * width, 0))
    palette = samples.quantize(COLORS)
    first, *others = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames)
    first.save(path, save_all=True, append_images=others, duration=round(1000 * PAUSE), loop=0, optimize=True)
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path.name} has {path.stat().st_size:,} bytes; expected at most {MAX_BYTES:,}.")


if __name__ == "__main__":
    main()
