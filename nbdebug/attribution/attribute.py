"""Attribution methods by name, and attribute(), which runs one or selects it automatically."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd as Conv

from nbdebug.attribution import shap_library
from nbdebug.attribution.deep_shap import deepshap
from nbdebug.attribution.expected_gradients import Bounds, expected_gradients, expected_gradients_fast
from nbdebug.attribution.gradient_methods import grad_cam, input_x_gradient, integrated_gradients, saliency
from nbdebug.attribution.perturbation_methods import lime, occlusion
from nbdebug.attribution.preparation import (
    build_problem,
    find_gradient_parts,
    get_plain_parts,
    resolve_target,
)
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.result import Array, Attribution, MethodResult
from nbdebug.attribution.shapley_sampling import shapley
from nbdebug.exceptions import NotDifferentiable, NotExplained, SetupError
from nbdebug.inference.chunking import is_out_of_memory, out_of_memory_error
from nbdebug.inference.outputs import Target
from nbdebug.setup.evaluation_mode import evaluation_mode
from nbdebug.validation import argument_error, describe_type, validate_choice, validate_int

_REQUIRED_COUNTS = ("passes", "permutations", "evaluations")  # counts that may not be None
_COUNT_OPTIONS = (*_REQUIRED_COUNTS, "nodes", "samples", "size", "stride", "most")
_ERROR_OPTIONS = ("error", "completeness", "standard_error")


@dataclass(frozen=True)
class _Method:
    """An attribution method: its function, what it needs and its options."""

    run: Callable[..., MethodResult]
    needs_gradients: bool
    needs_background: bool
    options: tuple[str, ...] = ()
    description: str = ""


_BOUND_OPTIONS = tuple(Bounds.__dataclass_fields__)
METHODS = {
    "expected_gradients": _Method(
        lambda problem, **options: expected_gradients(problem, Bounds(**options)),
        True,
        True,
        _BOUND_OPTIONS,
        "SHAP values by gradients",
    ),
    "expected_gradients_fast": _Method(
        expected_gradients_fast, True, True, (), "SHAP values, with few integration points"
    ),
    "integrated_gradients": _Method(
        lambda problem, **options: integrated_gradients(problem, Bounds(**options)),
        True,
        True,
        _BOUND_OPTIONS,
        "baseline: background mean",
    ),
    "saliency": _Method(saliency, True, False, (), "absolute gradient at the sample"),
    "input_x_gradient": _Method(input_x_gradient, True, False, (), "gradient times input"),
    "gradcam": _Method(grad_cam, True, False, ("layer",), "regions of the image that support the class"),
    "occlusion": _Method(occlusion, False, True, ("size", "stride"), "drop in the score when a region is replaced"),
    "lime": _Method(lime, False, True, ("samples", "size"), "local linear model"),
    "shapley": _Method(shapley, False, True, ("passes", "error"), "Shapley values by sampling, for any model"),
    "permutation": _Method(
        shap_library.shap_permutation, False, True, ("permutations",), "sampled Shapley values (shap)"
    ),
    "kernel": _Method(shap_library.shap_kernel, False, True, ("samples",), "Shapley values by regression (shap)"),
    "partition": _Method(shap_library.shap_partition, False, True, ("evaluations",), "Owen values of groups (shap)"),
    "deepshap": _Method(deepshap, True, True, ("package",), "DeepLIFT on a copy of the model; not for all modules"),
    "tree": _Method(shap_library.shap_tree, False, True, (), "exact Shapley values of trees (shap)"),
}
METHOD_ALIASES = {"quick": "expected_gradients_fast"}  # other names that methods are accepted by
MAX_SAMPLING_FEATURES = 256  # above this, sampling permutations of the features is too slow
_LARGE_SAMPLE_SIZE = 50_000  # input values per sample above which hundreds of passes are too slow as a first try


def check_method(method: str) -> None:
    """Raise SetupError for an unknown method."""
    if not (isinstance(method, str) and method in METHOD_ALIASES):
        validate_choice("method", method, ["auto", *METHODS])


def canonical_method(method: str) -> str:
    """Return the present name of a method, which may be given by an alias."""
    return METHOD_ALIASES.get(method, method)


def auto_methods(problem: Problem) -> list[str]:
    """Return the methods that "auto" tries: Grad-CAM for large images, gradients, trees, Shapley, occlusion."""
    features = sum(part.values[0].numel() for part in get_plain_parts(problem))
    black_box_methods = ["shapley", "occlusion"] if features <= MAX_SAMPLING_FEATURES else ["occlusion"]
    if isinstance(problem.model, nn.Module):
        image_methods = (
            ["gradcam"]
            if features > _LARGE_SAMPLE_SIZE and any(isinstance(module, Conv) for module in problem.model.modules())
            else []
        )
        return [*image_methods, "expected_gradients", *black_box_methods]
    return ["tree", *black_box_methods] if hasattr(problem.model, "predict") else black_box_methods


def attribute(
    setup_or_model: Any,
    inputs: Any,
    target: Target = "predicted",
    method: str = "auto",
    background: Any = None,
    *,
    space: str = "logits",
    labels: Any = None,
    score: Callable[[Any], Any] | None = None,
    rows: int | None = None,
    **options: Any,
) -> Attribution:
    """Attribute a score of each sample to the values of its inputs; leaves the user's objects unchanged.

    ``target`` is a class, one class per sample, "predicted" or "true" (with ``labels``). ``background`` holds the
    samples to compare with; for a Setup it defaults to the first samples of the training loader. ``score(output)``
    converts another output format to samples × classes. ``rows`` is the number of rows per forward pass. ``options``
    are those of the method. "auto" uses expected gradients, or a gradient-free method if no gradient reaches the
    inputs. Raises SetupError if the model cannot be explained, with the methods that can.
    """
    start_time = time.perf_counter()
    check_method(method)
    try:
        problem = build_problem(setup_or_model, inputs, background, labels, score, rows)
        with evaluation_mode(problem.model, problem.owned):
            resolve_target(problem, target, space)
            return run_attribution(problem, canonical_method(method), options, describe_target(target), start_time)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise out_of_memory_error(error) from error


def run_attribution(
    problem: Problem, method: str, options: dict[str, Any], target: str, start_time: float | None = None
) -> Attribution:
    """Run a method, for "auto" the first one that applies, and convert its result to plain data."""
    candidates = auto_methods(problem) if method == "auto" else [method]
    rejections: list[str] = []
    for name in candidates:
        try:
            _prepare_method(problem, name, options)
            result = METHODS[name].run(problem, **options)
            break
        except (NotDifferentiable, NotExplained) as error:
            if name == candidates[-1]:
                raise
            rejections.append(f"{name} does not apply: {str(error).split('; expected')[0]}")
    class_names, feature_names = problem.names
    return Attribution(
        name, target, problem.target_score.space,
        _group_by_input(problem, result.values), _explained_arrays(problem),
        problem.target_score.classes.cpu().numpy(), problem.scores.numpy(),
        None if result.base is None else result.base.numpy(),
        None if result.completeness is None else result.completeness.numpy(),
        None if result.error is None else result.error.numpy(),
        None if result.standard_errors is None else _group_by_input(problem, result.standard_errors),
        None if result.background_errors is None else _group_by_input(problem, result.background_errors),
        result.nodes, result.lines, result.converged, (*problem.notes, *rejections, *result.notes),
        tuple(class_names) if class_names else None, tuple(feature_names) if feature_names else None,
        0.0 if start_time is None else time.perf_counter() - start_time,
        problem.outputs.detach().to("cpu", torch.float64).numpy(),
    )  # fmt: skip


def _prepare_method(problem: Problem, method: str, options: dict[str, Any]) -> None:
    """Fill in the input parts that a method needs, and check its options; raise NotExplained if it does not apply."""
    method_spec = METHODS[method]
    if method_spec.needs_background and problem.background is None:
        raise SetupError(
            f"background is None; expected background samples for {method}. Pass background=x_train[:100]."
        )
    problem.parts = []
    if method_spec.needs_gradients:
        find_gradient_parts(problem)
        if not problem.parts:
            raise NotDifferentiable(
                f"the model is {describe_type(problem.model)}; expected a torch.nn.Module for {method}. "
                "Use method='shapley', 'occlusion', 'tree', or shap's 'permutation', 'kernel' and 'partition'."
            )
    else:
        problem.parts = get_plain_parts(problem)
    unknown_options = set(options) - set(method_spec.options)
    if unknown_options:
        allowed_options = ", ".join(method_spec.options) or "none"
        raise SetupError(f"{method} has no option {min(unknown_options)!r}; expected {allowed_options}. Leave it out.")
    for name, value in options.items():
        if name in _COUNT_OPTIONS and (value is not None or name in _REQUIRED_COUNTS):
            validate_int(name, value)
        if name in _ERROR_OPTIONS and (isinstance(value, bool) or not isinstance(value, Real) or not float(value) >= 0):
            raise argument_error(name, value, "a number of 0 or more")


def describe_target(target: Target) -> str:
    """Describe the target in words."""
    if isinstance(target, str):
        return f"the {target} class"
    return f"class {target}" if isinstance(target, int) else "the given classes"


def _group_by_input(problem: Problem, values: list[torch.Tensor]) -> dict[str, Array]:
    """Group the attributions by input; columns with separate embeddings are put side by side."""
    by_name: dict[str, Array] = {}
    for part, attribution in zip(problem.parts, values, strict=True):
        array = attribution.numpy()
        if part.column is not None:
            full = np.zeros(tuple(problem.inputs.leaves[part.leaf].shape))
            full[:, part.column] = array
            array = full
        by_name[part.name] = by_name[part.name] + array if part.name in by_name else array
    return by_name


def _explained_arrays(problem: Problem) -> dict[str, Array]:
    names = {part.name for part in problem.parts}
    return {name: leaf.detach().cpu().numpy() for name, leaf in problem.inputs.named_tensors if name in names}
