"""The pictures of the README: the checkup of the first tutorial, light and dark, taken in JupyterLab.

python -m tests.lab.pictures
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from nbdebug import demo
from tests.browser import launch_chromium
from tests.lab.lab_page import LabPage
from tests.lab.server import ROOT, serving

PICTURES = ROOT / "notebooks/pictures"
WIDTH, MARGIN = 940, 12


def main() -> None:
    """Runs the tutorial once for each theme."""
    PICTURES.mkdir(exist_ok=True)
    with (
        launch_chromium() as browser,
        tempfile.TemporaryDirectory() as folder,
        serving(browser, Path(folder, "lab")) as lab,
    ):
        shutil.copyfile(demo.tutorial_path(), lab.notebooks / demo.FIRST_TUTORIAL)
        for theme in ("light", "dark"):
            with lab.open(demo.FIRST_TUTORIAL, theme, size=(WIDTH, 7000), scale=2) as page:
                page.run_all()
                page.wait_idle(120)
                take(page, PICTURES / f"checkup-{theme}.png")


def take(page: LabPage, path: Path) -> None:
    """The cell with the first checkup."""
    cell = page.page.locator(".jp-Notebook .jp-Cell", has_text="dbg.checkup()").first
    box = cell.bounding_box()
    clip = {"x": box["x"], "y": box["y"] - MARGIN, "width": box["width"], "height": box["height"] + MARGIN}
    page.page.screenshot(path=path, clip=clip)


if __name__ == "__main__":
    main()
