"""One round of rules through the evidence of a set-up."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nbdebug.evidence import Evidence
from nbdebug.evidence.ledger import is_slow
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.finding import Finding
from nbdebug.registry import Rule
from nbdebug.report import PYRAMID, Report, Skipped, ranked
from nbdebug.setup import Setup
from nbdebug.setup.losses import named
from nbdebug.suppression import is_ignored
from nbdebug.views.screen import LiveScreen, Screen

if TYPE_CHECKING:
    from nbdebug.views.findings import Progress

Options = Mapping[str, Mapping[str, Any]]


class Round:
    """The rules on their way, in the order of the debugging pyramid, and what they have said so far."""

    def __init__(self, evidence: Evidence, rules: list[Rule], options: Options) -> None:
        self.evidence, self.options = evidence, options
        quick = evidence["budget"] == "quick"
        slow = {one.code for one in rules if quick and any(map(is_slow, one.needs))}
        left_out = (one for one in rules if one.code in slow)
        self.skipped = [Skipped(one.code, one.name, "it takes more than budget='quick' allows") for one in left_out]
        in_order = sorted(rules, key=lambda one: PYRAMID.find(one.code[0]))
        self.rules = [one for one in in_order if one.code not in slow]
        self.findings: list[Finding] = []
        self.refusal: SetupError | None = None
        self.asked: set[str] = set()
        self.stopped = False
        self.started = time.perf_counter()

    def run(self, screen: Screen) -> None:
        """All rules in turn until done or stopped; an interrupt stops too, and what was found is kept."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.ask_all(screen)
        except KeyboardInterrupt:
            self.stopped = True
            if not isinstance(screen, LiveScreen):
                raise

    def ask_all(self, screen: Screen) -> None:
        """Rule after rule, while the Stop button is not pressed."""
        for done, rule in enumerate(self.rules):
            if isinstance(screen, LiveScreen):
                screen.update(self.report().view(self.progress(done, rule)))
            if screen.stopped:
                self.stopped = True
                return
            self.ask(rule)

    def ask(self, rule: Rule) -> None:
        """One rule; what it cannot measure, or breaks on, is kept beside its name."""
        try:
            return self.heard(rule, rule(self.evidence, **self.options.get(rule.code, {})))
        except NotChecked as reason:
            why = str(reason)
        except SetupError as refusal:
            self.refusal, why = self.refusal or refusal, str(refusal)
        except Exception as error:
            why = f"the rule itself broke: {type(error).__name__}: {error}"
        self.skipped.append(Skipped(rule.code, rule.name, why))

    def heard(self, rule: Rule, found: list[Finding]) -> None:
        """Keeps what a rule found, less what the user's source says is meant."""
        meant = [one for one in found if is_ignored(one)]
        why = "a comment at {} says to ignore it"
        self.skipped += [Skipped(rule.code, rule.name, why.format(one.where)) for one in meant]
        self.findings += [one for one in found if one not in meant]
        if not meant or len(meant) < len(found):
            self.asked.add(rule.code)

    def progress(self, done: int, rule: Rule) -> Progress:
        """How far the round is, with the seconds left at the pace so far."""
        elapsed = time.perf_counter() - self.started
        left = elapsed / done * (len(self.rules) - done) if done else None
        return {"done": done, "total": len(self.rules), "name": rule.name, "seconds_left": left}

    def report(self) -> Report:
        """What has been said so far."""
        return Report(
            findings=ranked(self.findings),
            not_checked=tuple(self.skipped),
            asked=frozenset(self.asked),
            subject=subject(self.evidence),
            seconds=time.perf_counter() - self.started,
            stopped=self.stopped,
            unmet=unmet(self.evidence),
        )


def unmet(evidence: Evidence) -> str:
    """What a loss of the user's own raised where it was called with output and target; "" where it did not."""
    setup, seen = evidence["setup"], evidence.so_far("first_pass")
    if seen is None or seen.failure is None or seen.stage != "loss" or named(setup.loss_fn) != "other":
        return ""
    return f"{seen.failed}; expected a loss of (output, target). Pass step_fn= if your loop calls it otherwise."


def subject(evidence: Evidence) -> str:
    """One line on what is looked at, as far as it has been measured: model, task, batch."""
    setup: Setup = evidence["setup"]
    size = sum(p.numel() for p in setup.model.parameters())
    parts = [f"{type(setup.eager).__name__}, {size:,} parameters"]
    if (task := evidence.so_far("task")) is not None:
        parts.append(f"task {task}")
    if batches := evidence.so_far("batches"):
        parts.append(f"batch {batches[0]}")
    if said := unmet(evidence):
        parts.append(said)
    return " · ".join(parts)
