"""Run rules one after another on the measurements of a setup."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import nn

from nbdebug.crashes.explanation import ASPECT_INPUT
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.finding import Finding, is_ignored
from nbdebug.loop_monitor.conclusions import LOSS_RAISES, MODEL_RAISES
from nbdebug.measurements import Measurements
from nbdebug.measurements.registry import TOO_SLOW_FOR_QUICK, is_slow
from nbdebug.report import FAMILY_ORDER, Report, SkippedRule, merge_reports, rank_findings
from nbdebug.rule_engine.fix_writer import FixWriter
from nbdebug.rule_engine.head_rules import HeadRules
from nbdebug.rule_engine.loop_assumptions import LoopAssumptions
from nbdebug.rule_engine.rule_registry import Options, Rule
from nbdebug.rule_engine.rule_selection import effective_options
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import origin_line
from nbdebug.setup.losses import get_loss_kind
from nbdebug.setup.module_lines import part_line
from nbdebug.setup.source_lines import record_creating_files
from nbdebug.setup.user_code import has_known_remedy
from nbdebug.source.location import add_line
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.views.live import LiveScreen, Screen

if TYPE_CHECKING:
    from nbdebug.views.findings import CheckupProgress

_MODEL_RULES = ("L", "M", "G", "T608", "X")  # what a module computes is at fault, so that its creation is the place


class RuleRunner:
    """Runs the rules in the order of the debugging pyramid and collects their findings.

    With ``is_copy``, the setup is a copy of the user's: its findings have no line and their fixes are not written.
    ``loop`` judges what the findings of a checkup assume about the user's loop.
    """

    def __init__(
        self,
        measurements: Measurements,
        rules: list[Rule],
        options: Options,
        *,
        is_copy: bool = False,
        loop: LoopAssumptions | None = None,
    ) -> None:
        self._is_copy, self._loop = is_copy, loop
        self.measurements, self._head_rules = measurements, HeadRules(measurements)
        self._options = effective_options(options)
        self._fixes = FixWriter(measurements, self._options)
        quick = measurements["budget"] == "quick"
        slow = {rule.code for rule in rules if quick and any(map(is_slow, set(rule.needs) - rule.optional))}
        too_slow = (rule for rule in rules if rule.code in slow)
        self._skipped = [SkippedRule(rule.code, rule.name, TOO_SLOW_FOR_QUICK) for rule in too_slow]
        ordered = sorted(rules, key=lambda rule: FAMILY_ORDER.find(rule.code[0]))
        self._rules = [rule for rule in ordered if rule.code not in slow]
        self._findings: list[Finding] = []
        self.refusal: SetupError | None = None
        self._checked_codes: set[str] = set()
        self._stopped = False
        self._rule_seconds: dict[str, float] = {}
        self._started = time.perf_counter()

    def run(self, screen: Screen) -> None:
        """Run all rules until done or stopped; after an interrupt, the findings so far are kept."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if not self._is_copy:
                    record_creating_files(self.measurements["setup"])
                self._run_rules(screen)
        except KeyboardInterrupt:
            self._stopped = True
            if not isinstance(screen, LiveScreen):
                raise

    def _run_rules(self, screen: Screen) -> None:
        """Run rule after rule until the Stop button is pressed."""
        for done, rule in enumerate(self._rules):
            if isinstance(screen, LiveScreen):
                screen.update(self.report().view(self._progress(done, rule)))
            if screen.stopped:
                self._stopped = True
                return
            start, measured = time.perf_counter(), sum(self.measurements.seconds.values())
            self._run_rule(rule)
            measured = sum(self.measurements.seconds.values()) - measured
            self._rule_seconds[f"{rule.code} {rule.name}"] = time.perf_counter() - start - measured

    def _run_rule(self, rule: Rule) -> None:
        """Run one rule on each head, else on the whole; if it cannot be checked or fails, record the reason."""
        options = self._options.get(rule.code, {})
        of_heads: list[Finding] | None = None
        try:
            of_heads = self._head_rules.check(rule, options)
            findings = _with_other_aspects(of_heads or [], rule(self.measurements, **options))
            return self._record_findings(rule, findings, is_of_whole=not of_heads)
        except NotChecked as reason:
            message, is_judged = str(reason.without_frames()), of_heads is not None
        except SetupError as refusal:
            message, is_judged = str(refusal), bool(of_heads)
            self.refusal = self.refusal or (None if is_judged else refusal)
        except Exception as error:
            message, is_judged = f"the rule itself failed: {type(error).__name__}: {error}", bool(of_heads)
        if is_judged:
            return self._record_findings(rule, of_heads or [], is_of_whole=False)
        self._skipped.append(SkippedRule(rule.code, rule.name, message))

    def _record_findings(self, rule: Rule, findings: list[Finding], *, is_of_whole: bool) -> None:
        """Add the findings of a rule, except those that a comment in the user's source suppresses."""
        setup = self.measurements["setup"]
        if self._is_copy:
            self._findings += findings
            self._checked_codes.add(rule.code)
            return
        findings = [locate_finding(setup, rule, finding) for finding in findings]
        findings = [self._fixes.write(rule, finding, others=findings, is_of_whole=is_of_whole) for finding in findings]
        findings = self._without_refuted(rule, findings)
        suppressed = [finding for finding in findings if is_ignored(finding)]
        reason = "a comment at {} suppresses it"
        self._skipped += [SkippedRule(rule.code, rule.name, reason.format(finding.where)) for finding in suppressed]
        self._findings += [finding for finding in findings if finding not in suppressed]
        if not suppressed or len(suppressed) < len(findings):
            self._checked_codes.add(rule.code)

    def _without_refuted(self, rule: Rule, findings: list[Finding]) -> list[Finding]:
        """Return the findings that the user's loop does not refute; what is unknown of the loop makes notes of them."""
        loop = self._loop
        if loop is None:
            return findings
        findings = [self._with_assumption(finding) for finding in findings]
        refuted = [finding for finding in findings if loop.refutation(finding)]
        self._skipped += [SkippedRule(rule.code, rule.name, loop.refutation(finding)) for finding in refuted[:1]]
        return [loop.weaken(finding) for finding in findings if finding not in refuted]

    def _with_assumption(self, finding: Finding) -> Finding:
        """Return a finding on an exception of the first pass with what it assumes about the loop."""
        first_pass = self.measurements.get_if_measured("first_pass")
        if finding.assumes or not finding.code.startswith("X") or first_pass is None or first_pass.failure is None:
            return finding
        if first_pass.stage == "loss":
            return replace(finding, assumes=(LOSS_RAISES,))
        return replace(finding, assumes=(MODEL_RAISES,)) if finding.aspect == ASPECT_INPUT else finding

    def _progress(self, done: int, rule: Rule) -> CheckupProgress:
        """Return the progress, with the seconds left at the current rate."""
        elapsed = time.perf_counter() - self._started
        seconds_left = elapsed / done * (len(self._rules) - done) if done else None
        return {"done": done, "total": len(self._rules), "name": rule.name, "seconds_left": seconds_left}

    def _get_part_seconds(self) -> dict[str, float]:
        """Return the seconds of each measurement and of each rule without its measurements, longest first."""
        parts = {**{name.replace("_", " "): s for name, s in self.measurements.seconds.items()}, **self._rule_seconds}
        return dict(sorted(parts.items(), key=lambda part: part[1], reverse=True))

    def report(self) -> Report:
        """Return the report so far."""
        pass_error = _get_unmet_expectation(self.measurements, self._loop)
        report = Report(
            findings=rank_findings(_weaken_crash(finding, pass_error) for finding in self._findings),
            not_checked=tuple(self._skipped),
            checked_rules=frozenset(self._checked_codes),
            subject=_describe_setup(self.measurements, pass_error),
            seconds=time.perf_counter() - self._started,
            part_seconds=self._get_part_seconds(),
            stopped=self._stopped,
            pass_error=pass_error,
        )
        if self._loop is None or not self._loop.disproved:
            return report
        return merge_reports([replace(report, disproved=self._loop.disproved)])


def _weaken_crash(finding: Finding, pass_error: str) -> Finding:
    """Return a crash as a note if the user's loop may pass other inputs."""
    return replace(finding, severity="note") if pass_error and finding.aspect == ASPECT_INPUT else finding


def locate_finding(setup: Setup, rule: Rule, finding: Finding) -> Finding:
    """Add the line that makes the origin of a rule, or the part of the model at fault, to a finding without one.

    An activation of a ``Sequential`` has no call of its own, so the line that creates it takes the place of the call of
    the container.
    """
    where = finding.where
    try:
        if where.line is not None:
            is_replaced = rule.code.startswith("L") and _is_listed_activation(setup, where.module)
            line = part_line(setup, where.module) if is_replaced else None
            return replace(finding, where=line.where(where.module)) if line else finding
        line = rule.find_line(setup, finding) if rule.find_line else None
        if line is None and rule.origin:
            line = origin_line(setup, rule.origin, finding.evidence.get("split"))
        if line is None and rule.code.startswith(_MODEL_RULES):
            line = part_line(setup, where.module, where.parameter)
    except Exception:  # a finding is worth more than its line
        return finding
    return replace(finding, where=add_line(where, line)) if line else finding


def _is_listed_activation(setup: Setup, path: str | None) -> bool:
    """Return whether a module without parameters is an item of a ``Sequential``."""
    if not path:
        return False
    modules = dict(setup.eager_model.named_modules())
    module, parent = modules.get(path), modules.get(path.rpartition(".")[0])
    has_no_parts = module is not None and not [*module.children()] and not [*module.parameters()]
    return has_no_parts and isinstance(parent, nn.Sequential)


def _get_unmet_expectation(measurements: Measurements, loop: LoopAssumptions | None) -> str:
    """Return the error of a model or a loss that may be called differently in the loop; empty if none raised."""
    setup, first_pass = measurements["setup"], measurements.get_if_measured("first_pass")
    if first_pass is None or first_pass.failure is None:
        return ""
    assumption = LOSS_RAISES if first_pass.stage == "loss" else MODEL_RAISES
    is_doubtful = loop is not None and (loop.is_changed(assumption) or loop.is_unknown(assumption))
    may_differ = is_doubtful or not has_known_remedy(first_pass.failure)
    if first_pass.stage == "loss" and (may_differ or get_loss_kind(setup.loss_fn) == "other"):
        return (
            f"{first_pass.failure_message}; expected a loss of (output, target). "
            "Pass step_fn= if your loop calls it differently."
        )
    has_adapter = any(option is not None for option in (setup.forward, setup.unpack, setup.step_fn))
    makes_inputs = len(tree_tensors(first_pass.batch.raw)) == 1  # of which the loop makes inputs and targets
    if first_pass.stage != "loss" and not has_adapter and (may_differ or makes_inputs):
        return (
            f"{first_pass.failure_message}; expected a model that takes a batch as the loader yields it. "
            "Pass forward= or unpack= if your loop calls it differently; watch() needs neither."
        )
    return ""


def _describe_setup(measurements: Measurements, pass_error: str) -> str:
    setup: Setup = measurements["setup"]
    size = sum(p.numel() for p in setup.model.parameters())
    parts = [f"{type(setup.eager_model).__name__}, {size:,} parameters"]
    if (task := measurements.get_if_measured("task")) is not None:
        parts.append(f"task {task}")
    if batches := measurements.get_if_measured("batches"):
        parts.append(f"batch {batches[0]}")
    return " · ".join(filter(None, [*parts, pass_error]))


def _with_other_aspects(of_heads: list[Finding], of_whole: list[Finding]) -> list[Finding]:
    """Return the findings on the heads, and those on the whole of kinds that no head shows."""
    aspects = {"", *(finding.aspect for finding in of_heads)} if of_heads else set()
    return [*of_heads, *(finding for finding in of_whole if finding.aspect not in aspects)]
