"""L208: the loss before training is far from the loss of an uninformed prediction."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd.broadcasts import Broadcast
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Severity
from nbdebug.loop_monitor.conclusions import OPERAND_VALUES_UNCHANGED
from nbdebug.measurements.loss_reference import ExpectedLoss
from nbdebug.measurements.oversized_tensors import (
    MIN_SCALE,
    OversizedTensor,
    find_oversized_tensor,
    has_default_scale,
    large_layer_weights,
)
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.preserve import Preserve, seed_all
from nbdebug.rule_engine.initialization_edits import describe_removal, undo_initialization
from nbdebug.rule_engine.predictions import SLOW_START
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Batch, Setup
from nbdebug.setup.attribute_paths import member_code
from nbdebug.setup.data_lines import origin_line
from nbdebug.setup.initialization import initialization_line
from nbdebug.setup.losses import score_tensor
from nbdebug.setup.module_lines import part_line
from nbdebug.source.attribute_makers import attribute_maker
from nbdebug.source.location import get_location
from nbdebug.training.model_copy import RESET_PARAMETERS

_LARGER_OUTPUT = 3.0  # times the targets
_INPUT_SHARE = 0.5  # of the excess of the loss, which is left without it
_MAX_NAMES = 6
_LAYERS = (nn.Linear, nn.Bilinear, nn.modules.conv._ConvNd)
_USUAL_OUTPUT = 0.1  # root mean square; torch's initialization gives 0.2 to 0.6 for inputs of unit scale
_ROUNDING = 1e-9  # of the loss: that of a constant prediction of equal targets is rounding


@rule("L208", "warning", prediction=SLOW_START)
def initial_loss_off(
    setup: Setup,
    batches: list[Batch],
    output: Any,
    finite_loss: Tensor,
    expected_loss: ExpectedLoss | NotChecked,
    own_loss_reference: float | NotChecked,
    outputs_are_cosines: bool,
    target_shares: dict[int, float] | NotChecked,
    broadcasts: list[Broadcast] | NotChecked,
    *,
    excess: float = 1.0,
    ratio: float = 10.0,
    trained: float = 0.7,
    larger: float = 1000.0,
    wide: float = MIN_SCALE,
    own: float = 2.5,
    remainder: float = 0.1,
    negligible: float = 1e-4,
) -> Iterator[Finding]:
    """The loss before training is far from the loss of an uninformed prediction.

    ## What it does
    Compares the loss of the first batch with the loss of two constant predictions, computed by your own loss: equal
    scores for all classes (ln C for cross-entropy, ln 2 for two classes) and the class frequencies (the entropy of the
    labels); for a regression, the mean of the targets (their variance, for squared error). Since your own loss is
    called, class weights, label smoothing, reduction and ignored labels are taken into account.

    ## Why it matters
    An untrained head should be uncertain. A much higher loss means that it is confident and wrong: the inputs have a
    large scale, the initial weights are too large, or the targets are far from zero. The first epochs are then spent on
    undoing this.

    ## How it is measured
    By one forward pass in the current modes of the model. Reported when the loss exceeds that of the uniform prediction
    by more than ``excess`` = 1 nat, which is what logits of variance 2 cost (their expected loss is near ln C +
    variance / 2), or by more than half of ln C if that is more. For a regression, reported above ``ratio`` = 10 times
    the squared error of the mean (its root for absolute errors), or when the standard deviation of the targets is more
    than ``larger`` = 1000 times the size of the outputs, since the weights have to grow by as much; the size of outputs
    near zero, as from a head of zeros, counts as 0.1.

    Parameters and buffers whose root mean square exceeds ``wide`` = 3 / √n, for n values in a row, are scaled down to 1
    / √n one at a time. The finding names the one that lowers the loss most, if less than ``remainder`` = 10% of the
    excess remains. For a loss of your own, whose constant prediction no formula gives, only such a tensor is reported:
    in two cases. First, the loss without its scale is ``ratio`` times lower. Second, its scale is not the default of
    its module, the loss is more than ``own`` = 2.5 times its lowest value for a constant output, and less than 10% of
    this excess remains.

    A model with frozen weights is pretrained and may be confident about what it learned: reported as a note. A loss
    below ``trained`` times that of the class frequencies belongs to a trained model and is not judged. Scores that are
    cosines times a scale, which is large on purpose, are not judged either. Errors count as squared if doubling a
    prediction near zero more than doubles the loss, as for the Huber loss.

    If one of several targets of a regression has a ``negligible`` = 1/10,000 of the share of another in your loss, when
    the mean is predicted for either and the others are predicted perfectly, the loss is that of the other target alone:
    for a squared error, their standard deviations differ by a factor of 100. Targets that are constant in the batch are
    not compared.

    ## How to fix
    Standardize the inputs (and the targets of a regression), and keep torch's default initialization in the last layer.

    ## When to ignore
    When the last layer is meant to start far from zero.

    ## References
    A. Karpathy, A Recipe for Training Neural Networks (2019): verify loss at init; Stanford CS231n, notes 3.
    """
    initial_loss = float(finite_loss.detach())
    if isinstance(target_shares, dict) and min(target_shares.values()) < negligible * max(target_shares.values()):
        yield _dominant_target_finding(target_shares, setup)
        return
    if broadcasts and not isinstance(broadcasts, NotChecked):
        raise NotChecked("the loss broadcasts its operands, so it is not that of the predictions (L205)")
    if isinstance(expected_loss, NotChecked):
        tensor = find_oversized_tensor(setup, batches[0], wide)
        if tensor is None:
            raise expected_loss
        constant = None if isinstance(own_loss_reference, NotChecked) else own_loss_reference
        if 0 <= ratio * tensor.usual_loss < initial_loss:
            yield _tensor_finding(_scale_finding(initial_loss, tensor, constant), tensor, setup)
            return
        is_above = constant is not None and initial_loss > own * constant
        if constant is None or not is_above or has_default_scale(setup, tensor.name):
            raise expected_loss
        if tensor.usual_loss - constant >= remainder * (initial_loss - constant):
            raise expected_loss
        yield _tensor_finding(_scale_finding(initial_loss, tensor, constant), tensor, setup)
        return
    if expected_loss.prior > 0 and initial_loss < trained * expected_loss.prior:
        raise NotChecked(
            f"the model is trained: its loss {initial_loss:.3g} is below that of a constant, {expected_loss.prior:.3g}"
        )
    if not expected_loss.classes and expected_loss.prior < _ROUNDING * initial_loss:
        raise NotChecked("the targets of the first batch are equal, so a constant prediction has no loss to compare")
    if outputs_are_cosines:
        raise NotChecked(
            "the logits are cosine similarities times a fixed scale, for which no initial loss is expected"
        )
    if expected_loss.classes:
        uniform_entropy = math.log(expected_loss.classes)
        is_large = (initial_loss / expected_loss.uniform - 1) * uniform_entropy > max(excess, uniform_entropy / 2)
        has_large_targets = False
    else:
        is_large = initial_loss > (ratio if expected_loss.is_squared else math.sqrt(ratio)) * expected_loss.prior
        output_size = float(score_tensor(output).detach().float().square().mean().sqrt())
        has_large_targets = expected_loss.std > larger * max(output_size, _USUAL_OUTPUT)
    if is_large or has_large_targets:
        tensor = find_oversized_tensor(setup, batches[0], wide) if is_large else None
        finding = _finding(initial_loss, expected_loss)
        if expected_loss.classes or (is_large and not has_large_targets and _outgrows_targets(output, expected_loss)):
            finding = _output_finding(finding, setup, batches[0], expected_loss.uniform)
        if tensor and tensor.usual_loss - expected_loss.uniform < remainder * (initial_loss - expected_loss.uniform):
            finding = _tensor_finding(finding, tensor, setup)
        is_pretrained = any(not p.requires_grad for p in setup.eager_model.parameters())
        severity: Severity | None = "note" if is_pretrained else None
        yield replace(finding, severity=severity, assumes=(OPERAND_VALUES_UNCHANGED,))


def _dominant_target_finding(shares: dict[int, float], setup: Setup) -> Finding:
    largest, smallest = max(shares, key=lambda column: shares[column]), min(shares, key=lambda column: shares[column])
    return Finding(
        message=f"Target {largest} makes up {shares[largest]:.3%} of the loss of a constant prediction, target "
        f"{smallest} {shares[smallest]:.2g} of it: the gradient of the loss hardly depends on target {smallest}.",
        where=get_location(origin_line(setup, "targets")),
        cause="The targets have units of very different size, and their errors are added.",
        fix="y_mean, y_std = y_train.mean(0), y_train.std(0)\ny = (y - y_mean) / y_std   # for each target; and invert "
        "this on the predictions",
        setup_fix="normalize targets",
        evidence={"shares": shares},
        explains=("D104", "T606", "T607", "T614"),
        predicts="the targets of small size will not be learned",
    )


def _scale_finding(initial_loss: float, tensor: OversizedTensor, constant: float | None) -> Finding:
    """Return the finding for a loss of which no formula gives the constant prediction; ``constant`` is its loss."""
    factor = initial_loss / tensor.usual_loss if tensor.usual_loss else math.inf
    lowest = "" if constant is None else f" The lowest loss of a constant output is {constant:.4g}."
    return Finding(
        message=f"The loss before training is {initial_loss:.4g}. If {tensor.name} had a usual scale, it would "
        f"be {tensor.usual_loss:.4g}. The ratio is {factor:.1f}.{lowest}",
        evidence={"loss": initial_loss, "ratio": factor, **({} if constant is None else {"constant": constant})},
        explains=("O502", "T601", "T606", "T607", "T608", "T610"),
    )


def _tensor_finding(finding: Finding, tensor: OversizedTensor, setup: Setup) -> Finding:
    """Add the tensor of the model whose scale makes the loss large, and how to change it."""
    module, _, attribute = tensor.name.rpartition(".")
    is_parameter = tensor.name in dict(setup.eager_model.named_parameters())
    if is_parameter:
        line = initialization_line(setup, module, attribute) or part_line(setup, module, tensor.name)
    else:
        line = attribute_maker(setup.eager_model.get_submodule(module), attribute)
    factor, name = f"{1 / tensor.scale:.2g}", member_code(tensor.name)
    large = [other for other in large_layer_weights(setup, MIN_SCALE) if other != tensor.name] if is_parameter else []
    others = f" The values of {', '.join(large[:_MAX_NAMES])}{', …' if len(large) > _MAX_NAMES else ''} are large too."
    edits = undo_initialization(setup, line)
    is_layer = is_parameter and isinstance(setup.eager_model.get_submodule(module), _LAYERS)
    return replace(
        finding,
        where=get_location(line, module or None, tensor.name if is_parameter else None),
        cause=f"The values of {tensor.name} are large: their root mean square is {tensor.root_mean_square:.2g}. The "
        f"usual value {'for' if is_layer else 'in rows of'} {tensor.row_size} {'inputs' if is_layer else 'values'} is "
        f"{tensor.usual_root_mean_square:.2g}. With the usual size, the loss is {tensor.usual_loss:.4g}."
        f"{others if large else ''}",
        fix=describe_removal(line)
        if edits
        else _draw_again([tensor.name, *large])
        if large
        else f"{name}.data.mul_({factor})   # before the optimizer is created"
        if is_parameter
        else f"{name}.mul_({factor})   # or normalize its rows where it is created",
        setup_fix=RESET_PARAMETERS if line and is_parameter else "",
        edits=edits,
        evidence={**finding.evidence, "tensor": tensor.name, "scale": tensor.scale, "usual loss": tensor.usual_loss},
    )


def _draw_again(names: list[str]) -> str:
    """Return code that draws several weights with a usual scale."""
    return (
        f"for name in {names!r}:   # before the optimizer is created\n"
        "    torch.nn.init.xavier_uniform_(model.get_parameter(name))"
    )


def _outgrows_targets(output: Any, expected: ExpectedLoss) -> bool:
    """Return whether the outputs are much larger than the targets, so that these do not explain the loss."""
    size = float(score_tensor(output).detach().float().square().mean().sqrt())
    return size > _LARGER_OUTPUT * math.hypot(expected.mean, expected.std)


def _output_finding(finding: Finding, setup: Setup, batch: Batch, usual_loss: float) -> Finding:
    """Add whether the inputs make the outputs large before training, as their loss after a standardization shows."""
    sizes = [
        float(t.float().square().mean().sqrt()) for t in EvalOutputs(setup, batch).inputs.values() if _is_scaled(t)
    ]
    loss = _loss_of_standardized(setup, batch) if sizes else math.inf
    initial_loss = finding.evidence["loss"]
    if loss - usual_loss < _INPUT_SHARE * (initial_loss - usual_loss):
        return replace(
            finding,
            cause=f"The inputs are large: their root mean square is {max(sizes):.3g}. With standardized inputs, the "
            f"loss is {loss:.4g}.",
            fix="x = (x - x.mean(0)) / x.std(0)   # by the mean and standard deviation of the training samples",
            setup_fix="normalize inputs",
        )
    return replace(
        finding,
        cause="The outputs are large before this training, and not because of the inputs: either the last layers start "
        "with large weights, a factor multiplies the outputs, or the model was trained for another task.",
        fix="Keep the default initialization of the last layer, and remove a factor that multiplies the outputs.",
    )


def _is_scaled(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dim() > 1 and tensor.numel() > 0


def _loss_of_standardized(setup: Setup, batch: Batch) -> float:
    """Return the loss of a batch whose inputs have a mean of 0 and a standard deviation of 1; infinity if it fails."""
    changed = EvalOutputs(setup, batch).transform_inputs(
        lambda t: (t - t.mean()) / t.std().clamp_min(1e-12) if _is_scaled(t) else t
    )
    with suppress(Exception), Preserve(*setup.mutable_objects), torch.no_grad():
        seed_all(0)
        return float(setup.output_and_loss(changed)[1])
    return math.inf


def _finding(initial_loss: float, expected: ExpectedLoss) -> Finding:
    reference_loss = f"{expected.uniform:.4g}. The ratio is {initial_loss / expected.uniform:.1f}"
    evidence = {
        "loss": initial_loss,
        "uniform": expected.uniform,
        "ratio": initial_loss / expected.uniform,
        "label prior": expected.prior,
        "classes": expected.classes,
    }
    if expected.classes:
        return Finding(
            message=f"The loss before training is {initial_loss:.4g}; equal scores for all classes give "
            f"{reference_loss}.",
            evidence=evidence,
        )
    return Finding(
        message=f"The loss before training is {initial_loss:.4g}; predicting the mean of the targets gives "
        f"{reference_loss}.",
        cause=f"The targets have mean {expected.mean:.4g} and standard deviation {expected.std:.4g}; the "
        "initial outputs are far from them.",
        fix="y_mean, y_std = y.mean(), y.std()\ny = (y - y_mean) / y_std   # and invert this on the predictions",
        setup_fix="normalize targets",
        evidence={**evidence, "target mean": expected.mean, "target std": expected.std},
    )


def bad() -> Setup:
    """Inputs that are a thousand times too large."""
    x, y = points()
    return minimal_setup(network(3), x * 1000, y, nn.CrossEntropyLoss())


def good() -> Setup:
    """Inputs of unit scale."""
    return classifier()
