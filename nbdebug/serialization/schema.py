"""The versioned JSON schema of findings, and its form of limited size."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.finding import SEVERITIES, Finding, LineChange, Location, RelatedLine, cause_indices
from nbdebug.formatting import to_json_value, truncate

SCHEMA = "nbdebug.findings/1"  # a key may be added; a change of meaning, or a removal, makes another number
MAX_SUMMARY_BYTES = 4_000
_TEXT_FIELDS = ("message", "cause", "fix", "trial")
_LOCATION_FIELDS = ("file", "line", "cell", "source", "module", "parameter", "sample", "step")
# Parts that a summary leaves out, one after the other, until it is small enough.
_DROPPED_FIELDS = ("evidence", "context", "related", "trial", "cause", "source", "fix", "changes")
_MAX_TEXT_LENGTHS = (400, 200, 100)


def own_version() -> str:
    """Return the version of nbdebug; "not installed" outside an installation."""
    try:
        return version("nbdebug-torch")
    except PackageNotFoundError:
        return "not installed"


def document(title: str, findings: Sequence[Finding], **parts: Any) -> dict[str, Any]:
    """Return a document of the schema: its version, title and findings by rank, and further ``parts`` by name.

    A finding that follows from another has the index of that one as ``caused_by``. Values without content are left out
    of a finding, and numbers that are not finite are null.
    """
    causes = cause_indices([finding.to_dict() for finding in findings])
    counts = Counter(finding.severity for finding in findings)
    return {
        "schema": SCHEMA,
        "nbdebug": own_version(),
        "title": title,
        "counts": {severity: counts[severity] for severity in SEVERITIES},
        "findings": [_describe(finding, cause) for finding, cause in zip(findings, causes, strict=True)],
        **parts,
    }


def _describe(finding: Finding, cause: int | None) -> dict[str, Any]:
    where = finding.where
    texts = {name: getattr(finding, name) for name in _TEXT_FIELDS}
    values = {
        **{"code": finding.code, "name": finding.name, "severity": finding.severity},
        **texts,
        **_describe_place(where),
        "changes": [
            vars(change) | {"removed": [*change.removed], "added": [*change.added]} for change in finding.changes
        ],
        "evidence": to_json_value(finding.evidence),
        "context": [[*line] for line in where.context],
        "related": [{"role": item.role, **_describe_place(item.where)} for item in finding.related],
        "caused_by": cause,
    }
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}


def _describe_place(where: Location) -> dict[str, Any]:
    """Return the fields of a location that have a value, without the code around it."""
    places = {name: getattr(where, name) for name in _LOCATION_FIELDS} | {"source": (where.source or "").strip()}
    return {name: value for name, value in places.items() if value not in (None, "")}


def read_findings(content: Mapping[str, Any]) -> list[Finding]:
    """Return the findings of a document of the schema, by rank.

    Raises SetupError for a document of another version.
    """
    if content.get("schema") != SCHEMA:
        raise SetupError(f"schema is {content.get('schema')!r}; expected {SCHEMA!r}. Use the nbdebug that wrote it.")
    described = content["findings"]
    findings = []
    for index, item in enumerate(described):
        context = tuple((number, text) for number, text in item.get("context", ()))
        texts = {name: item[name] for name in (*_TEXT_FIELDS, "code", "name", "severity") if name in item}
        finding = Finding(
            **texts,
            where=replace(_read_place(item), context=context),
            evidence=item.get("evidence", {}),
            explains=tuple(other["code"] for other in described if other.get("caused_by") == index),
            changes=tuple(
                LineChange(change["place"], tuple(change["removed"]), tuple(change["added"]))
                for change in item.get("changes", ())
            ),
            related=tuple(RelatedLine(_read_place(other), other["role"]) for other in item.get("related", ())),
        )
        findings.append(finding)
    return findings


def _read_place(item: Mapping[str, Any]) -> Location:
    return Location(**{name: item[name] for name in _LOCATION_FIELDS if name in item})


def to_json(content: Mapping[str, Any], indent: int | None = None) -> str:
    """Return a document as JSON in ASCII, in one line without ``indent``."""
    separators = (",", ":") if indent is None else None
    return json.dumps(content, indent=indent, separators=separators, allow_nan=False)


def shorten(content: dict[str, Any], max_bytes: int = MAX_SUMMARY_BYTES) -> dict[str, Any]:
    """Return a document of at most ``max_bytes`` bytes of JSON, with ``abridged`` if anything is left out of it.

    Fields of findings go first, those of the last findings before those of the first one, then long texts are cut, then
    the last findings go. ``counts`` are those of all findings.
    """
    findings = [dict(finding) for finding in content["findings"]]
    short = {**content, "findings": findings}
    if _size(short) <= max_bytes:
        return short
    short["abridged"] = "nbdebug rule CODE prints the page of a rule"
    for name in _DROPPED_FIELDS:
        for finding in reversed(findings):
            if _size(short) <= max_bytes:
                return short
            finding.pop(name, None)
    for length in _MAX_TEXT_LENGTHS:
        if _size(short) <= max_bytes:
            return short
        short.update({name: _cut_texts(value, length) for name, value in short.items() if name != "abridged"})
    findings = short["findings"]
    total = len(findings)
    while findings and _size(short) > max_bytes:
        findings.pop()
        short["abridged"] = f"{total - len(findings)} of {total} findings of lower rank are left out"
    return short


def _size(content: Mapping[str, Any]) -> int:
    return len(to_json(content))


def _cut_texts(value: Any, length: int) -> Any:
    if isinstance(value, str):
        return truncate(value, length)
    if isinstance(value, Mapping):
        return {name: _cut_texts(item, length) for name, item in value.items()}
    return [_cut_texts(item, length) for item in value] if isinstance(value, list) else value


def relative_paths(findings: Iterable[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Return described findings with the paths of files below a folder relative to it, as reviews need them."""
    return [_with_relative_paths(item, folder) for item in findings]


def _with_relative_paths(item: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return a described finding, or a related line of one, with relative paths."""
    file = {"file": _relative(item["file"], folder)} if "file" in item else {}
    related = {"related": relative_paths(item["related"], folder)} if "related" in item else {}
    return {**item, **file, **related}


def _relative(file: str, folder: Path) -> str:
    try:
        return Path(file).resolve().relative_to(folder.resolve()).as_posix()
    except (ValueError, OSError):
        return file
