"""Tests of D115: an input that contains the target, and inputs that only predict it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import minimal_setup, network
from nbdebug.setup import Setup
from tests.rules.rule_findings import fault_messages, rule_faults, rule_findings

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(200, 4, generator=GENERATOR)
TARGET = 3 * X[:, :1] + 0.1 * torch.randn(200, 1, generator=GENERATOR)
LABELS = X[:, :3].argmax(1)
SERIES = torch.randn(300, generator=GENERATOR).cumsum(0)
WINDOWS = torch.stack([SERIES[i : i + 12] for i in range(280)])


def table_setup(column: Tensor, target: Tensor) -> Setup:
    loss_fn = nn.MSELoss() if target.is_floating_point() else nn.CrossEntropyLoss()
    x = torch.cat([X[:, :3], column.reshape(200, 1).float()], 1)
    return minimal_setup(network(1 if target.is_floating_point() else 3), x, target, loss_fn)


def forecast_setup(ahead: int) -> Setup:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 1))
    return minimal_setup(model, WINDOWS[..., None], SERIES[11 + ahead : 291 + ahead, None], nn.MSELoss())


def horizon_setup(first: int, steps: int = 3) -> Setup:
    """Windows of twelve steps, and the ``steps`` from their step ``first`` on as the target."""
    targets = torch.stack([SERIES[i + first : i + first + steps] for i in range(270)])
    return minimal_setup(nn.Linear(12, steps), WINDOWS[:270], targets, nn.MSELoss())


@pytest.mark.parametrize(
    "setup",
    [
        table_setup(TARGET, TARGET),
        table_setup(2.5 * TARGET + 7, TARGET),
        table_setup(LABELS, LABELS),
        table_setup(torch.tensor([0.3, -2.0, 5.0])[LABELS], LABELS),
        forecast_setup(0),
        horizon_setup(first=11),
        table_setup(5 - TARGET, torch.cat([X[:, 1:] @ X[:3, :3], TARGET], 1)),
    ],
    ids=[
        *("the target", "in other units", "the class", "class under other numbers", "a window that reaches too far"),
        *("a horizon that begins too early", "one of four targets"),
    ],
)
def test_target_leak_of_target_among_inputs_is_reported(setup: Setup) -> None:
    assert len(fault_messages(setup, "D115")) == 1


@pytest.mark.parametrize(
    "setup",
    [
        table_setup(X[:, 3], TARGET),
        table_setup(X[:, 0] + 0.01 * X[:, 3], TARGET),
        table_setup((LABELS > 0).float(), LABELS),
        forecast_setup(1),
        horizon_setup(first=12),
        horizon_setup(first=1, steps=12),
        minimal_setup(nn.Linear(1, 1), X[:, :1], 2 * X[:, :1] + 1, nn.MSELoss()),
        minimal_setup(nn.Linear(4, 4), X, X, nn.MSELoss()),
    ],
    ids=[
        *("noise", "a good feature", "part of the classes", "the next step", "the next three steps"),
        *("each next step", "a line", "an autoencoder"),
    ],
)
def test_target_leak_of_merely_predictive_features_is_quiet(setup: Setup) -> None:
    assert fault_messages(setup, "D115") == []


def lag_setup(lags: list[int], columns_before: int = 2) -> Setup:
    """A table of values at other steps than that of the target, from the latest past (0) or from the future (-1, …)."""
    now = torch.arange(40, 260)
    steps = now[:, None] - torch.tensor(lags)
    x = torch.cat([torch.randn(220, columns_before, generator=GENERATOR), SERIES[steps]], 1)
    return minimal_setup(nn.Linear(x.shape[1], 1), x, SERIES[now + 1, None], nn.MSELoss())


@pytest.mark.parametrize(
    ("lags", "later"),
    [([-1, -2, -3], {3: 1, 4: 2}), ([-1, -2, -4, -8, 0], {3: 1, 4: 3, 5: 7}), ([0, 1, -1, -30], {5: 29})],
)
def test_target_leak_of_lags_that_look_ahead_names_the_rows_and_hides_no_column(
    lags: list[int], later: dict[int, int]
) -> None:
    (finding,) = rule_findings(lag_setup(lags), "D115")
    assert finding.evidence["rows later"] == later
    assert "look ahead" in finding.cause
    assert (finding.edits, finding.setup_fix) == ((), "")


def test_target_leak_beside_lags_that_look_back_offers_to_drop_its_column() -> None:
    (finding,) = rule_findings(lag_setup([-1, 0, 1, 2]), "D115")
    assert finding.fix == "Drop column 2 from the inputs of both splits."


BINARY = (X[:, 0] + X[:, 1] > 0).long()
NOISE = 0.05 * torch.randn(200, generator=GENERATOR)


@pytest.mark.parametrize(
    ("x", "y", "severities"),
    [
        (torch.cat([X[:, :3], (1.0 - 2 * BINARY + NOISE)[:, None]], 1), BINARY, ["warning"]),
        (X, (X[:, 0] > 0).long(), []),
        (X + 20 * BINARY[:, None], BINARY, []),
        (X, BINARY, []),
    ],
    ids=["noisy class column", "one column decides without a gap", "all columns decide", "two columns decide"],
)
def test_target_leak_warns_of_a_noisy_class_column_only(x: Tensor, y: Tensor, severities: list[str]) -> None:
    findings = rule_findings(minimal_setup(network(2), x, y, nn.CrossEntropyLoss()), "D115")
    assert [finding.severity for finding in findings] == severities


ROWS = torch.randn(600, 3, generator=GENERATOR)
MISSED = (ROWS[:, 0] + torch.randn(600, generator=GENERATOR) > 0).float()
SMALL_CATEGORIES = torch.randint(0, 300, (600,), generator=GENERATOR)
LARGE_CATEGORIES = torch.randint(0, 12, (600,), generator=GENERATOR)


def mean_of_all(categories: Tensor, target: Tensor) -> Tensor:
    """The mean target of each category, as standardized values."""
    total = torch.zeros(500).index_add_(0, categories, target)
    means = (total / categories.bincount(minlength=500).clamp(min=1))[categories]
    return (means - means.mean()) / means.std()


def mean_by_loop(categories: Tensor, target: Tensor) -> Tensor:
    """The mean target of each category, with NumPy."""
    keys, values = categories.numpy(), target.numpy()
    return torch.tensor([float(np.mean(values[keys == key])) for key in keys])


def mean_of_others(categories: Tensor, target: Tensor) -> Tensor:
    """The mean target of the other rows of each category, shrunk towards the overall mean."""
    total = torch.zeros(500).index_add_(0, categories, target)[categories] - target
    return (total + 10 * target.mean()) / (categories.bincount(minlength=500)[categories] + 9)


def encoded_setup(column: Tensor, cut: int = 450, target: Tensor = MISSED) -> Setup:
    x = torch.cat([ROWS, column.reshape(600, 1)], 1)
    splits = TensorDataset(x[:cut], target[:cut, None]), TensorDataset(x[cut:], target[cut:, None])
    return Setup(network(1), *(DataLoader(split, 30) for split in splits), loss_fn=nn.BCEWithLogitsLoss())


def encoded_in_training() -> Tensor:
    train = mean_of_all(SMALL_CATEGORIES[:450], MISSED[:450])
    return torch.cat([train, torch.zeros(150)])


MANY_CATEGORIES = torch.randint(0, 400, (600,), generator=GENERATOR)  # most hold one or two rows
PRICES = ROWS[:, 0] + torch.randn(600, generator=GENERATOR)


@pytest.mark.parametrize(
    "column",
    [
        mean_of_all(MANY_CATEGORIES, PRICES),
        3 - 2 * mean_by_loop(MANY_CATEGORIES, PRICES),
        torch.cat([mean_of_all(MANY_CATEGORIES[:450], PRICES[:450]), torch.zeros(150)]),
    ],
    ids=["tensors", "NumPy and scaled", "training split"],
)
def test_target_leak_of_mean_by_categories_of_hardly_two_rows_is_reported(column: Tensor) -> None:
    (finding,) = rule_faults(encoded_setup(column, target=PRICES), "D115")
    assert "the mean target of the rows with the same value" in finding.message


@pytest.mark.parametrize(
    "column",
    [
        mean_of_others(MANY_CATEGORIES, PRICES),
        mean_of_all(MANY_CATEGORIES, PRICES.roll(1)),
        mean_of_all(MANY_CATEGORIES, PRICES) + 0.01 * ROWS[:, 1],
    ],
    ids=["mean of others", "mean of another target", "a noisy mean"],
)
def test_target_leak_of_honest_encodings_of_many_categories_is_quiet(column: Tensor) -> None:
    assert rule_faults(encoded_setup(column, target=PRICES), "D115") == []


@pytest.mark.parametrize(
    ("column", "rows"),
    [
        (mean_of_all(SMALL_CATEGORIES, MISSED), "training and validation rows"),
        (mean_by_loop(SMALL_CATEGORIES, MISSED), "training and validation rows"),
        (encoded_in_training(), "training rows"),
    ],
    ids=["tensors", "NumPy", "training split"],
)
def test_target_leak_of_mean_target_by_category_is_reported(column: Tensor, rows: str) -> None:
    (finding,) = rule_faults(encoded_setup(column), "D115")
    assert f"{rows}, " in finding.message
    assert finding.evidence["column"] == 3


def smoothed_mean(categories: Tensor, target: Tensor, prior: float, weight: float) -> Tensor:
    """The mean target of each category, smoothed towards a prior."""
    total = torch.zeros(500).index_add_(0, categories, target)
    return ((total + prior * weight) / (categories.bincount(minlength=500) + weight))[categories]


@pytest.mark.parametrize(("prior", "weight"), [(0.5, 1.0), (0.5, 0.3), (0.42, 5.0)])
@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (-2.3, 0.7)])
def test_target_leak_of_smoothed_mean_target_by_category_is_reported(
    prior: float, weight: float, scale: float, offset: float
) -> None:
    column = scale * smoothed_mean(SMALL_CATEGORIES, MISSED, prior, weight) + offset
    (finding,) = rule_faults(encoded_setup(column), "D115")
    assert "a smoothed mean target of a category" in finding.message
    assert finding.evidence["column"] == 3


@pytest.mark.parametrize(
    "column",
    [
        smoothed_mean(SMALL_CATEGORIES, MISSED.roll(1), 0.5, 1.0),
        mean_of_others(SMALL_CATEGORIES, MISSED),
        mean_of_all(LARGE_CATEGORIES, MISSED),
        mean_of_all(SMALL_CATEGORIES, MISSED.roll(1)),
        LARGE_CATEGORIES.float(),
        (3 * ROWS[:, 0]).round(),
    ],
    ids=[
        "smoothed mean of another target",
        "mean of others",
        "large categories",
        "mean of another target",
        "numbers",
        "predictive numbers",
    ],
)
def test_target_leak_of_honest_encodings_is_quiet(column: Tensor) -> None:
    assert rule_faults(encoded_setup(column), "D115") == []


MIDDLE_CATEGORIES = torch.randint(0, 60, (600,), generator=GENERATOR)  # of ten rows
LEVELS = torch.randn(60, generator=GENERATOR)
SALES = 0.3 * LEVELS[MIDDLE_CATEGORIES] + ROWS[:, 0] + torch.randn(600, generator=GENERATOR)


def mean_in_training(categories: Tensor, target: Tensor) -> Tensor:
    """The mean target of the training rows of each category, for the rows of both splits."""
    total = torch.zeros(500).index_add_(0, categories[:450], target[:450])
    return (total / categories[:450].bincount(minlength=500).clamp(min=1))[categories]


def smoothed_in_training(categories: Tensor, target: Tensor) -> Tensor:
    """The same, shrunk towards a prior of 0.3 that counts as two rows."""
    total = torch.zeros(500).index_add_(0, categories[:450], target[:450])
    return ((total + 2 * 0.3) / (categories[:450].bincount(minlength=500) + 2))[categories]


def mean_out_of_fold(categories: Tensor, target: Tensor, folds: int = 5) -> Tensor:
    """The mean target of each category over the training rows of other folds; of all of them for validation rows."""
    column = mean_in_training(categories, target)
    fold = torch.arange(450) % folds
    for number in range(folds):
        own, others = fold == number, fold != number
        total = torch.zeros(500).index_add_(0, categories[:450][others], target[:450][others])
        means = total / categories[:450][others].bincount(minlength=500).clamp(min=1)
        column[:450][own] = means[categories[:450][own]]
    return column


def without_means(categories: Tensor, target: Tensor) -> Tensor:
    """The target without its mean in each category of each split."""
    own = categories + 60 * (torch.arange(600) >= 450)
    return target - (torch.zeros(500).index_add_(0, own, target) / own.bincount(minlength=500).clamp(min=1))[own]


BINARY_SALES = (SALES > 0).float()
GRID = torch.cartesian_prod(torch.arange(30.0), torch.arange(20.0))


@pytest.mark.parametrize(
    ("column", "target", "rows"),
    [
        (mean_in_training(MIDDLE_CATEGORIES, SALES), SALES, "training rows"),
        (2 - 5 * mean_in_training(MIDDLE_CATEGORIES, SALES), SALES, "training rows"),
        (mean_in_training(MIDDLE_CATEGORIES, SALES).mul(100).round() / 100, SALES, "training rows"),
        (mean_of_all(MIDDLE_CATEGORIES, SALES), SALES, "training and validation rows"),
        (mean_of_all(MIDDLE_CATEGORIES, BINARY_SALES), BINARY_SALES, "training and validation rows"),
        (torch.cat([mean_of_all(MIDDLE_CATEGORIES[:450], SALES[:450]), torch.zeros(150)]), SALES, "training rows"),
        (smoothed_in_training(MIDDLE_CATEGORIES, SALES), SALES, "training rows"),
        (1 - 2 * smoothed_in_training(MIDDLE_CATEGORIES, SALES), SALES, "training rows"),
    ],
    ids=[
        "training",
        "scaled",
        "rounded",
        "both splits",
        "binary target",
        "no shared value",
        "smoothed",
        "smoothed, scaled",
    ],
)
def test_target_leak_warns_of_mean_by_categories_of_ten_rows(column: Tensor, target: Tensor, rows: str) -> None:
    (finding,) = rule_faults(encoded_setup(column, target=target), "D115")
    assert finding.severity == "warning"
    assert finding.evidence["column"] == 3
    assert f"{rows}, {finding.evidence['rows per group']:.1f} per group on average)" in finding.message


def test_target_leak_of_mean_by_categories_states_how_much_less_it_predicts_in_validation() -> None:
    column = mean_in_training(MIDDLE_CATEGORIES, SALES)
    (finding,) = rule_faults(encoded_setup(column, target=SALES), "D115")
    train, val = (
        float(torch.corrcoef(torch.stack([column[s], SALES[s]]))[0, 1]) for s in (slice(450), slice(450, 600))
    )
    assert val < train - 0.1
    assert f"correlation with the target is {train:.2f} in training and {val:.2f} in validation." in finding.message


@pytest.mark.parametrize(
    ("column", "target"),
    [
        (mean_out_of_fold(MIDDLE_CATEGORIES, SALES), SALES),
        (LEVELS[MIDDLE_CATEGORIES], SALES),
        (LEVELS[MIDDLE_CATEGORIES], LEVELS[MIDDLE_CATEGORIES].square()),
        (LEVELS[MIDDLE_CATEGORIES], LEVELS[MIDDLE_CATEGORIES]),
        (mean_in_training(MIDDLE_CATEGORIES, SALES.roll(1)), SALES),
        (LEVELS[MIDDLE_CATEGORIES], LEVELS[MIDDLE_CATEGORIES] + 3 * without_means(MIDDLE_CATEGORIES, ROWS[:, 0])),
        (GRID[:, 0], GRID[:, 0] / 30 + GRID[:, 1]),
        (mean_in_training(LARGE_CATEGORIES, SALES), SALES),
    ],
    ids=[
        *("out of fold", "true levels", "a price list", "the target", "of another target"),
        *("means that validation rows share", "a grid", "few categories"),
    ],
)
def test_target_leak_of_encodings_that_do_not_overstate_is_quiet(column: Tensor, target: Tensor) -> None:
    assert [x for x in rule_faults(encoded_setup(column, target=target), "D115") if "mean target" in x.message] == []


PAIRED_CATEGORIES = torch.randint(0, 900, (1500,), generator=GENERATOR)
CLAIMS = (torch.rand(1500, generator=GENERATOR) < 0.4).float()


def log_odds(categories: Tensor, target: Tensor) -> Tensor:
    """The smoothed log odds of a binary target in each category, its weight of evidence."""
    ones = torch.zeros(900).index_add_(0, categories, target)
    zeros = categories.bincount(minlength=900) - ones
    return torch.log((ones + 0.4) / (zeros + 0.4))[categories]


@pytest.mark.parametrize("is_own", [True, False])
def test_target_leak_of_log_odds_by_category_is_reported_only_of_its_own_target(is_own: bool) -> None:
    column = log_odds(PAIRED_CATEGORIES, CLAIMS if is_own else CLAIMS.roll(1))
    x = torch.cat([torch.randn(1500, 3, generator=torch.Generator().manual_seed(1)), column[:, None]], 1)
    splits = TensorDataset(x[:1200], CLAIMS[:1200, None]), TensorDataset(x[1200:], CLAIMS[1200:, None])
    loaders = [DataLoader(split, 30) for split in splits]
    findings = rule_faults(Setup(network(1), *loaders, loss_fn=nn.BCEWithLogitsLoss()), "D115")
    assert ["is a function of the targets of a category" in finding.message for finding in findings] == [True] * is_own


LEFT = (X[:, 0] + 0.8 * torch.randn(200, generator=GENERATOR) > 0).long()
REFUND = torch.where(LEFT == 1, 3 + 20 * torch.rand(200, generator=GENERATOR), 2 * torch.rand(200, generator=GENERATOR))


@pytest.mark.parametrize("target", [LEFT, LEFT.float()[:, None]], ids=["classes", "flags"])
def test_target_leak_of_a_value_written_after_the_event_is_a_warning(target: Tensor) -> None:
    x = torch.cat([X[:, :3], REFUND[:, None] / 10], 1)
    loss_fn = nn.BCEWithLogitsLoss() if target.is_floating_point() else nn.CrossEntropyLoss()
    (finding,) = rule_findings(
        minimal_setup(network(1 if target.is_floating_point() else 2), x, target, loss_fn), "D115"
    )
    assert finding.severity == "warning"
    assert "column 3 of input 0 alone separates the classes" in finding.message
    assert finding.evidence["error of the others"] > 0.08


@pytest.mark.parametrize(
    ("column", "target"),
    [
        (X[:, 3], (X[:, 3] > 0).long()),  # a class that is defined by a threshold
        (REFUND.log(), (X[:, 0] > 0).long()),  # the other columns tell the class as well
        (REFUND + 8 * torch.randn(200, generator=GENERATOR), LEFT),  # a good feature, without a gap
    ],
    ids=["threshold", "easy task", "no gap"],
)
def test_target_leak_of_a_column_that_decides_alone_without_a_gap_is_quiet(column: Tensor, target: Tensor) -> None:
    setup = minimal_setup(network(2), torch.cat([X[:, :3], column[:, None]], 1), target, nn.CrossEntropyLoss())
    assert rule_findings(setup, "D115") == []
