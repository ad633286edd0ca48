"""Findings as SARIF 2.1.0, the format in which code hosts take the results of a static analysis.

The structure is that of the OASIS standard: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_log(findings: Sequence[Mapping[str, Any]], version: str, summaries: Mapping[str, str]) -> dict[str, Any]:
    """Return described findings as a SARIF log; ``summaries`` are the first lines of the pages of rules by code."""
    rules = {finding["code"]: finding for finding in findings}
    codes = list(rules)
    driver = {
        "name": "nbdebug",
        "version": version,
        "rules": [_rule(rules[code], summaries.get(code, "")) for code in codes],
    }
    results = [_result(finding, codes.index(finding["code"])) for finding in findings]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    }


def _rule(finding: Mapping[str, Any], summary: str) -> dict[str, Any]:
    texts = {"shortDescription": {"text": summary}} if summary else {}
    level = {"defaultConfiguration": {"level": finding["severity"]}}
    return {"id": finding["code"], "name": finding["name"], **texts, **level}


def _result(finding: Mapping[str, Any], index: int) -> dict[str, Any]:
    text = "\n".join(filter(None, [finding["message"], finding.get("cause"), finding.get("fix")]))
    return {
        "ruleId": finding["code"],
        "ruleIndex": index,
        "level": finding["severity"],
        "message": {"text": text},
        "locations": _locations(finding),
        **_related_locations(finding),
    }


def _related_locations(finding: Mapping[str, Any]) -> dict[str, Any]:
    """Return the other lines that a finding is about, each with its role as a message; nothing without any."""
    described = [
        {**location, "message": {"text": line["role"]}}
        for line in finding.get("related", ())
        for location in _locations(line)
    ]
    return {"relatedLocations": described} if described else {}


def _locations(finding: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the line in the source and the part of the model of a finding, as far as they are known."""
    location: dict[str, Any] = {}
    if finding.get("file") and finding.get("line"):
        snippet = {"snippet": {"text": finding["source"]}} if finding.get("source") else {}
        location["physicalLocation"] = {
            "artifactLocation": {"uri": _uri(finding["file"])},
            "region": {"startLine": finding["line"], **snippet},
        }
    if part := finding.get("parameter") or finding.get("module"):
        location["logicalLocations"] = [{"fullyQualifiedName": part, "kind": "member"}]
    return [location] if location else []


def _uri(file: str) -> str:
    """Return a path as the reference of a URI: a relative one stays relative."""
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
