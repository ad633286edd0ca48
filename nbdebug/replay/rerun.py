"""Strategies to rerun a frozen pass, and problems that existed before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _NormBase

from nbdebug.autograd.non_finite import is_finite
from nbdebug.exceptions import SetupError
from nbdebug.finding import Finding, Location
from nbdebug.measurements.gradients import all_finite, compute_gradients, compute_norms
from nbdebug.measurements.non_finite import (
    NON_FINITE_CONSEQUENCES,
    GradientOrigin,
    NonFiniteBatch,
    find_forward_origin,
    get_named_tensors,
    gradient_origin,
    is_attention_mask,
)
from nbdebug.measurements.parameter_coverage import ParameterEntry
from nbdebug.replay.recorded_pass import Incident, RecordedBatch, RecordedForward, RecordedPass, restored_context
from nbdebug.rule_engine import rule_registry
from nbdebug.setup import Batch, Setup, losses
from nbdebug.setup.batch import named_inputs
from nbdebug.tensors.pytree import tree_map, tree_tensors

_MAX_SEARCHED_BATCHES = 512  # of a list, among which the batch of a pass is searched


@dataclass(frozen=True)
class _RerunStrategy:
    """A setup and a batch to rerun a pass, and the call whose random and autocast state is restored.

    ``includes_loss`` is False if only the model is run, without the loss of the loop.
    """

    setup: Setup
    batch: Batch
    call: RecordedForward
    includes_loss: bool = True


def rerun_strategies(setup: Setup, recorded_pass: RecordedPass) -> Iterator[_RerunStrategy]:
    """Yield strategies: ``step_fn``; recorded inputs and targets; the drawn batch; the model without loss."""
    last_batch = _split_last_batch(setup, recorded_pass)
    if setup.step_fn is not None and last_batch and recorded_pass.last_batch:
        call = (
            recorded_pass.forwards[0]
            if recorded_pass.forwards
            else RecordedForward((), {}, recorded_pass.last_batch.random_state, ())
        )
        yield _RerunStrategy(setup, last_batch, replace(call, random_state=recorded_pass.last_batch.random_state))
        yield _RerunStrategy(setup, last_batch, call)
    model_setup = replace(setup, step_fn=None, forward=None)
    for call in recorded_pass.forwards[-1:]:
        last_batch = last_batch or _find_listed_batch(setup, call)
        if targets := _recorded_targets(recorded_pass, last_batch):
            batch = _batch_from_call(call, targets, last_batch)
            yield _RerunStrategy(model_setup, batch, call)
            if call.autocast and setup.loss_fn is not None:
                yield _RerunStrategy(replace(model_setup, loss_fn=_without_autocast(setup.loss_fn, call)), batch, call)
        if setup.loss_fn is None:
            yield _RerunStrategy(model_setup, _batch_from_call(call, (), last_batch), call)
    if last_batch and setup.loss_fn is not None and setup.step_fn is None:
        yield from (_RerunStrategy(setup, last_batch, call) for call in recorded_pass.forwards[:1])
    for call in recorded_pass.forwards:
        yield _RerunStrategy(
            replace(model_setup, loss_fn=_sum_of_outputs),
            _batch_from_call(call, (), last_batch),
            call,
            includes_loss=False,
        )


def _split_last_batch(setup: Setup, recorded_pass: RecordedPass) -> Batch | None:
    """Split the drawn batch into inputs and targets; None if that fails."""
    if recorded_pass.last_batch is None:
        return None
    try:
        return setup.split_batch(recorded_pass.last_batch.batch, recorded_pass.last_batch.indices)
    except (SetupError, RuntimeError, TypeError, ValueError, KeyError, IndexError):
        return None


def _find_listed_batch(setup: Setup, call: RecordedForward) -> Batch | None:
    """Find the batch of a call in a loader that is a list, by its inputs."""
    if not isinstance(setup.train_loader, (list, tuple)):
        return None
    call_tensors = tree_tensors((call.args, call.kwargs))
    for raw in setup.train_loader[:_MAX_SEARCHED_BATCHES]:
        batch = _split_last_batch(setup, RecordedPass(last_batch=RecordedBatch(raw, {})))
        batch_tensors = tree_tensors((batch.args, batch.kwargs)) if batch else []
        if (
            batch_tensors
            and len(batch_tensors) == len(call_tensors)
            and all(map(torch.equal, batch_tensors, call_tensors))
        ):
            return batch
    return None


def _without_autocast(loss_fn: Callable[..., Any], call: RecordedForward) -> Callable[..., Any]:
    """Return the loss function outside the autocast block in which the model was called."""

    def loss_without_autocast(output: Any, *targets: Any) -> Any:
        with ExitStack() as stack:
            for device_type, _, dtype in call.autocast:
                stack.enter_context(torch.autocast(device_type, dtype, enabled=False))
            return loss_fn(
                losses.score_tensor(output) if losses.get_loss_kind(loss_fn) != "other" else output, *targets
            )

    return loss_without_autocast


def _recorded_targets(recorded_pass: RecordedPass, last_batch: Batch | None) -> tuple[Any, ...]:
    """Return the targets of the loss; empty if they are unknown."""
    return recorded_pass.targets or (last_batch.targets if last_batch else ())


def _batch_from_call(call: RecordedForward, targets: tuple[Any, ...], last_batch: Batch | None) -> Batch:
    """Return the arguments of a call as a batch."""
    return Batch(
        call.args,
        call.kwargs,
        targets,
        last_batch.indices if last_batch else None,
        last_batch.raw if last_batch else None,
    )


def _sum_of_outputs(output: Any) -> Tensor:
    """Return the sum of all outputs, for which each output value has a gradient of one."""
    sums = [tensor.sum() for tensor in tree_tensors(output) if tensor.is_floating_point()]
    return torch.stack([tensor.float() for tensor in sums]).sum() if sums else torch.zeros(())


@dataclass(frozen=True)
class Rerun:
    """The result of a rerun: its loss, whether the gradient was finite, and whether the loss matches the original.

    ``exact`` is None if the loss of the loop could not be rerun.
    """

    strategy: _RerunStrategy
    loss: float
    has_finite_gradient: bool
    exact: bool | None

    @property
    def non_finite_phase(self) -> str | None:
        """Kind of the non-finite value: "loss", "gradient" or None."""
        return "loss" if not math.isfinite(self.loss) else None if self.has_finite_gradient else "gradient"

    def reproduces(self, phase: str) -> bool:
        """Check whether the rerun reproduces the non-finite value; a non-finite loss also stands for the gradient."""
        return self.non_finite_phase == "loss" or self.non_finite_phase == phase


def ranked_reruns(setup: Setup, incident: Incident) -> list[Rerun]:
    """Return all reruns, non-finite ones first, and among these the ones with the original loss."""

    def rank(rerun: Rerun) -> tuple[bool, bool, bool]:
        return not rerun.reproduces(incident.phase), not rerun.exact, not rerun.strategy.includes_loss

    return sorted(_reruns(setup, incident), key=rank)


def _reruns(setup: Setup, incident: Incident) -> Iterator[Rerun]:
    """Yield the reruns of every strategy and pass, until one is not finite and has the original loss."""
    for recorded_pass in incident.passes:
        for strategy in rerun_strategies(setup, recorded_pass):
            incident.restore()
            try:
                rerun = _rerun_pass(strategy, recorded_pass.loss)
            except Exception:
                continue
            yield rerun
            if rerun.exact and rerun.non_finite_phase:
                return


def _rerun_pass(strategy: _RerunStrategy, original_loss: float | None) -> Rerun:
    """Rerun a pass with its gradient; ``original_loss`` is the original loss."""
    entries = [
        ParameterEntry((name,), p, ()) for name, p in strategy.setup.eager_model.named_parameters() if p.requires_grad
    ]
    with restored_context(strategy.call.random_state, strategy.call.autocast), torch.enable_grad():
        loss = strategy.setup.output_and_loss(strategy.batch)[1]
    is_finite = _has_finite_gradient(loss, entries) if entries and loss.requires_grad else True
    value = float(loss.detach())
    return Rerun(
        strategy,
        value,
        is_finite,
        _is_same_loss(value, original_loss) if strategy.includes_loss and original_loss is not None else None,
    )


def _has_finite_gradient(loss: Tensor, entries: list[ParameterEntry]) -> bool:
    """Check whether the gradient of a loss is finite; a ``step_fn`` may have run the backward pass itself."""
    gradients = [entry.parameter.grad for entry in entries if entry.parameter.grad is not None]
    return all(map(is_finite, gradients)) if gradients else all_finite(compute_norms(compute_gradients(loss, entries)))


def _is_same_loss(first: float, second: float) -> bool:
    """Check whether two losses are identical or both NaN."""
    return first == second or (math.isnan(first) and math.isnan(second))


def non_finite_origin(rerun: Rerun, incident: Incident) -> tuple[NonFiniteBatch, GradientOrigin | None]:
    """Find where non-finite values first occur, forward or backward, in another rerun."""
    strategy, phase = rerun.strategy, rerun.non_finite_phase or "loss"
    incident.restore()
    with restored_context(strategy.call.random_state, strategy.call.autocast):
        first_origin = find_forward_origin(strategy.setup, strategy.batch)
    non_finite = NonFiniteBatch(phase, rerun.loss, 0, strategy.batch, first_origin, incident.step)
    incident.restore()
    with restored_context(strategy.call.random_state, strategy.call.autocast):
        return non_finite, gradient_origin(strategy.setup, non_finite)


def samples_at_fault(rerun: Rerun, incident: Incident, max_samples: int = 64) -> list[int]:
    """Return the samples that are not finite on their own; empty if all are, or if none can be run on its own."""
    batch, positions = rerun.strategy.batch, []
    for position in range(min(batch.size, max_samples)):
        incident.restore()
        try:
            sample_rerun = _rerun_pass(replace(rerun.strategy, batch=batch.take_samples([position])), None)
        except Exception:
            return []
        positions += [position] if sample_rerun.non_finite_phase else []
    return positions if len(positions) < batch.size else []


def non_finite_weights(setup: Setup) -> tuple[str, ...]:
    """Return the parameters and buffers with NaN or Inf before the pass, except masks.

    Running statistics in train mode are skipped too, since the pass itself has written them.
    """
    paths = []
    for path, module in setup.eager_model.named_modules():
        is_written = isinstance(module, _NormBase) and module.training
        buffers = (
            [] if is_written else [(n, b) for n, b in module.named_buffers(recurse=False) if not _is_additive_mask(b)]
        )
        tensors = (*module.named_parameters(recurse=False), *buffers)
        paths += [f"{path}.{name}".lstrip(".") for name, tensor in tensors if not is_finite(tensor.detach())]
    return tuple(paths)


def _is_additive_mask(tensor: Tensor) -> bool:
    """Check whether a tensor is an additive mask."""
    return not is_finite(tensor) and is_attention_mask(tensor, tensor.isfinite())


def _non_finite_tensors(batch: Batch) -> dict[str, Tensor]:
    """Return the inputs and targets of a batch with NaN or Inf, by name."""
    by_name = get_named_tensors(named_inputs(batch), batch.targets)
    return {name: tensor for name, tensor in by_name.items() if not is_finite(tensor) and not _is_additive_mask(tensor)}


def data_finding(batch: Batch, incident: Incident, rerun: Rerun | None) -> Finding | None:
    """Return a finding on a batch with NaN or Inf; a note if the pass is not finite without them either."""
    non_finite = _non_finite_tensors(batch)
    if not non_finite:
        return None
    rule = rule_registry.find_rule("D103")
    name, tensor = next(iter(non_finite.items()))
    rows = (~tensor.isfinite()).flatten(1).any(1) if tensor.dim() > 1 else ~tensor.isfinite()
    samples = [batch.dataset_index(position) for position in rows.nonzero().flatten().tolist()]
    kind = "NaN" if bool(tensor.isnan().any()) else "Inf"
    described_tensor = name if name.startswith("target") else f"input {name}".strip()
    sample_text = ", ".join(map(str, samples[:5])) + (", …" if len(samples) > 5 else "")
    sample_suffix = "" if batch.indices is not None else " of the batch"
    return Finding(
        message=f"{kind} in the {described_tensor} of step {incident.step}, in sample {sample_text}{sample_suffix}.",
        where=Location(sample=samples[0], step=incident.step),
        cause="The data contain missing or overflowed values.",
        fix="keep = torch.isfinite(x).flatten(1).all(1)\nx, y = x[keep], y[keep]   # or fill: torch.nan_to_num(x)",
        evidence={"samples": samples[:50], "values": int((~tensor.isfinite()).sum()), "tensors": list(non_finite)},
        explains=NON_FINITE_CONSEQUENCES,
        aspect="step",
        setup_fix="drop non-finite samples",
        code=rule.code,
        name=rule.name,
        severity="error"
        if rerun is None or (rerun.non_finite_phase and _is_fixed_by_zeros(rerun, incident))
        else "note",
    )


def _is_fixed_by_zeros(rerun: Rerun, incident: Incident) -> bool:
    """Check whether the pass is finite after non-finite values in its batch are replaced by zeros."""

    def fill(leaf: object) -> object:
        is_fillable = isinstance(leaf, Tensor) and leaf.is_floating_point() and not _is_additive_mask(leaf)
        return torch.nan_to_num(leaf, 0.0, 0.0, 0.0) if is_fillable else leaf  # type: ignore[arg-type]

    batch = rerun.strategy.batch
    args, kwargs, targets, raw = tree_map((batch.args, batch.kwargs, batch.targets, batch.raw), fill)
    filled_batch = replace(batch, args=args, kwargs=kwargs, targets=targets, raw=raw)
    incident.restore()
    try:
        return _rerun_pass(replace(rerun.strategy, batch=filled_batch), None).non_finite_phase is None
    except Exception:
        return False
