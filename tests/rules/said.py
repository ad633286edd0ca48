"""What one rule says of a program."""

from __future__ import annotations

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.setup import Setup


def said(setup: Setup, code: str) -> list[Finding]:
    """The findings of one rule, which must have been able to answer."""
    report = Debugger.of(setup).checkup(select=[code])
    assert [one for one in report.not_checked if "broke" in one.why] == []
    return list(report)


def loud(setup: Setup, code: str) -> list[str]:
    """The errors and warnings of one rule, as text."""
    return [str(one) for one in said(setup, code) if one.severity != "note"]
