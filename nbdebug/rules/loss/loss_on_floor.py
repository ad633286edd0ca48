"""L218: the loss sits at the lowest value that this head can reach."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor, nn

from nbdebug.autograd.patterns import FUNCTION_NAMES, statement_without_calls
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding, Location
from nbdebug.loss_curves import RunSummary
from nbdebug.loss_curves.run_summary import settled_run_summary
from nbdebug.measurements.cosine_logits import PRODUCTS, CosineLogits
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.label_reward import LabelReward
from nbdebug.measurements.output_range import OutputRange
from nbdebug.records import Record
from nbdebug.rule_engine.expression_edits import divide_instead, line_of
from nbdebug.rule_engine.layer_edits import remove_layer
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import healthy_classifier, mlp, rings, train, training_setup
from nbdebug.setup import Setup
from nbdebug.setup.losses import score_tensor
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import describe_edits, replace_node, wrap_node
from nbdebug.source.location import get_location
from nbdebug.source.search import call_name

if TYPE_CHECKING:
    from nbdebug.tools.overfit.loss_floor import HeadFloor

_FLAT_GAP, _UNSCALED_GAP = 0.6, 1.15  # between the right logit and the others
_HIGH_FLOOR, _HELD_BACK = 0.2, 0.5  # the floor as a share of chance; the loss with a larger factor, of the floor
_SMALL_FACTOR = 0.2  # divided by it, cosines are 5 times as large or more
_UNIT_TOLERANCE = 1e-3  # of the factor of cosines that are not scaled
_UNBOUNDED_FACTOR = 10.0  # a bounded loss does not fall to minus this many times its value at the start


@rule("L218", "warning", asked_again=True)
def loss_on_floor(
    setup: Setup,
    first_pass: ForwardPass,
    record: Record | NotChecked,
    cosine_logits: CosineLogits | NotChecked,
    output_range: OutputRange | NotChecked,
    label_reward: LabelReward | NotChecked | None,
    *,
    near: float = 0.15,
) -> Iterator[Finding]:
    """The loss sits at the lowest value that this head can reach, well above what the labels allow.

    ## What it does
    Once a run has converged, checks whether its loss equals that of the best output this head can produce, although an
    unrestricted output could reach a far lower loss. Before a run, checks whether favoring the labels lowers the loss.

    ## Why it matters
    The network may be right about every sample and still show a large loss, because its head cannot express that. The
    gradient keeps moving weights that cannot improve the loss, and loss curves are not comparable.

    ## How it is measured
    L-BFGS minimizes your own loss on your first batch twice: over unrestricted outputs, and over outputs within the
    range of the activation that ends the model (sigmoid, tanh, ReLU, softplus, softmax). Reported when the two minima
    differ by more than a tenth of the loss at the start of the run, and the run ended within ``near`` of the distance
    from its start to the higher minimum.

    If a softmax takes cosines times a constant, the lowest cross-entropy is that of the largest difference which unit
    vectors allow between the right class and the others. It is reported if this difference is at most 0.6, so that the
    right class gets at most 1.8 times the probability of another, or if it is at most 1.15, as without a temperature,
    and the run ended near the floor: within ``near`` of the distance from chance to the floor, or twice that once the
    loss has stopped falling. A run that is not near the floor is also reported if the same logits times a factor of 1
    to 64 have a loss of at most half the floor. The difference must then be at most 1.15, or the classes must be
    targets of the loader and the floor at least a fifth of the loss by chance. Only the size of the cosines then limits
    the loss. A factor that is learned is not checked.

    A loss of class indices is also computed for equal scores, and for scores that favor the label by up to 15. It is
    reported if the lowest of these losses is less than 5% below that of equal scores, and the probability of the label
    at this loss is less than halfway from that of equal scores to 1, as with a label smoothing of 0.95. For a loss
    function of your own, L-BFGS then searches for a lower loss, since it may favor classes other than the label.

    If no activation ends the model, the range of its outputs is measured: random numbers replace the result of the
    last layer. This finds the bounds of 2·tanh, for example.

    ## How to fix
    Remove the activation that the message names, or scale the targets into its range. Divide cosines by a temperature
    below 1, such as 0.1.

    ## When to ignore
    When the floor is intended, for example to limit confidence.

    ## References
    Documentation of torch.nn.CrossEntropyLoss: the input is expected to hold unnormalized logits. Chen et al. 2020,
    arXiv:2002.05709, table 5: the temperature of a contrastive loss.
    """
    if isinstance(label_reward, LabelReward):
        yield _reward_finding(label_reward)
        return
    if isinstance(record, NotChecked):
        raise record
    from nbdebug.tools.overfit.loss_floor import head_floor

    run_summary = settled_run_summary(record)
    if not run_summary.loss_is_known or not run_summary.is_finite:
        raise NotChecked("the loss of your loop cannot be compared with the loss of a batch")
    if isinstance(cosine_logits, CosineLogits) and _is_too_flat(run_summary, cosine_logits, near):
        yield _cosine_finding(run_summary, cosine_logits)
        return
    if run_summary.last_quarter.falls and -run_summary.last_quarter.change > 0.1 * abs(run_summary.end):
        raise NotChecked("the loss is still decreasing")
    bounds = _bounds(output_range) if isinstance(output_range, OutputRange) else (-math.inf, math.inf)
    floor = head_floor(setup, first_pass.output, first_pass.batch, bounds)
    if floor.any_output_loss < min(floor.in_range_loss, 0) - _UNBOUNDED_FACTOR * abs(run_summary.start):
        raise NotChecked("the loss has no minimum unless the outputs are restricted to a range")
    if not _is_on_floor(run_summary, floor, near):
        return
    if not floor.activation and isinstance(output_range, OutputRange):
        yield _bounded_finding(run_summary, floor, output_range)
    elif floor.activation:
        line = line_of(where := _activation_location(first_pass, floor.activation))
        name = FUNCTION_NAMES.get(floor.activation, floor.activation.lower())
        statement = covering_statement(line) if line else None
        text = statement_without_calls(line, (name, name.title()))
        if line and statement and text:
            edits: tuple[Edit, ...] = (replace_node(line.file, statement, text),)
        else:
            edits = _remove_activation(setup, where.module)
        yield replace(_finding(run_summary, floor), where=where, edits=edits)


def _reward_finding(reward: LabelReward) -> Finding:
    """Report a loss that hardly depends on the labels."""
    smoothing = f"label_smoothing is {reward.smoothing:g}, so the" if reward.smoothing else "The"
    return Finding(
        message=f"The loss is {reward.equal:.4g} if all {reward.classes} classes get equal scores. The lowest loss "
        f"found for scores that favor the label is {reward.lowest:.4g}, {1 - reward.lowest / reward.equal:.2%} less.",
        where=reward.where,
        cause=f"{smoothing} loss is lowest if the label gets a probability of about {reward.probability:.0%}; equal "
        f"scores give it {1 / reward.classes:.0%}. Predicting the labels hardly lowers the loss.",
        fix="loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)   # at most about 0.1"
        if reward.smoothing
        else "Use the labels themselves as the targets, or smooth them by 0.1 at most.",
        evidence={
            "equal scores": reward.equal,
            "lowest": reward.lowest,
            "probability of the label": reward.probability,
            "classes": reward.classes,
        },
        explains=("T601", "T606", "T607", "T608", "T610", "T614", "E703", "E709", "O502"),
    )


def _bounds(output_range: OutputRange) -> tuple[float, float]:
    """Return the measured bounds of the output; infinite for probabilities, which have no independent values."""
    values = output_range.values
    has_bounds = values.low < values.high and not output_range.sums_to_one
    return (values.low, values.high) if has_bounds else (-math.inf, math.inf)


def _bounded_finding(run_summary: RunSummary, floor: HeadFloor, output_range: OutputRange) -> Finding:
    """Report a loss that the measured range of the output holds back."""
    return Finding(
        message=f"The loss converged to {run_summary.end:.4g}. The outputs are {floor.range_name}. On the first batch, "
        f"the lowest loss is {floor.in_range_loss:.4g} with such outputs, and {floor.any_output_loss:.4g} with any "
        "outputs.",
        where=output_range.where,
        cause=f"{output_range.call or 'The head'} bounds the outputs, whatever the inputs and the weights are.",
        fix="# end the model in a linear layer, or multiply its outputs by a larger scale",
        evidence={
            "end": run_summary.end,
            "floor of the head": floor.in_range_loss,
            "floor": floor.any_output_loss,
            "range": str(output_range.values),
        },
        explains=("T606", "T608", "T610", "T607", "E703"),
    )


def _remove_activation(setup: Setup, path: str | None) -> tuple[Edit, ...]:
    """Return the removal of a layer that is nothing but an activation."""
    module = setup.eager_model.get_submodule(path) if path else None
    is_activation = module is not None and not [*module.children(), *module.parameters()]
    return remove_layer(setup, path) if path and is_activation else ()


def _is_too_flat(run_summary: RunSummary, logits: CosineLogits, near: float) -> bool:
    """Return whether a run ended between the floor of its cosines and chance, close to the floor or with no room."""
    room, noise = logits.chance - logits.floor, 4 * run_summary.end_error
    is_in_range = logits.floor - near * room - noise <= run_summary.end <= logits.chance + near * room + noise
    reach = near if run_summary.last_quarter.falls else 2 * near
    is_near = run_summary.end <= logits.floor + reach * room + noise
    is_unscaled = logits.gap <= _UNSCALED_GAP and (is_near or _is_held_back(logits))
    has_high_floor = logits.has_loader_targets and logits.floor >= _HIGH_FLOOR * logits.chance
    return is_in_range and (logits.gap <= _FLAT_GAP or is_unscaled or (has_high_floor and _is_held_back(logits)))


def _is_held_back(logits: CosineLogits) -> bool:
    """Return whether the same cosines times a larger factor have a far lower loss than the floor."""
    return logits.sharpened_loss is not None and logits.sharpened_loss <= _HELD_BACK * logits.floor


def _cosine_finding(run_summary: RunSummary, logits: CosineLogits) -> Finding:
    """Report cosines that are too small as logits."""
    factor, edits = "" if _is_unscaled(logits) else f" times {logits.scale:.3g}", _temperature_edits(logits)
    use = (
        f"multiplied by {logits.scale:.3g}" if logits.scale <= _SMALL_FACTOR else "not divided by a temperature below 1"
    )
    return Finding(
        message=f"The loss ended at {run_summary.end:.4g}. Its logits are cosines{factor}, so with "
        f"{logits.classes} classes it cannot fall below {logits.floor:.4g}; equal logits give {logits.chance:.4g}.",
        where=get_location(logits.line),
        cause=f"The right class gets at most {math.exp(logits.gap):.2g} times the probability of another: the cosines "
        f"are {use}.",
        fix=describe_edits(edits)
        or "logits = cosines / 0.1   # divide by the temperature; for classes, multiply by a scale such as 30",
        edits=edits,
        evidence={
            "end": run_summary.end,
            "floor": logits.floor,
            "chance": logits.chance,
            "scale": logits.scale,
            "classes": logits.classes,
        },
        explains=("T601", "T606", "T607", "T608", "T610", "T614", "E709", "E703", "O502"),
    )


def _is_unscaled(logits: CosineLogits) -> bool:
    return abs(logits.scale - 1) < _UNIT_TOLERANCE


def _temperature_edits(logits: CosineLogits) -> tuple[Edit, ...]:
    """Return the division of cosines by a temperature: by the one they are multiplied by, or where they are stored."""
    if logits.scale <= _SMALL_FACTOR:
        return divide_instead(logits.line)
    statement = covering_statement(logits.line) if logits.line else None
    value = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    is_product = isinstance(value, ast.BinOp) and isinstance(value.op, ast.MatMult)
    is_plain = value is not None and (is_product or call_name(value) in PRODUCTS)
    if logits.line is None or value is None or not is_plain or not _is_unscaled(logits):
        return ()
    return (wrap_node(logits.line.file, value, "{} / 0.1"),)


def _activation_location(first_pass: ForwardPass, activation: str) -> Location:
    """Return the location of the activation nearest to the output."""
    output = score_tensor(first_pass.output)
    nodes = first_pass.trace.get_graph(output).nodes if isinstance(output, Tensor) else ()
    return next((node.where for node in nodes if node.name == activation), Location())


def _is_on_floor(run_summary: RunSummary, floor: HeadFloor, near: float) -> bool:
    floors_differ = floor.in_range_loss - floor.any_output_loss > 0.1 * max(abs(run_summary.start), 1e-12)
    tolerance = (
        near * max(run_summary.start - floor.in_range_loss, floor.in_range_loss - floor.any_output_loss)
        + 4 * run_summary.end_error
    )
    return floors_differ and floor.in_range_loss - tolerance <= run_summary.end <= floor.in_range_loss + tolerance


def _finding(run_summary: RunSummary, floor: HeadFloor) -> Finding:
    return Finding(
        message=f"The loss converged to {run_summary.end:.4g}. On the first batch, the best output of "
        f"{floor.activation.lower()} reaches {floor.in_range_loss:.4g}; an unrestricted output reaches "
        f"{floor.any_output_loss:.4g}.",
        cause=f"The model ends in {floor.activation.lower()}, whose range is {floor.range_name}; a lower loss needs "
        "outputs outside it.",
        fix=f"# remove the {floor.activation.lower()} at the end of the model, or scale the targets into its range",
        evidence={
            "end": run_summary.end,
            "floor of the head": floor.in_range_loss,
            "floor": floor.any_output_loss,
            "activation": floor.activation,
        },
        explains=("T606", "T610", "T607"),
    )


def bad() -> Setup:
    """A softmax before cross-entropy."""
    model = nn.Sequential(*mlp(8, 32, 2), nn.Softmax(1))
    return training_setup(model, rings(), rings(256, seed=1), nn.CrossEntropyLoss(), lr=1e-2)


def bad_loop(setup: Setup) -> None:
    """Train for twenty epochs."""
    train(setup, 20)


def good() -> Setup:
    """Logits."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Train for twenty epochs."""
    train(setup, 20)
