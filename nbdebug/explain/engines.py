"""All engines by name, and which of them "auto" tries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import nn

from nbdebug.explain import shap_adapter
from nbdebug.explain.expected import QUICK, Bounds, expected_gradients
from nbdebug.explain.found import Found
from nbdebug.explain.gradcam import grad_cam
from nbdebug.explain.gradients import input_x_gradient, integrated_gradients, saliency
from nbdebug.explain.occlusion import occlusion
from nbdebug.explain.problem import Problem
from nbdebug.explain.shapley import shapley


@dataclass(frozen=True)
class Engine:
    """One way to explain: what it needs, and what it takes beside the problem."""

    run: Callable[..., Found]
    gradients: bool
    background: bool
    options: tuple[str, ...] = ()
    says: str = ""


def bounded(engine: Callable[[Problem, Bounds], Found]) -> Callable[..., Found]:
    """An engine that takes its bounds one by one."""

    def run(problem: Problem, **options: float) -> Found:
        return engine(problem, Bounds(**options))  # type: ignore[arg-type]

    return run


BOUNDS = tuple(Bounds.__dataclass_fields__)
ENGINES = {
    "expected_gradients": Engine(bounded(expected_gradients), True, True, BOUNDS, "SHAP values by gradients"),
    "quick": Engine(partial(expected_gradients, bounds=QUICK), True, True, (), "the same with few nodes a line"),
    "integrated_gradients": Engine(bounded(integrated_gradients), True, True, BOUNDS, "against the mean sample"),
    "saliency": Engine(saliency, True, False, (), "how steep the score is here"),
    "input_x_gradient": Engine(input_x_gradient, True, False, (), "terms of a linear score"),
    "gradcam": Engine(grad_cam, True, False, ("layer",), "where a layer saw what speaks for the class"),
    "occlusion": Engine(occlusion, False, True, ("size", "stride"), "what the score loses without a part"),
    "shapley": Engine(shapley, False, True, ("passes", "error"), "Shapley values, any model"),
    "permutation": Engine(shap_adapter.permutation, False, True, ("permutations",), "the same by shap"),
    "kernel": Engine(shap_adapter.kernel, False, True, ("samples",), "Shapley values by regression"),
    "partition": Engine(shap_adapter.partition, False, True, ("evaluations",), "Owen values of groups"),
    "tree": Engine(shap_adapter.tree, False, True, (), "exact Shapley values of trees"),
}
FEATURES = 256  # up to which random orders of features are paid for


def chosen(problem: Problem) -> list[str]:
    """What "auto" tries, in order: gradients, trees, random orders of few features, patches."""
    from nbdebug.explain.prepare import plain_parts

    features = sum(part.values[0].numel() for part in plain_parts(problem))
    black = ["shapley", "occlusion"] if features <= FEATURES else ["occlusion"]
    if isinstance(problem.model, nn.Module):
        return ["expected_gradients", *black]
    return ["tree", *black] if hasattr(problem.model, "predict") else black
