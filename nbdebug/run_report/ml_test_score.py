"""The 28 tests of the ML Test Score, and the rules and results of a run that answer some of them.

Source: Breck, Cai, Nielsen, Salib and Sculley 2017, The ML Test Score: A Rubric for ML Production Readiness and
Technical Debt Reduction, IEEE Big Data. The questions are in our own words.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from nbdebug.finding import Finding

Answer = Literal["shown", "contradicted", "open"]


@dataclass(frozen=True)
class _Question:
    """One test of the rubric: its part, its number in the part, and the question.

    A run shows it if all ``rules`` were checked without a finding and one of ``results`` exists, where they are named;
    without both it stays open, since only people can answer it. ``evidence`` says what the run has shown.
    """

    part: str
    number: int
    text: str
    rules: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    evidence: str = ""


@dataclass(frozen=True)
class _AnsweredQuestion:
    """A question, its answer, and the evidence for it."""

    question: _Question
    answer: Answer
    evidence: str


_DATA, _MODEL, _INFRASTRUCTURE, _MONITORING = "data", "model", "infrastructure", "monitoring"
QUESTIONS = (
    _Question(_DATA, 1, "Is it written down what each feature may contain, and is that checked?"),
    _Question(
        _DATA,
        2,
        "Does every feature help?",
        ("D112",),
        ("importance",),
        "no feature is constant, and the importance of each was measured",
    ),
    _Question(_DATA, 3, "Is every feature worth what it costs?"),
    _Question(_DATA, 4, "Do the features meet the rules of your organization?"),
    _Question(_DATA, 5, "Does the pipeline protect private data?"),
    _Question(_DATA, 6, "Can a feature be added quickly?"),
    _Question(_DATA, 7, "Is the code that makes the features tested?"),
    _Question(_MODEL, 1, "Is the specification of the model reviewed and under version control?"),
    _Question(_MODEL, 2, "Does the offline metric follow what matters in use?"),
    _Question(
        _MODEL,
        3,
        "Are the hyperparameters tuned?",
        (),
        ("tune", "lr_range", "compare_optimizers"),
        "the learning rate or the optimizer was compared with others",
    ),
    _Question(_MODEL, 4, "Is it known how fast the model becomes outdated?"),
    _Question(
        _MODEL,
        5,
        "Is a simpler model no better?",
        ("E709", "T610"),
        (),
        "no constant, linear or other simple learner is as good",
    ),
    _Question(_MODEL, 6, "Is the quality sufficient on all important slices?", ("E704",), ("errors",), "no weak slice"),
    _Question(_MODEL, 7, "Is the model tested for fairness to all groups?"),
    _Question(
        _INFRASTRUCTURE,
        1,
        "Is training reproducible?",
        ("R901", "R902"),
        ("repeatable",),
        "every source of randomness in the setup was seeded, and two runs were compared",
    ),
    _Question(
        _INFRASTRUCTURE,
        2,
        "Are there unit tests of the model?",
        ("T608",),
        ("overfit",),
        "the model memorizes a tiny batch",
    ),
    _Question(_INFRASTRUCTURE, 3, "Is the whole pipeline tested together?"),
    _Question(_INFRASTRUCTURE, 4, "Is the quality checked before a model is served?"),
    _Question(
        _INFRASTRUCTURE,
        5,
        "Can a single step of training or inference be inspected?",
        (),
        ("watch", "explain"),
        "the steps of the run were recorded, or a prediction was explained",
    ),
    _Question(_INFRASTRUCTURE, 6, "Does a new model serve few users first?"),
    _Question(_INFRASTRUCTURE, 7, "Can a served model be rolled back?"),
    _Question(_MONITORING, 1, "Are changes of upstream data and code announced?"),
    _Question(
        _MONITORING,
        2,
        "Do the invariants of the data hold?",
        ("D101", "D103", "D113", "D120"),
        (),
        "labels in range, no NaN, no number for missing values, one structure in all batches checked",
    ),
    _Question(_MONITORING, 3, "Do training and serving get the same values?"),
    _Question(_MONITORING, 4, "Is the served model recent enough?"),
    _Question(
        _MONITORING,
        5,
        "Is the model numerically stable?",
        ("T603", "G405", "G406"),
        ("watch",),
        "no loss, activation or gradient of the watched run was NaN or Inf",
    ),
    _Question(_MONITORING, 6, "Is training and serving as fast as before?"),
    _Question(_MONITORING, 7, "Is the quality on served data as good as before?"),
)


def answer_questions(
    findings: Sequence[Finding], checked: Collection[str], results: Collection[str]
) -> list[_AnsweredQuestion]:
    """Return the questions with what a run has shown: ``findings``, the codes ``checked``, and the names of results."""
    by_code = {finding.code: finding for finding in findings}
    return [_answer(question, by_code, checked, results) for question in QUESTIONS]


def _answer(
    question: _Question, findings: dict[str, Finding], checked: Collection[str], results: Collection[str]
) -> _AnsweredQuestion:
    against = [findings[code] for code in question.rules if code in findings]
    if against:
        return _AnsweredQuestion(question, "contradicted", f"{against[0].code} {against[0].name}")
    is_checked = all(code in checked for code in question.rules)
    has_result = not question.results or any(name in results for name in question.results)
    if question.evidence and is_checked and has_result:
        names = [*question.rules, *(name for name in question.results if name in results)]
        return _AnsweredQuestion(question, "shown", f"{question.evidence} ({', '.join(names)})")
    return _AnsweredQuestion(question, "open", _how(question))


def _how(question: _Question) -> str:
    """Return what a run must do to answer a question; "" if only people can."""
    calls = [f"dbg.{name}()" for name in question.results if name != "tune"]
    if not question.evidence:
        return ""
    return f"a run can show it: {' or '.join(calls)}" if calls else "a run can show it: dbg.checkup() and dbg.watch()"
