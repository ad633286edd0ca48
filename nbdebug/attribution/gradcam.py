"""Grad-CAM: where in the picture a layer found what speaks for the class."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.attribution.found import Found, refuse_nan
from nbdebug.attribution.hooks import hooked
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.refusals import NotDifferentiable, NotExplained
from nbdebug.exceptions import SetupError

MODES = {3: "linear", 4: "bilinear", 5: "trilinear"}


def grad_cam(problem: Problem, layer: str | nn.Module | None = None) -> Found:
    """The channels of a layer, weighted by the mean gradient of the score, where they speak for it; size of the input.

    Without ``layer`` the last one whose output has places is taken. One pass forward and one backward. All channels of
    the input have the same value. Selvaraju et al. 2017, arXiv:1610.02391. Raises NotExplained without places.
    """
    part = problem.parts[0]
    if part.values.dim() not in MODES or part.call is not None:
        raise NotExplained(
            f"{part.name} is {tuple(part.values.shape)}; expected pictures or series, (N, C, places …), for gradcam. "
            "Use method='expected_gradients'."
        )
    modules = problem.module
    wanted = None if layer is None else named_layer(modules, layer)
    found = torch.zeros(part.values.shape, dtype=torch.float64)
    said: set[str] = set()

    def work(start: int, stop: int) -> None:
        owners = torch.arange(start, stop, device=problem.home)
        activation, gradient, name = seen(problem, owners, wanted)
        said.add(name)
        weights = gradient.flatten(2).mean(2)[(..., *[None] * (activation.dim() - 2))]
        map_ = (weights * activation).sum(1, keepdim=True).relu()
        size, mode = part.values.shape[2:], MODES[part.values.dim()]
        if map_.dim() != part.values.dim():
            raise NotExplained(f"layer {name!r} gives {tuple(activation.shape)}; expected places as in {part.name}.")
        wide = F.interpolate(map_, size=size, mode=mode, align_corners=False)
        found[start:stop] = wide.expand(-1, part.values.shape[1], *size).to("cpu", torch.float64)

    problem.chunks().over(problem.size, work)
    refuse_nan(problem, [found, *[torch.zeros(1)] * (len(problem.parts) - 1)])
    problem.parts = problem.parts[:1]
    notes = [f"layer {min(said)!r}; a place has one value for all channels, and none is negative"]
    if empty := int((found.flatten(1).amax(1) == 0).sum()):
        notes.append(f"in {empty} of {len(found)} samples nothing that this layer gives speaks for the class")
    return Found([found], notes=notes)


def named_layer(model: nn.Module, layer: str | nn.Module) -> nn.Module:
    """A layer by its name or itself; raises SetupError for one that there is not."""
    names = dict(model.named_modules())
    found = names.get(layer) if isinstance(layer, str) else next((one for one in names.values() if one is layer), None)
    if found is None:
        with_places = [name for name, one in names.items() if isinstance(one, (nn.Conv1d, nn.Conv2d, nn.Conv3d))]
        raise SetupError(
            f"layer is {layer!r}, which the model does not have; expected one such as {', '.join(with_places[-3:])}. "
            "Choose one."
        )
    return found


def seen(problem: Problem, owners: Tensor, wanted: nn.Module | None) -> tuple[Tensor, Tensor, str]:
    """What the layer gave in its last call, the gradient of the score by it, and its name."""
    dim = problem.parts[0].values.dim()
    kept: dict[nn.Module, Tensor] = {}

    def keep(module: nn.Module, _: Any, output: Any) -> Tensor | None:
        if (
            not isinstance(output, Tensor)
            or not output.requires_grad
            or (wanted is None and not has_places(output, dim))
        ):
            return None
        kept.pop(module, None)
        kept[module] = output
        return output.clone()  # what comes next may write into what it is given

    model = problem.module
    looked = [wanted] if wanted is not None else [one for one in model.modules() if one is not model]
    if any(isinstance(one, torch.jit.ScriptModule) for one in looked):
        raise NotExplained("the model is TorchScript; expected Python layers for gradcam. Pass the model it came from.")
    with hooked(looked, keep):
        points = [part.values[owners].requires_grad_() for part in problem.parts]
        score = problem.values(points, owners)
    names = {module: name for name, module in model.named_modules()}
    for module, activation in reversed(kept.items()):
        (gradient,) = torch.autograd.grad(score.sum(), activation, allow_unused=True)
        if gradient is not None and activation.dim() > 2:
            return activation.detach(), gradient, names[module]
    raise NotDifferentiable(
        "no layer gives (N, C, places …) on the way from input to score; expected one, as of convolutions. "
        "Use method='expected_gradients', or say which layer="
    )


def has_places(output: Tensor, dim: int) -> bool:
    """Whether an output is a map with more than one place."""
    return output.dim() == dim and output[0, 0].numel() > 1
