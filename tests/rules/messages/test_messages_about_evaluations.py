"""Tests that the numbers in the messages about evaluations are those of the predictions and passes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional

from nbdebug.rules.examples import train
from tests.rules.messages.program import Fact, Facts, Program, check_numbers, counts, near


def predictions(program: Program) -> tuple[torch.Tensor, torch.Tensor]:
    """The probabilities of the trained model for the validation rows, and their labels."""
    x, y = program.val
    return program.trained.model.eval()(x).softmax(1).detach(), y


def failed_class(program: Program) -> list[Fact]:
    scores, y = predictions(program)
    predicted = scores.argmax(1)
    of_class = predicted[y == 2]
    return [
        float((of_class == 2).double().mean()), int((of_class == 2).sum()), len(of_class),
        float((predicted == y).double().mean()), len(y), int((of_class == 0).sum()), len(of_class),
    ]  # fmt: skip


def calibration(program: Program) -> list[Fact]:
    """The error over fifteen bins; chance is what the same confidences give if they are the accuracies."""
    scores, y = predictions(program)
    confidence, predicted = scores.max(1)
    right = (predicted == y).double()

    def error(hits: torch.Tensor) -> float:
        bins = (confidence * 15).long().clamp(max=14)
        gaps = [abs(float((hits - confidence)[bins == b].sum())) for b in range(15)]
        return sum(gaps) / len(hits)

    chance = [error(torch.bernoulli(confidence).double()) for _ in range(200)]
    return [near(error(right), 0.1), near(max(chance), 0.4), float(confidence.mean()), float(right.mean())]


def weak_slice(program: Program) -> list[Fact]:
    x, y = program.train
    wrong = (program.model(x).argmax(1) != y).double()
    inside, outside = wrong[y == 0], wrong[y != 0]
    share = float(inside.mean())
    low, high = stats.binomtest(int(inside.sum()), len(inside)).proportion_ci(0.99, "wilson")
    return [0, len(inside), share, float(outside.mean()), (low - 0.02, share), (share, high + 0.02), (0, 1e-20), (3, 6)]


def confused_pair(program: Program) -> list[Fact]:
    """Errors spread evenly over the three other classes are near those spread by the frequencies of predictions."""
    scores, y = predictions(program)
    table = np.array([np.bincount(scores.argmax(1)[y == c], minlength=4) for c in range(4)])
    errors = table.sum(1) - np.diag(table)
    expected = [near(errors[c] / 3, 0.2) for c in (2, 3)]
    return [table[2, 3], table[2].sum(), table[3, 2], table[3].sum(), *expected]


def majority(program: Program) -> list[Fact]:
    scores, y = predictions(program)
    rows = counts(y)[0]
    return [int((scores.argmax(1) == 0).sum()), len(y), rows, rows / len(y)]


def two_rankings(program: Program) -> list[Fact]:
    """Accuracy and loss of the validation split after each epoch, averaged over neighboring epochs."""
    setup = program.new_setup()
    accuracies, losses = [], []
    for _ in range(12):
        train(setup, 1)
        parts = [(setup.model(x).detach(), y) for x, y in setup.val_loader]
        losses.append(float(np.mean([setup.loss_fn(output, y).item() for output, y in parts])))
        accuracies.append(float(torch.cat([output.argmax(1) == y for output, y in parts]).double().mean()))
    means, mean_losses = (
        [np.mean(values[max(i - 1, 0) : i + 2]) for i in range(12)] for values in (accuracies, losses)
    )
    first, second, steps = int(np.argmax(means)), int(np.argmin(mean_losses)), len(setup.train_loader)
    rank = float(stats.spearmanr(means[first : second + 1], -np.array(mean_losses[first : second + 1])).statistic)
    logged = [(first + 1) * steps, means[first], (second + 1) * steps, means[second], (rank - 0.05, rank + 0.05)]
    fixed = [(0, 24), (0.8, 0.9), 144, (0.35, 0.55), (-1, -0.5)]  # of a sample of the validation rows
    return [*logged, *fixed]


def mean_of_batches(program: Program) -> list[Fact]:
    """The rows of equal weight that have the variance of a weighted mean, by Kish."""
    sizes = [len(y) for _, y in program.setup.val_loader]
    weights = np.concatenate([np.full(size, 1 / size) for size in sizes])
    kish = weights.sum() ** 2 / (weights**2).sum()
    return [len(sizes), sizes[-1], sizes[0], sizes[0] / sizes[-1], (kish - 0.5, kish + 0.5), sum(sizes)]


def no_better(program: Program) -> list[Fact]:
    scores, y = predictions(program)
    predicted = scores.argmax(1)
    accuracy = float((predicted == y).double().mean())
    shuffled = float(
        (functional.one_hot(predicted, 2).double().mean(0) * functional.one_hot(y, 2).double().mean(0)).sum()
    )
    margin = 1.96 * (accuracy * (1 - accuracy) / len(y)) ** 0.5
    return [accuracy, shuffled, near(accuracy - shuffled - margin), near(accuracy - shuffled + margin), len(y)]


def trained_on_validation(program: Program) -> list[Fact]:
    train_batches, val_batches = len(program.setup.train_loader), len(program.setup.val_loader)
    return [3 * val_batches, 3 * (train_batches + val_batches), 0]


FACTS: Facts = {
    "E701": lambda program: [(0.2, 3)],  # random masks
    "E702": failed_class,
    "E703": calibration,
    "E704": weak_slice,
    "E705": confused_pair,
    "E706": majority,
    "E707": two_rankings,
    "E708": mean_of_batches,
    "E709": no_better,
    "E710": lambda program: [
        *program.model(program.batch[0]).shape,
        program.model(program.batch[0]).argmax(1).max().item(),
    ],
    "E711": trained_on_validation,
    "E712": lambda program: [3 * len(program.setup.train_loader), 3],
}


@pytest.mark.parametrize("code", FACTS)
def test_numbers_in_messages_about_evaluations_are_facts(code: str) -> None:
    check_numbers(code, FACTS)
