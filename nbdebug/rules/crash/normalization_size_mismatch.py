"""X1007: a normalization takes another number of channels than its input has."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from nbdebug.crashes import Crash
from nbdebug.crashes.candidate_changes import changed_inputs
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.creations import find_layer_creation, set_layer_argument
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import Change, change_input
from nbdebug.crashes.layer_sizes import change_layer
from nbdebug.finding import format_module
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.edits import node_text, replace_node


@crash_rule("X1007")
def normalization_size_mismatch(crash: Crash) -> list[CrashCause] | None:
    """A normalization, or a recurrent layer, takes another number of features, or another layout, than its input has.

    ## What it does
    Reads the input of the layer that raised, and finds the axis that has the size that the layer takes.

    ## Why it matters
    The forward pass cannot run.

    ## How it is measured
    Exactly, by the shapes.

    ## How to fix
    Give the layer the size of the input, or move the axis where the layer expects it.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.nn.BatchNorm2d, torch.nn.LayerNorm and torch.nn.LSTM, section Shape.
    """
    layer, input = crash.layer, crash.layer_input
    if not isinstance(input, Tensor) or layer is None:
        return None
    if isinstance(layer, _BatchNorm):
        option, size, axis = "num_features", layer.num_features, 1
    elif isinstance(layer, nn.LayerNorm):
        option, size, axis = "normalized_shape", layer.normalized_shape[-1], input.dim() - 1
    elif isinstance(layer, nn.GroupNorm):
        option, size, axis = "num_channels", layer.num_channels, 1
    elif isinstance(layer, nn.RNNBase):
        option, size, axis = "input_size", layer.input_size, input.dim() - 1
    else:
        return None
    path = crash.path(layer)
    name = format_module(path) if path else type(layer).__name__
    message = f"The layer {name} ({type(layer).__name__}) takes {size} features on axis {axis}; "
    message += f"its input is {describe_tensor(input)}."
    dims = _dimensions(layer)
    if dims and input.dim() not in dims:
        found = CrashCause(message, "", module=path)
        missing = [
            c for c in changed_inputs(crash, found) if input.dim() + 1 in dims and "unsqueeze(0)" in c.edits[0].text
        ]
        repairs = [_other_axes(crash, layer, input, dims)]
    elif input.shape[axis] == size:
        return None
    else:
        missing, repairs = [], list(_other_sizes(crash, layer, input, option, size, axis))
    explanations = [
        CrashCause(message, cause, "" if change.edits else fix, change.edits, change.modules, module=path)
        for cause, change, fix in repairs
    ]
    return [*missing, *explanations]


def _dimensions(layer: nn.Module) -> tuple[int, ...]:
    """Return the numbers of axes that a layer takes."""
    kinds = ((nn.BatchNorm1d, (2, 3)), (nn.BatchNorm2d, (4,)), (nn.BatchNorm3d, (5,)), (nn.RNNBase, (2, 3)))
    return next((dims for kind, dims in kinds if isinstance(layer, kind)), ())


def _other_axes(crash: Crash, layer: nn.Module, input: Tensor, dims: tuple[int, ...]) -> tuple[str, Change, str]:
    cause = f"{type(layer).__name__} takes {' or '.join(map(str, dims))} axes, and the input has {input.dim()}."
    ones = [axis for axis in range(1, input.dim()) if input.shape[axis] == 1]
    if input.dim() > max(dims) and ones:
        template = f"{{}}.squeeze({ones[0]})"
        return f"{cause} Axis {ones[0]} has size 1: squeeze it.", change_input(crash, template), template.format("x")
    wanted = {2: "BatchNorm1d", 3: "BatchNorm1d", 4: "BatchNorm2d", 5: "BatchNorm3d"}.get(input.dim())
    creation = find_layer_creation(crash, layer)
    if isinstance(layer, _BatchNorm) and wanted and creation is not None:
        text = node_text(creation.file, creation.call.func).replace(type(layer).__name__, wanted)
        return f"{cause} {wanted} does.", Change((replace_node(creation.file, creation.call.func, text),)), wanted
    return cause, Change(), "# reshape the input"


def _other_sizes(
    crash: Crash, layer: nn.Module, input: Tensor, option: str, size: int, axis: int
) -> Iterator[tuple[str, Change, str]]:
    """Yield the repairs of a size: a transpose where another axis has it, and a layer of the size of the input."""
    other = [a for a in range(1, input.dim()) if input.shape[a] == size]
    if other:
        cause = f"The {size} features are on axis {other[0]}, not on the last axis, {axis}: transpose."
        if axis == 1:
            cause = f"The {size} features are on axis {other[0]}, and the layer takes them on axis 1: transpose."
        template = f"{{}}.transpose({min(axis, other[0])}, {max(axis, other[0])})"
        yield cause, change_input(crash, template), template.format("x")
    change = change_layer(crash, layer, option, input.shape[axis])
    edit = set_layer_argument(crash, layer, option, input.shape[axis]) if change is None else None
    cause = f"The input has {input.shape[axis]} features on axis {axis}, and the layer was made for {size}."
    yield cause, change or Change((edit,) if edit else ()), f"{option}={input.shape[axis]}"


def _normalized(features: int) -> Setup:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(features), nn.ReLU(), nn.Linear(8, 3))
    return minimal_setup(model, *points(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """Eight features for a normalization of six."""
    return _normalized(6)


def good() -> Setup:
    """Eight features for a normalization of eight."""
    return _normalized(8)
