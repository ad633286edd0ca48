"""L215: padded positions contribute to the loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.autograd import Graph
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding
from nbdebug.measurements.copied_targets import CopiedTargets
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.known_positions import KnownPositions
from nbdebug.measurements.loss_places import masked_mean_line, producing_line
from nbdebug.measurements.padding_gradient import PaddingGradient
from nbdebug.rule_engine.expression_edits import select_operands, set_option
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import origin_line
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.edits import describe_edits
from nbdebug.source.location import SourceLine, get_location
from nbdebug.source.scopes import user_function
from nbdebug.source.search import call_name, find_unique_line

_Positions = TypeVar("_Positions", KnownPositions, CopiedTargets)
_MASKED_FIX = "loss = (each * mask).sum() / mask.sum()   # each: the loss of each position, by reduction='none'"
_TORCH_INDICES = {-100, 2**64 - 100}  # the default of ignore_index in torch; nodes may save it without its sign
_CLASS_LOSSES = ("cross_entropy", "nll_loss", "CrossEntropyLoss", "NLLLoss")


@rule("L215", "warning", origin="loss")
def padding_in_loss(
    setup: Setup,
    padding_gradient: PaddingGradient | NotChecked,
    known_positions: KnownPositions | NotChecked | None,
    copied_targets: CopiedTargets | NotChecked | None,
    graph: Graph | NotChecked,
    first_pass: ForwardPass | NotChecked,
    *,
    share: float = 0.05,
    most: float = 0.5,
) -> Iterator[Finding]:
    """Padded positions, or targets that are not known, contribute to the loss.

    ## What it does
    Finds the padded positions of the input whose targets all have one value, and checks whether the loss has a gradient
    at their outputs. Does the same for real-valued targets that come with a mask and all have one value where it is
    zero, and for targets that are copies of the input except where a mask hides it.

    ## Why it matters
    The model is rewarded for predicting padding, which is easy: the loss decreases, and real tokens weigh less the more
    padding there is.

    ## How it is measured
    On the first batch, and on the first step of a watched loop, with the loss that the loop computes. Positions are
    padding if a mask or lengths among the inputs say so, if they hold the ``padding_idx`` of an embedding, or if one
    token, or one vector of a sequence of vectors, fills the ends of the rows and occurs nowhere else. Rows that hold
    their last value, as running maxima do, have no padding, and neither has a token at the ends of rows whose targets
    differ. Reported when more than ``share`` of the targets are padding and the gradient there is not exactly zero.
    Unknown targets are reported if more than ``most`` of them have a gradient, and the loss is the same with the
    inverse of their mask. So are targets that equal the input wherever a mask does not hide it, if the loss receives
    that mask: as a target, or as a part of the output.

    ## How to fix
    Give padded targets the index that the loss ignores, as in ``nn.CrossEntropyLoss(ignore_index=-100)``, or multiply
    the loss of each position by a mask.

    ## When to ignore
    When the padding token also ends the sequence, and the model has to learn where.

    ## References
    Documentation of torch.nn.CrossEntropyLoss, argument ``ignore_index``.
    """
    if isinstance(known_positions, KnownPositions):
        if known_positions.learned_unknown > most and not known_positions.is_mask_used:
            yield _unknown_targets_finding(
                _with_own_names(setup, known_positions), producing_line(graph), _parameters(setup)
            )
        return
    if isinstance(copied_targets, CopiedTargets):
        if copied_targets.learned_share > most:
            yield _copied_targets_finding(_with_own_names(setup, copied_targets), producing_line(graph))
        return
    if isinstance(padding_gradient, NotChecked):
        raise padding_gradient
    padding = padding_gradient
    if padding.share <= share or not padding.has_gradient:
        return
    masked = masked_mean_line(setup, first_pass) if isinstance(first_pass, ForwardPass) else None
    chooses_index = _chooses_index(setup, graph)
    edits = _ignore_edits(setup, padding, chooses_index=chooses_index) if masked is None else ()
    changed_line = SourceLine(edits[0].file, edits[0].line) if edits else None
    yield Finding(
        message=f"{padding.share:.0%} of the targets of the first batch are {padding.value:g} at padded positions of "
        "the input, and they contribute to the loss.",
        where=get_location(masked or changed_line or _padding_line(setup, padding, chooses_index=chooses_index)),
        cause="The mask multiplies a loss that is already one number. This scales the loss, and leaves no position out."
        if masked
        else "Neither an ignore_index nor a mask leaves the padded positions out of the loss.",
        fix=_MASKED_FIX if masked else _get_fix(padding),
        edits=edits,
        evidence={"share of padding": padding.share, "target of padding": padding.value},
        explains=("L208", "M310", "D106", "E702", "E704", "E706", "T606"),
    )


def _padding_line(setup: Setup, padding: PaddingGradient, *, chooses_index: bool) -> SourceLine | None:
    """Return the line that pads the targets with a class, if the loss cannot ignore it.

    That is a class of real positions too, with which the user's collate function pads them, or the loss ignores another
    index already. A loss that could ignore the class of the padding, and ignores none, is the line to change itself.
    """
    pads_with_class = padding.is_real_target and user_function(getattr(setup.train_loader, "collate_fn", None))
    is_class = padding.is_class and padding.value >= 0
    return origin_line(setup, "padded targets") if is_class and (chooses_index or pads_with_class) else None


def _chooses_index(setup: Setup, graph: Graph | NotChecked) -> bool:
    """Return whether the loss ignores an index of the user's choice, by the losses in its graph or in the code."""
    nodes = [] if isinstance(graph, NotChecked) else [*graph.get_nodes_by_name("NllLoss", "NllLoss2D")]
    if nodes:
        return any(int(node.get_saved("ignore_index")) not in _TORCH_INDICES for node in nodes)
    return find_unique_line(_names_index, user_written_objects(setup)) is not None


def _names_index(node: ast.AST) -> bool:
    return getattr(node, "arg", "") == "ignore_index"


def _takes_no_index(node: ast.AST) -> bool:
    """Match a call of torch's loss of classes that names no index to ignore."""
    return call_name(node) in _CLASS_LOSSES and not any(map(_names_index, getattr(node, "keywords", [])))


def _parameters(setup: Setup) -> list[str]:
    """Return the names under which the user's loss takes the output and the targets; none for a loss of torch."""
    own_loss = user_function(setup.loss_fn)
    code = own_loss[0].__code__ if own_loss else None
    return [name for name in code.co_varnames[: code.co_argcount] if name != "self"] if code else []


def _with_own_names(setup: Setup, positions: _Positions) -> _Positions:
    """Return positions with the names that values and mask have as arguments of the user's loss."""
    names = {f"target {position}": name for position, name in enumerate(_parameters(setup)[1:])}
    values, mask = (names.get(name, name) for name in (positions.values, positions.mask))
    return replace(positions, values=values, mask=mask)


def _unknown_targets_finding(positions: KnownPositions, line: SourceLine | None, parameters: list[str]) -> Finding:
    """Report values that stand for unknown targets and count like known ones.

    ``parameters`` are those of the user's loss, by which its line can be changed.
    """
    values, mask = positions.values, positions.mask
    edits: tuple[Edit, ...] = ()
    if {values, mask} <= {*parameters}:
        edits = select_operands(line, [parameters[0], values], f"{mask}.bool()")
    return Finding(
        message=f"{positions.unknown_share:.0%} of the values of {values} in the first batch lie where {mask} is zero. "
        f"All of them are {positions.filler:g}, and they contribute to the loss, which does not use {mask}.",
        where=get_location(line),
        cause=f"{mask} marks the known targets. The loss does not leave out the others, so the model learns the value "
        f"{positions.filler:g} there.",
        fix=describe_edits(edits) or f"Compute the loss only where {mask} is not zero.",
        edits=edits,
        evidence={"share of unknown": positions.unknown_share, "filler": positions.filler},
        explains=("L208", "D113", "T606", "T610"),
    )


def _copied_targets_finding(targets: CopiedTargets, line: SourceLine | None) -> Finding:
    """Report copies of the input that count like the values that a mask hides from the model."""
    values, mask, share = targets.values, targets.mask, targets.copied_share
    return Finding(
        message=f"{share:.0%} of the values of {values} in the first batch are copies of the input, and they "
        f"contribute to the loss. The loss ignores {mask}, which is {targets.hidden_value} only where the input is "
        "hidden from the model.",
        where=get_location(line),
        cause=f"The loss does not use {mask}, so the model is rewarded for copying what it sees.",
        fix=f"loss = each[{mask} == {targets.hidden_value}].mean()   # each: the loss of each value, by "
        "reduction='none'",
        evidence={"share of copies": share},
        explains=("L208", "T606", "T610"),
    )


def _ignore_edits(setup: Setup, padding: PaddingGradient, *, chooses_index: bool) -> tuple[Edit, ...]:
    """Return the index to ignore as an argument of the only call of torch's loss of classes in the program.

    A loss that ignores no index yet is not made by a call that names one.
    """
    if not padding.is_class or padding.is_real_target:
        return ()
    matches = (lambda node: call_name(node) in _CLASS_LOSSES) if chooses_index else _takes_no_index
    line = find_unique_line(matches, user_written_objects(setup))
    return set_option(line, _CLASS_LOSSES, "ignore_index", f"{padding.value:g}")


def _get_fix(padding: PaddingGradient) -> str:
    """Return code that excludes padding; a target that also stands for real positions cannot be ignored as a whole."""
    if not padding.is_class:
        return "loss = loss_fn(output[mask], target[mask])   # mask: true at real positions"
    if padding.is_real_target:
        return "targets[is_padding] = -100   # is_padding: true where the input is padded; the loss ignores -100"
    return f"loss_fn = nn.CrossEntropyLoss(ignore_index={padding.value:g})"


def tagged_sentences() -> tuple[nn.Module, Tensor, Tensor]:
    """Return a tagger, and 32 × 6 tokens and tags with two padded positions per sentence."""
    tokens = torch.randint(1, 9, (32, 6), generator=torch.Generator().manual_seed(0))
    tokens[:, 4:] = 0
    return (
        nn.Sequential(nn.Embedding(9, 8, padding_idx=0), nn.Tanh(), nn.Linear(8, 9)),
        tokens,
        (tokens + 2) % 9 * (tokens > 0),
    )


def token_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    """Return the mean cross-entropy over all positions, padding included."""
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def word_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    """Return the mean cross-entropy over all positions except padding (class 0)."""
    return F.cross_entropy(output.flatten(0, 1), target.flatten(), ignore_index=0)


def bad() -> Setup:
    """A loss that includes padding."""
    return minimal_setup(*tagged_sentences(), token_cross_entropy)


def good() -> Setup:
    """A loss that ignores padding."""
    return minimal_setup(*tagged_sentences(), word_cross_entropy)
