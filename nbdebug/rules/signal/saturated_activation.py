"""G402: sigmoids, tanhs or attention weights are saturated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from nbdebug.autograd import Node
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.measurements.activations import Saturation
from nbdebug.measurements.oversized_tensors import large_layer_weights
from nbdebug.records import Record
from nbdebug.records.layer_signals import (
    describe_values,
    get_layer_signal,
    layer_weights,
    module_of_output,
    module_of_parameter,
)
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.setup.initialization import initialization_line
from nbdebug.source.location import add_line

_MAX_SATURATED_SHARE = 0.75
_LARGE_GAIN = 3.0  # the usual standard deviation of weights is at most 1.7 / √fan_in
_USUAL_GAIN, _MAX_NAMES = "1 / √fan_in suits sigmoid and tanh", 6
_LARGE_BIAS = 2.0  # where the slope of a sigmoid is 0.1
_LARGE_GROWTH = 2.0
_LARGE_INPUTS_IN_TRAINING = "The inputs of these activations are large"
_NORMALIZE = "Standardize the inputs of the model, or normalize the values before this activation, as by nn.LayerNorm."
_LARGE_INPUTS = "The inputs of the activation are large: the data are not scaled, or the initial weights are large."
_LARGE_QUERIES = (
    "The queries and keys are so large that the scores are large in spite of their factor.",
    "Normalize the input of the queries and keys, as by nn.LayerNorm, and keep their default weights.",
)
_UNSCALED_SCORES = (
    "Either the scores are not divided by sqrt(d), or the queries and keys are large.",
    "scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])",
)
_MIN_SPREAD = 0.25  # below this standard deviation, all values lie at one bound, as for an open gate

_CONSEQUENCES = ("G403", "G409", "T601", "T606", "T607", "T608", "T610")
_IN_TRAINING = "in training"


@rule("G402", "warning")
def saturated_activation(
    setup: Setup,
    saturation: list[Saturation] | NotChecked,
    record: Record | NotChecked,
    *,
    most: float = _MAX_SATURATED_SHARE,
) -> Iterator[Finding]:
    """Sigmoids or tanhs inside the model, or the softmax of an attention, are saturated.

    ## What it does
    Reads the output of each hidden sigmoid and tanh, and of each softmax over attention scores, for the first batch.
    Reported when more than ``most`` of the values (for a softmax: of the rows) lie where the derivative is less than a
    hundredth of its maximum. The finding names the first such activation of the model and counts the others. After your
    loop was watched, the same is checked for sigmoid and tanh modules over the second half of the run.

    ## Why it matters
    Layers before a saturated activation get almost no gradient. An attention that puts all its weight on one position
    can hardly learn to attend to others.

    ## How it is measured
    On the first batch, before training: a sigmoid beyond -6 and 6, a tanh beyond -3 and 3, a softmax with more
    than 99.5% of its weight on one of several unmasked positions. Activations at the end of the model are covered by
    the rules about losses. In training, values count as saturated within 3% of a bound; a module that no layer of its
    part of the model follows is not checked, and neither is a gate whose values all lie at one bound.

    ## How to fix
    Scale the inputs of the activation: model inputs to mean 0 and standard deviation 1, weights by
    ``nn.init.xavier_uniform_``, and attention scores by ``1 / sqrt(d)``.

    ## When to ignore
    When a gate starts closed, or an attention sharp, on purpose.

    ## References
    Glorot and Bengio 2010, Understanding the difficulty of training deep feedforward neural networks. Vaswani et al.
    2017, arXiv:1706.03762, section 3.2.1: dividing by sqrt(d), since large scores leave softmax without a gradient.
    """
    if isinstance(record, Record):
        yield from _findings_in_training(setup, record, most)
    elif isinstance(saturation, NotChecked):
        raise saturation
    elif over_limit := [activation for activation in saturation if activation.saturated_share > most]:
        finding, layer = _finding(over_limit[-1], len(over_limit), most), _layer_before(setup, over_limit[-1].node)
        line = initialization_line(setup, layer) if layer else None
        if layer and not _is_softmax(over_limit[-1].node):
            cause, fix = _explain_layer(setup, layer)
            finding = replace(finding, cause=cause, fix=fix)
        yield replace(finding, where=add_line(finding.where, line)) if line else finding


def _layer_before(setup: Setup, node: Node) -> str | None:
    """Return the module with a weight whose output an activation gets, through any operations without one."""
    before: Node | None = node
    while before is not None:
        if before.module and hasattr(setup.eager_model.get_submodule(before.module), "weight"):
            return before.module
        before = before.inputs[0] if before.inputs else None
    return None


def _explain_layer(setup: Setup, layer: str) -> tuple[str, str]:
    """Return whether the weights, the biases or the inputs of a layer make its outputs large, and what to do."""
    module = setup.eager_model.get_submodule(layer)
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    name = f"{layer}.weight"
    if isinstance(weight, Tensor) and weight.dim() > 1:
        values = weight.detach().float()
        if (gain := float(values.std()) * values[0].numel() ** 0.5) > _LARGE_GAIN:
            return _explain_weights({**large_layer_weights(setup, _LARGE_GAIN), name: gain})
    if isinstance(bias, Tensor) and (size := float(bias.detach().float().abs().median())) > _LARGE_BIAS:
        name = f"{layer}.bias"
        return (
            f"The values of {name} are large: the median of their magnitudes is {size:.2g}.",
            f"torch.nn.init.zeros_(model.get_parameter({name!r}))",
        )
    return (
        f"The inputs of {layer} are large; its weights have a usual scale.",
        f"Standardize the inputs of the model, or normalize those of {layer}, as by nn.LayerNorm.",
    )


def _explain_weights(gains: dict[str, float]) -> tuple[str, str]:
    """Return what weights with a large standard deviation, relative to 1 / √fan_in, are, and how to draw all again."""
    names = [*gains]
    if len(names) == 1:
        return (
            f"The standard deviation of {names[0]} is {gains[names[0]]:.2g} / √fan_in; {_USUAL_GAIN}.",
            f"torch.nn.init.xavier_uniform_(model.get_parameter({names[0]!r}))",
        )
    shown = ", ".join(f"{name} ({gain:.2g})" for name, gain in [*gains.items()][:_MAX_NAMES])
    more = f", and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return (
        f"The standard deviations of {len(names)} weights are large, as multiples of 1 / √fan_in: {shown}{more}; "
        f"{_USUAL_GAIN}.",
        f"for name in {names!r}:\n    torch.nn.init.xavier_uniform_(model.get_parameter(name))",
    )


def _is_softmax(node: Node) -> bool:
    return node.name == "Softmax"


def _finding(activation: Saturation, count: int, max_share: float) -> Finding:
    node, call = activation.node, activation.node.name.lower()
    unit, cause, fix = "values", _LARGE_INPUTS, "Standardize the inputs of the model, or keep the default weights."
    if _is_softmax(node):
        is_scaled = bool(node.inputs) and node.inputs[0].name in ("Div", "Mul")
        unit, cause, fix = ("rows", *(_LARGE_QUERIES if is_scaled else _UNSCALED_SCORES))
    more = f"; {count - 1} more activation{'s are' if count > 2 else ' is'} saturated too" if count > 1 else ""
    return Finding(
        message=f"{activation.saturated_share:.0%} of the {unit} of a {call} are saturated before training (limit "
        f"{max_share:.0%}){more}.",
        where=node.where,
        cause=cause,
        fix=fix,
        evidence={"share": activation.saturated_share, "activations": count, "call": call},
        explains=(*_CONSEQUENCES, *(() if _is_softmax(node) else (f"G402:{_IN_TRAINING}",))),
    )


def _findings_in_training(setup: Setup, record: Record, max_share: float) -> Iterator[Finding]:
    shares = get_layer_signal(record, "activation.saturated")
    hidden_kinds = _hidden_modules(record)
    names = [name for name in shares.names if hidden_kinds.get(module_of_output(name)) in ("Sigmoid", "Tanh")]
    if not names:
        raise NotChecked("no sigmoid or tanh module is followed by another layer")
    late_share, spread = (
        shares.select(names).second_half.median,
        get_layer_signal(record, "activation.std", names).second_half.median,
    )
    over_limit = [i for i in range(len(names)) if late_share[i] > max_share and spread[i] > _MIN_SPREAD]
    if not over_limit:
        return
    others = [share for i, share in enumerate(late_share.tolist()) if i not in over_limit]
    comparison = f"at most {max(others):.0%} in the others" if others else "all such layers are affected"
    saturated = [names[i] for i in over_limit]
    cause, fix = _explain_growth(setup, record, module_of_output(saturated[0]))
    yield Finding(
        message=f"In {len(saturated)} of {len(names)} activations, more than {max_share:.0%} of the values are "
        f"saturated in training (share of values): {describe_values(saturated, late_share[over_limit])}; {comparison}.",
        where=Location(saturated[0]),
        cause=cause,
        fix=fix,
        evidence={"modules": saturated, "share": late_share[over_limit].tolist(), "others": others},
        explains=_CONSEQUENCES,
        aspect=_IN_TRAINING,
    )


def _explain_growth(setup: Setup, record: Record, module: str) -> tuple[str, str]:
    """Return whether the weights before an activation have grown in training, and what to do."""
    order = [item.name for item in record.modules]
    earlier = {*order[: order.index(module)]} if module in order else set()
    weights = [name for name in layer_weights(record) if module_of_parameter(name) in earlier]
    try:
        growth = get_layer_signal(record, "weight.norm", weights[-1:])
    except NotChecked:  # no weights before the activation, or too few of their norms are recorded
        return f"{_LARGE_INPUTS_IN_TRAINING}.", _NORMALIZE
    factor, name = float(growth.largest[0] / growth.values[0, 0]), weights[-1]
    if factor > _LARGE_GROWTH:
        return (
            f"Training has increased the norm of {name} to {factor:.2g} times its initial value.",
            "Train again with a lower learning rate; if the model's inputs are not standardized, standardize them.",
        )
    weight = dict(setup.eager_model.named_parameters()).get(name)
    # The first norm is that before training, or close to it; the root mean square is that of one row's sums.
    gain = float(growth.values[0, 0]) / len(weight) ** 0.5 if weight is not None and weight.dim() > 1 else 0.0
    if gain > _LARGE_GAIN:
        return (
            f"The initial weights are large: at the first measured step, the root mean square of {name} is "
            f"{gain:.2g} / √fan_in; {_USUAL_GAIN}. Training has not increased the norm much.",
            f"torch.nn.init.xavier_uniform_(model.get_parameter({name!r}))   # before training",
        )
    return (
        f"{_LARGE_INPUTS_IN_TRAINING}, and the weights before them have hardly grown: the data are not scaled, or "
        "earlier layers enlarge them.",
        _NORMALIZE,
    )


def _hidden_modules(record: Record) -> dict[str, str]:
    """The kinds of modules that a layer follows in the same part; the end of a part may be saturated."""
    parts = {module.name.partition(".")[0] for module in record.modules if "." in module.name}
    last: dict[str, int] = {}
    for i, module in enumerate(record.modules):
        if module.parameters:
            last[_enclosing_child(module.name, parts)] = i
    return {
        module.name: module.kind
        for i, module in enumerate(record.modules)
        if i < last.get(_enclosing_child(module.name, parts), -1)
    }


def _enclosing_child(name: str, parts: set[str]) -> str:
    """The child of the model that contains a module; empty for modules directly in the model."""
    first = name.partition(".")[0]
    return first if first in parts else ""


def _tanh_setup(std: float) -> Setup:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
        nn.init.normal_(model.get_parameter("0.weight"), std=std)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """Weights that are a hundred times too large."""
    return _tanh_setup(50.0)


def good() -> Setup:
    """Weights scaled to the width of the input."""
    return _tanh_setup(0.5)
