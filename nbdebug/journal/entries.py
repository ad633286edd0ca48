"""Entries of a journal, and their form in the file: Markdown for people, and one comment with the same data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["open", "supported", "refuted", "dropped"]
STATUSES: tuple[Status, ...] = ("open", "supported", "refuted", "dropped")
_COMMENT = re.compile(r"^<!-- nbdebug (\{.*\}) -->$", re.M)
TWO_CHANGES = "⚠ two things changed at once, so their effects cannot be told apart"


@dataclass(frozen=True)
class Hypothesis:
    """A claim about the cause: its name, such as H1, its prior probability, what it predicts, and its status."""

    name: str
    claim: str
    prior: float | None = None
    prediction: str = ""
    status: Status = "open"
    reason: str = ""


@dataclass(frozen=True)
class Experiment:
    """A test: its name, such as E1, what was changed, what was seen before and after, and the conclusion.

    ``hypothesis`` is the name of the hypothesis that it tests; ``changes`` has one item, or the entry is flagged.
    """

    name: str
    changes: tuple[str, ...]
    before: str = ""
    after: str = ""
    conclusion: str = ""
    hypothesis: str = ""


@dataclass(frozen=True)
class Entry:
    """One entry of the file: its kind, the time in ISO format, and its data, ready for JSON."""

    kind: str
    time: str
    data: Mapping[str, Any]

    def to_markdown(self) -> str:
        """Return the entry as it stands in the file: a heading, lines for people, and the data in a comment."""
        title, lines = _render(self.kind, self.data)
        comment = json.dumps({"kind": self.kind, "time": self.time, **self.data}, ensure_ascii=False)
        comment = comment.replace("<", "\\u003c").replace(">", "\\u003e")  # so that no text can end the comment
        body = "".join(f"- {_one_line(line)}\n" for line in lines)
        return f"\n## {_one_line(title)}\n\n*{self.time}*\n\n{body}\n<!-- nbdebug {comment} -->\n"


def _render(kind: str, data: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the heading and the lines of an entry."""
    if kind == "problem":
        return "Problem", [data["text"]]
    if kind == "hypothesis":
        prior = f"prior: {data['prior']:g}" if data["prior"] is not None else ""
        prediction = f"predicts: {data['prediction']}" if data["prediction"] else ""
        return f"{data['name']}: {data['claim']}", [line for line in (prior, prediction, "status: open") if line]
    if kind == "decision":
        return f"{data['name']} is {data['status']}", [data["reason"]] if data["reason"] else []
    if kind == "experiment":
        tests = f"tests {data['hypothesis']}" if data["hypothesis"] else ""
        labeled = [f"{label}: {data[label]}" for label in ("before", "after", "conclusion") if data[label]]
        return f"{data['name']}: {'; '.join(data['changes'])}", [
            *filter(None, [tests]),
            *labeled,
            *_flag(data["changes"]),
        ]
    if kind == "conclusion":
        return f"{data['name']} is concluded", [
            f"{label}: {data[label]}" for label in ("after", "conclusion") if data[label]
        ]
    if kind == "result":
        changed = [f"changed since the last entry: {text}" for text in data["changes"]]
        return f"{data['tool']}", [data["headline"], *changed, *_flag(data["changes"])]
    if kind == "guide":
        answers = [f"{name}: {text}" for name, text in data["headlines"].items()]
        return "Guide", [*answers, *(f"{name}: skipped" for name in data["skipped"])]
    return "Note", [data["text"]]


def _flag(changes: list[str]) -> list[str]:
    return [TWO_CHANGES] if len(changes) > 1 else []


def _one_line(text: str) -> str:
    """Return a text on one line that cannot begin a comment or an element."""
    return " ".join(str(text).split()).replace("<", "&lt;")


def entry_line(entry: Entry) -> str:
    """Return one line for an entry."""
    data = entry.data
    if entry.kind == "result":
        text = f"{data['tool']}: {data['headline']}"
    elif entry.kind == "guide":
        text = f"guide: {len(data['headlines'])} steps done"
    elif entry.kind == "experiment":
        text = f"{data['name']}: {'; '.join(data['changes'])}"
    elif entry.kind == "conclusion":
        text = f"{data['name']} is concluded: {data['conclusion']}"
    else:
        text = data.get("text") or f"{data['name']} {data.get('status', '')} {data.get('claim', '')}".strip()
    return f"{text} {TWO_CHANGES}" if len(data.get("changes", ())) > 1 else text


def read_entries(text: str) -> Iterator[Entry]:
    """Yield the complete entries of a file; what a killed process has written in part is left out."""
    for match in _COMMENT.finditer(text):
        try:
            data = json.loads(match[1])
        except json.JSONDecodeError:
            continue
        if isinstance(data, dict) and {"kind", "time"} <= data.keys():
            yield Entry(data.pop("kind"), data.pop("time"), data)
