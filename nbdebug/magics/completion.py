"""What completion offers on the line of a magic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nbdebug import registry
from nbdebug.magics.words import OPTIONS, TOPICS, debuggers


def complete(_: Any, event: Any) -> list[str]:
    """What can stand at the cursor."""
    magic, *words = event.text_until_cursor.split()
    if words and words[-1].endswith(event.symbol) and event.symbol:
        words = [*words[:-1], words[-1].removesuffix(event.symbol)]
    magic = magic.removeprefix("%")
    before = [word for word in words if word and not word.endswith(",")]
    return [one for one in choices(magic, before) if one.startswith(event.symbol)]


def choices(magic: str, before: list[str]) -> Iterable[str]:
    """What may follow the words that are there."""
    last = before[-1].rstrip("=") if before else ""
    if magic == "nbdebug":
        follow = {"rule": registry.load, "summary": debuggers}
        return follow[last]() if last in follow else () if before else TOPICS
    if last in ("--select", "--ignore"):
        return registry.load()
    if last == "--budget":
        from nbdebug.tools.checkup import BUDGETS

        return BUDGETS if magic == "checkup" else ()
    if last in ("--mode", "--groups"):
        return ("exp", "linear") if last == "--mode" else ("scale", "same")
    if last in ("--optimizers", "--schedules"):
        from nbdebug.tools.contest.kinds import NAMED, SCHEDULES, YOURS

        return (YOURS, *NAMED) if last == "--optimizers" else ("all", *SCHEDULES)
    if last == "--loader":
        return ("val", "train")
    if last == "--stop-on":
        return ("error", "warning")
    if last in OPTIONS[magic]:
        return ()
    return [*debuggers(), *(name for name in OPTIONS[magic] if name not in before)]
