"""Pages of running tools: saved at any moment as they are then, and found again after a reload."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any, TypeVar

from nbdebug.views.kernel_bridge import answer_run_requests, send_to_pages
from nbdebug.views.notebook_kernel import cell_number, running_cell
from nbdebug.views.page import View, static_html

_MAX_ENDED_PAGES = 8
_MIN_PICTURE_SECONDS, _PICTURE_COST_FACTOR = 3.0, 400  # a picture takes at most 0.25 % of the time
_MAX_READINGS = 5
_T = TypeVar("_T")
_run_numbers = count(1)
_pages: dict[str, LivePage] = {}


@dataclass(eq=False)
class LivePage:
    """The page of one run of a tool, in the output of its cell and in every page that is opened while it runs.

    ``current_view`` returns what it shows, and ``snapshot`` the complete state for a page that connects. A page is
    HTML with a script, and is saved as a picture of the moment; it goes live when it reaches the kernel. One that
    begins with its ``final_bundle`` is an output that only must not get lost. It ``is_stored`` once the file has the
    final output; until then a page that is loaded again receives it.
    """

    title: str = ""
    current_view: Callable[[], View] = View
    snapshot: Callable[[], dict[str, Any]] = dict
    on_message: Callable[[Mapping[str, Any]], object] = bool
    final_bundle: dict[str, str] | None = None
    is_displayed: bool = field(default=False, init=False)
    is_stored: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.cell, self.execution = running_cell()
        self.run, self.cell_number = f"{self.execution}-{next(_run_numbers)}", cell_number()
        self.started = self.ended = datetime.now()
        ended = [name for name, page in _pages.items() if not page.is_running]
        for name in ended[: max(0, len(ended) - _MAX_ENDED_PAGES + 1)]:
            del _pages[name]
        _pages[self.run] = self
        answer_run_requests(_answer, lambda: bool(_running_pages()))

    @property
    def is_running(self) -> bool:
        """True until the tool has ended."""
        return self.final_bundle is None

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the output, from which a page knows its run."""
        return {"nbdebug": {"run": self.run}}

    @property
    def status(self) -> str:
        """How far the run is, with the time."""
        progress = self.current_view().progress_text
        return f"Running, as of {progress + ', ' if progress else ''}{datetime.now():%Y-%m-%d %H:%M:%S}"

    def picture(self) -> dict[str, str]:
        """Return the output as of now."""
        if self.final_bundle is not None:
            return self.final_bundle
        view, status = self.current_view(), self.status
        html = static_html(view, run=self.run, note=status)
        return {"text/plain": f"{self.title}: {status[0].lower()}{status[1:]}", "text/html": html}

    def show(self) -> None:
        """Display this page under the running cell; it is live while the tool runs."""
        from IPython.display import display

        display(self.picture(), metadata=self.metadata, raw=True)  # type: ignore[no-untyped-call]
        self.announce()

    def announce(self) -> None:
        """Tell the pages that this one is displayed: one that was loaded while the cell ran did not receive that."""
        self.is_displayed = True
        send_to_pages({"kind": "connected", "runs": [self._listed()]})

    def __str__(self) -> str:
        status = self.status if self.is_running else f"ended {self.ended:%Y-%m-%d %H:%M:%S}"
        return (
            f"{self.title}, cell [{self.cell_number}]: started {self.started:%H:%M:%S}, {status[0].lower()}{status[1:]}"
        )

    def send(self, message: Mapping[str, Any], buffers: list[bytes] | None = None) -> None:
        """Send a message to all pages of this run."""
        send_to_pages({**message, "to": self.run}, buffers)

    def end(self, bundle: Mapping[str, str]) -> dict[str, str]:
        """Return the final output, which replaces this page everywhere, from the bundle of a result."""
        self.ended = datetime.now()
        note = f'<div class="nbdebug"><p class="nb-note">Ended {self.ended:%Y-%m-%d %H:%M:%S}.</p></div>'
        self.final_bundle = dict(bundle)
        if "text/html" in bundle:
            self.final_bundle["text/html"] = bundle["text/html"] + note
        self.current_view, self.snapshot, self.on_message = View, dict, bool  # keep no record alive
        return self.final_bundle

    def close(self) -> None:
        """Give the final output to the pages that were opened while the tool ran."""
        if self.final_bundle is None:
            self.end({"text/plain": self.title})
        send_to_pages({"to": self.run, "kind": "ended", "runs": [self._listed(with_picture=True)]})

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to a request of a page."""
        kind, started = request.get("kind"), time.perf_counter()
        if kind == "stored":
            self.is_stored = True
        elif kind == "hello" and self.is_running:
            self.on_message(request)
            return {"state": _read_consistently(self.snapshot), "running": True}
        elif kind in ("hello", "picture") or not self.is_running:
            listed = self._listed(with_picture=True)
            pause = max(_MIN_PICTURE_SECONDS, _PICTURE_COST_FACTOR * (time.perf_counter() - started))
            return {"kind": "ended" if not self.is_running else "picture", "runs": [listed], "pause": pause}
        else:
            self.on_message({name: value for name, value in request.items() if name != "run"})
        return {}

    def _listed(self, with_picture: bool = False) -> dict[str, Any]:
        """Return what a page needs to find the output of this run in its notebook."""
        output = {"data": _read_consistently(self.picture), "metadata": self.metadata} if with_picture else None
        names = {"run": self.run, "execution": self.execution, "cell": self.cell}
        return {**names, "running": self.is_running, "output": output}


def _read_consistently(read: Callable[[], _T]) -> _T:
    """Return what ``read`` returns; repeat it if it fails, as the tool may extend its record on another thread."""
    for _ in range(_MAX_READINGS - 1):
        try:
            return read()
        except Exception:
            continue
    return read()


def _running_pages() -> list[LivePage]:
    """Return the pages of the tools that run now."""
    return [page for page in list(_pages.values()) if page.is_running]


def recent_pages() -> list[LivePage]:
    """Return the pages of the running tools and of the last ones that ended, oldest first."""
    return [page for page in list(_pages.values()) if page.title]


def _answer(request: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the response to a request that concerns a run, None for any other."""
    if request.get("kind") == "connected":
        displayed = [page for page in list(_pages.values()) if page.is_displayed]
        missing = [page for page in displayed if page.is_running or not page.is_stored]
        return {"runs": [page._listed() for page in missing]}
    if "run" not in request:
        return None
    page = _pages.get(str(request["run"]))
    response = {"unknown": True} if page is None else page.answer(request)
    return {"to": request["run"], **response} if response else {}
