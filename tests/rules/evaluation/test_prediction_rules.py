"""Tests of the rules about predictions: E702, E703, E705, E706 and E709."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.measurements.labels import ClassCounts
from nbdebug.metrics.classification import mutual_confusions
from nbdebug.predictions.segmentation import SegmentationTable
from nbdebug.rule_engine import rule_registry
from nbdebug.rules.examples import classifier
from nbdebug.tools.errors import Errors
from nbdebug.tools.errors.tool import errors_from_predictions


def find_in_predictions(code: str, predictions: Any, targets: Any) -> list[Finding]:
    """Return the findings of one rule about predictions."""
    errors = errors_from_predictions(predictions, targets)
    return find_in_errors(code, errors)


def find_in_errors(code: str, errors: Errors) -> list[Finding]:
    """Return the findings of one rule about a result of the errors tool."""
    rule = rule_registry.find_rule(code)
    baselines = errors.baselines() if "baselines" in rule.needs else None
    counts = NotChecked("there are no training samples")
    return rule({"errors": errors, "baselines": baselines, "setup": classifier(), "class_counts": counts})


def predictions_of_counts(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions and targets with a confusion matrix (targets × predictions)."""
    counts = np.array(matrix)
    target, prediction = np.nonzero(np.ones_like(counts))
    return np.repeat(prediction, counts.ravel()), np.repeat(target, counts.ravel())


def calibrated_logits(
    rows: int, shares: list[float], scale: float, seed: int = 0, signal: float = 1.0
) -> tuple[Any, Any]:
    """Return calibrated logits times ``scale``, and targets; ``signal`` is the spread of the logits."""
    generator = np.random.default_rng(seed)
    logits = np.log(shares) + signal * generator.normal(size=(rows, len(shares)))
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    target = (probabilities.cumsum(1) < generator.random((rows, 1))).sum(1)
    return (scale * logits).astype(np.float32), np.minimum(target, len(shares) - 1)


FAILING_CLASS = {
    "never right": [[200, 5, 0], [4, 180, 0], [20, 10, 0]],
    "one of many right": [[200, 5, 1], [4, 180, 0], [30, 20, 2]],
    "two classes": [[470, 0], [30, 0]],
}
NO_FAILING_CLASS = {
    "half right": [[200, 5, 0], [4, 180, 0], [10, 5, 15]],
    "few samples": [[200, 5, 0], [4, 180, 0], [4, 3, 0]],
    "a tenth is right, with high precision": [[200, 5, 0], [4, 180, 0], [40, 40, 12]],
    "all fail": [[30, 70, 60], [50, 30, 60], [70, 70, 2]],
    "one class only": [[50, 0], [0, 0]],
}


@pytest.mark.parametrize("name", FAILING_CLASS)
def test_hidden_class_failure_of_failing_class_is_a_warning(name: str) -> None:
    (finding,) = find_in_predictions("E702", *predictions_of_counts(FAILING_CLASS[name]))
    assert finding.severity == "warning"
    assert finding.evidence["class"] == str(len(FAILING_CLASS[name]) - 1)


@pytest.mark.parametrize(
    ("counts", "cause"),
    [
        ({0: 60, 1: 60}, "None of the 120 training samples has class '2'."),
        ({0: 60, 1: 60, 2: 4}, "'2' is rare in training: 4 of 124 samples have this class."),
        ({0: 60, 1: 60, 2: 60}, "'2' is not rare in training (60 of 180 samples): either"),
    ],
    ids=["missing", "rare", "frequent"],
)
def test_cause_of_a_failing_class_follows_from_its_training_samples(counts: dict[int, int], cause: str) -> None:
    errors = errors_from_predictions(*predictions_of_counts(FAILING_CLASS["never right"]))
    sampled = Counter(counts)
    class_counts = ClassCounts({"train": sampled}, sampled, frozenset(["train"]), {"train": sampled.total()})
    needs = {"errors": errors, "setup": classifier(), "class_counts": class_counts}
    (finding,) = rule_registry.find_rule("E702")(needs)
    assert finding.cause.startswith(cause)


@pytest.mark.parametrize("name", NO_FAILING_CLASS)
def test_hidden_class_failure_without_single_failing_class_is_quiet(name: str) -> None:
    assert find_in_predictions("E702", *predictions_of_counts(NO_FAILING_CLASS[name])) == []


@pytest.mark.parametrize("scale", [2.5, 4.0, 0.3])
def test_miscalibrated_confidence_is_a_warning_with_temperature(scale: float) -> None:
    (finding,) = find_in_predictions("E703", *calibrated_logits(2000, [0.4, 0.3, 0.3], scale, signal=2.0))
    assert finding.severity == "warning"
    assert ("overconfident" in finding.cause) == (scale > 1)
    assert finding.evidence["temperature"] == pytest.approx(scale, rel=0.2)
    assert "torch.softmax(logits /" in finding.fix


def test_miscalibrated_of_calibrated_confidence_is_rarely_reported() -> None:
    findings = [
        find_in_predictions("E703", *calibrated_logits(rows, [0.4, 0.3, 0.3], 1.0, seed, 2.0))
        for rows in (200, 2000)
        for seed in range(40)
    ]
    assert sum(map(bool, findings)) <= 1


def test_miscalibrated_of_small_but_significant_difference_is_quiet() -> None:
    assert find_in_predictions("E703", *calibrated_logits(200_000, [0.4, 0.3, 0.3], 1.1, signal=2.0)) == []


def test_miscalibrated_of_labels_without_scores_is_not_checked() -> None:
    with pytest.raises(NotChecked, match="only labels"):
        find_in_predictions("E703", *predictions_of_counts(FAILING_CLASS["two classes"]))


CONFUSED_PAIR = [[90, 2, 3, 1], [2, 92, 2, 3], [2, 1, 70, 25], [1, 2, 24, 72]]
ATTRACTOR_CLASS = [[60, 0, 1, 39], [1, 62, 0, 37], [0, 1, 64, 35], [2, 3, 2, 93]]
ONE_WAY_ERRORS = [[90, 2, 3, 1], [2, 92, 2, 3], [2, 1, 70, 25], [1, 2, 1, 95]]
EVEN_ERRORS = [[88, 4, 4, 4], [3, 90, 4, 3], [4, 4, 88, 4], [4, 3, 5, 88]]
EXCHANGED_NAMES = [[90, 2, 3, 1], [2, 92, 2, 3], [2, 1, 5, 90], [1, 2, 93, 4]]


def test_confused_pair_of_mutual_confusion_is_a_note() -> None:
    (finding,) = find_in_predictions("E705", *predictions_of_counts(CONFUSED_PAIR))
    assert finding.severity == "note"
    assert finding.evidence["pair"] == ("2", "3")


def test_confused_pair_of_exchanged_names_is_a_warning() -> None:
    (finding,) = find_in_predictions("E705", *predictions_of_counts(EXCHANGED_NAMES))
    assert finding.severity == "warning"
    assert "swapped" in finding.cause


@pytest.mark.parametrize("matrix", [ATTRACTOR_CLASS, ONE_WAY_ERRORS, EVEN_ERRORS], ids=["attractor", "one way", "even"])
def test_confused_pair_of_one_way_or_even_errors_is_quiet(matrix: list[list[int]]) -> None:
    assert find_in_predictions("E705", *predictions_of_counts(matrix)) == []


def test_mutual_confusions_of_random_errors_keep_the_significance_level() -> None:
    generator, pair_count = np.random.default_rng(0), 0
    for _ in range(200):
        shares = np.full((10, 10), 0.02) + 0.8 * np.eye(10)
        matrix = np.array([generator.multinomial(50, row / row.sum()) for row in shares])
        pair_count += bool([finding for finding in mutual_confusions(matrix) if finding.p < 0.01 / 45])
    assert pair_count <= 4


def test_majority_predictor_of_constant_class_is_an_error() -> None:
    (finding,) = find_in_predictions("E706", np.zeros(200, int), np.arange(200) % 3)
    assert finding.severity == "error"
    assert finding.evidence["class"] == "0"


@pytest.mark.parametrize(
    "targets",
    [np.repeat([0, 1], [190, 10]), np.repeat([0, 1], [170, 30]), np.repeat([0, 1], [20, 10])],
    ids=["rare", "uneven", "few"],
)
def test_majority_predictor_when_one_class_dominates_is_quiet(targets: np.ndarray) -> None:
    assert find_in_predictions("E706", np.zeros(len(targets), int), targets) == []


def test_majority_predictor_of_all_classes_is_quiet() -> None:
    assert find_in_predictions("E706", *predictions_of_counts(ATTRACTOR_CLASS)) == []


def test_no_better_than_baseline_of_input_independent_predictions_is_an_error() -> None:
    generator = np.random.default_rng(0)
    for predictions in (np.zeros(1000, int), generator.integers(0, 3, 1000), generator.normal(size=(1000, 3))):
        (finding,) = find_in_predictions("E709", predictions, np.arange(1000) % 3)
        assert finding.severity == "error"
        assert "E709" not in finding.explains


TARGET = np.arange(999) % 3


@pytest.mark.parametrize(
    ("predictions", "target", "relation"),
    [
        ((TARGET + 1) % 3, TARGET, "significantly worse"),
        (np.where(np.arange(999) % 2 == 0, (TARGET + 1) % 3, 0), TARGET, "significantly worse"),
        (-3.0 * np.eye(3)[TARGET], TARGET, "significantly worse"),
        (np.random.default_rng(0).permutation(TARGET), TARGET, "not significantly better"),
        (np.random.default_rng(0).normal(size=(999, 3)), TARGET, "not significantly better"),
    ],
    ids=["exchanged classes", "half exchanged", "reversed sign", "random classes", "random scores"],
)
def test_predictions_that_suit_other_rows_better_are_worse_than_a_baseline(
    predictions: Any, target: Any, relation: str
) -> None:
    (finding,) = find_in_predictions("E709", predictions, target)
    assert f"The model is {relation} than a baseline" in finding.message
    assert ("are assigned to other rows at random" in finding.cause) == (relation == "significantly worse")


def test_no_better_than_baseline_of_informative_scores_on_imbalanced_task_is_quiet() -> None:
    scores, target = calibrated_logits(2000, [0.97, 0.03], 1.0, signal=1.2)
    assert (scores.argmax(1) == 0).mean() > 0.95
    assert find_in_predictions("E709", scores, target) == []


def test_no_better_than_baseline_of_rare_class_favored_over_accuracy_is_quiet() -> None:
    scores, target = calibrated_logits(2000, [0.95, 0.05], 1.0, signal=1.5)
    assert find_in_predictions("E709", scores + np.array([0, 3], np.float32), target) == []


@pytest.mark.parametrize(("right", "count"), [(264, 0), (258, 1)], ids=["1.8 standard errors", "1.0 standard error"])
def test_no_better_than_baseline_compares_with_constants_on_one_side(right: int, count: int) -> None:
    wrong = 500 - right
    assert len(find_in_predictions("E709", *predictions_of_counts([[right, wrong], [wrong, right]]))) == count


def test_no_better_than_baseline_with_few_rows_is_not_checked() -> None:
    with pytest.raises(NotChecked, match="too few"):
        find_in_predictions("E709", np.zeros(20, int), np.arange(20) % 2)


def test_no_better_than_baseline_of_weak_models_is_quiet() -> None:
    findings = [
        find_in_predictions("E709", *calibrated_logits(500, [0.5, 0.5], 1.0, seed, signal=0.8)) for seed in range(30)
    ]
    assert sum(map(bool, findings)) == 0


@pytest.mark.parametrize(("images_with_class", "count"), [(40, 1), (6, 0)], ids=["many images", "few images"])
def test_hidden_class_failure_of_masks_counts_the_images_of_the_class(images_with_class: int, count: int) -> None:
    generator = np.random.default_rng(0)
    target = np.zeros((60, 8, 8), np.int64)
    target[:images_with_class, 2:4, 1:7] = 1
    prediction = np.where(generator.random(target.shape) < 0.01, 1, 0) * (target == 0)
    found = find_in_errors("E702", Errors(SegmentationTable.from_arrays(prediction, target), "headline"))
    assert len(found) == count
    if found:
        assert f"(0 of {int(target.sum())})" in found[0].message
        assert f"({target.size} positions)" in found[0].message
