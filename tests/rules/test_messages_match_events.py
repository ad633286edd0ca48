"""Tests that every number in the messages of the rules on optimizers and dynamics is that of the setup or the run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.preserve import open_blocks
from nbdebug.rule_engine.rule_registry import load_rules
from nbdebug.setup import Setup
from tests.rules.test_messages_match_record import CLAIMS as RECORD_CLAIMS
from tests.rules.test_messages_match_record import NUMBER, SHARED_CLAIMS, RunFacts, is_close

RULES = load_rules()
# The same numbers in words; names of parameters are no numbers.
ANY_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)")
PARAMETER_NAME = re.compile(r"\b\d+\.(?:weight|bias)\b")


@dataclass
class Facts:
    """A program as it was before its run, and the events of the run, recorded by plain wrappers."""

    setup: Setup
    rates: list[float] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    run: RunFacts | None = None

    @property
    def group(self) -> dict[str, Any]:
        return dict(self.setup.optimizers[0].param_groups[0])

    @property
    def losses(self) -> Any:
        assert self.run is not None
        return self.run.losses

    @property
    def intervals(self) -> list[list[str]]:
        """The events before each step, since the previous one."""
        ends = [number for number, event in enumerate(self.events) if event == "step"]
        return [self.events[start:end] for start, end in zip([0, *(end + 1 for end in ends)], ends, strict=False)]

    def steps_where(self, condition: Callable[[list[str]], bool]) -> int:
        return sum(map(condition, self.intervals))


Check = Callable[[Facts, float], bool]


def equals(fact: Callable[[Facts], float]) -> Check:
    return lambda facts, claim: is_close(float(fact(facts)), claim)


def at_most(fact: Callable[[Facts], float]) -> Check:
    """A number of inspected steps, which may be fewer than all."""
    return lambda facts, claim: 1 <= claim <= fact(facts)


def parameter_ids(facts: Facts) -> set[int]:
    return {id(p) for p in facts.setup.model.parameters()}


def optimized(facts: Facts) -> list[Any]:
    groups = (group for optimizer in facts.setup.optimizers for group in optimizer.param_groups)
    return [p for group in groups for p in group["params"]]


def values_outside_groups(facts: Facts) -> float:
    known = {id(p) for p in optimized(facts)}
    return sum(p.numel() for p in facts.setup.model.parameters() if id(p) not in known)


def foreign_tensors(facts: Facts) -> float:
    return sum(id(p) not in parameter_ids(facts) for p in optimized(facts))


def missing_parameters(facts: Facts) -> float:
    return len(parameter_ids(facts) - {id(p) for p in optimized(facts)})


def uncleared_steps(facts: Facts) -> float:
    return facts.steps_where(lambda events: "zero_grad" not in events) - 1  # the first step has no previous one


def cleared_steps(facts: Facts) -> float:
    return facts.steps_where(lambda events: events[-2:] == ["backward", "zero_grad"])


def step_count(facts: Facts) -> float:
    return len(facts.intervals)


def clips_after_step(facts: Facts) -> float:
    return sum(
        first == "step" and second == "clip" for first, second in zip(facts.events, facts.events[1:], strict=False)
    )


def passes_per_step(facts: Facts) -> float:
    return np.median([events.count("backward") for events in facts.intervals]).item()


def most_repetitions(facts: Facts) -> float:
    return max(Counter(map(id, optimized(facts))).values())


def unregularizable(facts: Facts) -> float:
    return sum(p.dim() < 2 for p in optimized(facts))


def distance_to_next_number(facts: Facts) -> float:
    """The median distance between neighboring numbers of the last weight's type, at its values."""
    weight = dict(facts.setup.model.named_parameters())["2.weight"].detach()
    exponents = weight.float().abs().log2().floor()
    return float((2.0 ** (exponents - 7)).median())


def first_non_finite(facts: Facts) -> float:
    return int(np.flatnonzero(~np.isfinite(facts.losses))[0]) + 1


def non_finite_count(facts: Facts) -> float:
    return int((~np.isfinite(facts.losses)).sum())


def is_number_of_spikes(facts: Facts, claim: float) -> bool:
    return 0.5 * claim <= (facts.losses > 10 * np.median(facts.losses)).sum() <= 3 * claim


def is_spike(facts: Facts, claim: float) -> bool:
    return bool(facts.losses[int(claim) - 1] > 3 * np.median(facts.losses))


def is_start_of_plateau(facts: Facts, claim: float) -> bool:
    """Whether the losses from a step on do not fall, by a line through them."""
    losses = facts.losses[int(claim) - 1 :]
    steps = np.arange(len(losses))
    slope, level = np.polyfit(steps, losses, 1)
    noise = (losses - slope * steps - level).std()
    return bool(-slope * len(losses) < 3 * noise)


def epochs(facts: Facts) -> float:
    assert facts.run is not None
    return len(facts.losses) / facts.run.record.about["batches_per_epoch"]


def epoch_correlation(facts: Facts) -> float:
    """The mean correlation between the losses of two epochs."""
    matrix = np.corrcoef(facts.losses.reshape(int(epochs(facts)), -1))
    return float(matrix[np.triu_indices(len(matrix), 1)].mean())


def training_rows(facts: Facts) -> float:
    return len(facts.setup.train_loader.dataset)


def accuracy_of_constant(facts: Facts) -> float:
    labels = facts.setup.train_loader.dataset.tensors[1]
    return labels.unique(return_counts=True)[1].max().item() / len(labels)


def training_accuracy(facts: Facts) -> float:
    x, y = facts.setup.train_loader.dataset.tensors
    with torch.no_grad():
        return (facts.setup.model.eval()(x).argmax(1) == y).double().mean().item()


def is_above_difference(facts: Facts, claim: float) -> bool:
    """Whether a limit lies above the difference between start and end, and is 2% of the start or due to the noise."""
    assert facts.run is not None
    start, end = facts.run.starts[0], facts.run.end
    return bool(abs(end - start) < claim and 0.0198 * start < claim < max(0.0202 * start, 4 * facts.losses.std()))


CLAIMS: dict[str, tuple[tuple[str, Check], ...]] = {
    "O503": ((rf"\({NUMBER} trainable", equals(values_outside_groups)),),
    "O504": (
        (rf"holds {NUMBER} tensors", equals(foreign_tensors)),
        (rf"lacks {NUMBER} that", equals(missing_parameters)),
    ),
    "O505": ((rf"in {NUMBER} of", at_most(uncleared_steps)), (rf"of {NUMBER} inspected", at_most(step_count))),
    "O506": ((rf"In {NUMBER} of", equals(cleared_steps)), (rf"of {NUMBER} steps", equals(step_count))),
    "O507": ((rf"the {NUMBER} passed", equals(lambda facts: len(facts.setup.optimizers))),),
    "O508": (
        (rf"^{NUMBER} of", equals(clips_after_step)),
        (rf"of {NUMBER} calls", equals(lambda facts: facts.events.count("clip"))),
    ),
    "O509": (
        (rf"is {NUMBER} in", equals(lambda facts: facts.group["weight_decay"])),
        (rf"group {NUMBER}:", equals(lambda facts: 0)),
        (rf"removes {NUMBER} of", equals(lambda facts: facts.group["weight_decay"] * facts.group["lr"])),
    ),
    "O510": (
        (rf"is \({NUMBER},", equals(lambda facts: facts.group["betas"][0])),
        (rf"is \([\d.]+, {NUMBER}\)", equals(lambda facts: facts.group["betas"][1])),
        (rf"group {NUMBER} of", equals(lambda facts: 0)),
        (rf"optimizer {NUMBER};", equals(lambda facts: 0)),
        (rf"such as \({NUMBER},", equals(lambda facts: 0.9)),
        (rf"such as \(0.9, {NUMBER}\)", equals(lambda facts: 0.999)),
    ),
    "O511": (
        (rf"In {NUMBER} of", at_most(step_count)), (rf"of {NUMBER} inspected", at_most(step_count)),
        (rf"of {NUMBER} batches", equals(passes_per_step)), (rf"uses {NUMBER} times", equals(passes_per_step)),
    ),
    "O512": (
        (rf"^{NUMBER} of", at_most(step_count)), (rf"of {NUMBER} inspected", at_most(step_count)),
        (rf"to {NUMBER} times", equals(lambda facts: torch.amp.GradScaler("cpu")._init_scale)),
    ),
    "O513": (
        (rf"{NUMBER} times:", equals(most_repetitions)),
        (rf"group {NUMBER} of", equals(lambda facts: 0)), (rf"optimizer {NUMBER} and", equals(lambda facts: 0)),
        (rf"and group {NUMBER} of", equals(lambda facts: 1)), (rf"optimizer {NUMBER}\.$", equals(lambda facts: 0)),
    ),
    "O514": (
        (rf"decay {NUMBER} ", equals(lambda facts: facts.group["weight_decay"])),
        (rf"to {NUMBER} of", equals(unregularizable)),
        (rf"of {NUMBER} parameters", equals(lambda facts: len(optimized(facts)))),
    ),
    "O517": (
        (rf"only {NUMBER}%", equals(lambda facts: 0)),
        (rf"of {NUMBER} values", equals(lambda facts: dict(facts.setup.model.named_parameters())["2.weight"].numel())),
        (rf"step is {NUMBER},", equals(lambda facts: facts.group["lr"])),
        (rf"number is {NUMBER}\.", equals(distance_to_next_number)),
        (rf"for {NUMBER} of", at_most(lambda facts: 2)), (rf"of {NUMBER} weights", equals(lambda facts: 2)),
    ),
    "T601": ((rf"below {NUMBER} \(", is_above_difference),),
    "T603": ((rf"step {NUMBER}:", equals(first_non_finite)), (rf"the {NUMBER} steps", equals(non_finite_count))),
    "T605": (
        (rf"at {NUMBER} of", is_number_of_spikes), (rf"steps: {NUMBER} \(", is_spike), (rf"\), {NUMBER} \(", is_spike),
        (rf"where {NUMBER} is", lambda facts, claim: 0.3 * claim < np.median(facts.losses) < 3 * claim),
    ),
    "T606": ((rf"step {NUMBER} of", is_start_of_plateau),),
    "T607": (
        (rf"same {NUMBER} training", equals(training_rows)),
        (rf"prediction is {NUMBER}\.$", equals(accuracy_of_constant)),
    ),
    "T610": (
        (rf"accuracy is {NUMBER}\. A", equals(training_accuracy)),
        (rf"same {NUMBER} rows", equals(training_rows)),
    ),
    "T612": (
        (rf"the {NUMBER} epochs", equals(epochs)),
        (rf"epochs is {NUMBER}\.$", lambda facts, claim: abs(epoch_correlation(facts) - claim) < 0.15),
    ),
}  # fmt: skip
# What a message quotes besides: thresholds, estimates by another learner, positions of further spikes.
UNCHECKED: dict[str, tuple[str, ...]] = {
    "O501": (r"by (\d+)% of their norm", r"first (12) steps"),
    "O502": (r"by ([\d.e-]+) of its norm", r"all (\d+) steps together by ([\d.e-]+);"),
    "T601": (r"after (\d+) steps", r"\((4) standard errors or (2)% of"),
    "T604": (r"least (25)%", r"(\d+) times"),
    "T605": (r"(\d+) \(batch (\d+) of (\d+)\)", r"and (\d+) more"),
    "T607": (r"\) is ([\d.]+), although",),
    "T610": (r"reaches ([\d.]+) on the same",),
    "T612": (r"amplitude is ([\d.]+),",),
    "T614": (r"\((\d+) standard errors\)",),
}


def record_events(monkeypatch: pytest.MonkeyPatch, module: Any, events: list[str]) -> Any:
    """Record the events of a loop, not those of tools, by plain wrappers; return the handle of the hook on steps."""

    def record(event: str) -> None:
        if not open_blocks:
            events.append(event)

    def wrap(owner: Any, name: str, event: str) -> None:
        original = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            record(event)
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    wrap(torch.autograd, "backward", "backward")
    wrap(torch.optim.Optimizer, "zero_grad", "zero_grad")
    if hasattr(module, "clip_grad_norm_"):
        wrap(module, "clip_grad_norm_", "clip")
    return register_optimizer_step_pre_hook(lambda *_: record("step"))


def run_bad_program(code: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Facts, list[Finding]]:
    """Run the faulty program of a rule, and return what happened and the findings of the rule."""
    module: Any = RULES[code].module
    torch.manual_seed(0)
    setup = module.bad()
    debugger, facts = Debugger.of(setup), Facts(setup)
    if not hasattr(module, "bad_loop"):
        return facts, [finding for finding in debugger.checkup(select=[code]).findings if finding.code == code]
    handle = record_events(monkeypatch, module, facts.events)
    with debugger.watch() as run:
        module.bad_loop(setup)
        recorded = len(facts.events)
    handle.remove()
    del facts.events[recorded:]
    facts.run = RunFacts(run.record)
    return facts, [finding for finding in debugger.findings if finding.code == code]


def spans_of(message: str, patterns: tuple[str, ...]) -> set[tuple[int, int]]:
    """Return the spans of the numbers that some patterns capture."""
    matches = [match for pattern in patterns for match in re.finditer(pattern, message)]
    return {match.span(number) for match in matches for number in range(1, (match.re.groups or 0) + 1)}


@pytest.mark.parametrize("code", sorted({*CLAIMS, *RECORD_CLAIMS} - {"T609"}))
def test_every_number_of_a_message_is_that_of_the_run(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    facts, findings = run_bad_program(code, monkeypatch)
    assert findings
    for finding in findings:
        text = re.sub(r"(?<=\d),(?=\d{3})", "", PARAMETER_NAME.sub("parameter", finding.message))
        for pattern, check in CLAIMS.get(code, ()):
            match = re.search(pattern, text)
            assert match, f"{pattern} is not in: {text}"
            assert check(facts, float(match.group(1))), f"{match.group(0)!r} is not true: {text}"
        own = tuple(pattern for pattern, _ in CLAIMS.get(code, ()))
        shared = tuple(pattern for pattern, _ in (*RECORD_CLAIMS.get(code, ()), *SHARED_CLAIMS))
        covered = spans_of(text, (*own, *shared, *UNCHECKED.get(code, ())))
        numbers = {match.span() for match in ANY_NUMBER.finditer(text)}
        missing = {text[start:end] for start, end in numbers if not any(a <= start and end <= b for a, b in covered)}
        assert not missing, f"no test checks {missing} in: {text}"
