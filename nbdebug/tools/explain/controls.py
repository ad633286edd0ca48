"""What can be chosen on the page: classes, engines, backgrounds and layers that apply."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from nbdebug.attribution import ENGINES
from nbdebug.attribution.engines import FEATURES
from nbdebug.tools.explain.asked import NAMES
from nbdebug.tools.explain.told import class_names

if TYPE_CHECKING:
    from nbdebug.tools.explain.result import Explanation

OF_SHAP = ("permutation", "kernel", "partition", "tree")
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def controls(explanation: Explanation) -> dict[str, Any]:
    """All choices, ready for JSON."""
    return {
        "targets": targets(explanation),
        "methods": [
            {"name": name, "says": ENGINES[name].says, "background": ENGINES[name].background}
            for name in methods(explanation)
        ],
        "backgrounds": [
            {"name": name, "says": says}
            for name, says in NAMES.items()
            if explanation.background is not None or name not in ("data", "mean")
        ],
        "layers": layers(explanation),
    }


def targets(explanation: Explanation) -> list[dict[str, Any]]:
    """The classes that can be explained."""
    return [{"class": at, "name": name} for at, name in enumerate(class_names(explanation))]


def methods(explanation: Explanation) -> list[str]:
    """The engines that apply to a model of this kind; "auto" comes first."""
    gradients = isinstance(explanation.model, nn.Module)
    features = int(np.prod(explanation.attribution.flat.shape[1:]))
    shap = find_spec("shap") is not None
    found = []
    for name, engine in ENGINES.items():
        if engine.gradients and not gradients:
            continue
        if name in OF_SHAP and (not shap or (name == "tree") is gradients):
            continue
        if name in ("shapley", "permutation", "kernel", "partition") and features > FEATURES:
            continue
        if name == "gradcam" and not layers(explanation):
            continue
        found.append(name)
    return found


def layers(explanation: Explanation) -> list[str]:
    """The layers whose output has places, the last first."""
    model = explanation.model
    if not isinstance(model, nn.Module):
        return []
    return [name for name, one in model.named_modules() if isinstance(one, CONVOLUTIONS)][::-1][:100]
