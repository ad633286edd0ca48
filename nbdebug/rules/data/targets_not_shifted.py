"""D126: the targets of a next-token model are not shifted, or shifted twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.autograd import Graph
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.formatting import join_names
from nbdebug.loop_monitor.conclusions import argument_unchanged
from nbdebug.measurements.decoder_input import DecoderInput
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.future_influence import FutureInfluence
from nbdebug.measurements.loop_heads import find_argument_line, find_target_lines
from nbdebug.measurements.loss_places import selection_line, target_selection_line
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.sequence_order import NextTokenOffset, depends_on_current_input
from nbdebug.rule_engine.data_edits import shift_right, shift_targets
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rule_engine.slice_edits import LaterSlice, drops_last, later_slice
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import copying_line, known_origin_line, unpacked_pair_line
from nbdebug.setup.paired_returns import find_copying_return
from nbdebug.setup.sample_functions import alias_line
from nbdebug.source.edits import describe_edits
from nbdebug.source.location import SourceLine, get_location, get_related_lines
from nbdebug.tensors.pytree import tree_tensors


@rule("D126", "error", origin="target order")
def targets_not_shifted(
    setup: Setup,
    next_token_offset: NextTokenOffset,
    future_influence: FutureInfluence,
    eval_outputs: EvalOutputs,
    decoder_input: DecoderInput | NotChecked | None,
    first_pass: ForwardPass | NotChecked,
    graph: Graph | NotChecked,
) -> Iterator[Finding]:
    """The targets of an autoregressive model are its own inputs, or are shifted by more than one token.

    ## What it does
    Counts how many tokens ahead of its input a model is trained to predict, by the data and the loss together. One is
    correct; zero means that neither shifts, two that both do, and a negative number that the outputs are shifted. It
    covers models whose outputs do not depend on later inputs: a model that reads the whole sequence and reproduces it
    is an autoencoder. A model that shifts its input itself is not reported. Of an encoder-decoder, it is the input of
    the decoder that must not be the target itself; the encoder's input is one that the model reads as a whole.

    ## Why it matters
    Without a shift, the target is part of the input: the loss falls to almost zero, and the model has learned to copy.
    With a shift of two, it is never trained on pairs of adjacent tokens.

    ## How it is measured
    The targets are compared with the inputs at every shift. Then one target is changed, and the gradient of the loss
    shows which output it is compared with. Whether the model uses later tokens is measured by changing later inputs.
    A finding before training is withdrawn if the watched loop never passes the tokens as the loader yields them. If
    the loop passes other arguments, those of its first recorded step are compared with the target of its loss.

    ## How to fix
    Shift once: in the data, ``x, y = tokens[:, :-1], tokens[:, 1:]``, or in the loss, not in both. Models that accept
    ``labels`` often shift them internally. If the decoder's input starts with the same token in all samples, or lacks
    the last token of the sequence, it is right, and the target has to be one token later. If it does not, it needs a
    start token in front.

    ## When to ignore
    When the task is a delayed copy or a longer horizon. Real-valued inputs are not reported for that reason.

    ## References
    Radford et al., Improving Language Understanding by Generative Pre-Training, 2018, section 3.1: each token is
    predicted from the previous tokens.
    """
    is_tokens = not eval_outputs.inputs[next_token_offset.input_name].is_floating_point()
    total = next_token_offset.total_offset
    if future_influence.affected_positions or total not in (-2, -1, 0, 2, 3) or not is_tokens:
        return
    if total <= 0 and not depends_on_current_input(eval_outputs, next_token_offset):
        return
    position = list(eval_outputs.inputs).index(next_token_offset.input_name)
    line = None
    if made_at := find_argument_line(setup, position):
        line = made_at
    elif next_token_offset.loss_offset and isinstance(first_pass, ForwardPass) and isinstance(graph, Graph):
        line = target_selection_line(setup, first_pass) if total > 1 else None
        line = line or selection_line(first_pass, graph)
    elif _share_memory(eval_outputs, next_token_offset):
        line = alias_line(setup) or unpacked_pair_line(setup)
    is_unshifted = total == 0 and not next_token_offset.loss_offset
    if line is None and is_unshifted:
        line = copying_line(setup) or alias_line(setup) or unpacked_pair_line(setup)
    copying = find_copying_return(setup, position) if line is None and is_unshifted else None
    line = copying.line if copying else line
    related = get_related_lines((copying.call if copying else None, "the function that pairs them is called here"))
    decoder = decoder_input if isinstance(decoder_input, DecoderInput) and total == 0 else None
    if is_unshifted and _is_input_right(decoder, made_at):
        lines = [other for other in find_target_lines(setup) if made_at and other != made_at]
        later = next(filter(None, map(later_slice, lines)), None)
        if later is not None or decoder is not None:
            place = next((other for other in lines if made_at and other.function == made_at.function), line)
            yield replace(_target_finding(setup, position, decoder, next_token_offset, place, later), related=related)
            return
    if decoder is not None:
        yield replace(_decoder_finding(setup, decoder, next_token_offset, line), related=related)
        return
    edits = shift_targets(setup, position) if is_unshifted else ()
    shifts_twice = next_token_offset.data_offset > 0 and next_token_offset.loss_offset > 0
    data_line = known_origin_line(setup, "target order") if shifts_twice else None
    yield Finding(
        message=f"{_describe_offset(eval_outputs, next_token_offset)} "
        f"(the data shift them by {next_token_offset.data_offset}, the loss by {next_token_offset.loss_offset}); "
        "an autoregressive model needs a shift of 1 in total.",
        where=get_location(line),
        cause="Neither the data nor the loss shifts the targets, so the model sees the token that it should predict."
        if total == 0
        else "The outputs are shifted instead of the targets, so each output is compared with a token that it has read."
        if total < 0
        else "The targets are shifted more than once, for example by the data and again by the loss.",
        fix=describe_edits(edits) or _shift_fix(next_token_offset),
        edits=edits,
        evidence={
            "in_data": next_token_offset.data_offset,
            "in_loss": next_token_offset.loss_offset,
            "input": next_token_offset.input_name,
        },
        setup_fix=_setup_fix(next_token_offset, position),
        related=get_related_lines((data_line, "the data shift the targets here")) or related,
        explains=("E703", "T606", "T607", "T611"),
        assumes=(argument_unchanged(position),),
    )


def _is_input_right(decoder: DecoderInput | None, made_at: SourceLine | None) -> bool:
    """Return whether an input that equals the target may stay, so that the target has to be one token later."""
    if decoder is None or drops_last(made_at):
        return True
    return decoder.start_token is not None and (made_at is not None or decoder.unchanged_line is None)


def _target_finding(
    setup: Setup,
    position: int,
    decoder: DecoderInput | None,
    ahead: NextTokenOffset,
    line: SourceLine | None,
    later: LaterSlice | None,
) -> Finding:
    """Report a target that equals an input which is right: it starts with a start token, or lacks the last token."""
    edits = later.edits if later is not None else shift_targets(setup, position)
    start = decoder.start_token if decoder is not None else None
    reason = f" The input is right: all samples start with token {start}, a start token." if start is not None else ""
    text = f": {later.text}" if later is not None else ""
    return Finding(
        message=f"{'The input of the decoder equals' if decoder else 'The inputs equal'} the target, token by token: "
        "at each position, the model reads the token that it should predict.",
        where=get_location(later.line if later is not None else line),
        cause=f"Input and target are the same slice; the target must start one token later{text}.{reason}",
        fix=describe_edits(edits) or "inputs, targets = tokens[:, :-1], tokens[:, 1:]",
        edits=edits,
        evidence={"in_data": 0, "in_loss": 0, "input": ahead.input_name, "start token": start},
        setup_fix=_setup_fix(ahead, position),
        explains=("E703", "T606", "T607", "T611"),
        assumes=(argument_unchanged(position),),
    )


def _decoder_finding(setup: Setup, decoder: DecoderInput, ahead: NextTokenOffset, line: SourceLine | None) -> Finding:
    """Report a decoder that reads the very tokens that it has to write."""
    unused = decoder.unused_tokens
    fix, edits = shift_right(setup, decoder.position, unused[0] if len(unused) == 1 else None)
    rows = f"row{'s' * (len(unused) > 1)} {join_names([*map(str, unused)])}" if unused else ""
    candidate = (
        f" Its embedding has {rows}, which the input never uses in the first batches: a candidate for the start token."
        if unused
        else ""
    )
    return Finding(
        message="The decoder's input equals the target, token by token: at each position, it reads the token that it "
        f"should predict. The decoder receives input {decoder.position} of the model, and the encoder receives input "
        f"{decoder.source_position}.",
        where=get_location(decoder.unchanged_line or line),
        cause="The decoder's input lacks a start token in front, which would put it one position behind the target."
        + candidate,
        fix=fix,
        edits=edits,
        evidence={"in_data": 0, "in_loss": 0, "input": ahead.input_name, "unused tokens": list(unused)},
        setup_fix=_setup_fix(ahead, decoder.position),
        explains=("E703", "T606", "T607", "T611"),
        assumes=(argument_unchanged(decoder.position),),
    )


def _describe_offset(outputs: EvalOutputs, ahead: NextTokenOffset) -> str:
    """Say where the targets stand beside the tokens that the model receives."""
    name, total = ahead.input_name, ahead.total_offset
    tokens = f"input {name}" if len(outputs.inputs) > 1 else "the inputs"
    if total == 0:
        return f"The targets equal {tokens} of the model, token by token"
    return (
        f"The targets are {abs(total)} token{'s' * (abs(total) != 1)} {'behind' if total < 0 else 'ahead of'} {tokens}"
    )


def _share_memory(outputs: EvalOutputs, ahead: NextTokenOffset) -> bool:
    """Return whether a write to the targets would also change the inputs."""
    tokens = outputs.inputs[ahead.input_name]
    return any(target.data_ptr() == tokens.data_ptr() for target in tree_tensors(outputs.batch.targets))


def _setup_fix(ahead: NextTokenOffset, position: int) -> str:
    """Return the change by which each output sees only the tokens before its target, if they are the same tokens."""
    return f"shift tokens={position}" if ahead.total_offset == 0 else ""


def _shift_fix(ahead: NextTokenOffset) -> str:
    if ahead.total_offset < 0:
        return "scores, targets = scores[:, :-1], tokens[:, 1:]"
    if ahead.total_offset == 0:
        return "inputs, targets = tokens[:, :-1], tokens[:, 1:]"
    if ahead.loss_offset:
        return "Shift the targets in one place only: in the data, or in the loss."
    return "inputs, targets = tokens[:, :-1], tokens[:, 1:]  # shift by exactly one token"


class RecurrentLanguageModel(nn.Module):
    """An autoregressive language model."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.body = nn.Embedding(11, 8), nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits at every position."""
        states, _ = self.body(self.embed(tokens))
        logits: Tensor = self.head(states)
        return logits


def token_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy over all positions."""
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def _token_setup(shift: int) -> Setup:
    """Random tokens; the targets are the tokens shifted by ``shift``."""
    tokens = torch.randint(0, 11, (64, 10), generator=torch.Generator().manual_seed(0))
    return minimal_setup(RecurrentLanguageModel(), tokens[:, :8], tokens[:, shift:][:, :8], token_cross_entropy)


def bad() -> Setup:
    """The targets are the inputs."""
    return _token_setup(0)


def good() -> Setup:
    """The targets are the next tokens."""
    return _token_setup(1)
