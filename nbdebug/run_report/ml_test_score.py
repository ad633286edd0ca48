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
class Question:
    """One test of the rubric: its part, its number in the part, and the question.

    A run shows it if all ``rules`` were checked without a fault and one of ``results`` exists, where they are named;
    without both it stays open, since only people can answer it. ``evidence`` says what the run has shown.
    """

    part: str
    number: int
    text: str
    rules: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    evidence: str = ""


@dataclass(frozen=True)
class AnsweredQuestion:
    """A question, its answer, and the evidence for it."""

    question: Question
    answer: Answer
    evidence: str


_DATA, _MODEL, _INFRASTRUCTURE, _MONITORING = "data", "model", "infrastructure", "monitoring"
QUESTIONS = (
    Question(_DATA, 1, "Is it written down what each feature may contain, and is that checked?"),
    Question(
        _DATA,
        2,
        "Does every feature help?",
        ("D112",),
        ("importance",),
        "no feature is constant, and the importance of each was measured",
    ),
    Question(_DATA, 3, "Is every feature worth what it costs?"),
    Question(_DATA, 4, "Do the features meet the rules of your organization?"),
    Question(_DATA, 5, "Does the pipeline protect private data?"),
    Question(_DATA, 6, "Can a feature be added quickly?"),
    Question(_DATA, 7, "Is the code that makes the features tested?"),
    Question(_MODEL, 1, "Is the specification of the model reviewed and under version control?"),
    Question(_MODEL, 2, "Does the offline metric follow what matters in use?"),
    Question(
        _MODEL,
        3,
        "Are the hyperparameters tuned?",
        (),
        ("tune", "lr_range", "compare_optimizers"),
        "the learning rate or the optimizer was compared with others",
    ),
    Question(_MODEL, 4, "Is it known how fast the model becomes outdated?"),
    Question(
        _MODEL,
        5,
        "Is a simpler model no better?",
        ("E709", "T610"),
        (),
        "no constant, linear or other simple learner is as good",
    ),
    Question(_MODEL, 6, "Is the quality sufficient on all important slices?", ("E704",), ("errors",), "no weak slice"),
    Question(_MODEL, 7, "Is the model tested for fairness to all groups?"),
    Question(
        _INFRASTRUCTURE,
        1,
        "Is training reproducible?",
        ("R901",),
        (),
        "every source of randomness in the setup was seeded",
    ),
    Question(
        _INFRASTRUCTURE,
        2,
        "Are there unit tests of the model?",
        ("T608",),
        ("overfit",),
        "the model memorizes a tiny batch",
    ),
    Question(_INFRASTRUCTURE, 3, "Is the whole pipeline tested together?"),
    Question(_INFRASTRUCTURE, 4, "Is the quality checked before a model is served?"),
    Question(
        _INFRASTRUCTURE,
        5,
        "Can a single step of training or inference be inspected?",
        (),
        ("watch", "explain"),
        "the steps of the run were recorded, or a prediction was explained",
    ),
    Question(_INFRASTRUCTURE, 6, "Does a new model serve few users first?"),
    Question(_INFRASTRUCTURE, 7, "Can a served model be rolled back?"),
    Question(_MONITORING, 1, "Are changes of upstream data and code announced?"),
    Question(
        _MONITORING,
        2,
        "Do the invariants of the data hold?",
        ("D101", "D103", "D113", "D120"),
        (),
        "labels in range, no NaN, no number for missing values, one structure in all batches checked",
    ),
    Question(
        _MONITORING,
        3,
        "Do training and serving get the same values?",
        (),
        ("compare_pipelines",),
        "both pipelines were compared",
    ),
    Question(_MONITORING, 4, "Is the served model recent enough?"),
    Question(
        _MONITORING,
        5,
        "Is the model numerically stable?",
        ("T603", "G405", "G406"),
        ("watch",),
        "no loss, activation or gradient of the watched run was NaN or Inf",
    ),
    Question(_MONITORING, 6, "Is training and serving as fast as before?"),
    Question(_MONITORING, 7, "Is the quality on served data as good as before?"),
)


def answer_questions(
    faults: Sequence[Finding], checked: Collection[str], results: Collection[str]
) -> list[AnsweredQuestion]:
    """Return the questions with what a run has shown: ``faults``, the codes ``checked``, and the names of results."""
    codes = {fault.code: fault for fault in faults}
    return [_answer(question, codes, checked, results) for question in QUESTIONS]


def _answer(
    question: Question, faults: dict[str, Finding], checked: Collection[str], results: Collection[str]
) -> AnsweredQuestion:
    against = [faults[code] for code in question.rules if code in faults]
    if against:
        return AnsweredQuestion(question, "contradicted", f"{against[0].code} {against[0].name}")
    is_checked = all(code in checked for code in question.rules)
    has_result = not question.results or any(name in results for name in question.results)
    if question.evidence and is_checked and has_result:
        names = [*question.rules, *(name for name in question.results if name in results)]
        return AnsweredQuestion(question, "shown", f"{question.evidence} ({', '.join(names)})")
    return AnsweredQuestion(question, "open", _how(question))


def _how(question: Question) -> str:
    """Return what a run must do to answer a question; "" if only people can."""
    calls = [f"dbg.{name}()" for name in question.results if name != "tune"]
    if not question.evidence:
        return ""
    return f"a run can show it: {' or '.join(calls)}" if calls else "a run can show it: dbg.checkup() and dbg.watch()"
