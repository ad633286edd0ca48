"""Positions of an input that no output depends on, although they predict the target better than all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil, prod
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from nbdebug.autograd.call_recorders import SELECTION_CALLS, TorchCall, record_calls
from nbdebug.baselines.input_features import feature_matrix, standardize_columns
from nbdebug.baselines.reference_learner import ReferenceLearner, ReferencePrediction
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.perturbation import EvalOutputs, fill_zero_parameters, where_information_is_lost
from nbdebug.measurements.reference import Reference
from nbdebug.measurements.registry import slow_measurement
from nbdebug.measurements.sequence_order import replace_values
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch
from nbdebug.setup.evaluation_mode import evaluation_mode, fast_attention_disabled, in_mode
from nbdebug.setup.losses import score_tensor
from nbdebug.setup.module_lines import module_line
from nbdebug.setup.module_options import module_option_line
from nbdebug.source.location import SourceLine, add_line
from nbdebug.tensors.pytree import tree_tensors

_MIN_SAMPLES, _MIN_POSITIONS = 8, 4
_MIN_SHARE = 0.02  # of the positions of a sample
_MIN_GAIN = 0.15  # of the best possible gain over a constant prediction
_MAX_READ_SHARE = 0.25  # of that gain, for the positions with influence
_SHUFFLES, _MIN_SIGMAS = 12, 4.0


@dataclass(frozen=True)
class LosingCall:
    """The call that takes values which depend on some positions, and returns none; "" if it is unknown.

    ``line`` is its own line. ``where`` is the place of the fault: the line that creates a layer, or that sets the
    largest of the ``dilations`` of the convolutions before the call, if there are any above 1, else the call.
    """

    name: str = ""
    dilations: tuple[int, ...] = ()
    where: Location | None = None
    line: SourceLine | None = None


@dataclass(frozen=True)
class UnreadPositions:
    """Positions of each sample of an input without influence on the output, and how well they predict the target.

    ``is_unread`` has the shape of a sample. The scores are those of a learner on these positions alone, on everything
    else, and of a constant prediction. ``is_read_useless`` is True if everything else predicts no more than it does
    for shuffled targets.
    """

    input_name: str
    is_unread: Tensor
    unread_score: float
    read_score: float
    constant_score: float
    metric: str
    rows: int
    is_read_useless: bool
    lost_by: LosingCall


@slow_measurement
def unread_positions(
    eval_outputs: EvalOutputs, ignored_inputs: dict[str, bool], reference: Reference
) -> UnreadPositions | None:
    """The positions of an input without influence that predict the target, if all others do not; else None.

    The output must have one row for each sample and no axis of positions. Positions of floating-point inputs are those
    without a gradient in any sample, which exchanged and mirrored values confirm. Of tokens, they are the first or the
    last ones.
    """
    for name, tensor in eval_outputs.inputs.items():
        if ignored_inputs.get(name, True) or not _is_checked(eval_outputs, tensor):
            continue
        is_unread = _find_unread(eval_outputs, tensor)
        if is_unread is not None and (predicted := _compare_predictions(eval_outputs, tensor, is_unread, reference)):
            unread, read, is_read_useless = predicted
            targets = unread.targets
            scores = unread.kernel_ridge.score, read.score, targets.constant_score
            lost_by = _find_losing_call(eval_outputs, tensor, is_unread)
            return UnreadPositions(name, is_unread, *scores, targets.metric, len(targets), is_read_useless, lost_by)
    return None


def _is_checked(answers: EvalOutputs, tensor: Tensor) -> bool:
    """Return whether an input has several positions for each sample, and the output one row without any of them."""
    size, output = answers.batch.size, answers.outputs[0]
    is_rows = tensor.layout is torch.strided and tensor.dim() > 1 and len(tensor) == size >= _MIN_SAMPLES
    is_known = tensor.is_floating_point() or (tensor.dim() == 2 and tensor.dtype in (torch.int32, torch.int64))
    if not is_rows or not is_known or prod(tensor.shape[1:]) < _MIN_POSITIONS or len(output) != size:
        return False
    target = answers.batch.target_or_label
    has_one_target = isinstance(target, Tensor) and target.dim() == 1
    return output.dim() == 1 or (output.dim() == 2 and (has_one_target or output.shape[1] not in tensor.shape[1:]))


def _find_unread(answers: EvalOutputs, tensor: Tensor) -> Tensor | None:
    """Return which positions of a sample have no influence; None if there are hardly any that differ by sample."""
    varies = (tensor != tensor[:1]).any(0)
    fewest = max(1, ceil(_MIN_SHARE * varies.numel()))

    def is_without_influence(candidates: Tensor) -> bool:
        is_changed = candidates & varies
        return bool(is_changed.any()) and not _has_influence(answers, tensor, is_changed)

    if tensor.is_floating_point():
        is_unread = _without_gradient(answers, tensor) & varies
        is_found = fewest <= int(is_unread.sum()) < int(varies.sum()) and is_without_influence(is_unread)
        return is_unread if is_found else None
    positions = torch.arange(len(varies), device=tensor.device)
    first = _largest(fewest, len(varies), lambda count: is_without_influence(positions < count))
    last = _largest(fewest, len(varies), lambda count: is_without_influence(positions >= len(varies) - count))
    is_unread = ((positions < first) | (positions >= len(varies) - last)) & varies
    return is_unread if fewest <= int(is_unread.sum()) < int(varies.sum()) else None


def _largest(lowest: int, end: int, holds: Callable[[int], bool]) -> int:
    """Return the largest number below an end for which something holds that holds for all smaller ones; 0 for none."""
    if lowest >= end or not holds(lowest):
        return 0
    while end - lowest > 1:
        middle = (lowest + end) // 2
        lowest, end = (middle, end) if holds(middle) else (lowest, middle)
    return lowest


def _without_gradient(answers: EvalOutputs, tensor: Tensor) -> Tensor:
    """Return which positions have no gradient in any sample, for the values of the batch and for random ones."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(tensor.shape, generator=generator).to(tensor)
    drawn = tensor.mean() + noise * tensor.std()
    model = answers.setup.eager_model
    is_zero = torch.ones_like(tensor[0], dtype=torch.bool)
    with fill_zero_parameters(model), evaluation_mode(model), fast_attention_disabled():
        for values in (tensor, drawn):
            leaf = values.detach().clone().requires_grad_()
            seed_all(0)
            try:
                outputs = _floating_outputs(answers.setup.predict(_with_input(answers, tensor, leaf)))
                loss = sum((torch.randn(t.shape, generator=generator).to(t) * t).sum() for t in outputs)
                (gradient,) = torch.autograd.grad(torch.as_tensor(loss), leaf, allow_unused=True)
            except Exception as error:
                raise NotChecked(f"the input has no gradient: {type(error).__name__}: {error}") from None
            if gradient is None:
                raise NotChecked("the output has no gradient with respect to the input")
            is_zero &= (gradient == 0).all(0)
            if not bool(is_zero.any()):
                break
    return is_zero


def _floating_outputs(output: Any) -> list[Tensor]:
    main = score_tensor(output)
    outputs = [main, *(t for t in tree_tensors(output) if t is not main)]
    return [t for t in outputs if isinstance(t, Tensor) and t.is_floating_point() and t.requires_grad]


def _with_input(answers: EvalOutputs, tensor: Tensor, values: Tensor) -> Batch:
    return answers.transform_inputs(lambda leaf: values if leaf is tensor else leaf)


def _has_influence(answers: EvalOutputs, tensor: Tensor, is_changed: Tensor) -> bool:
    """Return whether other values at some positions change an output in eval mode, or in train mode.

    Normalization layers keep their statistics in train mode: those of the batch depend on all positions.
    """
    exchanged, replaced = (torch.where(is_changed, t, tensor) for t in (tensor.roll(1, 0), replace_values(tensor)))
    batches = [_with_input(answers, tensor, values) for values in (exchanged, replaced)]
    if any(_differ(answers, answers.outputs, answers.predict(batch)) for batch in batches):
        return True
    model = answers.setup.eager_model
    with fill_zero_parameters(model):
        before = answers.predict(answers.batch)
        if any(_differ(answers, before, answers.predict(batch)) for batch in batches):
            return True
        with _training_without_statistics(model):
            before = _predict_in_training(answers, answers.batch)
            return any(_differ(answers, before, _predict_in_training(answers, batch)) for batch in batches)


@contextmanager
def _training_without_statistics(model: nn.Module) -> Iterator[None]:
    with in_mode(model, True):
        for module in model.modules():
            if isinstance(module, _NormBase):
                module.training = False
        yield


def _predict_in_training(answers: EvalOutputs, batch: Batch) -> tuple[Tensor, ...]:
    """Return the floating-point outputs in the modes that the modules have, with the same random numbers each time."""
    with torch.no_grad(), fast_attention_disabled():
        seed_all(0)
        return tuple(t for t in tree_tensors(answers.setup.predict(batch)) if t.is_floating_point())


def _differ(answers: EvalOutputs, before: tuple[Tensor, ...], after: tuple[Tensor, ...]) -> bool:
    if [t.shape for t in before] != [t.shape for t in after]:
        return True
    return not all(
        torch.allclose(a, b, rtol=0.0, atol=answers.noise, equal_nan=True) for a, b in zip(before, after, strict=True)
    )


def _compare_predictions(
    answers: EvalOutputs, tensor: Tensor, is_unread: Tensor, reference: Reference
) -> tuple[ReferenceLearner, ReferencePrediction, bool] | None:
    """Return the learner of positions without influence, the prediction from all else, and whether that is useless.

    None unless the former predicts the target far better than for shuffled targets, and than the latter.
    """
    rows = reference.rows()
    leaves = tree_tensors(answers.batch.unlabeled_inputs)
    leaves = [t for t in leaves if t.layout == torch.strided and t.dim() and len(t) == answers.batch.size]
    index = next((number for number, leaf in enumerate(leaves) if leaf is tensor), None)
    if index is None or len(leaves) != len(rows.parts) or rows.parts[index].shape[1:] != tensor.shape[1:]:
        raise NotChecked("the rows of the dataset do not match the inputs of the batch")
    parts = [part[torch.from_numpy(rows.kept)] for part in rows.parts]
    mask, targets = is_unread.cpu(), rows.targets.limit_outliers()
    learner = ReferenceLearner(_features([_take_positions(parts[index], mask)]), targets)
    constant = targets.constant_score
    gain = learner.kernel_ridge.score - constant
    if gain < _MIN_GAIN * (1 - constant) or gain + constant <= _highest_by_chance(learner):
        return None
    others = ReferenceLearner(
        _features([*parts[:index], _take_positions(parts[index], ~mask), *parts[index + 1 :]]), targets
    )
    prediction = others.out_of_fold()
    if prediction.score - constant > _MAX_READ_SHARE * gain:
        return None
    return learner, prediction, prediction.score <= max(constant, _highest_by_chance(others))


def _highest_by_chance(learner: ReferenceLearner) -> float:
    """Return the score above which a learner has learned more than it does from shuffled targets."""
    scores = learner.shuffled_scores(_SHUFFLES)
    return float(scores.mean() + _MIN_SIGMAS * scores.std(ddof=1))


def _take_positions(part: Tensor, mask: Tensor) -> Tensor:
    """Return the tokens at some positions, or the values there and zeros elsewhere."""
    return part * mask.to(part.dtype) if part.is_floating_point() else part[:, mask]


def _features(parts: list[Tensor]) -> Any:
    return standardize_columns(np.asarray(feature_matrix(parts)))


def _find_losing_call(answers: EvalOutputs, tensor: Tensor, is_unread: Tensor) -> LosingCall:
    """Return the call that loses what depends on some positions, the dilations before it, and its place."""
    exchanged = torch.where(is_unread, tensor.roll(1, 0), tensor)
    lost_by = where_information_is_lost(answers, lambda leaf: exchanged if leaf is tensor else leaf)
    lost_by = lost_by or _find_selection(answers, tensor, exchanged)
    if lost_by is None:
        return LosingCall()
    setup, modules = answers.setup, dict(answers.setup.eager_model.named_modules())
    if lost_by.module and type(modules[lost_by.module]).__module__.startswith("torch.nn"):
        return LosingCall(lost_by.name, (), _place(lost_by, module_line(setup, lost_by.module)), lost_by.line)
    dilations: dict[str, int] = {}

    def record(call: TorchCall) -> None:
        layer = modules.get(call.module or "")
        if isinstance(layer, _ConvNd) and max(layer.kernel_size) > 1:
            dilations[str(call.module)] = max(layer.dilation)

    with record_calls(setup.eager_model, record):
        answers.predict(answers.batch)
    if max(dilations.values(), default=1) == 1:
        return LosingCall(lost_by.name, (), lost_by.where, lost_by.line)
    widest = max(dilations, key=lambda path: dilations[path])
    line = module_option_line(setup, widest, "dilation") or module_line(setup, widest)
    return LosingCall(lost_by.name, tuple(dilations.values()), _place(lost_by, line), lost_by.line)


def _find_selection(answers: EvalOutputs, tensor: Tensor, exchanged: Tensor) -> TorchCall | None:
    """Return the last call that selects a part of an input which does not differ, such as the first tokens."""
    recorded = (answers.recorded_calls(_with_input(answers, tensor, values)) for values in (tensor, exchanged))
    selections = [[call for call in calls if call.name in SELECTION_CALLS] for calls in recorded]
    pairs = zip(*selections, strict=False)
    losing = [pair[0] for pair in pairs if not _is_equal(pair, "inputs") and _is_equal(pair, "outputs")]
    return losing[-1] if losing else None


def _is_equal(calls: tuple[TorchCall, ...], kind: Literal["inputs", "outputs"]) -> bool:
    before, after = ((call.inputs if kind == "inputs" else call.outputs) for call in calls)
    return [t.shape for t in before] == [t.shape for t in after] and all(map(torch.equal, before, after))


def _place(call: TorchCall, line: SourceLine | None) -> Location:
    """Return a line with the module of a call, or the line of the call if there is none."""
    return add_line(call.where, line) if line else call.where
