"""Shapley values of any model, by sampling permutations of the features."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from nbdebug.attribution.problem import Problem
from nbdebug.attribution.result import MethodResult
from nbdebug.exceptions import SetupError
from nbdebug.inference.progress import expect_rows

Floats = NDArray[np.float64]
_MAX_BACKGROUND_SAMPLES = 100  # background samples that are used


def table_score_function(problem: Problem, number: int) -> Callable[[Floats], Floats]:
    """Return the explained score of one sample as a function of a table."""

    def function(rows: Floats) -> Floats:
        scores = np.zeros(len(rows))

        def work(start: int, stop: int) -> None:
            sample_indices = torch.full((stop - start,), number, device=problem.device)
            with torch.no_grad():
                scores[start:stop] = (
                    problem.scores_at(_split_columns(problem, rows[start:stop]), sample_indices).cpu().numpy()
                )

        problem.chunk_runner().run(len(rows), work)
        return scores

    return function


def problem_tables(problem: Problem) -> tuple[Floats, Floats]:
    """Return all inputs of the samples and of the background as tables."""
    parts = problem.parts
    return _concatenate_columns([part.values for part in parts]), _concatenate_columns(
        [p.background for p in parts if p.background is not None]
    )


def _concatenate_columns(tensors: list[torch.Tensor]) -> Floats:
    return np.concatenate([tensor.reshape(len(tensor), -1).cpu().double().numpy() for tensor in tensors], 1)


def _split_columns(problem: Problem, rows: Floats) -> list[torch.Tensor]:
    """Split a table into parts with their shapes and dtypes."""
    values, start = [], 0
    for part in problem.parts:
        stop = start + part.values[0].numel()
        columns = torch.from_numpy(rows[:, start:stop]).reshape(len(rows), *part.values.shape[1:])
        values.append(columns.to(problem.device, part.values.dtype))
        start = stop
    return values


def to_method_result(problem: Problem, values: Floats, base: torch.Tensor) -> MethodResult:
    """Return attributions per part with the completeness gap, relative to the distance from the background score."""
    score_difference = problem.scores - base
    completeness_gap = (torch.from_numpy(values).sum(1) - score_difference).abs() / score_difference.abs().clamp_min(
        float(score_difference.abs().median()) or 1e-9
    )
    return MethodResult(
        _split_by_part(problem, values), base, completeness_gap, converged=bool((completeness_gap <= 0.01).all())
    )


def _split_by_part(problem: Problem, values: Floats) -> list[torch.Tensor]:
    """Split a table of attributions into one float64 tensor per part."""
    sizes = [part.values[0].numel() for part in problem.parts]
    pieces = torch.split(torch.from_numpy(values), sizes, 1)
    return [
        piece.reshape(len(piece), *part.values.shape[1:]) for piece, part in zip(pieces, problem.parts, strict=True)
    ]


def shapley(problem: Problem, passes: int = 2, error: float = 0.05) -> MethodResult:
    """Return the mean change of the score as the features of a sample replace those of a background sample in turn.

    Every background sample gets a random permutation and its reverse in each pass. After ``passes`` the number is
    doubled, up to eight times, until the standard error is below ``error``. Needs no gradients; exact for additive
    models. Mitchell et al. 2022, arXiv:2104.12199, section 4.1 (antithetic sampling).
    """
    if passes < 2:
        raise SetupError(f"passes is {passes}; expected at least 2, since the error estimate compares passes. Pass 2.")
    inputs, rows = problem_tables(problem)
    rng = np.random.default_rng(0)
    rows = rows[np.sort(rng.permutation(len(rows))[:_MAX_BACKGROUND_SAMPLES])]
    values, errors, base = np.zeros_like(inputs), np.zeros_like(inputs), np.zeros(len(inputs))
    for number, row in enumerate(inputs):
        score = table_score_function(problem, number)
        base[number] = score(rows).mean()
        remaining_rows = 2 * len(rows) * (len(row) + 1) * (len(inputs) - number)
        values[number], errors[number] = _sample_gains(score, rows, row, passes, error, rng, remaining_rows)
    result = to_method_result(problem, values, torch.from_numpy(base))
    result.standard_errors, result.lines = _split_by_part(problem, errors), len(rows)
    worst = float((np.linalg.norm(errors, axis=1) / np.maximum(np.linalg.norm(values, axis=1), 1e-12)).max())
    if worst > error:
        result.converged = False
        result.notes.append(f"the standard error is {worst:.1%} in the worst sample; increase passes=")
    return result


def _sample_gains(
    score: Callable[[Floats], Floats],
    rows: Floats,
    row: Floats,
    passes: int,
    error: float,
    rng: np.random.Generator,
    remaining_rows: int,
) -> tuple[Floats, Floats]:
    """Return mean and standard error of the gains; ``remaining_rows`` rows remain per pass."""
    gains: list[Floats] = []
    while True:
        expect_rows(remaining_rows * (passes if not gains else len(gains)))
        for _ in range(passes if not gains else len(gains)):
            gains.append(
                np.stack(
                    [
                        _antithetic_gains(score, background_row, row, rng.permutation(len(row)))
                        for background_row in rows
                    ]
                )
            )
        stacked = np.stack(gains)
        mean = stacked.mean((0, 1))
        # Each pass uses the whole background, so only the permutations are random.
        deviation = np.sqrt(stacked.var(0, ddof=1).sum(0) / len(stacked)) / len(rows)
        if np.linalg.norm(deviation) <= error * np.linalg.norm(mean) or len(gains) >= 8 * passes:
            return mean, deviation


def _antithetic_gains(
    score: Callable[[Floats], Floats], background_row: Floats, row: Floats, order: NDArray[np.int64]
) -> Floats:
    """Return the gain of each feature, averaged over a permutation and its reverse."""
    step_of_feature = np.argsort(order)
    step = np.arange(len(row) + 1)[:, None]
    forward, reverse = step_of_feature < step, (len(row) - 1 - step_of_feature) < step
    scores = score(np.where(np.concatenate([forward, reverse]), row, background_row)).reshape(2, -1)
    gains = np.diff(scores, axis=1)
    return np.asarray((gains[0][step_of_feature] + gains[1][len(row) - 1 - step_of_feature]) / 2)
