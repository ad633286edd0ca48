"""Explainers of the shap package for black boxes.

shap.DeepExplainer is not used here: it leaves parameters, hooks, eval mode and cleared gradients in the model.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable

import numpy as np
import torch

from nbdebug.attribution.problem import Problem
from nbdebug.attribution.result import MethodResult, import_shap
from nbdebug.attribution.shapley_sampling import Floats, problem_tables, table_score_function, to_method_result
from nbdebug.exceptions import NotExplained, SetupError
from nbdebug.inference.progress import expect_rows

MAX_BACKGROUND_SAMPLES = 100  # background samples, shap's own default
_RowExplainer = Callable[[Callable[[Floats], Floats], Floats, Floats], Floats]


def shap_permutation(problem: Problem, permutations: int = 10) -> MethodResult:
    """Return Shapley values from random permutations of the features, forward and reverse; needs no gradients.

    Exact for additive models. Mitchell et al. 2022, arXiv:2104.12199.
    """
    shap = import_shap()

    def explain(function: Callable[[Floats], Floats], rows: Floats, row: Floats) -> Floats:
        explainer = shap.PermutationExplainer(function, shap.maskers.Independent(rows, len(rows)), seed=0)
        values: Floats = explainer(row, max_evals=permutations * (2 * row.shape[1] + 1), silent=True).values
        return values

    return _explain_each_row(problem, explain, permutations * (2 * _count_features(problem) + 1))


def shap_kernel(problem: Problem, samples: int | None = None) -> MethodResult:
    """Return Shapley values from a weighted regression over coalitions. Lundberg and Lee 2017, arXiv:1705.07874."""
    if samples is not None and samples < 1:
        raise SetupError(f"samples is {samples}; expected 1 or more. Leave it out.")
    shap = import_shap()

    def explain(function: Callable[[Floats], Floats], rows: Floats, row: Floats) -> Floats:
        np.random.seed(0)  # shap uses the global generator; the caller restores its state
        explainer = shap.KernelExplainer(function, rows)
        return np.asarray(explainer.shap_values(row, nsamples=samples or "auto", silent=True))

    return _explain_each_row(problem, explain, samples or 2 * _count_features(problem) + 2048)


def shap_partition(problem: Problem, evaluations: int = 500) -> MethodResult:
    """Return Owen values over a hierarchy of features: cheap and complete, but not close to Shapley values."""
    shap = import_shap()

    def explain(function: Callable[[Floats], Floats], rows: Floats, row: Floats) -> Floats:
        explainer = shap.PartitionExplainer(function, shap.maskers.Partition(rows, max_samples=len(rows)))
        values: Floats = explainer(row, max_evals=evaluations, silent=True).values
        return values

    result = _explain_each_row(problem, explain, evaluations)
    result.notes.append(
        "Owen values over feature groups sum to the score difference but may differ from Shapley values"
    )
    return result


def shap_tree(problem: Problem) -> MethodResult:
    """Return exact Shapley values of trees. Lundberg et al. 2020, doi:10.1038/s42256-019-0138-9."""
    shap = import_shap()
    row, rows = problem_tables(problem)
    try:
        explainer = shap.TreeExplainer(problem.model, data=rows, model_output=_tree_model_output(problem))
        values = np.asarray(explainer.shap_values(row, check_additivity=False), np.float64)
    except Exception as error:
        raise NotExplained(
            f"the model is a {type(problem.model).__name__}, in which shap finds no trees ({str(error)[:120]}); "
            "expected trees of scikit-learn, XGBoost, LightGBM or CatBoost. Use method='permutation'."
        ) from error
    if values.ndim == 3:
        values = values[np.arange(len(values)), :, problem.target_score.classes.cpu().numpy()]
    base = np.asarray(explainer.expected_value).reshape(-1)
    sample_base = base[problem.target_score.classes.cpu().numpy()] if len(base) > 1 else np.repeat(base, len(values))
    return to_method_result(problem, values, torch.from_numpy(sample_base))


def _tree_model_output(problem: Problem) -> str:
    return (
        "probability"
        if problem.target_score.space == "probability" and hasattr(problem.model, "predict_proba")
        else "raw"
    )


def _count_features(problem: Problem) -> int:
    return sum(part.values[0].numel() for part in problem.parts)


def _explain_each_row(problem: Problem, explain: _RowExplainer, evaluations: int) -> MethodResult:
    """Explain each sample's score separately; ``evaluations`` is how often the explainer runs the whole background."""
    inputs, rows = problem_tables(problem)
    if len(rows) > MAX_BACKGROUND_SAMPLES:
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:MAX_BACKGROUND_SAMPLES]
        rows = rows[order.sort().values.numpy()]
    values, base = np.zeros_like(inputs), np.zeros(len(inputs))
    with contextlib.redirect_stderr(io.StringIO()):
        for number in range(len(inputs)):
            function = table_score_function(problem, number)
            base[number] = function(rows).mean()
            expect_rows(evaluations * len(rows) * (len(inputs) - number))
            values[number] = explain(function, rows, inputs[number : number + 1])[0]
    result = to_method_result(problem, values, torch.from_numpy(base))
    result.lines = len(rows)
    return result
