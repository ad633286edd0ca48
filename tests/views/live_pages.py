"""A page that runs a view as a live widget does: it receives messages and records those that it sends."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from nbdebug.views.line_chart import pack_rows
from nbdebug.views.page import View, module_source, style_sheets

MOUNT_LIVE_VIEW = """async ([source, css, state]) => {
  document.body.innerHTML = "<style></style><div id=el></div>";
  document.querySelector("style").textContent = css;
  const listeners = [];
  window.messages = [];
  window.state = state;
  window.emit = (message, bytes) => {
    const buffer = Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0)).buffer;
    listeners.forEach((listener) => listener(message, [new DataView(buffer)]));
    return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())));
  };
  const model = {
    get: (name) => ({ state, live: true })[name],
    on: (name, listener) => listeners.push(listener),
    send: (content) => window.messages.push(content),
  };
  const view = (await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })))).default;
  view.initialize?.({ model });
  await view.render({ model, el: document.getElementById("el") });
}"""


class LivePage:
    """A page with a live view; ``messages`` in its window lists what it sends."""

    def __init__(self, page: Any, view: View) -> None:
        self.page, self.view = page, view
        page.evaluate(MOUNT_LIVE_VIEW, [module_source(view), style_sheets(), view.snapshot()])

    def send_rows(self, first: int, rows: Sequence[Mapping[str, float]], **message: Any) -> None:
        """Send rows as a screen does."""
        columns = list(dict.fromkeys(name for row in rows for name in row))
        content = {"first": first, "columns": columns, "head": self.view.head(), **message}
        self.send(content, pack_rows(rows, columns))

    def send(self, content: Mapping[str, Any], data: bytes = b"") -> None:
        """Send one message."""
        self.page.evaluate("([content, bytes]) => emit(content, bytes)", [content, base64.b64encode(data).decode()])
