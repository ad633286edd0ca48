"""The one place that knows shap: its explainers for black boxes, and its type for results.

shap.DeepExplainer is not here: it leaves parameters, hooks, eval mode and wiped gradients in the model.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nbdebug.arguments import one_of
from nbdebug.attribution.flat import Floats, finished, flattened, score_of
from nbdebug.attribution.found import Found
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.refusals import NotExplained
from nbdebug.attribution.watch import expect
from nbdebug.exceptions import SetupError

if TYPE_CHECKING:
    from nbdebug.attribution.result import Attribution

MOST = 100  # background samples, shap's own default
Explainer = Callable[[Callable[[Floats], Floats], Floats, Floats], Floats]


def library() -> Any:
    """The shap package; raises NotExplained where it is not installed."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            import shap  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise NotExplained(
            "shap is not installed; expected it for this. Run pip install shap, or use method='shapley'."
        ) from error
    return shap


def permutation(problem: Problem, permutations: int = 10) -> Found:
    """Shapley values from random orders of the features, forward and back. Needs no gradients.

    Exact for additive models; Mitchell et al. 2022, arXiv:2104.12199.
    """
    shap = library()

    def explain(function: Callable[[Floats], Floats], rows: Floats, row: Floats) -> Floats:
        explainer = shap.PermutationExplainer(function, shap.maskers.Independent(rows, len(rows)), seed=0)
        values: Floats = explainer(row, max_evals=permutations * (2 * row.shape[1] + 1), silent=True).values
        return values

    return one_by_one(problem, explain, permutations * (2 * features_of(problem) + 1))


def kernel(problem: Problem, samples: int | None = None) -> Found:
    """Shapley values from a weighted regression over coalitions. Lundberg and Lee 2017, arXiv:1705.07874."""
    if samples is not None and samples < 1:
        raise SetupError(f"samples is {samples}; expected 1 or more. Leave it out.")
    shap = library()

    def explain(function: Callable[[Floats], Floats], rows: Floats, row: Floats) -> Floats:
        np.random.seed(0)  # shap draws from the global generator, which the block around this gives back
        explainer = shap.KernelExplainer(function, rows)
        return np.asarray(explainer.shap_values(row, nsamples=samples or "auto", silent=True))

    return one_by_one(problem, explain, samples or 2 * features_of(problem) + 2048)


def partition(problem: Problem, evaluations: int = 500) -> Found:
    """Owen values over a tree of features that go together: cheap, and complete without being near to Shapley's."""
    shap = library()

    def explain(function: Callable[[Floats], Floats], rows: Floats, row: Floats) -> Floats:
        explainer = shap.PartitionExplainer(function, shap.maskers.Partition(rows, max_samples=len(rows)))
        values: Floats = explainer(row, max_evals=evaluations, silent=True).values
        return values

    found = one_by_one(problem, explain, evaluations)
    found.notes.append("Owen values over groups of features: they add up, and may be far from Shapley values")
    return found


def tree(problem: Problem) -> Found:
    """Exact Shapley values of trees against the background. Lundberg et al. 2020, doi:10.1038/s42256-019-0138-9."""
    shap = library()
    row, rows = flattened(problem)
    try:
        explainer = shap.TreeExplainer(problem.model, data=rows, model_output=tree_output(problem))
        values = np.asarray(explainer.shap_values(row, check_additivity=False), np.float64)
    except Exception as error:
        raise NotExplained(
            f"the model is a {type(problem.model).__name__}, which shap finds no trees in ({str(error)[:120]}); "
            "expected trees of scikit-learn, XGBoost, LightGBM or CatBoost. Use method='permutation'."
        ) from error
    if values.ndim == 3:
        values = values[np.arange(len(values)), :, problem.scored.classes.cpu().numpy()]
    base = np.asarray(explainer.expected_value).reshape(-1)
    mine = base[problem.scored.classes.cpu().numpy()] if len(base) > 1 else np.repeat(base, len(values))
    return finished(problem, values, torch.from_numpy(mine))


def tree_output(problem: Problem) -> str:
    """Which output of the trees is explained."""
    return "probability" if problem.scored.space == "probability" and hasattr(problem.model, "predict_proba") else "raw"


def features_of(problem: Problem) -> int:
    """The numbers of a sample."""
    return sum(part.values[0].numel() for part in problem.parts)


def one_by_one(problem: Problem, explain: Explainer, asked: int) -> Found:
    """What an explainer says of each sample's own score; it asks for the whole background so many times."""
    inputs, rows = flattened(problem)
    if len(rows) > MOST:
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:MOST]
        rows = rows[order.sort().values.numpy()]
    values, base = np.zeros_like(inputs), np.zeros(len(inputs))
    with contextlib.redirect_stderr(io.StringIO()):
        for number in range(len(inputs)):
            function = score_of(problem, number)
            base[number] = function(rows).mean()
            expect(asked * len(rows) * (len(inputs) - number))
            values[number] = explain(function, rows, inputs[number : number + 1])[0]
    found = finished(problem, values, torch.from_numpy(base))
    found.lines = len(rows)
    return found


def explanation(found: Attribution, name: str | None = None) -> Any:
    """A result as ``shap.Explanation``: values, base values, data and names of one input."""
    shap = library()
    if name is not None:
        one_of("name", name, found.values)
    values = found.array if name is None else found.values[name]
    data = found.inputs[name or next(iter(found.inputs))]
    base = found.base if found.base is not None else np.zeros(len(values))
    names = list(found.feature_names) if found.feature_names and values.ndim == 2 else None
    return shap.Explanation(values, base_values=base, data=data, feature_names=names)
