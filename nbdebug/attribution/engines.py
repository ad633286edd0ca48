"""All engines by name, and which of them "auto" tries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn
from torch.nn.modules.conv import _ConvNd as Conv

from nbdebug.arguments import one_of
from nbdebug.attribution import shap_adapter
from nbdebug.attribution.bounds import Bounds
from nbdebug.attribution.deep import deepshap
from nbdebug.attribution.expected import expected_gradients, quick
from nbdebug.attribution.found import Found
from nbdebug.attribution.gradcam import grad_cam
from nbdebug.attribution.gradients import input_x_gradient, integrated_gradients, saliency
from nbdebug.attribution.lime import lime
from nbdebug.attribution.occlusion import occlusion
from nbdebug.attribution.prepare import plain_parts
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.shapley import shapley


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
    "quick": Engine(quick, True, True, (), "the same with few nodes a line"),
    "integrated_gradients": Engine(bounded(integrated_gradients), True, True, BOUNDS, "against the mean sample"),
    "saliency": Engine(saliency, True, False, (), "how steep the score is here"),
    "input_x_gradient": Engine(input_x_gradient, True, False, (), "terms of a linear score"),
    "gradcam": Engine(grad_cam, True, False, ("layer",), "where a layer saw what speaks for the class"),
    "occlusion": Engine(occlusion, False, True, ("size", "stride"), "what the score loses without a part"),
    "lime": Engine(lime, False, True, ("samples", "size"), "a linear model around the sample"),
    "shapley": Engine(shapley, False, True, ("passes", "error"), "Shapley values, any model"),
    "permutation": Engine(shap_adapter.permutation, False, True, ("permutations",), "the same by shap"),
    "kernel": Engine(shap_adapter.kernel, False, True, ("samples",), "Shapley values by regression"),
    "partition": Engine(shap_adapter.partition, False, True, ("evaluations",), "Owen values of groups"),
    "deepshap": Engine(deepshap, True, True, ("package",), "DeepLIFT on a copy; not for all modules"),
    "tree": Engine(shap_adapter.tree, False, True, (), "exact Shapley values of trees"),
}
FEATURES = 256  # up to which random orders of features are paid for
LARGE = 50_000  # numbers of a sample above which hundreds of passes take too long to begin with


def refuse_unknown(method: str) -> None:
    """Raises SetupError for an engine that there is not."""
    one_of("method", method, ["auto", *ENGINES])


def chosen(problem: Problem) -> list[str]:
    """What "auto" tries, in order: Grad-CAM of large pictures, gradients, trees, orders of few features, patches."""
    features = sum(part.values[0].numel() for part in plain_parts(problem))
    black = ["shapley", "occlusion"] if features <= FEATURES else ["occlusion"]
    if isinstance(problem.model, nn.Module):
        first = (
            ["gradcam"] if features > LARGE and any(isinstance(one, Conv) for one in problem.model.modules()) else []
        )
        return [*first, "expected_gradients", *black]
    return ["tree", *black] if hasattr(problem.model, "predict") else black
