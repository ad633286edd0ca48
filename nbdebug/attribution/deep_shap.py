"""DeepSHAP on a copy of the model, because the hooks of captum and shap modify the model."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nbdebug.attribution.problem import Problem, check_nonzero_gradients
from nbdebug.attribution.result import MethodResult, check_finite_values, import_shap
from nbdebug.attribution.shap_library import MAX_BACKGROUND_SAMPLES
from nbdebug.attribution.shapley_sampling import to_method_result
from nbdebug.exceptions import NotExplained, SetupError, first_line
from nbdebug.inference.chunking import is_out_of_memory
from nbdebug.inference.model_runner import get_forward

_DeepLiftFunction = Callable[[nn.Module, Tensor, Tensor], Any]
_ALTERNATIVE = "Use method='expected_gradients'"


def deepshap(problem: Problem, package: str | None = None) -> MethodResult:
    """Attribute by DeepLIFT against each background sample, and average.

    Uses captum, and shap if captum's attributions do not sum to the score difference, or the given ``package``.
    DeepLIFT has rules for some modules only; the completeness gap is measured and reported. Lundberg and Lee 2017,
    arXiv:1705.07874; Shrikumar et al. 2017, arXiv:1704.02685. Raises NotExplained if the package fails on the model.
    """
    if package not in (None, *_DEEPLIFT_FUNCTIONS):
        raise SetupError(f"package is {package!r}; expected 'captum' or 'shap'. Leave it out.")
    part = problem.parts[0]
    if len(problem.parts) > 1 or part.call is not None or not problem.shares_background_outputs:
        raise NotExplained(f"the model has tokens or several inputs; expected one real-valued input. {_ALTERNATIVE}.")
    rejections: list[NotExplained] = []
    results: list[MethodResult] = []
    for name in (
        (package,)
        if package
        else [candidate for candidate in _DEEPLIFT_FUNCTIONS if find_spec(candidate) is not None] or ["shap"]
    ):
        try:
            results.append(_explain_with_package(name, problem))
        except NotExplained as error:
            rejections.append(error)
            continue
        if results[-1].converged:
            break
    if not results:
        raise rejections[0]
    return min(results, key=_max_completeness_gap)


def _explain_with_package(name: str, problem: Problem) -> MethodResult:
    full_background = problem.parts[0].background
    assert full_background is not None
    background = full_background[:: -(-len(full_background) // MAX_BACKGROUND_SAMPLES)]
    model_copy = _copy_problem(problem)
    values, base = np.zeros(problem.parts[0].values.shape), np.zeros(problem.size)
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        for row in range(problem.size):
            values[row], base[row] = _explain_row(_DEEPLIFT_FUNCTIONS[name], model_copy, row, background)
    check_finite_values(problem, [torch.from_numpy(values)])
    result = to_method_result(problem, values.reshape(len(values), -1), torch.from_numpy(base))
    check_nonzero_gradients(result.values, problem.scores - torch.from_numpy(base))
    result.lines = len(background)
    result.notes += _package_notes(result, name, {str(warning.message) for warning in caught_warnings})
    return result


def _explain_row(deeplift: _DeepLiftFunction, model_copy: Problem, row: int, background: Tensor) -> tuple[Any, float]:
    """Return the attributions of one sample and the mean background score, in chunks that fit into memory."""
    score, x = _SampleScore(model_copy, row).eval(), model_copy.parts[0].values[row : row + 1]
    chunk_results: list[tuple[Any, float]] = []

    def work(start: int, stop: int) -> None:
        values, base = _run_package(deeplift, score, x.clone(), background[start:stop])
        share = (stop - start) / len(background)
        chunk_results.append((values * share, base * share))

    model_copy.chunk_runner().run(len(background), work, rows_per_item=2)
    return sum(chunk_values for chunk_values, _ in chunk_results), sum(base for _, base in chunk_results)


def _max_completeness_gap(result: MethodResult) -> float:
    return 0.0 if result.completeness is None else float(result.completeness.max())


class _SampleScore(nn.Module):
    """The explained score of one sample as a module with output rows × 1."""

    def __init__(self, problem: Problem, row: int) -> None:
        super().__init__()
        self.model, self.problem, self.row = problem.model, problem, row

    def forward(self, x: Tensor) -> Tensor:
        sample_indices = torch.full((len(x),), self.row, device=x.device)
        return self.problem.scores_at([x], sample_indices).unsqueeze(1)


def _copy_problem(problem: Problem) -> Problem:
    """Return the problem with a copy of the model without in-place activations; raise NotExplained if it fails."""
    if any(isinstance(submodule, torch.jit.ScriptModule) for submodule in problem.module.modules()):
        raise NotExplained(f"the model is TorchScript; expected Python layers for deepshap. {_ALTERNATIVE}.")
    try:
        model = copy.deepcopy(problem.module)
    except Exception as error:
        raise NotExplained(
            f"the model cannot be copied ({first_line(error)}); expected a copyable model, as deepshap modifies "
            f"the model it explains. {_ALTERNATIVE}."
        ) from error
    for module in model.modules():
        if getattr(module, "inplace", False) is True:
            module.inplace = False  # type: ignore[assignment]
    return replace(problem, model=model, call=get_forward(problem.setup_or_model, model))


def _run_package(deeplift: _DeepLiftFunction, score: _SampleScore, x: Tensor, background: Tensor) -> tuple[Any, float]:
    with torch.no_grad():
        base = float(score(background).mean())
    try:
        return deeplift(score, x, background.clone()), base
    except (RuntimeError, AssertionError, ValueError, AttributeError, IndexError, TypeError, KeyError) as error:
        if isinstance(error, SetupError) or is_out_of_memory(error):
            raise
        raise NotExplained(
            f"deepshap fails on this model ({type(error).__name__}: {first_line(error)}); expected modules that are "
            f"called once each, and no in-place operations. {_ALTERNATIVE}."
        ) from error


def _deeplift_by_captum(score: nn.Module, x: Tensor, background: Tensor) -> Any:
    """Use DeepLift for a single baseline, which DeepLiftShap does not accept."""
    try:
        from captum.attr import DeepLift, DeepLiftShap  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise NotExplained(
            f"captum is not installed; expected captum. Run pip install captum. {_ALTERNATIVE}."
        ) from error
    deeplift = DeepLiftShap(score) if len(background) > 1 else DeepLift(score)
    return deeplift.attribute(x, baselines=background, target=0).detach().cpu().double().numpy()[0]


def _deeplift_by_shap(score: nn.Module, x: Tensor, background: Tensor) -> Any:
    shap_values = import_shap().DeepExplainer(score, background).shap_values(x, check_additivity=False)
    return np.asarray(shap_values, np.float64).reshape(x.shape)[0]


_DEEPLIFT_FUNCTIONS = {"captum": _deeplift_by_captum, "shap": _deeplift_by_shap}


def _package_notes(result: MethodResult, name: str, messages: set[str]) -> list[str]:
    unknown_modules = sorted(
        message.rsplit(" ", 1)[-1] for message in messages if message.startswith("unrecognized nn.Module")
    )
    lines = [f"by {name}, on a copy of the model; DeepLIFT's rules approximate SHAP values"]
    if unknown_modules:
        lines.append(f"DeepLIFT has no rule for {', '.join(unknown_modules)}; its plain gradient was used")
    if not result.converged:
        lines.append(
            f"NOT RELIABLE: the completeness gap is {_max_completeness_gap(result):.0%} of the score difference. "
            f"{_ALTERNATIVE}"
        )
    return lines
