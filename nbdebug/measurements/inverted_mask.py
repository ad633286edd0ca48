"""Positions of a padded row that reach the output of other positions, by changing one at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.call_operands import padding_mask_location
from nbdebug.measurements.padding import change_embedded, find_trailing_padding
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import slow_measurement
from nbdebug.setup import Batch

_MAX_POSITIONS, _MIN_REAL, _MIN_PADDED = 16, 4, 2  # positions of a row that are changed: real ones, and padded ones
_MIN_HIDDEN = 2  # real positions without influence that an input explains
_MAX_OWN_POSITIONS = 1  # a real position may be read directly, such as a summary token


@dataclass(frozen=True)
class PositionInfluence:
    """Changed positions of one row padded with ``token``, and those of them that change the output elsewhere.

    ``where`` is the location of the module that receives the mask, with the line of the call whose result is true at
    the real positions, or else at the padded ones. ``hidden_by`` is the input that takes the place of the mask: the
    real positions without influence are those where it is zero, while another input is one at all real positions.
    ``has_positions`` tells whether the output has the positions of the row, of which only others were compared.
    """

    token: int
    real: int
    influential_real: int
    padded: int
    influential_padded: int
    where: Location
    hidden_by: str = ""
    has_positions: bool = False

    @property
    def is_inverted(self) -> bool:
        """True if padded positions reach the output, and real ones do not."""
        return 2 * self.influential_padded >= self.padded and self.influential_real <= _MAX_OWN_POSITIONS


@slow_measurement
def position_influence(eval_outputs: EvalOutputs) -> PositionInfluence:
    """The real and the padded positions of a row whose embedded content changes the output for other positions."""
    for tokens in eval_outputs.inputs.values():
        padding = find_trailing_padding(tokens)
        row = _select_row(padding[1]) if padding is not None else None
        if padding is None or row is None:
            continue
        token, is_padded = padding[0], padding[1][row]
        real, padded = (_spread(positions.nonzero().flatten()) for positions in (~is_padded, is_padded))
        copies = eval_outputs.batch.take_samples([row] * (len(real) + len(padded)))
        others = {name: values for name, values in eval_outputs.inputs.items() if values is not tokens}
        positions = torch.cat([real, padded])
        reaches = _reaches_other_positions(eval_outputs, copies, tokens, positions, is_padded)
        return PositionInfluence(
            token,
            len(real),
            int(reaches[: len(real)].sum()),
            len(padded),
            int(reaches[len(real) :].sum()),
            _mask_location(eval_outputs, padding[1]),
            _hiding_input(others, row, ~is_padded, real, reaches[: len(real)]),
            _position_axis(eval_outputs.outputs[0], tokens) is not None,
        )
    raise NotChecked("no token fills the ends of the rows")


def _hiding_input(inputs: dict[str, Tensor], row: int, is_real: Tensor, positions: Tensor, reaches: Tensor) -> str:
    """Return the input that is zero at the positions without influence only, if another is the mask; else "".

    The first position may be read directly, as that of a summary token, so it does not count.
    """
    flags = {
        name: values[row].cpu() != 0
        for name, values in inputs.items()
        if values.shape[1:] == is_real.shape and not values.is_floating_point()
    }
    masks = {name for name, flag in flags.items() if torch.equal(flag, is_real.cpu())}
    counted, reaches = positions[positions > 0].cpu(), reaches[positions > 0].cpu()
    if not masks or int((~reaches).sum()) < _MIN_HIDDEN:
        return ""
    return next((name for name in flags if name not in masks and torch.equal(flags[name][counted], reaches)), "")


def _select_row(padded: Tensor) -> int | None:
    """Return the row with the most real positions that has padding; None if no row has enough of both."""
    real = (~padded).sum(1)
    candidates = (padded.sum(1) >= _MIN_PADDED) & (real >= _MIN_REAL)
    return int(torch.where(candidates, real, -1).argmax()) if bool(candidates.any()) else None


def _spread(positions: Tensor) -> Tensor:
    return positions[torch.linspace(0, len(positions) - 1, min(len(positions), _MAX_POSITIONS)).long()]


def _reaches_other_positions(
    answers: EvalOutputs, copies: Batch, tokens: Tensor, positions: Tensor, padded: Tensor
) -> Tensor:
    """Return whether changing one position of each copy of a row changes the output, except at that position."""
    changed = torch.zeros(len(positions), tokens.shape[1], dtype=torch.bool)
    changed[torch.arange(len(positions)), positions] = True
    before = answers.predict(copies)[0]
    embeddings = [module for module in answers.setup.eager_model.modules() if isinstance(module, nn.Embedding)]
    with ExitStack() as stack:
        was_applied = [stack.enter_context(change_embedded(module, changed)) for module in embeddings]
        after = answers.predict(copies)[0]
    if not any(was_applied) or before.shape != after.shape or len(after) != len(positions):
        raise NotChecked("the tokens are not embedded, or the output does not have one row per sample")
    differs = before != after
    axis = _position_axis(differs, tokens)
    if axis is not None:
        is_other = ~(changed | padded).to(differs.device)
        differs = differs.movedim(axis, 1) & is_other.reshape(*changed.shape, *[1] * (differs.dim() - 2))
    return differs.reshape(len(positions), -1).any(1)


def _position_axis(output: Tensor, tokens: Tensor) -> int | None:
    """Return the axis of an output that has the positions of its tokens."""
    return next((axis for axis in range(1, output.dim()) if output.shape[axis] == tokens.shape[1]), None)


def _mask_location(answers: EvalOutputs, padded: Tensor) -> Location:
    mask_call = _find_mask_call(answers, padded)
    return padding_mask_location(answers, mask_call.line if mask_call else None)


def _find_mask_call(answers: EvalOutputs, padded: Tensor) -> TorchCall | None:
    """Return the first call whose result is true at the real positions; else one that is true at the padded ones."""
    recorded = answers.recorded_calls(answers.batch)
    patterns: tuple[Callable[[Tensor], bool], ...] = (
        lambda result: torch.equal(result, ~padded),
        lambda result: torch.equal(result, padded),
    )
    for matches in patterns:
        for call in recorded:
            results = [t.reshape(padded.shape) for t in call.outputs if t.numel() == padded.numel()]
            if any(result.dtype == torch.bool and matches(result) for result in results):
                return call
    return None
