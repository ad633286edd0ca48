"""Findings of losses that pull together what should be apart, compare the wrong pairs, or shrink the volume."""

from __future__ import annotations

import ast

import torch
from torch import nn

from nbdebug.finding import Edit, Finding
from nbdebug.measurements.event_order import EventOrder
from nbdebug.measurements.flow_volume import FlowVolume
from nbdebug.measurements.heads import HeadSetup
from nbdebug.measurements.pair_loss import PairLoss
from nbdebug.measurements.triplet_loss import TripletLoss
from nbdebug.rule_engine.expression_edits import expressions_at, only_call, set_option
from nbdebug.setup import Setup
from nbdebug.setup.optimizer_code import setting_fix
from nbdebug.setup.source_lines import option_line, passed_argument
from nbdebug.source.assignments import certain_line, covering_statement
from nbdebug.source.edits import describe_edits, replace_node
from nbdebug.source.location import SourceLine, get_location
from nbdebug.source.scopes import Expression
from nbdebug.source.search import read_names

CONSEQUENCES = (
    *("O501", "O510", "G404", "G410", "G412", "G415", "M307"),
    *("T602", "T604", "T605", "T608", "T610", "E702", "E706", "E709"),
)
_OF_SHRUNK_CODES = ("T603", "T606", "T609", "T614", "G402", "G403", "G405", "G406", "G409", "G411", "G416", "L208")
MIN_PAIR_SIGMA = 5.0
_OPPOSITE_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.Gt, ast.Gt: ast.Lt},
    **{ast.LtE: ast.GtE, ast.GtE: ast.LtE},
}
_SORTS = ("argsort", "sort")
_RISK_SET = (
    "order = torch.argsort(time, descending=True)   # before logcumsumexp(score[order], 0), or compare in pairs:\n"
    "at_risk = time[None, :] >= time[:, None]   # row: event, column: sample"
)
_MAX_TRIPLET_SIGMA, _MIN_PREDICTED = 2.0, 0.1


def pair_finding(pairs: PairLoss, line: SourceLine | None) -> Finding:
    """Report a loss that pulls pairs of different inputs together."""
    return Finding(
        where=get_location(line),
        message=f"The loss pulls pairs of label {pairs.attracted_label:g} together and pairs of label "
        f"{pairs.repelled_label:g} apart, but the inputs of the former are closer in only {pairs.alike_share:.0%} of "
        f"all comparisons of two such pairs, {-pairs.sigma:.1f} standard errors below one half.",
        cause="The loss expects the opposite labels: it reads the label of equal pairs as that of different pairs.",
        fix=f"loss = loss_fn(distance, {pairs.attracted_label + pairs.repelled_label:g} - label)   # or swap the terms "
        "of the loss",
        evidence={
            "attracted": pairs.attracted_label,
            "alike": pairs.alike_share,
            "sigma": pairs.sigma,
            "pairs": pairs.pairs,
        },
        explains=(*CONSEQUENCES, "T606", "T607"),
    )


def maximized_pair_finding(setup: Setup, pairs: PairLoss) -> Finding:
    """Report an optimizer that maximizes a loss which is lower for alike inputs close together."""
    return Finding(
        where=get_location(option_line(setup, setup.optimizers[0], "maximize", True)),
        message="The optimizer drives the loss up: the loss falls if pairs of label "
        f"{pairs.attracted_label:g} come closer together, and the inputs of these pairs are closer in "
        f"{pairs.alike_share:.0%} of all comparisons with a pair of label {pairs.repelled_label:g}.",
        cause="maximize=True is set, but the loss should be minimized.",
        fix=setting_fix(setup, "maximize", False),
        evidence={"attracted": pairs.attracted_label, "alike": pairs.alike_share, "maximize": True},
        explains=(*CONSEQUENCES, "T606", "T607"),
    )


def are_exchanged(triplets: TripletLoss) -> bool:
    """Check whether the loss pushes alike inputs apart, and pulls those together that are no more alike than any."""
    is_by_design = max(triplets.wanted.sigma, triplets.related.sigma) > _MAX_TRIPLET_SIGMA
    of_pulled, of_pushed = triplets.predicted  # a view of the anchor that is far from it, such as a negative of a photo
    is_view = of_pulled > max(_MIN_PREDICTED, 2 * of_pushed)
    return triplets.opposite.sigma > MIN_PAIR_SIGMA and not is_by_design and not is_view


def distance_line(setup: Setup) -> SourceLine | None:
    """Return the line that makes the distance of torch's triplet loss if it grows with the likeness, else None.

    It is a similarity if it is larger for random vectors and themselves than for two of them.
    """
    if isinstance(setup, HeadSetup) and setup.whole is not None:
        setup = setup.whole
    distance = getattr(setup.loss_fn, "distance_function", None)
    is_torch_loss = isinstance(setup.loss_fn, nn.TripletMarginWithDistanceLoss)
    if not is_torch_loss or distance is None or isinstance(distance, nn.Module):
        return None
    vectors = torch.randn(32, 8, generator=torch.Generator().manual_seed(0))
    try:
        of_equal, of_others = distance(vectors, vectors), distance(vectors, vectors.roll(1, 0))
        is_similarity = bool(of_equal.mean() > of_others.mean())
    except Exception:  # a distance of vectors of a certain size
        return None
    argument = passed_argument(setup, setup.loss_fn, "distance_function") if is_similarity else None
    return _naming_line(argument, getattr(distance, "__name__", "")) or argument.line if argument else None


def _naming_line(argument: Expression, function: str) -> SourceLine | None:
    """Return the line that gives a function the name of a variable that an argument reads, such as ``near = F.cosine``.

    None if the argument names the function itself.
    """
    for variable in sorted(read_names(argument.node)):
        line = certain_line(argument.line, variable)
        value = getattr(covering_statement(line), "value", None) if line is not None else None
        if function and getattr(value, "attr", getattr(value, "id", "")) == function:
            return line
    return None


def triplet_finding(triplets: TripletLoss, line: SourceLine | None) -> Finding:
    """Report a loss of triplets that takes the alike sample for the different one."""
    return Finding(
        where=get_location(line),
        message=f"The loss pulls output {triplets.pulled} of each triplet to the anchor and pushes output "
        f"{triplets.pushed} away, but the input of the latter resembles that of the anchor more. By a linear metric "
        f"that is fitted to other triplets, it is the closer one in {triplets.opposite.value:.0%} of "
        f"{triplets.triplets:,} triplets. A metric fitted to the reverse order is right in "
        f"{triplets.wanted.value:.0%}.",
        cause="Positive and negative sample are exchanged between the dataset and the loss, or the two distances in "
        "the loss, or the loss takes a similarity, such as a cosine, for a distance.",
        fix="loss = loss_fn(anchor, positive, negative)   # in the order in which the dataset returns them",
        evidence={
            "pulled": triplets.pulled,
            "pushed": triplets.pushed,
            "pushed is more alike": triplets.opposite.value,
            "pulled is more alike": triplets.wanted.value,
            "pulled is more alike than the next": triplets.related.value,
            "triplets": triplets.triplets,
        },
        explains=(*CONSEQUENCES, "T606", "T607"),
    )


def flow_volume_finding(volume: FlowVolume, general_fix: str) -> Finding:
    """Report a likelihood of a normalizing flow that grows as the map shrinks the volume."""
    negative = "the negative of " if volume.sign < 0 else ""
    return Finding(
        where=get_location(volume.line),
        message=f"The loss rewards a map that shrinks all inputs to one point. Output {volume.volume} is {negative}the "
        f"log-determinant of output {volume.code} as a map of the input: it differs by at most {volume.error:.2g} from "
        f"that of the Jacobian by autograd, in {volume.samples} samples of {volume.width} values. The loss changes by "
        f"{volume.slope:+.3g} if the log-determinant of all samples grows by 1, where a negative log-likelihood falls.",
        cause="The log-determinant enters the loss with the wrong sign. In a change of variables, log p(x) is log p(z) "
        "plus the log-determinant of the map from x to z.",
        fix=f"Write `{describe_edits(volume.sign_change)}`." if volume.sign_change else general_fix,
        edits=volume.sign_change,
        evidence={
            "slope": volume.slope,
            "error": volume.error,
            "samples": volume.samples,
            "width": volume.width,
            "outputs": (volume.code, volume.volume),
        },
        explains=(*CONSEQUENCES, *_OF_SHRUNK_CODES),
    )


def event_order_finding(order: EventOrder, line: SourceLine | None) -> Finding:
    """Report a survival loss that compares events with the samples that left before them."""
    edits = _reverse_order(order, line)
    return Finding(
        where=get_location(line),
        message=f"The loss compares events with the samples whose time is smaller. Each of {order.trials} trials "
        f"permutes the {order.samples} times of the first batch, and gives an event (indicator {order.event}) to two "
        "neighbors in time only. The gradient then reaches the scores of all samples with smaller times, and none with "
        "larger times.",
        cause="If the times are times to an event or to censoring, the loss reverses their order. The samples at risk "
        "at an event are those with an equal or larger time. If a sample was censored earlier, it is unknown which of "
        "the two lasts longer.",
        fix=f"Write `{describe_edits(edits)}`." if edits else _RISK_SET,
        edits=edits,
        evidence={"indicator of an event": order.event, "trials": order.trials, "samples": order.samples},
        explains=(*CONSEQUENCES, "T606", "T607", "E707", "L208"),
        severity="warning",
    )


def _reverse_order(order: EventOrder, line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of the only sort or comparison on the line to the opposite order."""
    if line is None or order.call is None:
        return ()
    if order.is_sorted:
        call = only_call(line, _SORTS)
        is_by_position = call is not None and any(ast.unparse(argument) == "True" for argument in call.args)
        return () if is_by_position else set_option(line, _SORTS, "descending", str(not order.is_descending))
    comparisons = [node for node in expressions_at(line) if isinstance(node, ast.Compare)]
    opposite = _OPPOSITE_COMPARISONS.get(type(comparisons[0].ops[0])) if len(comparisons) == 1 else None
    if opposite is None or len(comparisons[0].ops) > 1:
        return ()
    changed = ast.Compare(comparisons[0].left, [opposite()], comparisons[0].comparators)
    return (replace_node(line.file, comparisons[0], ast.unparse(changed)),)
