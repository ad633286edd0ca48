"""Expected gradients: SHAP values by gradients, without sampling noise.

Integrated gradients (Sundararajan et al. 2017, arXiv:1703.01365) averaged over a background (Erion et al. 2021,
arXiv:1906.10670). Other implementations draw random points on the lines; here every line to the background is
integrated by Gauss–Legendre quadrature, and the nodes are doubled until the attributions sum to the score difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nbdebug.attribution.line_integrals import (
    LineIntegrals,
    QuadratureRule,
    gauss_rule,
    integrate_lines,
    shifted_rule,
    start_scores,
)
from nbdebug.attribution.problem import (
    Problem,
    check_gradients_arrive,
    check_nonzero_gradients,
    gradient_barrier,
    saved_values_per_row,
)
from nbdebug.attribution.result import MethodResult, check_finite_values
from nbdebug.exceptions import USE_BLACK_BOX_METHOD, NotDifferentiable, SetupError
from nbdebug.inference.progress import expect_rows

SINGLE_BACKGROUND_NOTE = "the background is a single sample: these are integrated gradients from it"
_MAX_LINE_VALUES = 2**22  # input values that the lines of one sample may take up before the background is sampled
_MAX_NODES_PER_LINE, _MAX_NODES_OF_FEW_LINES = (
    128,
    4096,
)  # quadrature nodes per line; and for all lines of a sample when it has few lines
_INITIAL_LINES_RANGE = (16, 512)  # minimum and maximum of the lines to start with
_FAST_GRADIENTS_RANGE = (32, 200)  # gradients per sample of the fast method, by sample size; shap and Captum draw 200
_CONVERGED_NODES = 48  # from this number of nodes per line on, an error is not due to too few nodes


@dataclass(frozen=True)
class Bounds:
    """Stopping criteria, as shares: completeness gap, quadrature error, standard error of a sampled background.

    ``error`` is estimated from the highest Legendre coefficient, which is about twice the error in ReLU networks. Each
    line starts with ``nodes`` quadrature nodes; doubling stops at ``most`` (None: 128, or more when there are few
    lines).
    """

    completeness: float = 0.01
    error: float = 0.03
    standard_error: float = 0.05
    nodes: int = 6
    most: int | None = None

    def __post_init__(self) -> None:
        for name, minimum in (("nodes", 1), ("most", 1), ("completeness", 0), ("error", 0), ("standard_error", 0)):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and value >= minimum) and not (name == "most" and value is None):
                raise SetupError(f"{name} is {value!r}; expected a number of {minimum} or more. Leave it out.")

    def max_nodes(self, lines: int, values: int) -> int:
        """Return the maximum number of quadrature nodes per line, ``most`` if it is set."""
        return self.most or max(_MAX_NODES_PER_LINE, min(_MAX_NODES_OF_FEW_LINES, _MAX_LINE_VALUES // values) // lines)


DEFAULT_BOUNDS = Bounds()
_FAST_BOUNDS = Bounds(standard_error=1.0, nodes=2, most=2)


def expected_gradients_fast(problem: Problem) -> MethodResult:
    """Run expected gradients with two shifted nodes per line, or more when there are few lines."""
    count = len(_part_backgrounds(problem)[0])
    gradients = max(
        _FAST_GRADIENTS_RANGE[0], min(_FAST_GRADIENTS_RANGE[1], _MAX_LINE_VALUES // _values_per_sample(problem))
    )
    nodes = max(_FAST_BOUNDS.nodes, gradients // _plan_lines(problem, count, _FAST_BOUNDS)[1])
    return expected_gradients(problem, replace(_FAST_BOUNDS, nodes=nodes, most=nodes), shifted_rule)


def expected_gradients(
    problem: Problem, bounds: Bounds = DEFAULT_BOUNDS, rule: Callable[[int], QuadratureRule] = gauss_rule
) -> MethodResult:
    """Attribute against the whole background, or as much of it as the standard error requires."""
    count = len(_part_backgrounds(problem)[0])
    problem.saved_per_row = saved_values_per_row(problem)
    all_samples = torch.arange(problem.size)
    order, initial_lines = _plan_lines(problem, count, bounds)
    start_outputs = _background_outputs(problem) if problem.shares_background_outputs else None
    state = _ExpectedGradientsState(problem, all_samples, bounds, start_outputs, rule)
    state.add_lines(order[:initial_lines])
    # Take at most four times the initial lines. A larger standard error is reported instead.
    while (
        len(state.background_indices) < min(count, 4 * initial_lines)
        and state.relative_standard_error(count) > bounds.standard_error
    ):
        state.add_lines(order[len(state.background_indices) : 2 * len(state.background_indices)])
    return state.result(count)


def _part_backgrounds(problem: Problem) -> list[Tensor]:
    """Return the background of each part; raise NotDifferentiable if there is none."""
    backgrounds = [part.background for part in problem.parts if part.background is not None]
    if not backgrounds:
        raise NotDifferentiable(
            f"the model is not a torch.nn.Module; expected a module with gradients. {USE_BLACK_BOX_METHOD}."
        )
    return backgrounds


def _background_outputs(problem: Problem) -> Tensor:
    """Return the outputs at the start of each line, which all samples share."""
    outputs: list[Tensor] = []
    parts = [part.background for part in problem.parts if part.background is not None]

    def work(start: int, stop: int) -> None:
        sample_indices = torch.zeros(stop - start, dtype=torch.long, device=problem.device)
        with torch.no_grad():
            outputs.append(problem.outputs_at([values[start:stop] for values in parts], sample_indices).clone())

    problem.chunk_runner().run(len(parts[0]), work)
    return torch.cat(outputs)


def _plan_lines(problem: Problem, count: int, bounds: Bounds) -> tuple[Tensor, int]:
    """Return the order of the background samples, and how many to start with: as many as the budget allows."""
    initial_lines = max(
        _INITIAL_LINES_RANGE[0],
        min(_INITIAL_LINES_RANGE[1], _MAX_LINE_VALUES // (bounds.nodes * _values_per_sample(problem))),
    )
    if count <= initial_lines:
        return torch.arange(count), count
    return torch.randperm(count, generator=torch.Generator().manual_seed(0)), initial_lines


def _values_per_sample(problem: Problem) -> int:
    return max(1, sum(part.values[0].numel() for part in problem.parts))


@dataclass
class _ExpectedGradientsState:
    """Sums over the lines added so far."""

    problem: Problem
    samples: Tensor
    bounds: Bounds
    background_outputs: Tensor | None
    rule: Callable[[int], QuadratureRule]

    def __post_init__(self) -> None:
        self.integrals = LineIntegrals.zeros(self.problem, len(self.samples))
        self.background_indices = torch.zeros(0, dtype=torch.long)
        self.start_scores = torch.zeros(len(self.samples), 0, dtype=torch.float64)
        self.scores = self.problem.scores[self.samples]
        self.nodes = 0

    def add_lines(self, picks: Tensor) -> None:
        """Add the lines from more background samples, with as many nodes as each sample needs."""
        starts = start_scores(self.problem, self.samples, picks, self.background_outputs)
        gaps = self.scores.unsqueeze(1) - starts
        scale = self.score_scale(gaps)
        remaining, nodes = torch.arange(len(self.samples)), self.bounds.nodes
        max_nodes = self.bounds.max_nodes(len(picks), _values_per_sample(self.problem))
        while len(remaining):
            expect_rows(len(remaining) * len(picks) * nodes)
            sums = integrate_lines(self.problem, self.samples[remaining], picks, self.rule(nodes))
            check_finite_values(self.problem, sums.values)
            check_gradients_arrive(self.problem, sums.missing)
            completeness_gap = (_sum_per_sample(sums.values) / len(picks) - gaps[remaining].mean(1)).abs() / scale[
                remaining
            ]
            is_converged = (completeness_gap <= self.bounds.completeness) & (
                _relative_length(sums.errors, sums.values) <= self.bounds.error
            )
            is_converged |= torch.tensor(2 * nodes > max_nodes)
            self.integrals.add(remaining[is_converged], sums.select(is_converged))
            self.nodes, remaining, nodes = max(self.nodes, nodes), remaining[~is_converged], 2 * nodes
        self.background_indices = torch.cat([self.background_indices, picks])
        self.start_scores = torch.cat([self.start_scores, starts], 1)

    def score_scale(self, gaps: Tensor) -> Tensor:
        """Return the typical distance of the scores from those of the background, at least float32 resolution."""
        return gaps.square().mean(1).sqrt().clamp_min(1e-9).maximum(1e-4 * self.scores.abs())

    def standard_errors(self) -> list[Tensor]:
        """Return the standard error of each attribution over the lines, as if they were drawn independently."""
        count = len(self.background_indices)
        if count < 2:
            return [torch.full_like(values, float("nan")) for values in self.integrals.values]
        return [
            ((second - first.square() / count).clamp_min(0) / (count - 1) / count).sqrt()
            for first, second in zip(self.integrals.values, self.integrals.squares, strict=True)
        ]

    def relative_standard_error(self, count: int) -> float:
        """Return the median over samples of the standard error relative to the attribution (vector norms)."""
        values, errors = (_flatten_parts(tensors) for tensors in (self.integrals.values, self.standard_errors()))
        shares = errors.norm(dim=1) / (values / len(self.background_indices)).norm(dim=1).clamp_min(1e-12)
        return float(shares.nanmedian()) * self.finite_population_factor(count)

    def finite_population_factor(self, count: int) -> float:
        """Return the finite population correction of the standard error: 0 if all lines were taken."""
        return float((1 - len(self.background_indices) / count) ** 0.5)

    def result(self, count: int) -> MethodResult:
        """Return the means with their errors; raise NotDifferentiable if the gradients are zero."""
        line_count = len(self.background_indices)
        values = [tensor / line_count for tensor in self.integrals.values]
        gaps = self.scores.unsqueeze(1) - self.start_scores
        error = (_sum_per_sample(values) - gaps.mean(1)).abs() / self.score_scale(gaps)
        check_nonzero_gradients(values, gaps)
        errors = self.standard_errors()
        quadrature_error = _relative_length(self.integrals.errors, self.integrals.values)
        is_converged = (error <= self.bounds.completeness) & (quadrature_error <= self.bounds.error)
        result = MethodResult(
            values, self.start_scores.mean(1), error, quadrature_error,
            [tensor.nan_to_num(0) * self.finite_population_factor(count) for tensor in errors],
            errors, self.nodes, line_count, bool(is_converged.all()),
        )  # fmt: skip
        self._add_notes(result, count)
        return result

    def _add_notes(self, result: MethodResult, count: int) -> None:
        """Add notes on what is not exact; raise NotDifferentiable if a layer is the cause."""
        if not result.converged:
            self._add_incomplete_note(result)
        if len(self.background_indices) < count:
            relative_error = self.relative_standard_error(count)
            result.converged = result.converged and relative_error <= self.bounds.standard_error
            result.notes.append(
                f"{len(self.background_indices)} of {count} background samples were used; "
                f"standard error {relative_error:.1%}"
            )
        if count == 1:
            result.notes.append(SINGLE_BACKGROUND_NOTE)

    def _add_incomplete_note(self, result: MethodResult) -> None:
        """Note the completeness gap and its cause."""
        has_enough_nodes = self.rule is gauss_rule and result.nodes >= _CONVERGED_NODES
        if has_enough_nodes and (barrier := gradient_barrier(self.problem)):
            raise NotDifferentiable(
                f"{barrier}, so the attributions do not sum to the score difference; expected differentiable "
                f"operations. Replace this operation. {USE_BLACK_BOX_METHOD}."
            )
        reason = (
            ". The score has steps, or depends on the input in ways the gradient misses (detach, rounding, randomness, "
            "other samples of the batch)"
        )
        completeness_gap, error = (
            float(values.max()) for values in (result.completeness, result.error) if values is not None
        )
        result.notes.append(
            f"in the worst sample the completeness gap is {completeness_gap:.1%} and the error {error:.1%}, with "
            f"{result.nodes} integration points per background "
            f"sample{reason if has_enough_nodes else '; more points reduce them'}"
        )


def _sum_per_sample(values: list[Tensor]) -> Tensor:
    return _flatten_parts(values).sum(1)


def _flatten_parts(values: list[Tensor]) -> Tensor:
    return torch.cat([tensor.reshape(len(tensor), -1) for tensor in values], 1)


def _relative_length(errors: list[Tensor], values: list[Tensor]) -> Tensor:
    error_length: Tensor = torch.linalg.vector_norm(_flatten_parts(errors), dim=1)
    length: Tensor = torch.linalg.vector_norm(_flatten_parts(values), dim=1)
    return error_length / length.clamp_min(1e-12)
