"""L213: the optimizer moves the loss in the wrong direction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from nbdebug.autograd import Graph
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.unbounded_losses import HomogeneousLoss
from nbdebug.loop_monitor.wrong_decisions import TwoValuedDecisions
from nbdebug.loss_curves.adversaries import CommonAim, find_common_aim
from nbdebug.loss_curves.stability import END_SHARE, find_end_below_zero, find_unbounded_decrease
from nbdebug.measurements.event_order import EventOrder
from nbdebug.measurements.flow_volume import FlowVolume
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.loss_places import negative_line, producing_line, reversing_line
from nbdebug.measurements.loss_sensitivity import IdealLoss
from nbdebug.measurements.overwritten_outputs import OverwrittenOutputs
from nbdebug.measurements.pair_loss import PairLoss
from nbdebug.measurements.policy_gradient import PolicyGradient
from nbdebug.measurements.triplet_loss import TripletLoss
from nbdebug.measurements.unbounded_parts import UnboundedOutput, UnboundedPart
from nbdebug.records import Record
from nbdebug.rule_engine.expression_edits import flip_only_sign, negate_value, remove_minus
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, network
from nbdebug.rules.overwritten_terms import with_overwritten_cause
from nbdebug.rules.policy_gradients import policy_finding
from nbdebug.rules.reversed_pairs import (
    CONSEQUENCES,
    MIN_PAIR_SIGMA,
    are_exchanged,
    distance_line,
    event_order_finding,
    flow_volume_finding,
    maximized_pair_finding,
    pair_finding,
    triplet_finding,
)
from nbdebug.setup import Setup
from nbdebug.setup.optimizer_code import setting_fix
from nbdebug.setup.setup import maximizing_optimizer
from nbdebug.setup.source_lines import option_line
from nbdebug.source.edits import describe_edits
from nbdebug.source.location import SourceLine, get_location

_OF_UNBOUNDED_PART = ("T603", "T606", "T609", "T614", "G403", "G405", "G406", "G409", "G416", "L208", "L213:run")
_MIN_LOSSES, _END_SHARE = 3, 0.1
_SIGN_FIX = (
    "# write each term with the sign with which it increases as the model gets worse: + log(scale) in a likelihood, "
    "-0.5 * (1 + logvar - mu**2 - logvar.exp()).sum() for a divergence"
)
_MIN_PASSES = 3
_MIN_DECISIONS, _OPPOSED_CORRELATION, _MIN_CHI_SQUARE = 50, -0.3, 25.0
_CONSTANT_OUTPUTS, _LOWER_SHARE = (0.0, 0.25, 0.5, 1.0, 2.0), 0.9


@rule("L213", "error")
def loss_wrong_sign(
    setup: Setup,
    graph: Graph | NotChecked,
    ideal_loss: IdealLoss | NotChecked,
    pair_loss: PairLoss | NotChecked,
    triplet_loss: TripletLoss | NotChecked,
    loop_triplets: TripletLoss | NotChecked,
    policy_gradient: PolicyGradient | NotChecked,
    unbounded_part: UnboundedPart | NotChecked | None,
    unbounded_output: UnboundedOutput | NotChecked | None,
    flow_volume: FlowVolume | NotChecked | None,
    event_order: EventOrder | NotChecked,
    overwritten_outputs: OverwrittenOutputs | NotChecked | None,
    first_pass: ForwardPass | NotChecked,
    record: Record | NotChecked,
    loop: LoopSummary | NotChecked,
) -> Iterator[Finding]:
    """The optimizer moves the loss in the wrong direction.

    ## What it does
    Evaluates your loss for a perfect prediction on the first batch and for the opposite one, and checks whether the
    optimizer, which minimizes unless ``maximize`` is set, moves towards the perfect one. For pairs of inputs, it checks
    whether the loss pulls together those that are alike.

    ## Why it matters
    The model learns to be wrong with growing confidence. With a likelihood or a score without its minus sign, or a
    ``maximize=True`` that was left on, the loss decreases to minus infinity or increases without bound.

    ## How it is measured
    In a watched loop with one optimizer, the gradients that reach losses of torch are their weights in the backward
    pass. If they are negative in each inspected pass, the loop maximizes the loss.

    For class labels, binary targets and real values with the shape of the output: the loss of the targets themselves
    (as logits or probabilities) against the loss of their opposite. The targets are the perfect prediction only if the
    loss compares each output with the target of the same element: exchanging both must have another effect than the
    two exchanges alone. If the output has several parts, such as a mean and
    a variance, each part that can be the target is tried alone. In a watched loop, a loss that falls below zero to
    10,000 times its initial size is unbounded below, or to 20 times if it falls faster in each fifth of the run than in
    the previous one; likelihoods and cosines stay far above that, and slow down. So is a loss that
    ends below minus three times its initial size and is homogeneous in the outputs: in each inspected step, the product
    of the outputs and their gradients is once or twice the loss without a constant, to 1% of the range of the losses,
    so larger outputs lower it without end. A hinge with its clamp is not, and neither is a likelihood. Losses whose
    gradients have one sign, such as a negative log-likelihood that the model returns, do not count, nor do loops with
    several optimizers, such as those of a critic and a generator.

    Without a run: each part of the output that no target is compared with, such as a log-variance, and each small
    parameter that only the loss reads is set to 10, 30 and 100 times its size, up and down, while the predictions are
    wrong: those of the model, then all equal to the largest target, then to the smallest. It is an error if the loss of
    each of two batches falls at least in proportion, to less than minus its value. A likelihood with the right signs
    has no lower bound for perfect predictions only. A part that the loss reads as a score, in proportion, does not
    count, nor does one that another part of the output is computed from. The fix is the only change of a sign on the
    line of that term with which no part lowers the loss without end, tried on these outputs. A loss that falls in this
    way in each of eight random directions of the output is a log-likelihood without its minus sign, unless it is
    proportional to a target.

    If the model returns the log-determinant of its map beside the codes, to a thousandth of that of the Jacobian in
    four samples of up to 64 values, with noise added to the parameters: it is an error if the loss grows with it for
    each sample, and grows with the codes. A likelihood falls with it.

    If another network in the loss judges the outputs, such as a critic, and the targets are real samples of the same
    form, the loss is measured for outputs and for real samples in their place. It is an error if it is lower for the
    outputs in each of two measurements or more, by ten standard errors, while the loss of the other network falls.

    For a distance or similarity of two inputs, which is extreme for equal inputs, or for two embeddings: the gradient
    of the loss shows the label of the pairs that it pulls together. It is an error if the inputs of those pairs are
    farther apart than those of the others, by five standard errors of the rank sum.

    For triplets, of which the model returns three embeddings: two parts are made equal, which gives the lowest loss for
    those that it pulls together and the highest for those that it pushes apart. A linear metric is fitted to the inputs
    of half of the triplets. It is an error if it finds the pushed part closer in the other half, by five standard
    errors, and no metric finds the pulled part closer, neither than the pushed part nor than that of another triplet.

    In a watched loop that passes the three parts through the model one after another, the gradients of the loss for the
    three outputs show the same: that of the anchor lies in no plane of two outputs, and those of the others point to
    the anchor or away from it.

    For one score per sample and targets with a nonnegative time and an event indicator, the times of the first batch
    are permuted, and two neighbors in time get the only events. A partial likelihood, or a loss of comparable pairs,
    then reads no scores of earlier samples. A loss is reported if it reads the scores of all earlier samples and of no
    later one in all six trials.

    If several layers return a number that the loss adds up, such as a log-determinant, and only that of the last layer
    reaches the loss although the other outputs of all of them do, this is named as the cause of a loss without a bound.

    ## How to fix
    Negate the loss, or remove ``maximize=True`` from the optimizer.

    ## When to ignore
    In a part that is trained to be fooled, such as the generator of an adversarial pair. For
    left-censored survival times, where the event came before the recorded time.

    ## References
    Documentation of torch.optim.SGD, argument ``maximize``. Cox 1972, Regression models and life-tables.
    """
    overwritten = overwritten_outputs if isinstance(overwritten_outputs, OverwrittenOutputs) else None
    if isinstance(loop, LoopSummary) and _is_negated(setup, loop):
        yield _negated_finding(loop)
        return
    if isinstance(flow_volume, FlowVolume) and flow_volume.is_reversed:
        yield flow_volume_finding(flow_volume, _SIGN_FIX)
        return
    if isinstance(event_order, EventOrder) and event_order.compared == "earlier":
        yield event_order_finding(event_order, event_order.line or producing_line(graph))
        return
    part_line = unbounded_part.line if isinstance(unbounded_part, UnboundedPart) else None
    homogeneous_loss = loop.homogeneous_loss if isinstance(loop, LoopSummary) else None
    if isinstance(record, Record) and homogeneous_loss and (last := find_end_below_zero(record)) is not None:
        lines = loop.lines if isinstance(loop, LoopSummary) else {}
        yield _margin_finding(part_line or lines.get("loss") or lines.get("root"), homogeneous_loss, last)
        return
    has_one_optimizer = isinstance(loop, LoopSummary) and loop.has_one_optimizer
    if isinstance(record, Record) and (lowest := find_unbounded_decrease(record, may_accelerate=has_one_optimizer)):
        root_line = None if isinstance(loop, NotChecked) else loop.lines.get("root")
        starts_below_zero = bool(record.series("loss")[1][0] < 0)
        is_negated_in_loop = (
            starts_below_zero and isinstance(first_pass, ForwardPass) and _is_positive_for_zeros(setup, first_pass)
        )
        term_line = negative_line(setup, first_pass) if isinstance(first_pass, ForwardPass) else None
        loss_line = None if is_negated_in_loop else part_line or term_line or producing_line(graph)
        yield with_overwritten_cause(_unbounded_finding(loss_line or root_line, *lowest), overwritten)
        return
    if isinstance(record, Record) and (common_aim := find_common_aim(record)) is not None:
        root = graph.root if isinstance(graph, Graph) else None  # it gives the score of the other network its sign
        yield _common_aim_finding(common_aim, root.line if root else None)
        return
    if isinstance(loop, LoopSummary) and isinstance(record, Record) and (opposed := _opposed_decisions(loop, record)):
        yield _opposed_finding(opposed, producing_line(graph) or loop.lines.get("loss"))
        return
    maximizes = maximizing_optimizer(setup) is not None
    if isinstance(pair_loss, PairLoss):
        if pair_loss.sigma < -MIN_PAIR_SIGMA and not maximizes:
            yield pair_finding(pair_loss, producing_line(graph))
        elif pair_loss.sigma > MIN_PAIR_SIGMA and maximizes:
            yield maximized_pair_finding(setup, pair_loss)
        return
    if isinstance(triplet_loss, TripletLoss) and are_exchanged(triplet_loss) and not maximizes:
        yield triplet_finding(triplet_loss, triplet_loss.line or producing_line(graph))
        return
    if isinstance(loop_triplets, TripletLoss) and not maximizes:
        if are_exchanged(loop_triplets):
            yield triplet_finding(loop_triplets, distance_line(setup) or producing_line(graph))
        return
    if isinstance(policy_gradient, PolicyGradient):
        if policy_gradient.followed == 0:
            yield policy_finding(policy_gradient)
        return
    if isinstance(unbounded_part, UnboundedPart):
        yield _unbounded_part_finding(unbounded_part, is_after_run=isinstance(record, Record))
        return
    if isinstance(unbounded_output, UnboundedOutput):
        yield with_overwritten_cause(_unbounded_output_finding(unbounded_output, producing_line(graph)), overwritten)
        return
    if isinstance(ideal_loss, NotChecked):
        raise ideal_loss
    perfect_loss, opposite_loss = ideal_loss.right, ideal_loss.wrong
    if perfect_loss == opposite_loss or (perfect_loss > opposite_loss) == maximizes:
        return
    if isinstance(first_pass, ForwardPass) and _is_distance_like(setup, first_pass, min(perfect_loss, opposite_loss)):
        raise NotChecked("a constant has a lower loss than the targets and their opposite: outputs are no predictions")
    direction = "up" if maximizes else "down"
    reverses = reversing_line(setup, first_pass) if isinstance(first_pass, ForwardPass) and not maximizes else None
    line = option_line(setup, setup.optimizers[0], "maximize", True) if maximizes else reverses or producing_line(graph)
    yield Finding(
        where=get_location(line),
        message=f"The optimizer drives the loss {direction}: it is {perfect_loss:.4g} for a perfect prediction and "
        f"{opposite_loss:.4g} for a wrong one.",
        cause="maximize=True is set, but the loss should be minimized."
        if maximizes
        else "The loss is a score to maximize, such as a likelihood, or has one minus sign too many.",
        fix=setting_fix(setup, "maximize", False) if maximizes else "loss = -loss",
        edits=() if maximizes else negate_value(line),
        evidence={
            "loss of a perfect answer": perfect_loss,
            "loss of a wrong answer": opposite_loss,
            "maximize": maximizes,
        },
        explains=CONSEQUENCES,
    )


def _is_negated(setup: Setup, loop: LoopSummary) -> bool:
    """Return whether each inspected pass of the only optimizer maximized losses of torch."""
    changes = loop.gradient_changes
    maximizes = maximizing_optimizer(setup) is not None
    has_one_optimizer = len(setup.optimizers) <= 1 and loop.uncovered_parameters.optimizers <= 1
    return _MIN_PASSES <= changes.weighted_passes == changes.negated_passes and has_one_optimizer and not maximizes


def _negated_finding(loop: LoopSummary) -> Finding:
    """Report a loop whose backward pass starts from the negative of a loss."""
    passes, line = loop.gradient_changes.negated_passes, loop.lines.get("root")
    return Finding(
        where=get_location(line),
        message=f"The optimizer drives the loss up: in all {passes} inspected backward passes, the loss enters with a "
        "negative weight.",
        cause="The loop minimizes the negative of the loss.",
        fix="Call backward() on the loss itself, without a minus sign.",
        evidence={"passes": passes},
        explains=(*CONSEQUENCES, "T606", "T607", "L208"),
        edits=remove_minus(line) if line else (),
    )


def _opposed_decisions(loop: LoopSummary, record: Record) -> TwoValuedDecisions | None:
    """Return the latest decisions if most are the opposite of their target although the loss has fallen."""
    decisions, losses = loop.two_valued_decisions, record.series("loss")[1].astype(np.float64)
    if decisions is None or decisions.rows < _MIN_DECISIONS or len(losses) < 2 * _MIN_LOSSES:
        return None
    share = max(_MIN_LOSSES, int(_END_SHARE * len(losses)))
    has_fallen = np.median(losses[-share:]) < np.median(losses[:share])
    is_opposed = decisions.correlation <= _OPPOSED_CORRELATION
    is_certain = decisions.rows * decisions.correlation**2 >= _MIN_CHI_SQUARE
    return decisions if has_fallen and is_opposed and is_certain else None


def _opposed_finding(decisions: TwoValuedDecisions, line: SourceLine | None) -> Finding:
    return Finding(
        where=get_location(line),
        message=f"The loss has fallen, but most decisions are the opposite of their target: of {decisions.rows} in the "
        f"latest inspected evaluation, {decisions.equal} equal it, a correlation of {decisions.correlation:.2f}.",
        cause="The loss rewards what the evaluation counts as wrong: two of its arguments are exchanged, or a sign is "
        "reversed. If decisions on the training data are right, the labels of the validation data are exchanged.",
        fix="# compare the order and signs in the loss with those of the evaluation, as in margin_ranking_loss(better, "
        "worse, 1)",
        evidence={
            "rows": decisions.rows,
            "equal": decisions.equal,
            "correlation": decisions.correlation,
            "compared at": decisions.line.number if decisions.line else None,
        },
        explains=(*CONSEQUENCES, "T606", "T607", "E707"),
        severity="warning",
    )


def _common_aim_finding(aim: CommonAim, line: SourceLine | None) -> Finding:
    """Report a model and a network that judges its outputs which both lower its score, or both raise it."""
    return Finding(
        where=replace(get_location(line), step=aim.step),
        message="The loss is lower for outputs of the model than for real samples: at the end it is "
        f"{aim.generated:.3g} for outputs and {aim.real:.3g} for real samples in their place. In all {aim.moments} "
        f"measurements, the difference is at least {aim.sigma:.0f} standard errors. The other network, which learns to "
        f"tell them apart, succeeds: its loss changed from {aim.other_first:.3g} to {aim.other_last:.3g}.",
        cause="Both networks move the score of generated samples in the same direction, so the outputs move away from "
        "the real samples.",
        fix="# train the model against the other network: -critic(fake).mean() where the critic lowers the score of "
        "generated samples,\n# or the label of real samples where a discriminator is asked",
        evidence={
            "generated": aim.generated,
            "real": aim.real,
            "sigma": aim.sigma,
            "moments": aim.moments,
            "other loss": (aim.other_first, aim.other_last),
        },
        explains=CONSEQUENCES + _OF_UNBOUNDED_PART + ("G413", "T607"),
    )


def _is_distance_like(setup: Setup, first_pass: ForwardPass, lowest: float) -> bool:
    """Check whether constant outputs have a smaller, but not negative loss than targets and their opposite.

    This is so for distances and energies: a pair of label 1 has a distance near 0, not near 1.
    """
    output = first_pass.output
    if not isinstance(output, Tensor):
        return False
    try:
        losses = [float(setup.loss(torch.full_like(output, value), first_pass.batch)) for value in _CONSTANT_OUTPUTS]
    except Exception:  # a loss of other arguments
        return False
    return 0 <= min(losses) < _LOWER_SHARE * lowest


def _is_positive_for_zeros(setup: Setup, first_pass: ForwardPass) -> bool:
    """Check whether the loss itself is positive, so that the loop negates it; the output may have diverged."""
    is_negative = first_pass.loss is not None and bool(first_pass.loss < 0)
    if is_negative or not isinstance(first_pass.output, Tensor):
        return False
    try:
        return float(setup.loss(torch.zeros_like(first_pass.output), first_pass.batch)) > 0
    except Exception:  # a loss of other arguments
        return False


def _margin_finding(line: SourceLine | None, loss: HomogeneousLoss, last: float) -> Finding:
    power = "grows in proportion to the outputs" if loss.degree == 1 else "grows with the square of the outputs"
    low, high = f"{loss.lowest_margin:.3g}", f"{loss.highest_margin:.3g}"
    margin = low if low == high else f"a number from {low} to {high}"
    return Finding(
        where=get_location(line),
        message=f"The loss is unbounded below: it was {loss.first:.3g} at the first inspected step, and its median "
        f"over the last {END_SHARE:.0%} of the steps is {last:.3g}. In each of {loss.passes} inspected steps, it was "
        f"{margin} plus a part that {power}, so larger outputs can always lower it.",
        cause="Larger outputs always lower the loss, as in a margin loss without a clamp at zero, for targets "
        "out of the range of the loss, or if a term has the wrong sign.",
        fix="loss = torch.relu(margin - (better - worse)).mean()   # of a margin loss: zero once the margin is reached"
        if loss.degree == 1
        else _SIGN_FIX,
        evidence={"first": loss.first, "last": last, "margin": loss.margin, "degree": loss.degree},
        explains=(*CONSEQUENCES, "T606", "T609", "T614", "L208"),
        aspect="run",
    )


def _unbounded_finding(line: SourceLine | None, step: int, lowest: float, initial: float) -> Finding:
    where = replace(get_location(line), step=step)
    return Finding(
        message=f"The loss decreased to {lowest:.3g} at step {step}; its initial magnitude was {initial:.3g}. It is "
        "unbounded below.",
        where=where,
        cause="A term that should be minimized is subtracted, or has the wrong sign, so the loss decreases as "
        "it grows.",
        fix=_SIGN_FIX,
        edits=flip_only_sign(line),
        evidence={"lowest": lowest, "first": initial, "step": step},
        explains=(*CONSEQUENCES, "T603", "G405", "G406"),
        aspect="run",
    )


def _unbounded_part_finding(part: UnboundedPart, *, is_after_run: bool) -> Finding:
    values, losses = (", ".join(f"{number:.3g}" for number in numbers) for numbers in (part.values, part.losses))
    return Finding(
        where=get_location(part.line),
        message=f"The loss is unbounded below: it falls without end as {part.name} becomes {part.direction}, whatever "
        f"the predictions are. On the first batch{' after the run' if is_after_run else ''}, the loss is "
        f"{part.first:.3g}. With {part.name} set to {values} and the same predictions, it is {losses}.",
        cause=f"A term that should penalize {part.direction} values of {part.name} is missing or has the wrong sign.",
        fix=f"Write `{describe_edits(part.sign_change)}`." if part.sign_change else _SIGN_FIX,
        edits=part.sign_change,
        evidence={"part": part.name, "values": part.values, "losses": part.losses, "batches": part.batches},
        explains=CONSEQUENCES + _OF_UNBOUNDED_PART,
    )


def _unbounded_output_finding(unbounded: UnboundedOutput, line: SourceLine | None) -> Finding:
    sizes, losses = (
        ", ".join(f"{number:.3g}" for number in numbers) for numbers in (unbounded.sizes, unbounded.losses)
    )
    return Finding(
        where=get_location(line),
        message=f"The loss has no lower bound: it falls further the larger the outputs are, in each of "
        f"{unbounded.directions} random directions. With the outputs of the model as it is now, the loss of the first "
        f"batch is {unbounded.first:.3g}. With random outputs whose standard deviation is {sizes}, it is at most "
        f"{losses}.",
        cause="The loss is a log-likelihood, or another score to maximize, without its minus sign.",
        fix="loss = -loss",
        edits=negate_value(line),
        evidence={"sizes": unbounded.sizes, "losses": unbounded.losses, "directions": unbounded.directions},
        explains=CONSEQUENCES + _OF_UNBOUNDED_PART,
    )


def bad() -> Setup:
    """Cross-entropy that is maximized."""
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, maximize=True)
    setup = classifier(optimizers=(optimizer,))
    setup.model = model
    return setup


def good() -> Setup:
    """A likelihood that is maximized."""
    cross_entropy = nn.CrossEntropyLoss()
    setup = bad()
    setup.loss_fn = lambda output, target: -cross_entropy(output, target)
    return setup
