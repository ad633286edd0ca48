"""What is measured by asking the engine again: of models that have learned nothing, and under small noise."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from nbdebug.attribution.given import inputs_of, with_leaves
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.scores import scored
from nbdebug.attribution.trust.bounds import NOISE, RANDOMIZATION, STABILITY
from nbdebug.attribution.trust.case import Case
from nbdebug.attribution.trust.checks import over
from nbdebug.attribution.trust.measure import Measure, rank_correlations
from nbdebug.attribution.trust.randomize import randomized
from nbdebug.exceptions import SetupError

MODELS, DRAWS = 3, 2  # with random weights; of noise
FASTER = {"expected_gradients": "quick"}  # what random weights give needs no more digits


def randomization(case: Case) -> Measure:
    """How alike the attributions of models with random weights are. Adebayo et al. 2018, arXiv:1810.03292."""
    if not isinstance(case.problem.model, nn.Module):
        raise SetupError("a black box has no weights to randomize; expected a torch.nn.Module.")
    classes = case.found.classes.tolist()
    alike = []
    for seed in range(case.afford(MODELS)):
        other = case.of(randomized(case.problem.model, seed).eval())
        other.outputs = other.all_outputs(other.batch)
        other.scored = scored(other.outputs, classes, "logits")
        alike.append(rank_correlations(case.values, case.again(other, FASTER.get(case.found.method))))
    value = float(np.nanmedian(np.abs(np.nanmean(alike, 0)))) if np.isfinite(alike).any() else float("nan")
    said = (
        f"is the rank correlation with those of the model with random weights{over(case)}; near 1 says that they show "
        "the input alone, near 0 that they depend on the weights, which is no proof that they are right"
    )
    return Measure("randomization", value, RANDOMIZATION.light(value), said)


def stability(case: Case) -> Measure:
    """How far attributions move under small noise of the inputs, or of what embeddings make of them."""
    random = torch.Generator().manual_seed(0)
    length = np.linalg.norm(case.values, axis=1).clip(1e-12)
    changes = []
    for _ in range(case.afford(DRAWS)):
        moved = case.again(shaken(case, random))
        changes.append(np.linalg.norm(moved - case.values, axis=1) / length)
    value = float(np.median(np.mean(changes, 0)))
    said = f"of the attributions changes under noise of {NOISE:.0%} of each feature's spread{over(case)}"
    return Measure("stability", value, STABILITY.light(value), said)


def shaken(case: Case, random: torch.Generator) -> Problem:
    """The problem with noise on its real inputs, and on the vectors of a copy's embeddings where it has integers."""
    problem = case.problem
    real = {n: leaf for n, (_, leaf) in enumerate(inputs_of(problem.batch)) if is_real(leaf)}
    noisy = {n: leaf + NOISE * spread(problem, n, leaf) * drawn(leaf, random) for n, leaf in real.items()}
    model = problem.model
    tables = [one for one in model.modules() if isinstance(one, nn.Embedding)] if isinstance(model, nn.Module) else []
    if not real and not tables:
        raise SetupError("the inputs are integers, which have no small noise; expected real numbers or embeddings.")
    moved = problem
    if not real:
        twin = copy.deepcopy(model)
        for one in (one for one in twin.modules() if isinstance(one, nn.Embedding)):
            one.weight.data += NOISE * one.weight.data.std() * drawn(one.weight.data, random)
        moved = case.of(twin)
    return replace(moved, batch=with_leaves(problem.batch, noisy), parts=[])


def is_real(leaf: object) -> bool:
    """Whether noise can be added."""
    return isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.dim() > 0


def drawn(leaf: Tensor, random: torch.Generator) -> Tensor:
    """Noise like a leaf."""
    return torch.randn(leaf.shape, generator=random).to(leaf)


def spread(problem: Problem, number: int, leaf: Tensor) -> Tensor:
    """The deviation of each number in the background, else of all of them in the samples."""
    if problem.background is not None and len(other := inputs_of(problem.background)[number][1]) > 1:
        deviation: Tensor = other.std(0)
        return deviation
    return leaf.std(unbiased=False)
