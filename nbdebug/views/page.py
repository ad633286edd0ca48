"""Base class of views, standalone HTML pages, and their size budget."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2s
from html import escape
from pathlib import Path
from typing import Any, ClassVar, TypeVar

TRUST_LINE = "Saved copy. For the live page, run `jupyter trust` with the path of this notebook, then reload it."
PACKAGE_FOLDER = Path(__file__).parents[1]
LOCAL_IMPORT = re.compile(r'^import \{.*?\} from "(\.{1,2}/[\w./]+)";\n', re.M)
_JS_TEMPLATE_EXPRESSION = r"\$\{(?:`(?:\\.|[^`\\])*`|[^`}])*\}"  # an expression in a template literal, which may nest
_JS_STRING = rf'"(?:\\.|[^"\\])*"|`(?:\\.|{_JS_TEMPLATE_EXPRESSION}|[^`\\])*`'
_JS_COMMENT = re.compile(r"^ *//.*\n|/\*\*(?:[^*]|\*(?!/))*\*/", re.M)
_JS_WHITESPACE = re.compile(
    rf"({_JS_STRING})|;\s*(?=}})|\s*([{{([,;=:?!&|<>*])\s*| ([-+/%]) (?![-+/])|\s*([)\]}}])\s*|^\s+", re.M
)
_CSS_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_CSS_WHITESPACE = re.compile(r";?\s*(\})\s*|\s*([{;,])\s*|(:)\s+|^\s+")
_PAGE_TEMPLATE = """<div class="nbdebug" data-view="{key}" style="min-height:{height}px">\
<div class="nb-plain">{plain}<p>{trust}</p></div></div>
<style>{css}</style>
<script type="module">
const el = document.querySelector('[data-view="{key}"]:not([data-on])');
if (el) {{
  el.dataset.on = "";
  const plain = el.firstElementChild, plainStyle = el.nextElementSibling;
  try {{
    const bytes = Uint8Array.from(atob("{packed}"), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const [css, source, state] = await new Response(stream).json();
    const style = document.createElement("style");
    style.textContent = css;
    plainStyle.replaceWith(style);
    const none = () => {{}}, get = (name) => (name === "state" ? state : undefined);
    const model = {{get, set: none, save_changes: none, on: none, off: none, send: none}};{asks}
    const url = URL.createObjectURL(new Blob([source], {{type: "text/javascript"}}));
    const view = (await import(url)).default;
    URL.revokeObjectURL(url);
    await view.render({{model, el}});{live}
  }} catch (error) {{
    console.error(error);
    plain.className = "";
    el.replaceChildren(plain);
  }}
}}
</script>"""
# Until the script has drawn the page, and for readers without scripts; the other rules are compressed with the script.
_PLAIN_CSS = """.nbdebug{font:13px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);overflow-wrap:anywhere}\
.nb-plain table{display:block;overflow-x:auto}\
@media(scripting:enabled){.nbdebug>.nb-plain{animation:nb-late 1.5s step-end}}\
@keyframes nb-late{from{visibility:hidden;height:0;overflow:hidden}}"""
_REQUESTS_TEMPLATE = """
  const to = "{name}", heard = [], hear = (message) => heard.forEach((one) => one(message, message.buffers));
  model.on = (_, one) => heard.push(one);
  model.send = (asked) => dispatchEvent(new CustomEvent("nbdebug-ask", {{detail: {{...asked, to}}}}));
  addEventListener("nbdebug-answer", ({{detail}}) => {{ if (detail.to === to) hear(detail); }});
  for (const kind of ["opened", "closed"]) addEventListener(`nbdebug-${{kind}}`, () => hear({{kind}}));"""
_NOTE_TEMPLATE = '<div class="nbdebug" data-run="{run}"><p class="nb-note">{note}</p></div>\n'
_LIVE_TEMPLATE = """
    const page = {{run: "{run}", el, view, note: el.previousElementSibling}};
    (globalThis.nbdebugPages ??= new Set()).add(page);
    dispatchEvent(new CustomEvent("nbdebug-page", {{detail: page}}));"""
_MAX_PLAIN_MODULE_LENGTH = 15_000
_LOADER_TEMPLATE = """const bytes = Uint8Array.from(atob("{packed}"), (c) => c.charCodeAt(0));
const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
const url = URL.createObjectURL(new Blob([await new Response(stream).text()], {{type: "text/javascript"}}));
export default (await import(url)).default;
"""
PanelType = TypeVar("PanelType")
_PanelState = dict[str, Any] | None


@dataclass
class View:
    """The state of one picture. A subclass adds its fields and names the JavaScript module that draws them.

    ``module`` and ``sheets``, the folders with its own style sheets, are paths relative to the package.
    """

    module: ClassVar[str]
    sheets: ClassVar[tuple[str, ...]] = ()
    height: ClassVar[int] = 0
    count: int = field(default=0, init=False, repr=False)

    @property
    def heading(self) -> str:
        """The title, if there is one."""
        return str(getattr(self, "title", "")) or type(self).__name__

    @property
    def progress_text(self) -> str:
        """How far a running tool is, as text."""
        return f"step {self.count:,}" if self.count else ""

    def state(self) -> dict[str, Any]:
        """Return what the module draws, ready for JSON."""
        raise NotImplementedError

    def html(self) -> str:
        """Return the content as plain, escaped HTML, for readers without scripts."""
        raise NotImplementedError

    def head(self) -> dict[str, Any]:
        """Return the small parts of the state that may change with every row."""
        return {}

    def append(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Add one row, count it, and return the numbers to send."""
        raise TypeError(f"{type(self).__name__} is a view without rows; expected one with a series. Use update().")

    def changes(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return a message with the changes since the last one, for a view of a growing source."""
        raise TypeError(f"{type(self).__name__} is a view without a source; expected one with a record. Use update().")

    def snapshot(self) -> dict[str, Any]:
        """Return the state with the number of rows that it contains."""
        return {**self.state(), "rows": self.count}


@cache
def inline_module(path: Path) -> str:
    """Return a JavaScript module with its local imports inlined, without comments and unneeded whitespace.

    Every statement in a module ends with a semicolon or a brace, so that lines can be joined.
    """
    included: set[Path] = set()

    def replace_import(match: re.Match[str], folder: Path) -> str:
        file = (folder / match[1]).resolve()
        if file in included:
            return ""
        included.add(file)
        return re.sub(r"^export ", "", read_module(file), flags=re.M)

    def read_module(file: Path) -> str:
        text = file.read_text(encoding="utf-8")
        return LOCAL_IMPORT.sub(lambda match: replace_import(match, file.parent), text)

    return _JS_WHITESPACE.sub(
        lambda match: "".join(filter(None, match.groups())), _JS_COMMENT.sub("", read_module(path))
    )


def module_source(view: View) -> str:
    """Return the source of the JavaScript module that draws ``view``; a long one is compressed and unpacks itself."""
    return packed_module(PACKAGE_FOLDER / view.module)


@cache
def packed_module(path: Path) -> str:
    """Return the module at ``path`` in compact form."""
    text = inline_module(path)
    if len(text) <= _MAX_PLAIN_MODULE_LENGTH:
        return text
    return _LOADER_TEMPLATE.format(packed=_compress(text))


def embedded_page(view: View) -> dict[str, Any]:
    """Return ``view`` for a page that draws it inside itself: its module, its style sheets and its state."""
    return {"module": module_source(view), "css": style_sheets(*view.sheets), "state": view.state()}


def _pack(content: Any) -> str:
    """Return JSON, compressed, as text that is safe inside a script element."""
    return _compress(json.dumps(content, allow_nan=False, separators=(",", ":")))


def _compress(text: str) -> str:
    return b64encode(zlib.compress(text.encode(), 9)).decode()


@cache
def style_sheets(*folders: str) -> str:
    """Return the shared style sheets and those in folders of the view's own."""
    sheets = (path for folder in ("views", *folders) for path in sorted((PACKAGE_FOLDER / folder).glob("*.css")))
    text = _CSS_COMMENT.sub("", "".join(path.read_text(encoding="utf-8") for path in sheets))
    return _CSS_WHITESPACE.sub(lambda match: "".join(filter(None, match.groups())), text)


def static_html(view: View, name: str | None = None, run: str | None = None, note: str = "") -> str:
    """Return ``view`` as standalone HTML, drawn by its module, or readable as plain HTML without scripts.

    With a ``name``, clicks reach the result in a live kernel. With a ``run``, the page goes live when it reaches the
    tool that runs there; until then a ``note`` stands above it.
    """
    plain_html = view.html()
    packed = _pack([style_sheets(*view.sheets), inline_module(PACKAGE_FOLDER / view.module), view.state()])
    key = blake2s((plain_html + packed + (name or "") + note).encode(), digest_size=6).hexdigest()
    parts = {
        "css": _PLAIN_CSS,
        "packed": packed,
        "trust": escape(TRUST_LINE),
        "asks": _REQUESTS_TEMPLATE.format(name=name) if name else "",
        "live": _LIVE_TEMPLATE.format(run=run) if run else "",
    }
    page = _PAGE_TEMPLATE.format(key=key, height=view.height, plain=plain_html, **parts)
    return _NOTE_TEMPLATE.format(run=run, note=escape(note)) + page if run else page


def standalone_page(view: View, title: str) -> str:
    """Return ``view`` as a complete HTML document, which needs no kernel and no network."""
    head = f'<meta charset="utf-8"><title>{escape(title)}</title>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{static_html(view)}\n</body></html>\n'


def to_script_json(value: Any) -> str:
    """Return ``value`` as JSON that is safe inside a script element."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def limit_panels(
    panels: Sequence[tuple[PanelType, _PanelState]], max_bytes: int
) -> list[tuple[PanelType, _PanelState]]:
    """Return panels with the states that fit into ``max_bytes``; others are computed when their panel is opened."""
    limited: list[tuple[PanelType, _PanelState]] = []
    for panel, state in panels:
        size = len(json.dumps(state))
        fits = size <= max_bytes
        max_bytes -= size if fits else 0
        limited.append((panel, state if fits else None))
    return limited
