"""G408: the scale of the activations grows or decays from layer to layer at initialization."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location, format_module
from nbdebug.formatting import join_names
from nbdebug.loop_monitor.conclusions import INITIAL_SCALE_HINDERS
from nbdebug.measurements.activations import LayerSpread, RecurrentGrowth, SampleSpread
from nbdebug.measurements.equal_units import EqualUnits
from nbdebug.measurements.hidden_softmax import HiddenSoftmax
from nbdebug.measurements.large_weights import LargeWeights
from nbdebug.measurements.position_tables import LargePositions
from nbdebug.rule_engine.initialization_edits import describe_removal, undo_initialization
from nbdebug.rule_engine.predictions import POOR_TRAINING, SLOW_START
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.setup.attribute_paths import member_code
from nbdebug.setup.initialization import initialization_line
from nbdebug.training.model_copy import RESET_PARAMETERS

_CONSEQUENCES = (
    *("L208", "M306", "M307", "G401", "G402", "G403", "G404", "G415", "G416"),
    *("O501", "O502", "T601", "T602", "T606", "T607", "T608", "T610", "T614"),
)
_MAX_STRETCH = 100.0  # times the gain: more than a matrix of independent weights can stretch its input
_NORM_TYPES = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
_MIN_SCALES, _MAX_SCALE, _MAX_IMBALANCE = 16, 0.2, 0.2  # torch starts the scales of normalization layers at 1
_MAX_NAMES = 6
_DEFAULT_GAIN = 3**-0.5  # the gain of a layer with torch's default initialization: uniform in ±1/√fan_in


@rule("G408", "warning", prediction=SLOW_START)
def init_scale(
    setup: Setup,
    sample_spread: SampleSpread | NotChecked,
    recurrent_growth: list[RecurrentGrowth] | NotChecked,
    hidden_softmax: HiddenSoftmax | NotChecked | None,
    large_positions: LargePositions | NotChecked | None,
    large_weights: LargeWeights | NotChecked | None,
    equal_units: EqualUnits | NotChecked | None,
    *,
    most: float = 1000.0,
    small: float = 0.5,
    large: float = 4.0,
    grown: float = 10.0,
    tiny: float = 0.02,
    progress: float = 0.25,
    drowned: float = 0.5,
    hindered: float = 0.5,
) -> Iterator[Finding]:
    """The scale of the activations grows or decays from layer to layer, or over the steps of a sequence.

    ## What it does
    Follows one batch through the layers, and compares the spread of the samples after the first layer with that before
    the last one. Follows the state of a recurrent layer with ReLU along the first batch.

    ## Why it matters
    The gradient is scaled in the same way: if each layer multiplies the signal by ten, it also multiplies the gradient
    by ten, and no single learning rate fits the first and the last layer. Scores that are too large are confident and
    wrong; if they are too small, training starts slowly.

    ## How it is measured
    By the standard deviation over the samples. Reported for a factor above ``most`` = 1000. Torch's default
    initialization also reduces signals with depth, which normalization and Adam tolerate: decay is only reported if the
    weights are, on the geometric mean, less than ``small`` = half as large as in torch's initialization. If they exceed
    ``large`` = 4 times 1/√fan_in in every layer, about three times the value that suits ReLU, a factor of ``grown`` =
    10 suffices: in few layers the weights are the better evidence. If samples move apart by more than the weights of a
    layer can stretch them, as at the first word of all sentences, nothing is reported.

    In a model of any depth, weights below ``tiny`` = 1/50 of torch's initialization in every layer are reported if they
    leave less than that share of the spread of the inputs. It is withdrawn if a watched run then ends below a tenth of
    the loss of a constant prediction.

    If the standard deviation of the weights exceeds 4 / √fan_in in every layer of a model of any depth, two copies are
    trained for 100 steps on the first batches with your optimizer, the second one with newly initialized weights.
    Reported if the loss of another batch falls less than ``hindered`` = half as much as in the second trial.

    If the weights of the units of a layer differ by less than 1/5 of their size, as those of a normal distribution
    around 1 do, all its channels are nearly equal. The rule then runs the same two trials.

    If a layer receives shares that sum to one, as from a softmax over n units, their spread is about 1/n. Two copies of
    the model are then trained for 60 steps on the first batches with your optimizer, one of them with that input times
    n. Reported if the loss of the model as it is falls by less than ``progress`` = a quarter of what the other trial
    gains, and withdrawn if the watched run converges; a note for a layer without a bias, as in a memory that is meant
    to mix its vectors. The weights of an attention, of a gate or of experts multiply activations and are not tried.
    The share was 1% to 23% in seven networks with a softmax in the place of a ReLU, and 44% to 93% in three
    memories and a topic model trained with Adam.

    Positions that are added before the first attention are tried in the same way, for 100 steps, if they differ more
    than 5 times as much from each other as the inputs of different samples do: in the other trial they are divided by
    that ratio. Reported if the model gains less than ``drowned`` = half of what that trial gains. Sinusoids have a
    ratio of 0.7 to embeddings of unit variance.

    The scales of normalization layers are drawn around zero if their mean absolute value over all layers is below 0.2,
    and 30% to 70% of at least 16 are negative. Layers of which all scales are zero do not count: they may end residual
    branches. It is withdrawn if the watched run converges.

    A recurrent state grows too fast if the second half of a sequence alone multiplies it by more than √``most``, and
    the inputs do not grow: a state that sums its inputs doubles there.

    ## How to fix
    Initialize for the activation (He for ReLU, Xavier for tanh), or normalize between the layers.

    ## When to ignore
    When the model is already trained, and trains well.

    ## References
    Glorot and Bengio 2010; He et al. 2015, arXiv:1502.01852, section 2.2: the variance after L layers is a product of L
    factors, which must be 1. The factor of 1000 is a choice: half of float16's resolution (2^11).
    """
    fastest = max(
        [] if isinstance(recurrent_growth, NotChecked) else recurrent_growth,
        key=lambda layer: layer.factor,
        default=None,
    )
    if fastest is not None and fastest.factor > math.sqrt(most):
        yield _at_initialization(setup, _recurrent_finding(fastest))
        return
    if _are_drawn_around_zero((scales := _norm_scales(setup.eager_model)).values()):
        yield _at_initialization(setup, _norm_finding(scales))
        return
    if isinstance(hidden_softmax, HiddenSoftmax) and hidden_softmax.trials.is_hindered(progress):
        yield _softmax_finding(hidden_softmax)
        return
    if isinstance(large_positions, LargePositions) and large_positions.trials.is_hindered(drowned):
        yield _positions_finding(large_positions)
        return
    if isinstance(equal_units, EqualUnits) and equal_units.trials.is_hindered(hindered):
        yield _equal_units_finding(setup, equal_units)
        return
    if isinstance(sample_spread, NotChecked):
        raise sample_spread
    layers = [layer for layer in sample_spread.passes[0].layers if layer.gain is not None]
    if len(layers) > 1 and _is_tiny(layers, tiny):
        yield _at_initialization(setup, _tiny_finding(layers, tiny))
        return
    if isinstance(large_weights, LargeWeights) and large_weights.trials.is_hindered(hindered):
        yield _at_initialization(setup, _large_finding(large_weights))
        return
    if len(layers) < 3 or not layers[1].std:
        raise NotChecked("needs at least three layers, and samples that still differ after the first one")
    ratio = layers[-1].std / layers[1].std
    if not math.isfinite(ratio):
        raise NotChecked("the activations are not finite")
    if any(
        next_layer.std > _MAX_STRETCH * max(next_layer.gain or 0.0, 1.0) * layer.std
        for layer, next_layer in pairwise(layers[1:])
    ):
        raise NotChecked("the samples are equal in one layer and differ in the next")
    is_growing = ratio > most or (ratio > grown and min(layer.gain or 0.0 for layer in layers) > large)
    if is_growing or (ratio < 1 / most and _mean_gain(layers) < small * _DEFAULT_GAIN):
        yield _at_initialization(setup, _finding(layers, ratio))


def _at_initialization(setup: Setup, finding: Finding) -> Finding:
    """Return a finding at the line that initializes its layer, if that is certain."""
    module = finding.where.module
    if module is None:
        return finding
    is_recurrent = isinstance(setup.eager_model.get_submodule(module), nn.RNNBase)
    line = initialization_line(setup, module, "weight_hh_l0" if is_recurrent else "weight")
    if line is None:
        return finding
    edits = undo_initialization(setup, line) if finding.setup_fix else ()
    return replace(finding, where=line.where(module), edits=edits)


def _norm_scales(model: nn.Module) -> dict[str, Tensor]:
    """Return the scales of the normalization layers by path; scales of zero start a residual branch on purpose."""
    scales = {path: module.weight for path, module in model.named_modules() if isinstance(module, _NORM_TYPES)}
    return {path: scale.detach() for path, scale in scales.items() if scale is not None and bool(scale.any())}


def _are_drawn_around_zero(scales: Collection[Tensor]) -> bool:
    """Return whether all scales together are small, with as many negative as positive ones."""
    values = torch.cat([scale.flatten().float().cpu() for scale in scales]) if scales else torch.zeros(0)
    is_certain = len(values) >= _MIN_SCALES
    negative_share = float((values < 0).float().mean()) if is_certain else 0.0
    return is_certain and float(values.abs().mean()) < _MAX_SCALE and abs(negative_share - 0.5) < _MAX_IMBALANCE


def _every(count: int, noun: str) -> str:
    """Return all layers of a kind in words: "both layers"."""
    if count < 3:
        return f"the only {noun}" if count == 1 else f"both {noun}s"
    return f"all {count} {noun}s"


def _norm_finding(scales: dict[str, Tensor]) -> Finding:
    """Report scales of normalization layers that an initializer drew like weights."""
    values = torch.cat([scale.flatten().float().cpu() for scale in scales.values()])
    mean, negative = float(values.abs().mean()), float((values < 0).float().mean())
    return Finding(
        message=f"The scales of {_every(len(scales), 'normalization layer')} are random numbers around zero: their "
        f"mean absolute value is {mean:.2g}, and {negative:.0%} of them are negative; torch starts them at 1.",
        where=Location(next(iter(scales))),
        cause="An initializer that is meant for weights was applied to the normalization layers too. Each layer then "
        f"passes on {mean:.2g} of a normalized signal.",
        fix="torch.nn.init.ones_(layer.weight)   # of each normalization layer, after the other initializations",
        setup_fix=RESET_PARAMETERS,
        evidence={"layers": len(scales), "mean scale": mean, "negative": negative},
        explains=(*_CONSEQUENCES, "G409", "E702", "E709"),
        predicts=POOR_TRAINING.claim,
    )


def _recurrent_finding(growth: RecurrentGrowth) -> Finding:
    factor_per_step, name = growth.factor ** (2 / growth.steps), member_code(growth.module)
    return Finding(
        message=f"The hidden state of {name} grows by a factor of {growth.factor:.2g} from the middle to the end of a "
        f"sequence of {growth.steps} steps (about {factor_per_step:.2g} per step); a factor of at most 2 is usual.",
        where=Location(growth.module or None),
        cause="ReLU does not bound the state, and the recurrent weights increase it at each step.",
        fix=f"torch.nn.init.orthogonal_({name}.weight_hh_l0)   # or the identity; or nonlinearity='tanh'",
        evidence={"steps": growth.steps, "factor": growth.factor, "a step": factor_per_step},
        explains=_CONSEQUENCES,
    )


def _softmax_finding(softmax: HiddenSoftmax) -> Finding:
    """Report a softmax between layers."""
    name, trials = format_module(softmax.layer.module or ""), softmax.trials
    return Finding(
        message=f"The input of {name} is a softmax over {softmax.width} units, so its values are about "
        f"1/{softmax.width}. In a trial of {trials.steps} steps, the loss fell from {trials.initial_loss:.3g} to "
        f"{trials.loss:.3g}, and to {trials.changed_loss:.3g} with that input times {softmax.width}.",
        where=softmax.where,
        cause="A softmax stands in the place of an activation function. It divides the signal, and in the backward "
        "pass the gradient, by the number of units.",
        fix="act = torch.nn.ReLU()   # instead of a softmax between layers",
        evidence={
            "width": softmax.width,
            "loss": [trials.initial_loss, trials.loss],
            "loss with scaled input": [trials.changed_initial_loss, trials.changed_loss],
        },
        explains=(*_CONSEQUENCES, "G409", "E709"),
        predicts=POOR_TRAINING.claim,
        severity="note" if softmax.is_mixture else None,
    )


def _positions_finding(positions: LargePositions) -> Finding:
    """Report positions that drown the tokens."""
    trials = positions.trials
    return Finding(
        message=f"Positions make up {positions.share:.2%} of the variance of this sum: they differ "
        f"{positions.ratio:.3g} times as much from each other as the inputs of different samples. In a trial of "
        f"{trials.steps} steps, the loss fell from {trials.initial_loss:.3g} to {trials.loss:.3g}, and to "
        f"{trials.changed_loss:.3g} with positions divided by {positions.ratio:.3g}.",
        where=positions.where,
        cause="The positions are larger than the embedded inputs, so each layer sees hardly anything else.",
        fix="x = math.sqrt(width) * self.embed(tokens) + self.positions   # terms of one scale",
        evidence={
            "ratio": positions.ratio,
            "share": positions.share,
            "loss": [trials.initial_loss, trials.loss],
            "loss with smaller positions": [trials.changed_initial_loss, trials.changed_loss],
        },
        explains=(*_CONSEQUENCES, "G409", "E709", "M322"),
        predicts=POOR_TRAINING.claim,
    )


def _is_tiny(layers: Sequence[LayerSpread], tiny: float) -> bool:
    """Return whether every layer has tiny weights, and little of the spread of the inputs arrives at the last one."""
    largest_gain = max(layer.gain or 0.0 for layer in layers)
    return 0 < largest_gain < tiny * _DEFAULT_GAIN and 0 < layers[-1].std < tiny * min(layers[0].std, 1.0)


def _tiny_finding(layers: Sequence[LayerSpread], tiny: float) -> Finding:
    """Report weights that are tiny in every layer."""
    gains = [layer.gain or 0.0 for layer in layers]
    worst = layers[min(range(len(gains)), key=gains.__getitem__)]
    return Finding(
        message=f"The weights of {_every(len(layers), 'layer')} are tiny: their standard deviation is "
        f"{min(gains):.2g} to {max(gains):.2g} / √fan_in, and 0.58 / √fan_in in torch's initialization (limit "
        f"{tiny * _DEFAULT_GAIN:.2g}). The standard deviation over the samples is {layers[0].std:.2g} in the input and "
        f"{layers[-1].std:.2g} at the last layer.",
        where=worst.where,
        cause="Each layer shrinks the signal, and in the backward pass the gradient: training starts slowly or never.",
        fix="torch.nn.init.kaiming_normal_(layer.weight, nonlinearity='relu')   # of each layer, with zero biases",
        setup_fix=RESET_PARAMETERS,
        evidence={"scale": [layer.std for layer in layers], "gain": gains},
        explains=(*_CONSEQUENCES, "O502", "T604", "T606", "T610", "T614"),
        assumes=(INITIAL_SCALE_HINDERS,),
    )


def _large_finding(weights: LargeWeights) -> Finding:
    """Report weights that are large in every layer."""
    gains, trials = weights.gains, weights.trials
    return Finding(
        message=f"The weights of {_every(len(gains), 'layer')} are large: their standard deviation is "
        f"{min(gains):.2g} to {max(gains):.2g} / √fan_in, and 0.58 / √fan_in in torch's initialization. In a trial of "
        f"{trials.steps} steps, the loss of another batch went from {trials.initial_loss:.3g} to {trials.loss:.3g}. "
        "With newly initialized weights, this loss went from "
        f"{trials.changed_initial_loss:.3g} to {trials.changed_loss:.3g}.",
        where=weights.where,
        cause="Each layer enlarges the signal, so the first predictions are confident and wrong. Training spends its "
        "first steps on undoing that, and units far from zero rarely switch on or off.",
        fix="for module in model.modules():\n    if hasattr(module, 'reset_parameters'):\n        "
        "module.reset_parameters()   # torch's initialization",
        setup_fix=RESET_PARAMETERS,
        evidence={
            "gain": list(gains),
            "loss": [trials.initial_loss, trials.loss],
            "loss with new weights": [trials.changed_initial_loss, trials.changed_loss],
        },
        explains=(*_CONSEQUENCES, "G409", "E709", "O508"),
        predicts=POOR_TRAINING.claim,
    )


def _equal_units_finding(setup: Setup, units: EqualUnits) -> Finding:
    """Report layers whose units start nearly equal, at the line that initializes the first of them."""
    trials, paths = units.trials, list(units.moments)
    first, (mean, deviation) = next(iter(units.moments.items()))
    is_offset = abs(mean) > deviation
    line = initialization_line(setup, first)
    edits = undo_initialization(setup, line)
    layers = (
        "The weights of the only layer" if units.total == 1 else f"The weights of {len(paths)} of {units.total} layers"
    )
    listed = join_names([format_module(path) for path in paths], _MAX_NAMES)
    return Finding(
        message=f"{layers} ({listed}) start nearly equal in all units. In {format_module(first)}, their mean is "
        f"{mean:.2g} and their standard deviation {deviation:.2g}. In a trial of {trials.steps} steps, the loss of "
        f"another batch went from {trials.initial_loss:.3g} to {trials.loss:.3g}. With newly initialized weights, this "
        f"loss went from {trials.changed_initial_loss:.3g} to {trials.changed_loss:.3g}.",
        where=line.where(first) if line else Location(first or None),
        cause=(
            "The mean of the weights is far larger than their spread. Each unit adds up its inputs with nearly the "
            "same weight, so all channels of a layer are nearly equal, and they grow from layer to layer."
            if is_offset
            else "The weights of the units are copies of one row with small changes, so all channels of a layer are "
            "nearly equal."
        ),
        fix=describe_removal(line) if edits else _fresh_weights(paths),
        edits=edits,
        setup_fix=RESET_PARAMETERS,
        evidence={
            "moments": {path: list(moments) for path, moments in units.moments.items()},
            "loss": [trials.initial_loss, trials.loss],
            "loss with new weights": [trials.changed_initial_loss, trials.changed_loss],
        },
        explains=(*_CONSEQUENCES, "G409", "G410", "G412", "G413", "E702", "E703", "E706", "E709", "O508", "M314"),
        predicts=POOR_TRAINING.claim,
    )


def _fresh_weights(paths: Sequence[str]) -> str:
    """Return code that gives layers the initialization of torch."""
    return (
        f"for path in {list(paths)!r}:   # before the optimizer is created\n"
        "    model.get_submodule(path).reset_parameters()"
    )


def _mean_gain(layers: Sequence[LayerSpread]) -> float:
    logs = [math.log(max(layer.gain or 0.0, 1e-12)) for layer in layers[1:-1]]
    return math.exp(sum(logs) / len(logs))


def _finding(layers: Sequence[LayerSpread], ratio: float) -> Finding:
    """The factor over all layers, and the layer that contributes most to it."""
    factors = [after.std / before.std if before.std else 0.0 for before, after in pairwise(layers[1:])]
    worst_index = max(range(len(factors)), key=lambda i: factors[i] if ratio > 1 else -factors[i])
    worst_layer, factor_per_layer = layers[1 + worst_index], ratio ** (1 / len(factors))
    total_factor = max(ratio, 1 / ratio) if ratio else math.inf
    name = format_module(worst_layer.where.module or worst_layer.name)
    return Finding(
        message=f"The activations {'grow' if ratio > 1 else 'shrink'} by a factor of {total_factor:.2g} from the first "
        "layer to the last (standard deviation over the samples). The ratio of one layer to the previous one is about "
        f"{factor_per_layer:.2g}, and {factors[worst_index]:.2g} in {name}; it should be near 1.",
        where=worst_layer.where,
        cause=f"The standard deviation of the weights of {name} is {worst_layer.gain:.2g} / √fan_in; 1.4 / √fan_in "
        "suits ReLU, and 1 / √fan_in suits tanh.",
        fix="torch.nn.init.kaiming_normal_(layer.weight, nonlinearity='relu')   # of each layer, with zero biases",
        setup_fix=RESET_PARAMETERS,
        evidence={
            "scale": [layer.std for layer in layers],
            "gain": [layer.gain for layer in layers],
            "ratio": ratio,
            "ratio of neighbors": factor_per_layer,
            "worst ratio of neighbors": float(factors[worst_index]),
        },
        explains=_CONSEQUENCES,
    )


def _deep_setup(std: float) -> Setup:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [module for _ in range(5) for module in (nn.Linear(16, 16), nn.ReLU())]
        model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), *layers, nn.Linear(16, 3))
        for layer in list(model)[:-1]:
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=std)
                nn.init.zeros_(layer.bias)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """Weights with a standard deviation of 2, not scaled by the fan-in."""
    return _deep_setup(2.0)


def good() -> Setup:
    """The initialization for ReLU: the root of two over the fan-in."""
    return _deep_setup((2 / 16) ** 0.5)
