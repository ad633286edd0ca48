"""A view: the state of one picture, and that picture as a page that stands alone."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2s
from pathlib import Path
from typing import Any, ClassVar

HERE = Path(__file__).parent
LOCAL_IMPORT = re.compile(r'^import \{.*?\} from "(\.{1,2}/[\w./]+)";\n', re.M)
INNER = r"\$\{(?:`(?:\\.|[^`\\])*`|[^`}])*\}"  # an expression in a template, which may hold a template
TEXT = rf'"(?:\\.|[^"\\])*"|`(?:\\.|{INNER}|[^`\\])*`'
COMMENT = re.compile(r"^ *//.*\n|/\*\*(?:[^*]|\*(?!/))*\*/", re.M)
BLANK = re.compile(rf"({TEXT})|;\s*(?=}})|\s*([{{([,;=:?!&|<>*])\s*| ([-+/%]) (?![-+/])|\s*([)\]}}])\s*|^\s+", re.M)

PAGE = """<div class="nbdebug" data-view="{key}" style="min-height:{height}px"><div class="nb-plain">{plain}</div></div>
<style>{css}</style>
<script type="module">
const el = document.querySelector('[data-view="{key}"]:not([data-on])');
if (el) {{
  el.dataset.on = "";
  const plain = el.firstElementChild, state = {state};
  const url = URL.createObjectURL(new Blob([{module}], {{type: "text/javascript"}}));
  const none = () => {{}}, get = (name) => (name === "state" ? state : undefined);
  const model = {{get, set: none, save_changes: none, on: none, off: none, send: none}};{asks}
  try {{
    await (await import(url)).default.render({{model, el}});
  }} catch (error) {{
    console.error(error);
    plain.className = "";
    el.replaceChildren(plain);
  }}
  URL.revokeObjectURL(url);
}}
</script>"""

ASKS = """
  const to = "{name}", heard = [], hear = (message) => heard.forEach((one) => one(message, message.buffers));
  model.on = (_, one) => heard.push(one);
  model.send = (asked) => dispatchEvent(new CustomEvent("nbdebug-ask", {{detail: {{...asked, to}}}}));
  addEventListener("nbdebug-answer", ({{detail}}) => {{ if (detail.to === to) hear(detail); }});
  for (const kind of ["opened", "closed"]) addEventListener(`nbdebug-${{kind}}`, () => hear({{kind}}));"""
LONGEST_MODULE = 15_000
LOADER = """const bytes = Uint8Array.from(atob("{packed}"), (c) => c.charCodeAt(0));
const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
const url = URL.createObjectURL(new Blob([await new Response(stream).text()], {{type: "text/javascript"}}));
export default (await import(url)).default;
"""


@dataclass
class View:
    """The state of one picture. A subclass adds its fields and names the module that draws them.

    ``sheets`` are folders with style sheets of its own.
    """

    module: ClassVar[str]
    sheets: ClassVar[tuple[str, ...]] = ()
    height: ClassVar[int] = 0
    count: int = field(default=0, init=False, repr=False)

    def state(self) -> dict[str, Any]:
        """What the module draws, ready for JSON."""
        raise NotImplementedError

    def html(self) -> str:
        """The content as plain, escaped HTML, for readers that run no scripts."""
        raise NotImplementedError

    def head(self) -> dict[str, Any]:
        """The small parts of the state that may change with every row."""
        return {}

    def append(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Takes in one row, counts it, and gives the numbers of it that are sent."""
        raise TypeError(f"{type(self).__name__} is a view without rows; expected one with a series. Use update().")

    def news(self) -> tuple[dict[str, Any], list[bytes]]:
        """A message with what has come since the last one, for a view that reads a source which grows."""
        raise TypeError(f"{type(self).__name__} is a view without a source; expected one with a record. Use update().")

    def snapshot(self) -> dict[str, Any]:
        """The state together with the number of rows that it holds."""
        return {**self.state(), "rows": self.count}


@cache
def inline(path: Path) -> str:
    """The module at ``path`` with its local imports in place and without comments and needless blanks.

    Every statement in a module ends with a semicolon or a brace, so that lines may be joined.
    """
    seen: set[Path] = set()

    def put(found: re.Match[str], folder: Path) -> str:
        file = (folder / found[1]).resolve()
        if file in seen:
            return ""
        seen.add(file)
        return re.sub(r"^export ", "", whole(file), flags=re.M)

    def whole(file: Path) -> str:
        text = file.read_text(encoding="utf-8")
        return LOCAL_IMPORT.sub(lambda found: put(found, file.parent), text)

    return BLANK.sub(lambda found: "".join(filter(None, found.groups())), COMMENT.sub("", whole(path)))


def module(view: View) -> str:
    """The text of the JavaScript module that draws ``view``; a long one is packed, and unpacks itself."""
    return carried(HERE / view.module)


@cache
def carried(path: Path) -> str:
    """The module at ``path`` in as few bytes as a page may carry."""
    text = inline(path)
    if len(text) <= LONGEST_MODULE:
        return text
    return LOADER.format(packed=b64encode(zlib.compress(text.encode(), 9)).decode())


@cache
def css(*folders: str) -> str:
    """The style sheets that all views share, and those in folders of a view's own."""
    shared = (HERE / name for name in ("nbdebug.css", "table.css", "layers.css", "lr_range.css"))
    own = (path for folder in folders for path in sorted((HERE / folder).glob("*.css")))
    return "".join(path.read_text(encoding="utf-8") for path in (*shared, *own))


def static_html(view: View, name: str | None = None) -> str:
    """``view`` as HTML that stands alone: drawn by its module where scripts run, readable as it is elsewhere.

    Under ``name`` its clicks reach the result in a living kernel; without one it asks nobody.
    """
    plain, state = view.html(), script(view.state())
    key = blake2s((plain + state + (name or "")).encode(), digest_size=6).hexdigest()
    asks = ASKS.format(name=name) if name else ""
    parts = {"css": css(*view.sheets), "state": state, "module": script(module(view)), "asks": asks}
    return PAGE.format(key=key, height=view.height, plain=plain, **parts)


def script(value: Any) -> str:
    """``value`` as JSON that may stand inside a script element."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
