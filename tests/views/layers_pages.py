"""Pages of the layers view, and what tests read from them."""

from __future__ import annotations

from typing import Any

from nbdebug.finding import Finding, Location
from nbdebug.records.record import RunEvent
from nbdebug.watching.view import LayersView

from .conftest import OpenPage
from .recorded_runs import make_record

ROWS = ".nb-line:not([hidden])"
ROW_NAMES = f"{ROWS} .nb-path"


def make_finding(location_fields: dict[str, Any], severity: Any, code: str, step: int | None = None) -> dict[str, Any]:
    location = Location(**location_fields, step=step)
    return Finding(f"{code} was seen.", location, code=code, name="a-rule", severity=severity).to_dict()


def layers_view(steps: int = 400, layers: int = 30) -> LayersView:
    """A run with a warning at one layer, an error at a parameter of another, and a note at a block."""
    record = make_record(steps, layers)
    record.events.append(RunEvent(100, "nonfinite", "loss is inf"))
    findings = [
        make_finding({"module": "block1.3.linear"}, "warning", "G402", 120),
        make_finding({"parameter": "block2.7.linear.bias"}, "error", "G401", 40),
        make_finding({"module": "block0"}, "note", "G409"),
    ]
    return LayersView(record, findings, status="step 400")


def canvas_images(page: Any) -> list[str]:
    """The images on the canvases of the visible rows."""
    return list(page.locator(f"{ROWS} canvas").evaluate_all("nodes => nodes.map((node) => node.toDataURL())"))


def set_slider(page: Any, step: int) -> None:
    page.get_by_label("recorded step").fill(str(step))
    wait_for_frames(page)


def wait_for_frames(page: Any) -> None:
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def open_layers(open_page: OpenPage, view: LayersView, **options: Any) -> Any:
    page = open_page(view, **options)
    page.wait_for_selector(".nb-line canvas")
    wait_for_frames(page)
    return page
