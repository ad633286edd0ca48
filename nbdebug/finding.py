"""A finding of a rule, its location, and its suppression by a comment."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any, ClassVar, Literal

from nbdebug.formatting import encodable_text, truncate

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
MAX_REPR_LENGTH = 160  # characters
_MAX_RELATED_LINES = 2
_COMMENT = re.compile(r"#\s*nbdebug:\s*ignore\[([^\]]*)\]")


@dataclass(frozen=True)
class Location:
    """The location of a fault in the model, the data, the run and the user's source."""

    module: str | None = None
    parameter: str | None = None
    sample: int | None = None
    step: int | None = None
    file: str | None = None
    line: int | None = None
    source: str | None = None
    cell: int | None = None
    context: tuple[tuple[int, str], ...] = ()

    def __str__(self) -> str:
        """Format like ``In[12], line 7 · conv1.weight · sample 3``."""
        code = describe_place(self.file or "", self.cell, self.line) if self.line else None
        sample = f"sample {self.sample}" if self.sample is not None else None
        step = f"step {self.step}" if self.step is not None else None
        return " · ".join(filter(None, [code, self.parameter or format_module(self.module or ""), sample, step]))


@dataclass(frozen=True)
class RelatedLine:
    """Another line of the user's code that a finding is about, and its role in one short clause."""

    where: Location
    role: str

    def __str__(self) -> str:
        """Format like ``In[2], line 4: the data shift the targets here``."""
        return f"{self.where}: {self.role}"


@dataclass(frozen=True)
class Edit:
    """A replacement of one range of a source file, or of a notebook cell; columns count characters."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True)
class LineChange:
    """A change of consecutive lines of the user's source, as a diff shows it."""

    place: str
    removed: tuple[str, ...]
    added: tuple[str, ...]

    def __str__(self) -> str:
        """Return the place, and below it the removed and the added lines with their signs."""
        removed, added = (f"- {line}" for line in self.removed), (f"+ {line}" for line in self.added)
        return "\n".join([self.place, *removed, *added])


@dataclass(frozen=True)
class Finding:
    """A fault with its numbers, location, cause and fix.

    The registry adds ``code``, ``name`` and the default ``severity``. ``explains`` holds the codes of findings that are
    consequences of this one, or ``code:aspect`` for those of one ``aspect`` only: a rule that reports several kinds of
    faults names them so if not all are consequences of the same causes. ``assumes`` names assumptions about the user's
    loop; the finding is withdrawn if a watched loop has disproved all of them. ``predicts`` is its claim about the run
    to come; the finding becomes a note if a watched run has disproved it. ``confirms`` names assumptions that this
    finding, on a trained model, supports: a note that makes them becomes a warning. ``edits`` are the changes of the
    user's source that the fix consists of, if it can be written so, and ``changes`` their lines before and after.
    ``related`` are up to two other lines of the user's code that the fault lies between, such as the loss that shifts
    the targets and the dataset that has shifted them before; a comment that suppresses a finding stands at ``where``.
    ``trial`` states what the fix did on a copy of the setup, if it was tried. ``setup_fix`` is the fix as code in
    the names of the setup, or the name of a built-in change with its effect, so that ``try_fix`` can train a copy with
    it; empty if it changes the user's loop.
    """

    card: ClassVar[Callable[[Finding], dict[str, str]] | None] = None  # set by the layer of reports, above this one

    message: str
    where: Location = field(default_factory=Location)
    cause: str = ""
    fix: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)
    explains: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()
    predicts: str = ""
    confirms: tuple[str, ...] = ()
    aspect: str = ""
    edits: tuple[Edit, ...] = ()
    changes: tuple[LineChange, ...] = ()
    trial: str = ""
    setup_fix: str = ""
    related: tuple[RelatedLine, ...] = ()
    code: str = ""
    name: str = ""
    severity: Severity | None = None

    def __post_init__(self) -> None:
        """Keep the first related lines that are neither the location itself nor given twice."""
        lines: dict[tuple[str | None, int | None], RelatedLine] = {}
        for item in self.related:
            lines.setdefault((item.where.file, item.where.line), item)
        lines.pop((self.where.file, self.where.line), None)
        object.__setattr__(self, "related", tuple(lines.values())[:_MAX_RELATED_LINES])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON; ``where`` and the lines in ``related`` are nested dictionaries."""
        return asdict(self)

    @property
    def headline(self) -> str:
        """Severity, code, name and message."""
        return f"{self.severity} {self.code} {self.name}: {self.message}"

    @property
    def summary_line(self) -> str:
        """The headline, the location and the source, in one line."""
        location = ": ".join(filter(None, [str(self.where), (self.where.source or "").strip()]))
        return " ".join(f"{self.headline}{f' ({location})' if location else ''}".split())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return Finding.card(self) if Finding.card is not None else {"text/plain": str(self)}

    @property
    def fix_text(self) -> str:
        """The fix in lines: the changed lines as a diff, else its code or sentence, and what a trial has shown."""
        own_place = describe_place(PurePath(self.where.file or "").name, self.where.cell, self.where.line)
        fix = "\n".join(str(change).removeprefix(f"{own_place}\n") for change in self.changes) or self.fix
        return "\n".join(filter(None, [fix, f"tried: {self.trial}" if self.trial else ""]))

    def __repr__(self) -> str:
        text = " ".join(self.headline.split())
        return encodable_text(f"<Finding: {truncate(text, MAX_REPR_LENGTH)}>")

    def __str__(self) -> str:
        """Several lines of text: observation, location, related lines, cause and fix."""
        lines = [self.headline]
        if location := str(self.where):
            lines.append(f"  at     {location}")
        lines += self._source_lines(self.where)
        for item in self.related:
            lines += [f"  see    {item}", *self._source_lines(item.where)]
        lines += [f"  {label:6} {text}" for label, text in (("cause", self.cause), ("fix", self.fix_text)) if text]
        return encodable_text("\n".join(line.replace("\n", "\n         ") for line in lines))

    def _source_lines(self, where: Location) -> list[str]:
        """Return the source of a location as a line of text, unless the fix shows it as a removed line."""
        source = (where.source or "").strip()
        removed = (line.strip() for change in self.changes for line in change.removed)
        return [f"         {source}"] if source and source not in removed else []


def describe_place(file: str, cell: int | None, line: int | None) -> str:
    """Return a place in the user's code, ``In[12], line 7`` or ``train.py, line 7``; "" if it is unknown."""
    script = f"In[{cell}]" if cell is not None else file
    return f"{script}, line {line}" if script and line is not None else script


def is_consequence(code: str, aspect: str, explains: Collection[str]) -> bool:
    """Return whether the entries of ``explains`` name findings of a code and an aspect."""
    return code in explains or (bool(aspect) and f"{code}:{aspect}" in explains)


def cause_indices(findings: Sequence[Mapping[str, Any]]) -> list[int | None]:
    """Return the index of each finding's cause; of two that explain each other, the first is the cause.

    A note explains only notes. ``findings`` are ``Finding.to_dict()``.
    """
    causes: list[int | None] = [None] * len(findings)
    for cause, finding in enumerate(findings):
        explains = finding.get("explains", ())
        consequences = [
            i
            for i, other in enumerate(findings)
            if is_consequence(other.get("code", ""), other.get("aspect", ""), explains)
            and (finding.get("severity") != "note" or other.get("severity") == "note")
        ]
        for index in consequences:
            if causes[index] is None and not _is_ancestor(causes, index, cause):
                causes[index] = cause
    return causes


def _is_ancestor(causes: list[int | None], top: int, index: int | None) -> bool:
    """Return whether ``index`` is ``top`` or, through any number of causes, a consequence of it."""
    while index is not None and index != top:
        index = causes[index]
    return index == top


def format_module(path: str) -> str:
    """Format a module path for a sentence: ``module 3`` for a part of a ``Sequential``, else the path itself."""
    return f"module {path}" if path.replace(".", "").isdigit() else path


def is_code(fix: str) -> bool:
    """Return whether a fix is Python code, and not a sentence."""
    try:
        return bool(ast.parse(fix).body)
    except SyntaxError:
        return False


def remove_comment_sign(fix: str) -> str:
    """Return a fix that consists of comments only as a sentence; any other as it is."""
    lines = [line.strip() for line in fix.splitlines()]
    if not lines or not all(line.startswith("#") for line in lines):
        return fix
    text = " ".join(line.lstrip("# ") for line in lines)
    start = text[:1].upper() if text.partition(" ")[0].isalpha() else text[:1]
    return f"{start}{text[1:]}{'' if text.endswith(('.', '?', '!')) else '.'}"


def is_ignored(finding: Finding) -> bool:
    """Return whether a comment on the line of a finding names its code or a prefix of it."""
    comments = _COMMENT.findall(finding.where.source or "")
    codes = [code.strip() for comment in comments for code in comment.split(",")]
    return any(code and finding.code.startswith(code) for code in codes)
