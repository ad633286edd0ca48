"""G401: units behind a ReLU are zero for every sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding, Location
from nbdebug.loss_curves.run_summary import RunSummary, get_run_summary
from nbdebug.records import Record
from nbdebug.records.layer_signals import (
    Flags,
    Values,
    describe_values,
    get_layer_signal,
    module_of_output,
    recorded_batch_size,
    value_counts,
)
from nbdebug.rule_engine.initialization_edits import undo_initialization
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, points, train
from nbdebug.setup import Setup
from nbdebug.setup.initialization import initialization_line
from nbdebug.tensors.unit_activity import DEAD_UNIT_WINDOW, MAX_VALUES

_BOTTLENECK_UNITS = 8.0  # units of a bottleneck, some of which a network may not need
_MIN_RISE = 0.25
_USUAL_INACTIVE_SHARE = 0.3  # of the units may be inactive in a snapshot of any healthy layer
_FIRST_SNAPSHOTS = 3
_MIN_ZERO_SHARE = 0.95  # of the dead units must be zero in a snapshot: a gradient can be zero for other reasons
_MIN_ACTIVITY_RATIO = 5.0
_POOR_SHARE = 0.5  # of the loss of a constant prediction, as in the rules on underfitting
_MIN_GAIN, _MIN_STANDARD_ERRORS = 0.05, 5.0  # of a loss below that of a constant prediction, without doubt
_GOOD_SHARE = 0.2  # of the loss of a constant prediction
_WHOLE_LAYER = 0.95  # of the units of a layer, which then passes on almost nothing
_LOW_BIAS = -1.0  # what a unit of usual weights and standardized inputs seldom makes up for
_NEGATIVE_SHARE = 0.5
_LASTING_QUANTILE = 0.25  # of the snapshots: dead units stay dead, those that a batch of few rows leaves out do not


@rule("G401", "warning")
def dead_relu(
    record: Record, setup: Setup | NotChecked, *, most: float = 0.75, rising: float = 0.5
) -> Iterator[Finding]:
    """Units behind a ReLU are zero for every sample.

    ## What it does
    Counts, for each layer, the units (channels of a convolution) that no sample of the last snapshots activates.

    ## Why it matters
    A unit that is zero for all samples gets no gradient and stays zero. A layer with dead units is effectively
    narrower; one with only dead units cuts off everything before it.

    ## How it is measured
    By the share that three quarters of the snapshots in the second half reach: more than ``most`` = 75% of a layer, or
    more than ``rising`` = 50% if that share has risen by a quarter since the start. If a snapshot contains few samples,
    units that are rarely active look dead too; they are recognized by the other units, which are then hardly active
    either. A bottleneck of eight units or fewer must be entirely dead. A bias before the ReLU whose gradient is exactly
    zero also indicates a dead unit, and is the only indication if the activation is a function or a module of your own.
    If a layer has no gradient at all, but an earlier layer has one, it is a branch that was not selected and not a
    layer of dead units. Up to ``most``, the finding is a note unless the run is known to have learned little: wide
    layers have units to spare. Without a score, a loss at least 5% below that of a constant prediction counts as
    learned here, because the lowest attainable loss is unknown. It is a note, too, after a run that ends below a fifth
    of the loss of a constant prediction, unless almost the whole layer is dead.

    ## How to fix
    Use a lower learning rate or a warm-up, biases that start at zero, LeakyReLU or GELU.

    ## When to ignore
    When units are meant to be active rarely, as in a sparse code.

    ## References
    Lu et al. 2019, arXiv:1903.06733, Dying ReLU and initialization. The rule of Amazon SageMaker Debugger considers a
    unit dead if it is active less than 1% of the time, and reports a layer in which more than half of the units are
    dead.
    """
    biases = _biases_before(record)
    layers = [*_relu_layers(record, biases), *_functional_relu_layers(record, biases)]
    if not layers:
        raise NotChecked("no ReLU, and no bias before one, was sampled often enough")
    affected = [
        layer
        for layer in layers
        if layer.share > most or (layer.share > rising and layer.share > layer.first + _MIN_RISE)
    ]
    if affected:
        largest = max(layer.share for layer in affected)
        is_spare = largest <= most and not _is_known_to_be_poor(record)
        is_harmless = is_spare or (largest < _WHOLE_LAYER and _is_known_to_be_good(record))
        finding = _finding(affected, layers, biases)
        if isinstance(setup, Setup):
            finding = _with_bias(setup, finding)
        edits = _bias_edits(setup, finding.where.parameter) if isinstance(setup, Setup) else ()
        yield replace(finding, edits=edits, severity="note" if is_harmless else None)


def _is_known_to_be_poor(record: Record) -> bool:
    """Return whether the run is known to have learned little, by its loss and by its score on fixed samples.

    Without a score, a loss that is clearly below that of a constant prediction does not tell: many losses, such as the
    evidence lower bound, cannot get far below it.
    """
    try:
        run = get_run_summary(record)
    except NotChecked:
        return False
    if run.is_finite and run.beats_constant is None and _is_clearly_below_constant(run):
        return False
    share = run.remaining_share
    return not run.is_finite or (not run.beats_constant and share is not None and share > _POOR_SHARE)


def _is_clearly_below_constant(run: RunSummary) -> bool:
    if run.chance is None:
        return False
    gain = run.chance - run.end
    return gain > _MIN_GAIN * (run.chance - run.floor) and gain > _MIN_STANDARD_ERRORS * run.end_error


def _is_known_to_be_good(record: Record) -> bool:
    """Return whether the run ended far below the loss of a constant prediction: the other units suffice."""
    try:
        run = get_run_summary(record)
    except NotChecked:
        return False
    return run.chance is not None and run.remaining_share is not None and run.remaining_share < _GOOD_SHARE


@dataclass(frozen=True)
class DeadUnitShare:
    """A layer with the share of its dead units at the start and later."""

    name: str
    first: float
    share: float


@dataclass(frozen=True)
class BiasBeforeModule:
    """The bias before a module: its name, its length, and the layer that holds it."""

    name: str
    length: float
    layer: str


def _biases_before(record: Record) -> dict[str, BiasBeforeModule]:
    """The last bias before each module in the order of the model, including its own bias."""
    names = [name for name in record.tensors("weight.norm") if name.endswith("bias")]
    lengths = dict(zip(names, value_counts(record, names).tolist(), strict=True))
    biases, latest = {}, None
    for module in record.modules:
        own_bias = next((name for name in module.parameters if name in lengths), None)
        latest = BiasBeforeModule(own_bias, lengths[own_bias], module.name) if own_bias else latest
        if latest is not None:
            biases[module.name] = latest
    return biases


def _relu_layers(record: Record, biases: dict[str, BiasBeforeModule]) -> list[DeadUnitShare]:
    """The ReLU modules with their share of dead units, by their outputs or by the bias before them."""
    kinds = {item.name: item.kind for item in record.modules}
    try:
        shares = get_layer_signal(record, "activation.dead")
    except NotChecked:
        return []
    names = [name for name in shares.names if _is_relu(kinds.get(module_of_output(name), ""))]
    if not names:
        return []
    source_biases = [biases.get(module_of_output(name), BiasBeforeModule("", np.inf, "")) for name in names]
    is_bottleneck = np.array([item.length <= _BOTTLENECK_UNITS for item in source_biases], bool)
    zero_share, batch = (
        get_layer_signal(record, "activation.zeros", names).second_half.median,
        _samples_per_snapshot(record, names),
    )
    shares_by_source = []
    for snapshots, samples in (
        (shares.select(names), DEAD_UNIT_WINDOW * batch),
        (get_layer_signal(record, "gradient.zeros", [item.name for item in source_biases], 0), batch),
    ):
        late_share = snapshots.second_half.quantile(_LASTING_QUANTILE)
        is_certain = (
            _others_are_active(late_share, zero_share, samples)
            & (zero_share >= _MIN_ZERO_SHARE * late_share)
            & ~(is_bottleneck & (late_share < 1))
        )
        shares_by_source.append(
            (
                snapshots[:_FIRST_SNAPSHOTS].median,
                np.where(is_certain | (late_share <= _USUAL_INACTIVE_SHARE), late_share, np.nan),
            )
        )
    bias_is_higher = np.nan_to_num(shares_by_source[1][1], nan=-1.0) > np.nan_to_num(shares_by_source[0][1], nan=-1.0)
    first, late_share = (
        np.where(bias_is_higher, by_bias, by_units) for by_units, by_bias in zip(*shares_by_source, strict=True)
    )
    return [
        DeadUnitShare(*item)
        for item in zip(names, first.tolist(), late_share.tolist(), strict=True)
        if np.isfinite(item[2])
    ]


def _is_relu(kind: str) -> bool:
    return "ReLU" in kind or kind == "Threshold"


def _others_are_active(dead_share: Values, zero_share: Values, samples: Values) -> Flags:
    """Return whether the units that are not dead are clearly active, so that the dead ones are not just rare."""
    # If all units were equally rare, the number of samples that activate a unit would follow a Poisson distribution,
    # and -log(dead) / (1 - dead) samples would activate each of the other units.
    with np.errstate(all="ignore"):
        activating_samples, expected = (
            samples * (1 - zero_share) / (1 - dead_share),
            -np.log(dead_share) / (1 - dead_share),
        )
    return np.asarray((dead_share >= 1) | (activating_samples > _MIN_ACTIVITY_RATIO * expected))


def _samples_per_snapshot(record: Record, names: list[str]) -> Values:
    """The number of samples of a batch that a snapshot covers for each module."""
    batch = recorded_batch_size(record)
    parts = ("norm", "mean", "std")
    norm, mean, std = (
        get_layer_signal(record, f"activation.{statistic}", names, max_snapshots=16).median for statistic in parts
    )
    with np.errstate(all="ignore"):
        samples = norm**2 / (mean**2 + std**2) / batch
    return np.asarray(np.clip(MAX_VALUES / np.where(samples > 0, samples, 1.0), 1.0, batch))


def _functional_relu_layers(record: Record, biases: dict[str, BiasBeforeModule]) -> list[DeadUnitShare]:
    """Layers with a functional activation: the share of their biases with a gradient of exactly zero."""
    next_kinds = [item.kind for item in record.modules[1:]] + [""]
    pairs = zip(record.modules, next_kinds, strict=True)
    candidates = [
        biases.get(item.name)
        for item, follower in pairs
        if item.name in biases and _lacks_activation_module(item.kind, follower)
    ]
    biases_of_layers = [item for item in candidates if item is not None and item.length > _BOTTLENECK_UNITS]
    try:
        zero_gradients = get_layer_signal(record, "gradient.zeros", [item.name for item in biases_of_layers])
    except NotChecked:
        return []
    norms = get_layer_signal(record, "gradient.norm")  # if nothing has a gradient, no unit is dead
    zero_gradients.values[np.isin(zero_gradients.steps, norms.steps[(np.nan_to_num(norms.values) == 0).all(1)])] = (
        np.nan
    )
    late_share = zero_gradients.second_half.quantile(_LASTING_QUANTILE)
    late_share[late_share > _weight_zero_share(record, zero_gradients.names) / _MIN_ZERO_SHARE] = np.nan
    first = zero_gradients[:_FIRST_SNAPSHOTS].median
    # Among layers without any gradient the last one is the cause, and a layer of dead units cuts off the one before it.
    without_gradient = np.flatnonzero(late_share >= 1)
    is_chain = len(without_gradient) > 0 and without_gradient[-1] == len(without_gradient) - 1
    late_share[without_gradient[: -1 if is_chain else None]] = np.nan
    rows = zip([item.layer for item in biases_of_layers], first.tolist(), late_share.tolist(), strict=True)
    return [DeadUnitShare(*item) for item in rows if np.isfinite(item[2])]


def _weight_zero_share(record: Record, biases: Sequence[str]) -> Values:
    """The late share of zero gradients in the weights beside some biases; 1 for those that were not recorded.

    The weights of a dead unit have no gradient either. A bias that cancels in a difference of two outputs has none,
    although its unit is alive.
    """
    weights = [name.removesuffix("bias") + "weight" for name in biases]
    recorded = set(record.tensors("gradient.zeros"))
    shares = np.ones(len(biases))
    positions = [i for i, name in enumerate(weights) if name in recorded]
    if positions:
        signal = get_layer_signal(record, "gradient.zeros", [weights[i] for i in positions], 0)
        shares[positions] = np.nan_to_num(signal.second_half.quantile(_LASTING_QUANTILE), nan=1.0)
    return shares


def _lacks_activation_module(kind: str, follower: str) -> bool:
    """Return whether a dense layer or convolution is not followed by an activation module of torch."""
    is_own_module = bool(follower) and not hasattr(nn, follower)
    return kind.startswith(("Linear", "Conv")) and (is_own_module or follower.startswith(("Linear", "Conv", "Dropout")))


def _finding(
    affected: list[DeadUnitShare], layers: list[DeadUnitShare], biases: dict[str, BiasBeforeModule]
) -> Finding:
    worst = max(affected, key=lambda layer: layer.share)
    has_died = worst.share > worst.first + _MIN_RISE
    bias = biases[worst.name].name if worst.name in biases and not has_died else None
    others = [layer.share for layer in layers if layer not in affected]
    comparison = f"the median of the other layers is {np.median(others):.2g}" if others else "all layers are affected"
    return Finding(
        message=f"Dead units in {len(affected)} of {len(layers)} layers with ReLU (share of units that are zero for "
        f"every sample): {describe_values([layer.name for layer in affected], [layer.share for layer in affected])}; "
        f"{comparison}.",
        where=Location(worst.name, bias),
        cause="Training moved the biases or weights of these units so far that no input activates them, as steps that "
        "are too large do."
        if has_died
        else "These units were dead from the start: their biases or inputs are far below zero, or the inputs hardly "
        "differ.",
        fix="Train again from new weights with a lower learning rate, or use nn.LeakyReLU in place of the ReLU."
        if has_died
        else "Standardize the inputs of the model, and keep the default weights, with biases of 0.",
        evidence={
            "layers": [layer.name for layer in affected],
            "share": [layer.share for layer in affected],
            "others": others,
        },
        explains=("G403", "G409", "O502", "T601", "T606", "T607", "T608", "T610", "T614"),
    )


def _with_bias(setup: Setup, finding: Finding) -> Finding:
    """Return a finding of units that were dead from the start with their bias as the cause, if that is far below 0."""
    name = finding.where.parameter
    bias = dict(setup.eager_model.named_parameters()).get(name or "")
    if bias is None or (median := float(bias.detach().float().median())) > _LOW_BIAS:
        return finding
    cause = f"These units were dead from the start: the median of {name} is {median:.3g}."
    return replace(finding, cause=cause, fix=f"torch.nn.init.zeros_(model.get_parameter({name!r}))")


def _bias_edits(setup: Setup, name: str | None) -> tuple[Edit, ...]:
    """Return the removal of the line that fills a bias, if at least half of its values are negative."""
    bias = dict(setup.eager_model.named_parameters()).get(name or "")
    if name is None or bias is None or (bias < 0).float().mean() < _NEGATIVE_SHARE:
        return ()
    module, _, parameter = name.rpartition(".")
    return undo_initialization(setup, initialization_line(setup, module, parameter))


def _biased_network(bias: float) -> Setup:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
        nn.init.constant_(model.get_parameter("0.bias")[2:], bias)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """Biases far below zero."""
    return _biased_network(-20.0)


def good() -> Setup:
    """Biases at zero."""
    return _biased_network(0.0)


def _loop(setup: Setup) -> None:
    train(setup, 15)


bad_loop = good_loop = _loop
