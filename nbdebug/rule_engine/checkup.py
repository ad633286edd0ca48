"""The checkup of a setup: what is wrong, where, on what evidence, and how to fix it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from nbdebug.distributed.parallel_models import shard_access
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.finding import Finding
from nbdebug.loop_monitor.conclusions import LOSS_BROADCASTS
from nbdebug.loop_monitor.step_trace import TracedStep
from nbdebug.measurements import Measurements, measurement_descriptions
from nbdebug.measurements.forward_pass import ForwardPass, run_forward
from nbdebug.measurements.heads import HeadSetup
from nbdebug.measurements.loop_heads import (
    RecordedCall,
    batch_with_loss,
    disproved_by_step,
    find_loop_heads,
    record_call,
)
from nbdebug.measurements.loss_gradient import LossCall, find_loss_call
from nbdebug.measurements.loss_sensitivity import comparisons_in_graph
from nbdebug.measurements.registry import is_slow, measurement_closure
from nbdebug.options import Budget
from nbdebug.preserve import Preserve
from nbdebug.report import Report, merge_reports, rank_findings
from nbdebug.result import Result
from nbdebug.rule_engine import rule_registry
from nbdebug.rule_engine.head_rules import CALL_RULES, HEAD_RULES, TARGET_CALL_RULES, name_head
from nbdebug.rule_engine.loop_assumptions import LoopAssumptions
from nbdebug.rule_engine.rule_registry import Options, Rule
from nbdebug.rule_engine.rule_runner import RuleRunner, locate_finding
from nbdebug.rule_engine.rule_selection import project_rules, requested_rules
from nbdebug.setup import Setup
from nbdebug.setup.user_code import setup_error
from nbdebug.source.location import add_line
from nbdebug.views.live import Screen, show_view

_CHEAP_DATA_RULES = ("D104",)  # one batch and one call of each first layer
_ONLY_IN_CHECKUP = ("rewritten_samples",)  # reads the datasets
_BEFORE_TRAINING = ("L208",)  # speaks of an untrained model
# Measured from a traced step, the latter by a further backward pass from its loss.
_FROM_GRAPH = {"setup", "output", "loss", "loss_kind", "task", "mismatched_softmaxes", "batch_distribution"}
_FROM_GRAPH |= {"label_reward"}
_FROM_GRADIENT = {"padding_gradient", "known_positions", "class_shares"}
_FROM_GRADIENT |= {"ignored_target", "ignored_columns", "ignored_heads", "ignored_channels", "fixed_positions"}
_FROM_GRADIENT |= {"detached_columns"}
# Rules that read the graph and the calls of a loss.
_LOSS_GRAPH_RULES = (
    *("D102", "L201", "L202", "L203", "L204", "L205", "L206", "L209", "L210", "L211", "L212", "L214", "L215"),
    *("L217", "L218", "L219"),
)
_NOT_MEASURED_DURING_LOOP = "is measured by checkup()"
BUDGETS = ("quick", "standard", "thorough")


def checkup(
    setup: Setup,
    on_report: Callable[[Report], None],
    *,
    try_fix: Callable[[Finding], Result] | None = None,
    budget: Budget = "standard",
    select: Iterable[str] | None = None,
    ignore: Iterable[str] = (),
    options: Options | None = None,
    disproved: Mapping[str, str] | None = None,
) -> Report:
    """Return the findings on a setup; nothing of the user's is changed.

    ``on_report`` receives the report in any case. ``try_fix`` trains copies with the fix of a finding when the page of
    the report asks for it. ``budget`` "quick" runs only the rules that one pass of one batch can decide, "thorough"
    also runs the tiny-batch overfit test, and tries treatments if no finding explains poor learning. ``select`` and
    ``ignore`` are prefixes of codes.
    ``options`` maps codes to the keyword options of their rules. ``disproved`` are the assumptions and predictions that
    a watched loop has disproved.

    Raises SetupError if the setup cannot be run and no finding explains why. If the model rejects a batch as the loader
    yields it, or the loss raises for output and target, and no remedy is known, the report says so and nothing is
    raised, since the training loop may call it correctly; the rules that need no such pass are checked.
    """
    _check_budget(budget)
    rules = requested_rules(select, ignore, options or {})
    external_values = _run_overfit_test(setup) if budget == "thorough" else {}
    with (
        shard_access(setup.eager_model)(),
        Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader)),
    ):
        loop = LoopAssumptions(setup, disproved or {})
        runner = RuleRunner(Measurements(setup, budget=budget, **external_values), rules, options or {}, loop=loop)
        with show_view(runner.report().view()) as screen:
            try:
                runner.run(screen)
            finally:
                report = replace(runner.report(), _try_fix=try_fix)
                on_report(report)
                screen.finish(report.with_stated_consequences())
    if budget == "thorough" and not report.stopped and not any(f.severity != "note" for f in report):
        report = merge_reports([report, _try_treatments(setup, rules)])
        on_report(report)
    error = runner.refusal or _get_forward_error(runner.measurements)
    if error and not report.pass_error and not any(finding.severity == "error" for finding in report):
        raise error
    return report


def judge_result(setup: Setup, ignored: Iterable[str] = (), /, **external_values: Any) -> Report:
    """Return the findings on the result of a tool; ``external_values`` is that result by the name of its measurement.

    Slow measurements are skipped for the overfit test, since a checkup has made them. ``ignored`` are codes to skip.
    """
    skipped = tuple(ignored)
    rules = [r for r in project_rules() if set(r.needs) & set(external_values) and not r.code.startswith(skipped)]
    if "overfit" in external_values:
        external_values = {
            **{name: NotChecked(_NOT_MEASURED_DURING_LOOP) for name in measurement_descriptions() if is_slow(name)},
            **external_values,
        }
    return _judge(setup, rules, external_values)


def judge_copy(setup: Setup, budget: Budget) -> Report:
    """Return the findings on a copy of the user's setup, without the lines that made it and their changes."""
    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader)):
        runner = RuleRunner(Measurements(setup, budget=budget), project_rules(), {}, is_copy=True)
        runner.run(Screen())
        return runner.report()


def judge_run(
    setup: Setup, checked_rules: Collection[str] = (), call: RecordedCall | None = None, **external_values: Any
) -> Report:
    """Return the findings on a loop that has run; ``external_values`` are the measurements made of it.

    Besides the rules on the loop, asks again those that judge what training changes, and the cheap rules on data, loss
    and optimizer that are not among the ``checked_rules``: they name causes of what the run shows. A running loop is
    judged repeatedly, so other slow measurements are skipped. Rules on the model that cannot be asked with a batch of
    the loader are asked with the arguments of the ``call`` that the loop has made.
    """
    rules = project_rules()
    again = [rule for rule in rules if rule.asked_again]
    causes = [rule for rule in rules if _is_cheap_cause(rule) and rule.code not in checked_rules]
    on_loop = [rule for rule in rules if set(rule.needs) & set(external_values)]
    available = {name for rule in (*again, *causes) for name in measurement_closure(rule.needs)}
    skipped = {
        name: NotChecked(_NOT_MEASURED_DURING_LOOP)
        for name in measurement_descriptions()
        if name in _ONLY_IN_CHECKUP or (is_slow(name) and name not in available)
    }
    selected = {rule.code: rule for rule in (*on_loop, *again, *causes)}
    values = {**skipped, **external_values}
    report = _judge(setup, list(selected.values()), values)
    unchecked = [rule for rule in again if rule.code not in report.checked_rules | CALL_RULES]
    if call is not None and unchecked and (batch := batch_with_loss(setup, call)) is not None:
        report = merge_reports([report, _judge(setup, unchecked, {**values, "batches": [batch]})])
    return replace(report, asked_again=frozenset(rule.code for rule in again))


@dataclass(frozen=True)
class FirstStep:
    """What the first step of a loop shows: the findings on its loss, its heads, and its call of the model.

    ``heads`` and ``call`` are setups of their own. The step refutes the assumptions in ``disproved`` about the loop.
    """

    report: Report = field(default_factory=Report)
    heads: Sequence[HeadSetup] = ()
    call: RecordedCall | None = None
    disproved: Set[str] = frozenset()


def judge_step(setup: Setup, step: TracedStep) -> FirstStep:
    """Return what the first step of the user's own loop shows.

    Called before the backward pass frees the graph. The findings on one of several heads name it.
    """
    call = None
    with suppress(NotChecked, SetupError):
        call = record_call(setup, step)
    heads = find_loop_heads(setup, step)
    report = _judge_graph(setup, step)
    named: list[Finding] = []
    for head in heads if len(heads) > 1 else ():
        if (own_step := head.narrow(step)) is not None:
            own_report = _judge_graph(setup, own_step)
            named += [name_head(finding, head.name, head.term.call.line) for finding in own_report]
    others = [finding for finding in report if finding.code not in {own.code for own in named}]
    setups = [head.setup for head in heads if head.setup is not None]
    disproved = disproved_by_step(setup, step) | ({LOSS_BROADCASTS} if _is_quiet(report, "L205") else set())
    return FirstStep(replace(report, findings=rank_findings([*named, *others])), setups, call, disproved)


def _is_quiet(report: Report, code: str) -> bool:
    """Return whether a rule was checked and has found nothing."""
    return code in report.checked_rules and all(finding.code != code for finding in report)


def judge_call(
    call: RecordedCall, checked_rules: Collection[str], seconds: float, *, only_targets: bool = False
) -> Report:
    """Return the findings on a model by the arguments that a loop has passed to it.

    They are those of the rules on models that a checkup could not ask, and of all if the loop passes other arguments
    than the checkup. Those on the shift between the arguments and the target of the loop's loss, if it is known, are
    also asked if only the tokens are other ones. With ``only_targets``, only the latter are asked, as after a watch
    without a checkup. No rule starts after ``seconds`` of the processor time of this thread.
    """
    codes = frozenset[str]() if only_targets else CALL_RULES if call.is_other else CALL_RULES - {*checked_rules}
    has_other_inputs = call.is_other or call.has_other_tokens
    codes |= TARGET_CALL_RULES if has_other_inputs and call.head is not None else frozenset()
    rules = [rule for rule in project_rules() if rule.code in codes]
    if not rules or call.passes_communicate:
        return Report()
    of_head = call.head.mutable_objects if call.head is not None else ()
    with Preserve(*call.mutable_objects, *of_head):
        known: dict[str, Any] = {}
        if call.head is None:
            first_pass = run_forward(call, next(call.batches(1)), with_loss=False)
            known = {"first_pass": first_pass, "heads": []}
        report = _run_rules(call.head or call, rules, known, _TimedScreen(seconds))
    # What is observed in the loop, the loop cannot disprove as an assumption on the loader's batches.
    findings = tuple(replace(f, assumes=()) if f.code in TARGET_CALL_RULES else f for f in report)
    return replace(report, findings=findings, stopped=False, not_checked=(), asked_again=codes)


def judge_heads(heads: Sequence[HeadSetup], checked_rules: Collection[str], seconds: float) -> Report:
    """Return the findings on the heads of a loop that has run, by the rules on heads that were not checked before.

    They need a loss that can be called, which only the loop has shown. No rule starts after ``seconds`` of the
    processor time of this thread.
    """
    codes = HEAD_RULES - {*checked_rules, *_BEFORE_TRAINING}
    rules = [rule for rule in project_rules() if rule.code in codes]
    screen = _TimedScreen(seconds)
    reports = []
    for head in heads:
        report = _judge(head, rules, {}, screen)
        findings = tuple(name_head(finding, head.head, head.line) for finding in report)
        reports.append(replace(report, findings=findings, stopped=False))
    return merge_reports(reports)


def judge_batches(setup: Setup, checked_rules: Collection[str], seconds: float) -> Report:
    """Return the findings on a setup that splits its batches as a loop does, by the rules on outputs and targets.

    No rule starts after ``seconds`` of the processor time of this thread.
    """
    codes = HEAD_RULES - {*checked_rules, *_BEFORE_TRAINING}
    rules = [rule for rule in project_rules() if rule.code in codes]
    return replace(_judge(setup, rules, {}, _TimedScreen(seconds)), stopped=False)


class _TimedScreen(Screen):
    """Displays nothing, and stops after some seconds of processor time."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.thread_time() + seconds

    @property
    def stopped(self) -> bool:
        """True after the deadline."""
        return time.thread_time() > self._deadline


def _judge_graph(setup: Setup, step: TracedStep) -> Report:
    """Return the findings of the rules that read the graph and the calls of a loss."""
    own_setup = copy(setup)
    own_setup.loss_fn = None  # the rules must read the graph instead
    first_pass = ForwardPass(step.batch, step.trace, step.output, step.loss)
    graph = step.trace.get_graph(step.loss)
    measured = {
        "first_pass": first_pass,
        "batches": [step.batch],
        "graph": graph,
        "heads": [],
        "broadcasts": step.broadcasts,
        "weight_broadcasts": step.weight_broadcasts,
        "comparisons": comparisons_in_graph(graph),
        "kl_divergences": step.kl_divergences,
        "loss_call": _find_loss_call(setup, first_pass),
        "loss_calls": step.loss_calls,
    }
    rules = [rule for rule in project_rules() if rule.code in _LOSS_GRAPH_RULES]
    needed = {name for rule in rules for name in rule.needs}
    available = _FROM_GRAPH if step.has_hooks else _FROM_GRAPH | _FROM_GRADIENT
    unavailable = dict.fromkeys(needed - available, NotChecked(_NOT_MEASURED_DURING_LOOP))
    runner = RuleRunner(Measurements(own_setup, **{**unavailable, **measured}), rules, {})
    runner.run(Screen())
    line = graph.root.line if graph.root else None
    report = runner.report()
    findings = (f if f.where.line or not line else replace(f, where=add_line(f.where, line)) for f in report)
    return replace(report, findings=tuple(findings))


def _find_loss_call(setup: Setup, first_pass: ForwardPass) -> LossCall | NotChecked:
    try:
        with warnings.catch_warnings():  # the loss is called in other forms than the user's
            warnings.simplefilter("ignore")
            return find_loss_call(setup, first_pass)
    except NotChecked as reason:
        return reason.without_frames()


def locate_findings(setup: Setup, report: Report) -> Report:
    """Return a report in which findings without a line have one, if the files of the setup now tell it."""
    if all(finding.where.line is not None for finding in report):
        return report
    rules = rule_registry.load_rules()
    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader)):
        findings = (locate_finding(setup, rules[f.code], f) if f.code in rules else f for f in report)
        return replace(report, findings=tuple(findings))


def _judge(setup: Setup, rules: list[Rule], external_values: Mapping[str, Any], screen: Screen | None = None) -> Report:
    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader)):
        return _run_rules(setup, rules, external_values, screen or Screen())


def _run_rules(setup: Setup, rules: list[Rule], external_values: Mapping[str, Any], screen: Screen) -> Report:
    """Return the findings of some rules within a Preserve block of the setup's objects."""
    runner = RuleRunner(Measurements(setup, **external_values), rules, {})
    runner.run(screen)
    return runner.report()


def _is_cheap_cause(rule: Rule) -> bool:
    """Return whether a rule explains runs and needs no more than one batch, whatever the state of the model."""
    return rule.code not in _BEFORE_TRAINING and (
        rule.code in _CHEAP_DATA_RULES or (rule.code[0] in "LO" and not any(map(is_slow, rule.needs)))
    )


def _check_budget(budget: str) -> None:
    """Raise SetupError for an unknown budget."""
    if budget not in BUDGETS:
        raise SetupError(f"budget is {budget!r}; expected one of {', '.join(BUDGETS)}. Leave it out for 'standard'.")


def _run_overfit_test(setup: Setup) -> dict[str, Any]:
    from nbdebug.tools.overfit import overfit

    try:
        return {"overfit": overfit(setup)}
    except SetupError as error:
        return {"overfit": NotChecked(str(error))}


def _try_treatments(setup: Setup, rules: list[Rule]) -> Report:
    """Return the finding on a treatment that cures, if any does."""
    from nbdebug.tools.treatments import treatments

    codes = {rule.code for rule in rules}
    ignored = [code for code in rule_registry.load_rules() if code not in codes]
    try:
        return judge_result(setup, ignored, treatments=treatments(setup))
    except SetupError as error:
        return judge_result(setup, ignored, treatments=NotChecked(str(error)))


def _get_forward_error(measurements: Measurements) -> SetupError | None:
    """Return the error that the model or the loss raised on the first batch."""
    first_pass = measurements.get_if_measured("first_pass")
    return (
        setup_error(first_pass.failure, first_pass.failure_message)
        if first_pass is not None and first_pass.failure is not None
        else None
    )
