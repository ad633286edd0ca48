"""Write the sections of a report as a page, as Markdown or as a notebook; each is one file without remote parts."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from nbdebug.atomic_files import write_atomically
from nbdebug.exceptions import SetupError
from nbdebug.run_report.sections import Block, Code, Heading, Items, Paragraph, Picture, Section
from nbdebug.validation import argument_error

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<nav><ul>{contents}</ul></nav>
{sections}
</main>
</body>
</html>
"""
_STYLE = """:root{color-scheme:light dark;--text:#1f2328;--soft:#57606a;--line:#d8dee4;--back:#fff;--code:#f6f8fa;\
--error:#b3261e;--warning:#8a5a00;--note:#0a5fae;--good:#1a7f37}
@media(prefers-color-scheme:dark){:root{--text:#e6edf3;--soft:#9da7b3;--line:#343b44;--back:#14171c;--code:#1e232a;\
--error:#ff8a80;--warning:#f0b429;--note:#79b8ff;--good:#56d364}}
body{margin:0;background:var(--back);color:var(--text);font:15px/1.55 system-ui,sans-serif;overflow-wrap:anywhere}
main{max-width:900px;margin:0 auto;padding:24px 16px 64px}
h1{font-size:26px;margin:0 0 8px}h2{font-size:20px;margin:36px 0 10px;padding-top:14px;border-top:1px solid var(--line)}
h3{font-size:15px;margin:22px 0 4px}p{margin:6px 0}
nav ul{display:flex;flex-wrap:wrap;gap:4px 16px;padding:0;margin:0;list-style:none}a{color:var(--note)}
pre{background:var(--code);padding:10px 12px;border-radius:6px;white-space:pre-wrap;font-size:13px;line-height:1.45}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:14px;margin:8px 0;width:100%}
th,td{text-align:left;vertical-align:top;padding:5px 12px 5px 0;border-bottom:1px solid var(--line)}
th,td{overflow-wrap:break-word}
th{color:var(--soft);font-weight:600}img{max-width:100%;height:auto;border-radius:6px;background:#fff;margin:6px 0}
.tone{border-left:4px solid;padding-left:10px;font-weight:600}.error{border-color:var(--error)}
.warning{border-color:var(--warning)}.note{border-color:var(--note)}.good{border-color:var(--good)}
@media print{nav{display:none}h2{break-after:avoid}pre,img,table{break-inside:avoid}}"""
_TONES = ("error", "warning", "note", "good")


def write_report(path: str | Path, sections: Sequence[Section], title: str) -> Path:
    """Write a report in the format of the path's suffix, in one step, and return the path.

    Raises SetupError for another suffix than .html, .md and .ipynb, and if the file cannot be written.
    """
    target = Path(path)
    if target.suffix not in _WRITERS:
        raise argument_error("path", str(path), f"a name that ends in {', '.join(_WRITERS)}", "Rename it")
    content = _WRITERS[target.suffix](sections, title)
    try:
        write_atomically(target, content.encode())
    except OSError as error:
        raise SetupError(f"path is {str(path)!r}; expected a file that can be written ({error}).") from None
    return target


def _html_page(sections: Sequence[Section], title: str) -> str:
    """Return a page without scripts: its style follows the reader's light or dark theme."""
    numbered = list(enumerate(sections))
    contents = "".join(f'<li><a href="#s{i}">{escape(_capitalize(section.title))}</a></li>' for i, section in numbered)
    parts = [f'<h2 id="s{i}">{escape(_capitalize(s.title))}</h2>\n{"".join(map(_html, s.blocks))}' for i, s in numbered]
    return _PAGE.format(title=escape(title), style=_STYLE, contents=contents, sections="\n".join(parts))


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h3>{escape(block.text)}</h3>\n"
    if isinstance(block, Paragraph):
        tone = f' class="tone {block.tone}"' if block.tone in _TONES else ""
        return f"<p{tone}>{escape(block.text)}</p>\n"
    if isinstance(block, Items):
        return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in block.lines)}</ul>\n"
    if isinstance(block, Code):
        return f"<pre>{escape(block.text)}</pre>\n"
    if isinstance(block, Picture):
        return f'<img alt="{escape(block.description)}" src="data:image/png;base64,{b64encode(block.png).decode()}">\n'
    head = "".join(f"<th>{escape(cell)}</th>" for cell in block.header)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in block.rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>\n'


def _markdown_text(sections: Sequence[Section], title: str) -> str:
    """Return Markdown; the pictures are part of it."""
    parts = [f"# {_plain(title)}"]
    for section in sections:
        parts += [f"## {_plain(_capitalize(section.title))}", *map(_markdown, section.blocks)]
    return "\n\n".join(parts) + "\n"


def _markdown(block: Block) -> str:
    if isinstance(block, Heading):
        return f"### {_plain(block.text)}"
    if isinstance(block, Paragraph):
        return f"**{_plain(block.text)}**" if block.tone in _TONES else _plain(block.text)
    if isinstance(block, Items):
        return "\n".join(f"- {_plain(line)}" for line in block.lines)
    if isinstance(block, Code):
        fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", block.text))])
        return f"{fence}text\n{block.text}\n{fence}"
    if isinstance(block, Picture):
        return f"![{_plain(block.description)}](data:image/png;base64,{b64encode(block.png).decode()})"
    lines = [block.header, tuple("---" for _ in block.header), *block.rows]
    cells = [[_plain(cell).replace("|", "\\|") if row is not lines[1] else cell for cell in row] for row in lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _plain(text: str) -> str:
    """Return text on one line that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]<>#])", r"\\\1", " ".join(text.split()))


def _notebook_json(sections: Sequence[Section], title: str) -> str:
    """Return a notebook with a Markdown cell for each section; pictures are attachments of their cell."""
    cells = [_cell("title", f"# {_plain(title)}", {})]
    for number, section in enumerate(sections):
        parts, attachments = [f"## {_plain(_capitalize(section.title))}"], {}
        for index, block in enumerate(section.blocks):
            if isinstance(block, Picture):
                name = f"picture{index}.png"
                attachments[name] = {"image/png": b64encode(block.png).decode()}
                parts.append(f"![{_plain(block.description)}](attachment:{name})")
            else:
                parts.append(_markdown(block))
        cells.append(_cell(f"section-{number}", "\n\n".join(parts), attachments))
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def _cell(name: str, source: str, attachments: dict[str, dict[str, str]]) -> dict[str, object]:
    extra = {"attachments": attachments} if attachments else {}
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source, **extra}


def _capitalize(title: str) -> str:
    return title[:1].upper() + title[1:]


_WRITERS: dict[str, Callable[[Sequence[Section], str], str]] = {
    ".html": _html_page,
    ".md": _markdown_text,
    ".ipynb": _notebook_json,
}
