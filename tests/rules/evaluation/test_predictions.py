"""E702, E703, E705, E706, E709: what is said of predictions, and what is left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.metrics.classification import mutual_confusions
from nbdebug.rule_engine import rule_registry
from nbdebug.tools.errors import Errors
from nbdebug.tools.errors.tool import errors_from_predictions


def said(code: str, predictions: Any, targets: Any) -> list[Finding]:
    """The findings of one rule on predictions."""
    errors = errors_from_predictions(predictions, targets)
    return judged(code, errors)


def judged(code: str, errors: Errors) -> list[Finding]:
    """The findings of one rule on a browser."""
    rule = rule_registry.find_rule(code)
    return rule({"errors": errors, "baselines": errors.baselines() if "baselines" in rule.needs else None})


def labelled(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and targets with these counts, targets × predictions."""
    cells = np.array(matrix)
    target, prediction = np.nonzero(np.ones_like(cells))
    return np.repeat(prediction, cells.ravel()), np.repeat(target, cells.ravel())


def scored(rows: int, shares: list[float], sharp: float, seed: int = 0, known: float = 1.0) -> tuple[Any, Any]:
    """Logits that are calibrated at ``sharp`` = 1, times ``sharp``, and targets."""
    random = np.random.default_rng(seed)
    logits = np.log(shares) + known * random.normal(size=(rows, len(shares)))
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    target = (chances.cumsum(1) < random.random((rows, 1))).sum(1)
    return (sharp * logits).astype(np.float32), np.minimum(target, len(shares) - 1)


HIDDEN = {
    "never right": [[200, 5, 0], [4, 180, 0], [20, 10, 0]],
    "one of many right": [[200, 5, 1], [4, 180, 0], [30, 20, 2]],
    "two classes": [[470, 0], [30, 0]],
}
SEEN = {
    "half right": [[200, 5, 0], [4, 180, 0], [10, 5, 15]],
    "too few to tell": [[200, 5, 0], [4, 180, 0], [4, 3, 0]],
    "a tenth is found, and well": [[200, 5, 0], [4, 180, 0], [40, 40, 12]],
    "all are bad": [[30, 70, 60], [50, 30, 60], [70, 70, 2]],
    "one class only": [[50, 0], [0, 0]],
}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_class_that_fails_is_found(name: str) -> None:
    (one,) = said("E702", *labelled(HIDDEN[name]))
    assert one.severity == "warning"
    assert one.evidence["class"] == str(len(HIDDEN[name]) - 1)


@pytest.mark.parametrize("name", SEEN)
def test_a_class_that_is_known_or_rare_is_left_alone(name: str) -> None:
    assert said("E702", *labelled(SEEN[name])) == []


@pytest.mark.parametrize("sharp", [2.5, 4.0, 0.3])
def test_confidence_that_is_off_is_found_with_its_temperature(sharp: float) -> None:
    (one,) = said("E703", *scored(2000, [0.4, 0.3, 0.3], sharp, known=2.0))
    assert one.severity == "warning"
    assert ("overconfident" in one.cause) == (sharp > 1)
    assert one.evidence["temperature"] == pytest.approx(sharp, rel=0.2)
    assert "torch.softmax(logits /" in one.fix


def test_calibrated_confidence_is_left_alone() -> None:
    found = [said("E703", *scored(rows, [0.4, 0.3, 0.3], 1.0, seed, 2.0)) for rows in (200, 2000) for seed in range(40)]
    assert sum(map(bool, found)) <= 1


def test_a_small_difference_is_left_alone_however_sure_it_is() -> None:
    assert said("E703", *scored(200_000, [0.4, 0.3, 0.3], 1.1, known=2.0)) == []


def test_labels_alone_have_no_confidence() -> None:
    with pytest.raises(NotChecked, match="only labels"):
        said("E703", *labelled(HIDDEN["two classes"]))


SWAPPED = [[90, 2, 3, 1], [2, 92, 2, 3], [2, 1, 70, 25], [1, 2, 24, 72]]
ATTRACTOR = [[60, 0, 1, 39], [1, 62, 0, 37], [0, 1, 64, 35], [2, 3, 2, 93]]
ONE_WAY = [[90, 2, 3, 1], [2, 92, 2, 3], [2, 1, 70, 25], [1, 2, 1, 95]]
EVEN = [[88, 4, 4, 4], [3, 90, 4, 3], [4, 4, 88, 4], [4, 3, 5, 88]]
EXCHANGED = [[90, 2, 3, 1], [2, 92, 2, 3], [2, 1, 5, 90], [1, 2, 93, 4]]


def test_a_pair_that_swaps_is_a_note() -> None:
    (one,) = said("E705", *labelled(SWAPPED))
    assert one.severity == "note"
    assert one.evidence["pair"] == ("2", "3")


def test_names_that_are_exchanged_are_a_warning() -> None:
    (one,) = said("E705", *labelled(EXCHANGED))
    assert one.severity == "warning"
    assert "swapped" in one.cause


@pytest.mark.parametrize("matrix", [ATTRACTOR, ONE_WAY, EVEN], ids=["attractor", "one way", "even"])
def test_errors_that_go_one_way_or_everywhere_are_no_pair(matrix: list[list[int]]) -> None:
    assert said("E705", *labelled(matrix)) == []


def test_pairs_are_found_by_chance_as_seldom_as_they_say() -> None:
    random, found = np.random.default_rng(0), 0
    for _ in range(200):
        shares = np.full((10, 10), 0.02) + 0.8 * np.eye(10)
        matrix = np.array([random.multinomial(50, row / row.sum()) for row in shares])
        found += bool([one for one in mutual_confusions(matrix) if one.p < 0.01 / 45])
    assert found <= 4


def test_always_one_class_is_an_error() -> None:
    (one,) = said("E706", np.zeros(200, int), np.arange(200) % 3)
    assert one.severity == "error"
    assert one.evidence["class"] == "0"


@pytest.mark.parametrize(
    "targets",
    [np.repeat([0, 1], [190, 10]), np.repeat([0, 1], [170, 30]), np.repeat([0, 1], [20, 10])],
    ids=["rare", "uneven", "few"],
)
def test_one_class_is_no_fault_where_it_is_what_there_is(targets: np.ndarray) -> None:
    assert said("E706", np.zeros(len(targets), int), targets) == []


def test_predictions_of_all_classes_are_left_alone() -> None:
    assert said("E706", *labelled(ATTRACTOR)) == []


def test_answers_that_do_not_depend_on_the_input_are_an_error() -> None:
    random = np.random.default_rng(0)
    for predictions in (np.zeros(1000, int), random.integers(0, 3, 1000), random.normal(size=(1000, 3))):
        (one,) = said("E709", predictions, np.arange(1000) % 3)
        assert one.severity == "error"
        assert "E709" not in one.explains


def test_an_uneven_task_with_scores_that_tell_is_left_alone() -> None:
    scores, target = scored(2000, [0.97, 0.03], 1.0, known=1.2)
    assert (scores.argmax(1) == 0).mean() > 0.95
    assert said("E709", scores, target) == []


def test_a_model_that_trades_accuracy_for_a_rare_class_is_left_alone() -> None:
    scores, target = scored(2000, [0.95, 0.05], 1.0, known=1.5)
    assert said("E709", scores + np.array([0, 3], np.float32), target) == []


def test_few_rows_tell_nothing() -> None:
    with pytest.raises(NotChecked, match="too few"):
        said("E709", np.zeros(20, int), np.arange(20) % 2)


def test_weak_models_are_seldom_taken_for_none() -> None:
    found = [said("E709", *scored(500, [0.5, 0.5], 1.0, seed, known=0.8)) for seed in range(30)]
    assert sum(map(bool, found)) == 0
