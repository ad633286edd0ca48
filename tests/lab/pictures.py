"""The pictures of the README: the first checkup of the first tutorial in JupyterLab, light and dark.

`python -m tests.lab.pictures` takes them.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from nbdebug import demo
from tests.browser import launch_chromium
from tests.lab.lab_page import LabPage
from tests.lab.server import ROOT, run_server

PICTURES = ROOT / "notebooks/pictures"
WIDTH, MARGIN = 940, 12


def main() -> None:
    """Run the tutorial once per theme."""
    PICTURES.mkdir(exist_ok=True)
    with (
        launch_chromium() as browser,
        tempfile.TemporaryDirectory() as folder,
        run_server(browser, Path(folder, "lab")) as lab,
    ):
        shutil.copyfile(demo.tutorial_path(), lab.notebooks / demo.FIRST_TUTORIAL)
        for theme in ("light", "dark"):
            with lab.open(demo.FIRST_TUTORIAL, theme, size=(WIDTH, 7000), scale=2) as page:
                page.run_all()
                page.wait_idle(120)
                take_picture(page, PICTURES / f"checkup-{theme}.png")


def take_picture(page: LabPage, path: Path) -> None:
    """Save a picture of the cell with the first checkup."""
    cell = page.page.locator(".jp-Notebook .jp-Cell", has_text="dbg.checkup()").first
    box = cell.bounding_box()
    clip = {"x": box["x"], "y": box["y"] - MARGIN, "width": box["width"], "height": box["height"] + MARGIN}
    page.page.screenshot(path=path, clip=clip)


if __name__ == "__main__":
    main()
