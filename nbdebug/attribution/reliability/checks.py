"""Reliability checks: completeness, agreement, deletion, randomization and stability."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nbdebug.attribution.attribute import METHOD_ALIASES, METHODS, canonical_method, run_attribution
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.reliability.perturbation_curves import (
    RandomOrders,
    Segments,
    get_segments,
    mean_height,
    perturbation_curves,
    sample_random_orders,
)
from nbdebug.attribution.reliability.report import (
    AGREEMENT_THRESHOLDS,
    COMPLETENESS_THRESHOLDS,
    DELETION_THRESHOLDS,
    MIN_SPLIT_HALF_CORRELATION,
    NOISE_SHARE,
    RANDOMIZATION_THRESHOLDS,
    STABILITY_THRESHOLDS,
    ReliabilityMeasure,
)
from nbdebug.attribution.result import Array, Attribution
from nbdebug.exceptions import SetupError
from nbdebug.inference.model_runner import get_forward
from nbdebug.inference.outputs import select_target_score
from nbdebug.statistics.estimates import median_rank_correlation, rank_correlations

_COMPARABLE_FORMS: dict[str, Callable[[Array], Array]] = {"saliency": np.abs, "gradcam": lambda one: np.maximum(one, 0)}
_RANDOM_MODELS, _NOISE_DRAWS = 3, 2  # models with random weights; draws of noise
_FAST_METHODS = {"expected_gradients": "expected_gradients_fast"}  # accurate enough for comparisons with random weights


@dataclass
class ReliabilityCase:
    """One examination; ``options`` are those of the method that produced ``attribution``."""

    problem: Problem
    attribution: Attribution
    options: Mapping[str, Any] = field(default_factory=dict)
    patience: float = 30.0

    @cached_property
    def segments(self) -> Segments:
        """The segments to compare; raises SetupError if there are fewer than two."""
        segments = get_segments(self.problem, self.attribution)
        if segments.count < 2:
            raise SetupError("the input has a single segment; expected at least two, to rank them.")
        return segments

    @cached_property
    def values(self) -> Array:
        """Attributions per segment, samples × segments; raises SetupError if all are equal."""
        values = self.segments.sum_attributions(self.attribution)
        if not np.ptp(values, axis=1).any():
            raise SetupError("all attributions are equal; expected different values, to rank them.")
        return values

    @cached_property
    def random_orders(self) -> RandomOrders:
        """Contributions of the segments in random orders."""
        return sample_random_orders(self.problem, self.segments, self.patience / 6)

    def rerun(self, problem: Problem, method: str | None = None) -> Array:
        """Run a method (default: the examined one) on a problem; return attributions per segment."""
        method_name = method or self.attribution.method
        attribution = run_attribution(problem, method_name, {} if method else dict(self.options), "the given classes")
        return self.segments.sum_attributions(attribution)

    def affordable_runs(self, limit: int) -> int:
        """Return how often the method can run again, at most ``limit``; raise SetupError if once takes too long."""
        affordable = int(self.patience / 2 / max(self.attribution.seconds, 1e-3))
        if affordable < 1:
            raise SetupError(
                f"{self.attribution.method} took {self.attribution.seconds:.0f} s and would have to run again; "
                f"expected less than {self.patience / 2:.0f} s. Pass patience=."
            )
        return min(limit, affordable)

    def with_model(self, model: nn.Module) -> Problem:
        """Return the same problem with another model."""
        return replace(self.problem, model=model, call=get_forward(self.problem.setup_or_model, model), parts=[])

    def comparison_method(self, other: str | None) -> tuple[str, Array]:
        """Return the name and attributions of the comparison method; by default random orders of the segments."""
        if other is not None and other not in (*METHODS, *METHOD_ALIASES):
            raise SetupError(f"other is {other!r}; expected {', '.join(METHODS)}. Choose one.")
        if other is None and self.attribution.method in ("shapley", "permutation"):
            other = "expected_gradients_fast" if isinstance(self.problem.model, nn.Module) else "occlusion"
        if other is not None:
            other = canonical_method(other)
            return other, self.comparable(self.rerun(self.problem, other))
        return "Shapley values by sampling (random orders of replacement)", self.comparable(self.random_orders.values)

    def comparable(self, other: Array) -> Array:
        """Convert other attributions to the form of these: absolute for saliency, positive part for Grad-CAM."""
        transform = _COMPARABLE_FORMS.get(self.attribution.method)
        return other if transform is None else transform(other)


def completeness(case: ReliabilityCase) -> ReliabilityMeasure:
    """Measure the completeness gap."""
    attribution = case.attribution
    if attribution.base is None or attribution.completeness is None:
        raise SetupError(f"completeness does not apply: {attribution.method} does not decompose the score.")
    explained = attribution.scores - attribution.base
    scale = np.maximum(np.abs(explained), np.abs(attribution.flat).max(1)).clip(1e-12)
    value = float((np.abs(attribution.flat.sum(1) - explained) / scale).max())
    worst = " in the worst sample" if len(attribution) > 1 else ""
    meaning = f"completeness gap relative to the score difference or to the largest attribution{worst}; 0 is exact"
    return ReliabilityMeasure("completeness", value, COMPLETENESS_THRESHOLDS.light(value), meaning)


def agreement(case: ReliabilityCase, other: str | None) -> ReliabilityMeasure:
    """Measure the rank correlation with another method."""
    values, (name, comparison) = case.values, case.comparison_method(other)
    if other is None and median_rank_correlation(*case.random_orders.halves) < MIN_SPLIT_HALF_CORRELATION:
        raise SetupError("random orders disagree with each other; expected more of them. Pass other= or patience=.")
    value = median_rank_correlation(values, comparison)
    meaning = f"rank correlation with {name}{_aggregation_text(case)}; 1: same order, 0: unrelated"
    return ReliabilityMeasure("agreement", value, AGREEMENT_THRESHOLDS.light(value), meaning)


def deletion(case: ReliabilityCase) -> ReliabilityMeasure:
    """Compare the areas of deletion and insertion curves, relative to the best attainable difference."""
    curves = perturbation_curves(case.problem, case.segments, case.values)
    best_curves = perturbation_curves(case.problem, case.segments, case.random_orders.values)
    gap, best_gap = (mean_height(pair["insertion"]) - mean_height(pair["deletion"]) for pair in (curves, best_curves))
    has_gap = best_gap > 1e-6 * np.abs(curves["deletion"]).max().clip(1e-12)
    if not has_gap.any():
        raise SetupError("no order of replacement beats a random order; expected a score that depends on the inputs.")
    value = float(np.median((gap / best_gap)[has_gap]))
    meaning = (
        "area between the insertion and the deletion curve, as a share of the area that sampled Shapley values "
        f"reach{_aggregation_text(case)}; a random order gives 0"
    )
    return ReliabilityMeasure(
        "deletion and insertion", value, DELETION_THRESHOLDS.light(value), meaning, _scaled_curves(case, curves)
    )


def _scaled_curves(case: ReliabilityCase, curves: dict[str, Array]) -> dict[str, Array]:
    """Return the median curves over samples, scaled from 1 (score of the sample) to 0 (everything replaced)."""
    steps = len(curves["deletion"]) - 1
    random_curve = case.random_orders.score_curve[np.linspace(0, case.segments.count, steps + 1).round().astype(int)]
    start, end = curves["deletion"][0], curves["deletion"][-1]
    has_range = np.abs(start - end) > 1e-3 * np.abs(start - end).max().clip(1e-12)
    all_curves = {**curves, "random": random_curve}
    share = {
        name: np.median((curve - end)[:, has_range] / (start - end)[has_range], 1) for name, curve in all_curves.items()
    }
    return {"share": np.linspace(0, 1, steps + 1), **share}


def _aggregation_text(case: ReliabilityCase) -> str:
    return ", median over samples" if len(case.attribution) > 1 else ""


def randomize_model(model: nn.Module, seed: int = 0) -> nn.Module:
    """Return a copy with random weights: layers are reset if they can be, other weights are permuted.

    Seeds torch's generators; the caller has to restore them.
    """
    from nbdebug.preserve import seed_all

    model_copy = copy.deepcopy(model)
    seed_all(seed)
    reset_ids: set[int] = set()
    for module in model_copy.modules():
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()
            reset_ids |= {id(weight) for weight in module.parameters(recurse=False)}
    with torch.no_grad():
        for parameter in model_copy.parameters():
            if id(parameter) not in reset_ids:
                order = torch.randperm(parameter.numel()).to(parameter.device)
                parameter.copy_(parameter.flatten()[order].reshape(parameter.shape))
    return model_copy


def randomization(case: ReliabilityCase) -> ReliabilityMeasure:
    """Compare with attributions of models with random weights. Adebayo et al. 2018, arXiv:1810.03292."""
    if not isinstance(case.problem.model, nn.Module):
        raise SetupError("a black box has no weights to randomize; expected a torch.nn.Module.")
    classes = case.attribution.classes.tolist()
    correlations = []
    for seed in range(case.affordable_runs(_RANDOM_MODELS)):
        randomized_problem = case.with_model(randomize_model(case.problem.model, seed).eval())
        randomized_problem.outputs = randomized_problem.predict_all(randomized_problem.inputs)
        randomized_problem.target_score = select_target_score(randomized_problem.outputs, classes, "logits")
        correlations.append(
            rank_correlations(case.values, case.rerun(randomized_problem, _FAST_METHODS.get(case.attribution.method)))
        )
    value = (
        float(np.nanmedian(np.abs(np.nanmean(correlations, 0)))) if np.isfinite(correlations).any() else float("nan")
    )
    meaning = (
        f"rank correlation with the attributions of models with random weights{_aggregation_text(case)}; near 1: they "
        "reflect only the input; near 0: they depend on the weights, which does not prove that they are correct"
    )
    return ReliabilityMeasure("randomization", value, RANDOMIZATION_THRESHOLDS.light(value), meaning)


def stability(case: ReliabilityCase) -> ReliabilityMeasure:
    """Measure the change of the attributions under small noise on the inputs, or on the embeddings of integers."""
    rng = torch.Generator().manual_seed(0)
    norms = np.linalg.norm(case.values, axis=1).clip(1e-12)
    changes = []
    for _ in range(case.affordable_runs(_NOISE_DRAWS)):
        noisy_attributions = case.rerun(_perturb_problem(case, rng))
        changes.append(np.linalg.norm(noisy_attributions - case.values, axis=1) / norms)
    value = float(np.median(np.mean(changes, 0)))
    meaning = (
        f"relative change of the attributions under noise of {NOISE_SHARE:.0%} of each feature's "
        f"spread{_aggregation_text(case)}"
    )
    return ReliabilityMeasure("stability", value, STABILITY_THRESHOLDS.light(value), meaning)


def _perturb_problem(case: ReliabilityCase, rng: torch.Generator) -> Problem:
    """Return the problem with noise on its real inputs; for integers, on the embedding weights of a model copy."""
    problem = case.problem
    real_inputs = {n: leaf for n, leaf in enumerate(problem.inputs.leaves) if _is_real_valued(leaf)}
    noisy_inputs = {
        n: leaf + NOISE_SHARE * _feature_deviation(problem, n, leaf) * _noise_like(leaf, rng)
        for n, leaf in real_inputs.items()
    }
    model = problem.model
    embeddings = (
        [embedding for embedding in model.modules() if isinstance(embedding, nn.Embedding)]
        if isinstance(model, nn.Module)
        else []
    )
    if not real_inputs and not embeddings:
        raise SetupError("the inputs are integers, so noise cannot be added; expected real values or embeddings.")
    result = problem
    if not real_inputs:
        model_copy = copy.deepcopy(model)
        for embedding in (embedding for embedding in model_copy.modules() if isinstance(embedding, nn.Embedding)):
            embedding.weight.data += NOISE_SHARE * embedding.weight.data.std() * _noise_like(embedding.weight.data, rng)
        result = case.with_model(model_copy)
    return replace(result, inputs=problem.inputs.with_leaves(noisy_inputs), parts=[])


def _is_real_valued(leaf: object) -> bool:
    return isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.dim() > 0


def _noise_like(leaf: Tensor, rng: torch.Generator) -> Tensor:
    return torch.randn(leaf.shape, generator=rng).to(leaf)


def _feature_deviation(problem: Problem, leaf_index: int, leaf: Tensor) -> Tensor:
    """Return the standard deviation of each value in the background, else of all values in the samples."""
    if problem.background is not None and len(background_values := problem.background.leaves[leaf_index]) > 1:
        deviation: Tensor = background_values.std(0)
        return deviation
    return leaf.std(unbiased=False)
