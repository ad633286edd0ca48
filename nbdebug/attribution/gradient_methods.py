"""Saliency, input x gradient, integrated gradients and Grad-CAM."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.attribution.expected_gradients import DEFAULT_BOUNDS, SINGLE_BACKGROUND_NOTE, Bounds, expected_gradients
from nbdebug.attribution.problem import Problem, check_gradients_arrive
from nbdebug.attribution.result import MethodResult, check_finite_values
from nbdebug.exceptions import NotDifferentiable, NotExplained, SetupError
from nbdebug.hooks.module_hooks import hooked

_INTERPOLATION_MODES = {3: "linear", 4: "bilinear", 5: "trilinear"}


def saliency(problem: Problem) -> MethodResult:
    """Return the absolute gradient of the score at the sample: its local sensitivity, not a share of the score.

    Simonyan et al. 2013, arXiv:1312.6034.
    """
    gradients = zip(_sample_gradients(problem), problem.parts, strict=True)
    return MethodResult(
        [gradient.abs() if part.call is None else gradient.norm(dim=-1) for gradient, part in gradients]
    )


def input_x_gradient(problem: Problem) -> MethodResult:
    """Return gradient times input, the terms of a linear score. Shrikumar et al. 2016, arXiv:1605.01713."""
    products = zip(_sample_gradients(problem), problem.parts, strict=True)
    return MethodResult(
        [part.sum_over_embedding(gradient * part.values.to("cpu", torch.float64)) for gradient, part in products]
    )


def _sample_gradients(problem: Problem) -> list[Tensor]:
    results = [torch.zeros(gradient.values.shape, dtype=torch.float64) for gradient in problem.parts]

    def work(start: int, stop: int) -> None:
        sample_indices = torch.arange(start, stop, device=problem.device)
        _, gradients = problem.gradients([part.values[sample_indices] for part in problem.parts], sample_indices)
        check_gradients_arrive(problem, [gradient is None for gradient in gradients])
        for result, gradient in zip(results, gradients, strict=True):
            if gradient is not None:
                result[start:stop] = gradient.to("cpu", torch.float64)

    problem.chunk_runner().run(problem.size, work)
    check_finite_values(problem, results)
    return results


def integrated_gradients(problem: Problem, bounds: Bounds = DEFAULT_BOUNDS) -> MethodResult:
    """Integrate the gradient along the line from the mean of the background, which need not resemble a sample.

    Sundararajan et al. 2017, arXiv:1703.01365.
    """
    parts = problem.parts
    means = [None if p.background is None else p.background.mean(0, keepdim=True) for p in parts]
    has_several = any(p.background is not None and len(p.background) > 1 for p in parts)
    try:
        problem.parts = [replace(part, background=mean) for part, mean in zip(parts, means, strict=True)]
        # The score of the mean is not the mean of the scores, so it is computed at the starts of the lines.
        result = expected_gradients(
            problem, replace(bounds, nodes=max(bounds.nodes, 32), most=max(bounds.most or 0, 512))
        )
    finally:
        problem.parts = parts
    baseline = "the mean of the background" if has_several else "the one sample of the background"
    result.notes = [note for note in result.notes if note != SINGLE_BACKGROUND_NOTE]
    result.notes.append(f"the baseline is {baseline}")
    return result


def grad_cam(problem: Problem, layer: str | nn.Module | None = None) -> MethodResult:
    """Weight the channels of a layer by the mean gradient of the score, keep the positive part, resize to the input.

    Without ``layer``, uses the last layer whose output has spatial axes. Takes one forward and one backward pass. All
    channels of the input have the same value. Selvaraju et al. 2017, arXiv:1610.02391. Raises NotExplained for inputs
    without spatial axes.
    """
    part = problem.parts[0]
    if part.values.dim() not in _INTERPOLATION_MODES or part.call is not None:
        raise NotExplained(
            f"{part.name} is {tuple(part.values.shape)}; expected images or series, (N, C, positions …), for gradcam. "
            "Use method='expected_gradients'."
        )
    model = problem.module
    chosen_layer = None if layer is None else _find_layer(model, layer)
    heatmaps = torch.zeros(part.values.shape, dtype=torch.float64)
    layer_names: set[str] = set()

    def work(start: int, stop: int) -> None:
        sample_indices = torch.arange(start, stop, device=problem.device)
        activation, gradient, name = _layer_activation(problem, sample_indices, chosen_layer)
        layer_names.add(name)
        weights = gradient.flatten(2).mean(2)[(..., *[None] * (activation.dim() - 2))]
        heatmap = (weights * activation).sum(1, keepdim=True).relu()
        size, mode = part.values.shape[2:], _INTERPOLATION_MODES[part.values.dim()]
        if heatmap.dim() != part.values.dim():
            raise NotExplained(f"layer {name!r} gives {tuple(activation.shape)}; expected axes as in {part.name}.")
        resized = F.interpolate(heatmap, size=size, mode=mode, align_corners=False)
        heatmaps[start:stop] = resized.expand(-1, part.values.shape[1], *size).to("cpu", torch.float64)

    problem.chunk_runner().run(problem.size, work)
    check_finite_values(problem, [heatmaps, *[torch.zeros(1)] * (len(problem.parts) - 1)])
    problem.parts = problem.parts[:1]
    notes = [f"layer {min(layer_names)!r}; all channels share one value per position, and no value is negative"]
    if empty_maps := int((heatmaps.flatten(1).amax(1) == 0).sum()):
        notes.append(
            f"the map is empty for {empty_maps} of {len(heatmaps)} samples: this layer does not support the class"
        )
    return MethodResult([heatmaps], notes=notes)


def _find_layer(model: nn.Module, layer: str | nn.Module) -> nn.Module:
    names = dict(model.named_modules())
    match = (
        names.get(layer)
        if isinstance(layer, str)
        else next((module for module in names.values() if module is layer), None)
    )
    if match is None:
        convolutions = [name for name, module in names.items() if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d))]
        raise SetupError(
            f"layer is {layer!r}, which is not in the model; expected one such as {', '.join(convolutions[-3:])}. "
            "Choose one."
        )
    return match


def _layer_activation(
    problem: Problem, sample_indices: Tensor, chosen_layer: nn.Module | None
) -> tuple[Tensor, Tensor, str]:
    """Return the layer's output in its last call, the gradient of the score by it, and its name."""
    dim = problem.parts[0].values.dim()
    activations: dict[nn.Module, Tensor] = {}

    def save(module: nn.Module, _: Any, output: Any) -> Tensor | None:
        if (
            not isinstance(output, Tensor)
            or not output.requires_grad
            or (chosen_layer is None and not _is_feature_map(output, dim))
        ):
            return None
        activations.pop(module, None)
        activations[module] = output
        return output.clone()  # the next layer may modify its input in place

    model = problem.module
    hooked_modules = (
        [chosen_layer]
        if chosen_layer is not None
        else [submodule for submodule in model.modules() if submodule is not model]
    )
    if any(isinstance(submodule, torch.jit.ScriptModule) for submodule in hooked_modules):
        raise NotExplained("the model is TorchScript; expected Python layers for gradcam. Pass the model it came from.")
    with hooked(dict.fromkeys(hooked_modules, save)):
        points = [part.values[sample_indices].requires_grad_() for part in problem.parts]
        score = problem.scores_at(points, sample_indices)
    names = {module: name for name, module in model.named_modules()}
    for module, activation in reversed(activations.items()):
        (gradient,) = torch.autograd.grad(score.sum(), activation, allow_unused=True)
        if gradient is not None and activation.dim() > 2:
            return activation.detach(), gradient, names[module]
    raise NotDifferentiable(
        "no layer between input and score has an output (N, C, positions …); expected one, such as a convolution. "
        "Use method='expected_gradients', or pass layer="
    )


def _is_feature_map(output: Tensor, dim: int) -> bool:
    return output.dim() == dim and output[0, 0].numel() > 1
