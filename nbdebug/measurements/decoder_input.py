"""The input of the decoder of an encoder-decoder that is the target itself, and the token that could start it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.autograd.tensor_makers import find_returning_line
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import measurement
from nbdebug.measurements.sequence_order import NextTokenOffset, replace_values
from nbdebug.setup import Batch
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import returned_parameter_line

_MAX_UNUSED_ROWS = 3  # of a large vocabulary, many rows are unused by chance


@dataclass(frozen=True)
class DecoderInput:
    """The positions of the decoder's input and of an encoder's input among the inputs of the model.

    ``unused_tokens`` are rows of the decoder's embedding that its input uses in none of the first batches, if they are
    few: candidates for a start token. ``unchanged_line`` is where a function that the model calls with the decoder's
    input passes it on as it is. ``start_token`` is the first token of the input, if all samples start with it.
    """

    position: int
    source_position: int
    unused_tokens: tuple[int, ...] = ()
    unchanged_line: SourceLine | None = None
    start_token: int | None = None


@measurement
def decoder_input(
    eval_outputs: EvalOutputs, next_token_offset: NextTokenOffset, batches: list[Batch]
) -> DecoderInput | None:
    """The decoder's input of a model with an encoder, if it equals the target.

    The encoder's input is one whose later values change the output at the first position: a model reads it as a whole,
    unlike a second value of each token, such as its segment.
    """
    names = list(eval_outputs.inputs)
    position = names.index(next_token_offset.input_name)
    if next_token_offset.data_offset != 0:
        return None
    sources = (i for i, name in enumerate(names) if i != position and _is_read_whole(eval_outputs, name))
    source_position = next(sources, None)
    if source_position is None:
        return None
    tokens = eval_outputs.inputs[next_token_offset.input_name]
    line = find_returning_line(lambda: eval_outputs.predict(eval_outputs.batch), lambda result: result is tokens)
    unused_tokens = _unused_tokens(eval_outputs, next_token_offset, batches)
    unchanged_line = returned_parameter_line(line) if line else None
    start_token = _shared_first_token(tokens, next_token_offset.axis)
    return DecoderInput(position, source_position, unused_tokens, unchanged_line, start_token)


def _shared_first_token(tokens: Tensor, axis: int) -> int | None:
    """Return the token with which all samples start, if there are several and they do."""
    first = tokens.select(axis, 0).flatten()
    return int(first[0]) if len(first) > 1 and bool((first == first[0]).all()) else None


def _is_read_whole(answers: EvalOutputs, name: str) -> bool:
    """Return whether the later half of an input changes the output at the first position of a sample."""
    source = answers.inputs[name]
    if source.dim() < 2 or source.shape[1] < 2:
        return False
    changed, half = source.clone(), source.shape[1] // 2
    changed[:, half:] = replace_values(source)[:, half:].to(source.dtype)
    after = answers.predict(answers.transform_inputs(lambda leaf: changed if leaf is source else leaf))[0]
    differs = answers.changed_values(after)
    return differs.dim() > 1 and bool(differs[:, 0].any())


def _unused_tokens(answers: EvalOutputs, ahead: NextTokenOffset, batches: list[Batch]) -> tuple[int, ...]:
    """Return the rows of the table that the decoder's input is looked up in, of which no batch uses any, if few."""
    tokens, calls = answers.inputs[ahead.input_name], answers.recorded_calls(answers.batch)
    tables = (call.inputs for call in calls if call.name == "embedding" and len(call.inputs) == 2)
    rows = next((len(table) for indices, table in tables if _are_equal(indices, tokens)), 0)
    used = {
        int(token)
        for batch in batches
        for token in torch.unique(EvalOutputs(answers.setup, batch).inputs[ahead.input_name]).tolist()
    }
    unused = tuple(token for token in range(rows) if token not in used)
    return unused if len(unused) <= _MAX_UNUSED_ROWS else ()


def _are_equal(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and bool((first == second).all())
