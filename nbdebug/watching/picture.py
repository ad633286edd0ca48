"""The picture of a run, live or done."""

from __future__ import annotations

from collections.abc import Iterable

from nbdebug.finding import Finding
from nbdebug.record import Record
from nbdebug.views.layers import Layers


def picture(record: Record, findings: Iterable[Finding], status: str, live: bool = False) -> Layers:
    """Curves above, every layer below; with buttons while it is live."""
    found = [one.to_dict() for one in findings]
    return Layers(record=record, findings=found, title="Training", status=status, controls=live)
