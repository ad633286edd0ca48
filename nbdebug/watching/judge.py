"""The rules over a run, asked one after the other between two steps, so that no step waits for all of them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import numpy.ma  # noqa: F401  else numpy.unique imports it in the middle of somebody's loop, which takes 10 ms

from nbdebug import registry
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.finding import Finding
from nbdebug.record import Record
from nbdebug.registry import Rule
from nbdebug.report import Report, ranked

EVERY_SECONDS = 3.0
SHARE = 0.0025  # of the time
LEAST_STEPS = 20


class Judge:
    """Asks every rule that needs nothing but the record, again every few seconds, at a 400th of the time.

    ``found`` are the findings of the last round by code; ``tell`` is given each one that is new.
    """

    def __init__(self, record: Record, tell: Callable[[Finding], None]) -> None:
        self.record, self.tell = record, tell
        self.rules = [one for one in registry.select() if "record" in one.needs and needs_no_more(one)]
        self.queue: deque[Rule] = deque()
        self.found: dict[str, list[Finding]] = {}
        self.known: set[tuple[str, str]] = set()
        self.asked_at = self.started = time.perf_counter()
        self.spent = 0.0

    def advance(self, step: int) -> None:
        """Asks the next rule, if its turn has come and the time allows."""
        now = time.perf_counter()
        if self.spent > SHARE * (now - self.started) or step < LEAST_STEPS:
            return
        if not self.queue and now - self.asked_at >= EVERY_SECONDS:
            self.queue.extend(self.rules)
            self.asked_at = now
        if self.queue:
            self.ask(self.queue.popleft(), step)
            self.spent += time.perf_counter() - now

    def ask(self, rule: Rule, step: int) -> None:
        """Asks one rule; what it says for the first time becomes an event."""
        later = dict.fromkeys(rule.needs, NotChecked("the loop still runs"))
        try:
            found = rule({**later, "record": self.record})
        except (NotChecked, SetupError):
            found = []
        self.found[rule.code] = found
        for one in found:
            key = one.code, one.where.module or one.where.parameter or ""
            if key not in self.known:
                self.known.add(key)
                self.record.note(step, "finding", f"{one.code} {one.name}")
                self.tell(one)

    @property
    def report(self) -> Report:
        """What is said at this moment."""
        return Report(ranked(one for several in self.found.values() for one in several))


def needs_no_more(rule: Rule) -> bool:
    """Whether a rule can do with the record alone."""
    return all(name == "record" or name in rule.optional for name in rule.needs)
