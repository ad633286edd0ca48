"""DeepSHAP, on a copy of the model: captum's and shap's hooks change what they are put on."""

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

from nbdebug.attribution.chunks import ran_out
from nbdebug.attribution.cuts import refuse_flat
from nbdebug.attribution.flat import finished
from nbdebug.attribution.found import Found, refuse_nan
from nbdebug.attribution.prepare import caller
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.refusals import NotExplained
from nbdebug.attribution.shap_adapter import MOST, library
from nbdebug.exceptions import SetupError, first_line

Engine = Callable[[nn.Module, Tensor, Tensor], Any]
INSTEAD = "Use method='expected_gradients'"


def deepshap(problem: Problem, package: str | None = None) -> Found:
    """DeepLIFT against each background sample, averaged; by captum where its sums add up, else by shap, or ``package``.

    Its rules know some modules only: elsewhere the sum misses what it explains, which is measured and said. Lundberg
    and Lee 2017, arXiv:1705.07874; Shrikumar et al. 2017, arXiv:1704.02685. Raises NotExplained for what it breaks on.
    """
    if package not in (None, *ENGINES):
        raise SetupError(f"package is {package!r}; expected 'captum' or 'shap'. Leave it out.")
    part = problem.parts[0]
    if len(problem.parts) > 1 or part.call is not None or not problem.alone:
        raise NotExplained(f"the model has tokens or several inputs; expected one of real numbers. {INSTEAD}.")
    refused: list[NotExplained] = []
    tried: list[Found] = []
    for name in (package,) if package else [one for one in ENGINES if find_spec(one) is not None] or ["shap"]:
        try:
            tried.append(by(name, problem))
        except NotExplained as error:
            refused.append(error)
            continue
        if tried[-1].converged:
            break
    if not tried:
        raise refused[0]
    return min(tried, key=missed)


def by(name: str, problem: Problem) -> Found:
    """What one package finds, with what the sum misses."""
    every = problem.parts[0].background
    assert every is not None
    background = every[:: -(-len(every) // MOST)]
    twin = twin_of(problem)
    values, base = np.zeros(problem.parts[0].values.shape), np.zeros(problem.size)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for row in range(problem.size):
            values[row], base[row] = one_row(ENGINES[name], twin, row, background)
    refuse_nan(problem, [torch.from_numpy(values)])
    found = finished(problem, values.reshape(len(values), -1), torch.from_numpy(base))
    refuse_flat(found.values, problem.scores - torch.from_numpy(base))
    found.lines = len(background)
    found.notes += notes(found, name, {str(one.message) for one in said})
    return found


def one_row(engine: Engine, twin: Problem, row: int, background: Tensor) -> tuple[Any, float]:
    """The attributions of one sample and the mean score of the background, from as much of it at once as fits."""
    score, x = Score(twin, row).eval(), twin.parts[0].values[row : row + 1]
    found: list[tuple[Any, float]] = []

    def work(start: int, stop: int) -> None:
        values, base = explained(engine, score, x.clone(), background[start:stop])
        share = (stop - start) / len(background)
        found.append((values * share, base * share))

    twin.chunks().over(len(background), work, each=2)
    return sum(one for one, _ in found), sum(base for _, base in found)


def missed(found: Found) -> float:
    """What the sum misses in the worst sample, as a share."""
    return 0.0 if found.completeness is None else float(found.completeness.max())


class Score(nn.Module):
    """The explained number of one sample as a module, rows × 1."""

    def __init__(self, problem: Problem, row: int) -> None:
        super().__init__()
        self.inner, self.problem, self.row = problem.model, problem, row

    def forward(self, x: Tensor) -> Tensor:
        """The score of each row."""
        owners = torch.full((len(x),), self.row, device=x.device)
        return self.problem.values([x], owners).unsqueeze(1)


def twin_of(problem: Problem) -> Problem:
    """The problem with a copy of the model, whose activations are not made in place; raises NotExplained without."""
    if any(isinstance(one, torch.jit.ScriptModule) for one in problem.module.modules()):
        raise NotExplained(f"the model is TorchScript; expected Python layers for deepshap. {INSTEAD}.")
    try:
        model = copy.deepcopy(problem.module)
    except Exception as error:
        raise NotExplained(
            f"the model cannot be copied ({first_line(error)}); expected one that can, as deepshap changes what it "
            f"explains. {INSTEAD}."
        ) from error
    for module in model.modules():
        if getattr(module, "inplace", False) is True:
            module.inplace = False  # type: ignore[assignment]
    return replace(problem, model=model, call=caller(problem.given, model))


def explained(engine: Engine, score: Score, x: Tensor, background: Tensor) -> tuple[Any, float]:
    """The attributions of one sample and the mean score of the background; raises NotExplained where it breaks."""
    with torch.no_grad():
        base = float(score(background).mean())
    try:
        return engine(score, x, background.clone()), base
    except (RuntimeError, AssertionError, ValueError, AttributeError, IndexError, TypeError, KeyError) as error:
        if isinstance(error, SetupError) or ran_out(error):
            raise
        raise NotExplained(
            f"deepshap breaks on this model ({type(error).__name__}: {first_line(error)}); expected modules that are "
            f"used once each, and nothing done in place. {INSTEAD}."
        ) from error


def by_captum(score: nn.Module, x: Tensor, background: Tensor) -> Any:
    """By captum's DeepLiftShap, one baseline after another for a background of one."""
    try:
        from captum.attr import DeepLift, DeepLiftShap  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise NotExplained(f"captum is not installed; expected it. Run pip install captum. {INSTEAD}.") from error
    engine = DeepLiftShap(score) if len(background) > 1 else DeepLift(score)
    return engine.attribute(x, baselines=background, target=0).detach().cpu().double().numpy()[0]


def by_shap(score: nn.Module, x: Tensor, background: Tensor) -> Any:
    """By shap's DeepExplainer."""
    found = library().DeepExplainer(score, background).shap_values(x, check_additivity=False)
    return np.asarray(found, np.float64).reshape(x.shape)[0]


ENGINES = {"captum": by_captum, "shap": by_shap}


def notes(found: Found, name: str, said: set[str]) -> list[str]:
    """What was done, what the package does not know, and how much is missing."""
    unknown = sorted(one.rsplit(" ", 1)[-1] for one in said if one.startswith("unrecognized nn.Module"))
    result = [f"by {name}, on a copy of the model; DeepLIFT's rules, which need not give SHAP values"]
    if unknown:
        result.append(f"there is no rule for {', '.join(unknown)}, whose gradient was taken as it is")
    if not found.converged:
        result.append(f"DO NOT BELIEVE these: the sum misses {missed(found):.0%} of what it explains. {INSTEAD}")
    return result
