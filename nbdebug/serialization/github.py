"""Findings as workflow commands of GitHub Actions, which put them on their lines in a review."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def workflow_commands(findings: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a workflow command for each described finding.

    The form and its escapes are those of https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    for finding in findings:
        places = {"file": finding.get("file"), "line": finding.get("line")}
        properties = {**places, "title": f"{finding['code']} {finding['name']}"}
        text = "\n".join(filter(None, [finding["message"], finding.get("cause"), finding.get("fix")]))
        parts = (f"{name}={_escape_property(str(value))}" for name, value in properties.items() if value is not None)
        yield f"::{_COMMANDS[finding['severity']]} {','.join(parts)}::{_escape(text)}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
