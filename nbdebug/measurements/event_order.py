"""Which samples a survival loss compares an event with: those that last longer, or those that ended before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.loss_terms import record_loss_calls
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.loss_inputs import output_tensors
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_map, tree_tensors

_MIN_SAMPLES, _MAX_SAMPLES, _MIN_TIMES, _MAX_COLUMNS = 8, 4096, 8, 4
_EVENTS = 2  # some losses return a constant for a single one
_POSITIONS = (0.3, 0.5, 0.7)  # of the events, as shares of the samples in the order of their times
_SCORE_SIZES = (0.5, -0.5)  # in either order of two scores, a hinge has a gradient
_NO_INFLUENCE, _MIN_RATIO = 2e-6, 30.0  # of the largest influence of a sample; between both groups
_SORTS, _COMPARISONS = ("argsort", "sort", "topk", "msort"), ("lt", "le", "gt", "ge", "less", "greater")
_CHANGE = 3.0  # of the scores of one group, which must change the gradients of the events

_Order = Literal["later", "earlier"]


@dataclass(frozen=True)
class EventOrder:
    """Which samples without an event a survival loss reads if only a few samples have one.

    ``compared`` is "later" if those with a larger time have an influence and those with a smaller one have none, as in
    a partial likelihood, and "earlier" for the reverse. ``event`` is the value of the indicator at an event, and
    ``trials`` the number of positions and orders that were tried, each with ``samples`` samples. ``line`` is where the
    loss sorts the times or compares them by ``call``. ``is_descending`` is whether it sorts them in descending order.
    """

    compared: _Order
    event: int
    trials: int
    samples: int
    line: SourceLine | None = None
    call: str | None = None
    is_descending: bool = False

    @property
    def is_sorted(self) -> bool:
        """True if the loss sorts the times, rather than comparing them in pairs."""
        return self.call in _SORTS


class _SampleColumn(NamedTuple):
    """One number of each sample: the position of a leaf of the targets, and of a column in it if it has several."""

    leaf: int
    column: int | None

    def read(self, targets: Any) -> Tensor:
        """Return the values of all samples as a vector."""
        leaf = tree_tensors(targets)[self.leaf].detach()
        return leaf.reshape(-1) if self.column is None else leaf[:, self.column]

    def write(self, targets: Any, values: Tensor) -> Any:
        """Return the targets with other values, of the same dtype."""
        own = tree_tensors(targets)[self.leaf]
        if self.column is None:
            changed = values.to(own.dtype).reshape(own.shape)
        else:
            changed = own.detach().clone()
            changed[:, self.column] = values.to(own.dtype)
        return tree_map(targets, lambda leaf: changed if leaf is own else leaf)


class _RareEvents(NamedTuple):
    """A batch with few events, and the samples that ended before all of them and after all of them."""

    batch: Batch
    events: Tensor
    earlier: Tensor
    later: Tensor


@measurement
def event_order(setup: Setup, first_pass: ForwardPass) -> EventOrder:
    """The samples that a survival loss compares an event with, by interventions on its targets.

    For a partial likelihood (Cox 1972), these are the ones at risk: those whose time is at least that of the event. A
    pairwise loss compares the same samples, since a sample censored earlier may have lasted longer (Harrell et al.
    1982). The times of the first batch are permuted, only two samples that are neighbors in time get an
    event, and the scores are random. The gradient shows which scores the loss reads, whatever its sign.
    """
    if setup.loss_fn is None or setup.step_fn is not None:
        raise NotChecked("the loss is not a function of the output")
    batch, scores = first_pass.batch, [leaf for leaf in output_tensors(first_pass.output) if leaf.is_floating_point()]
    if len(scores) != 1 or scores[0].numel() != batch.size or not _MIN_SAMPLES <= batch.size <= _MAX_SAMPLES:
        raise NotChecked("the output is not one score per sample, for 8 to 4,096 samples")
    for times, indicators in _find_columns(batch):
        for event in (1, 0):
            compared = _compared_samples(setup, first_pass, scores[0], times, indicators, event)
            if compared is not None:
                order = EventOrder(compared, event, 2 * len(_POSITIONS), batch.size)
                call = _ordering_call(setup, first_pass, times)
                if call is None:
                    return order
                return replace(order, line=call.line, call=call.name, is_descending=_is_descending(call))
    raise NotChecked("the loss does not compare events with the samples before or after them")


def _find_columns(batch: Batch) -> Iterator[tuple[_SampleColumn, _SampleColumn]]:
    """Yield each pair of numbers of a sample of which the first can be a time and the second an indicator."""
    columns = list[_SampleColumn]()
    for position, leaf in enumerate(tree_tensors(batch.targets)):
        if leaf.dim() and leaf.numel() == batch.size:
            columns.append(_SampleColumn(position, None))
        elif leaf.dim() == 2 and len(leaf) == batch.size and leaf.shape[1] <= _MAX_COLUMNS:
            columns += [_SampleColumn(position, column) for column in range(leaf.shape[1])]
    for times in columns:
        values = times.read(batch.targets)
        if not bool((values >= 0).all()) or len(set(values.tolist())) < _MIN_TIMES:
            continue
        for indicators in columns:
            flags = indicators.read(batch.targets)
            if indicators != times and bool(((flags == 0) | (flags == 1)).all()):
                yield times, indicators


def _compared_samples(
    setup: Setup, first_pass: ForwardPass, scores: Tensor, times: _SampleColumn, indicators: _SampleColumn, event: int
) -> _Order | None:
    """Return the samples that the loss compares events with in all trials; None if they are no such group."""
    orders = set[_Order | None]()
    for trial in _make_trials(first_pass.batch, times, indicators, event):
        try:
            influences, is_coupled = _measure_influences(setup, first_pass.output, scores, trial)
        except NotChecked:  # other columns may be the time and the indicator
            return None
        orders.add(_read_order(influences, trial) if is_coupled else None)
        if len(orders) > 1 or None in orders:
            return None
    return next(iter(orders), None)


def _make_trials(batch: Batch, times: _SampleColumn, indicators: _SampleColumn, event: int) -> Iterator[_RareEvents]:
    """Yield batches whose times are in two random orders, with the only events in several places among them."""
    values = times.read(batch.targets)
    generator = torch.Generator().manual_seed(0)
    for _ in range(2):
        permuted = values[torch.randperm(len(values), generator=generator).to(values.device)]
        order = permuted.argsort()
        for position in _POSITIONS:
            start = int(position * (len(values) - _EVENTS))
            events = order[start : start + _EVENTS]
            flags = torch.full_like(permuted, 1 - event)
            flags[events] = event
            earlier, later = permuted < permuted[events[0]], permuted > permuted[events[-1]]
            if bool(earlier.any()) and bool(later.any()):
                targets = indicators.write(times.write(batch.targets, permuted), flags)
                yield _RareEvents(replace(batch, targets=targets), events, earlier, later)


def _measure_influences(setup: Setup, output: Any, scores: Tensor, trial: _RareEvents) -> tuple[Tensor, bool]:
    """Return the largest gradient of each score, and whether other scores change the gradients of the events."""
    influences, is_coupled = torch.zeros(scores.numel(), dtype=torch.float64), False
    generator = torch.Generator().manual_seed(1)
    noise, change = torch.randn(2, scores.numel(), generator=generator).to(scores)
    change *= trial.earlier | trial.later
    for size in _SCORE_SIZES:
        drawn = size * noise
        gradient = _score_gradient(setup, output, scores, drawn, trial.batch)
        changed = drawn + _CHANGE * change
        changed_gradient = _score_gradient(setup, output, scores, changed, trial.batch)
        influences = torch.maximum(influences, gradient.abs())
        tolerance = _NO_INFLUENCE * float(gradient.abs().max())
        events = trial.events.cpu()
        is_coupled |= bool(((changed_gradient - gradient).abs()[events] > _MIN_RATIO * tolerance).any())
    return influences, is_coupled


def _score_gradient(setup: Setup, output: Any, scores: Tensor, values: Tensor, batch: Batch) -> Tensor:
    """Return the gradient of the loss by the score of each sample; raise NotChecked if there is none."""
    leaf = values.reshape(scores.shape).requires_grad_()
    seed_all(0)
    with torch.enable_grad():
        try:
            loss = setup.loss(tree_map(output, lambda part: leaf if part is scores else part), batch)
            (gradient,) = torch.autograd.grad(loss, leaf)
        except Exception as error:  # a loss of other arguments, or one that needs the values of its data
            raise NotChecked(f"the loss has no gradient for other scores: {error}") from None
    return gradient.detach().reshape(-1).double().cpu()


def _read_order(influences: Tensor, trial: _RareEvents) -> _Order | None:
    """Return the group of samples all of which have an influence while none of the other group has one."""
    largest = float(influences.max())
    if not 0 < largest < float("inf"):
        return None
    earlier, later = influences[trial.earlier.cpu()], influences[trial.later.cpu()]
    groups: Sequence[tuple[_Order, Tensor, Tensor]] = (("later", later, earlier), ("earlier", earlier, later))
    for name, own, other in groups:
        unread = float(other.max())
        if unread <= _NO_INFLUENCE * largest and float(own.min()) > _MIN_RATIO * unread:
            return name
    return None


def _ordering_call(setup: Setup, first_pass: ForwardPass, times: _SampleColumn) -> TorchCall | None:
    """Return the first call of the loss that sorts the times or compares them with each other."""
    calls, _ = record_loss_calls(lambda: setup.raw_loss(first_pass.output, first_pass.batch))
    derived = {id(tree_tensors(first_pass.batch.targets)[times.leaf])}
    for call in calls:
        operands = {id(tensor) for tensor in call.inputs}
        if derived.isdisjoint(operands):
            continue
        if call.name in _SORTS or (call.name in _COMPARISONS and len(call.inputs) == 2 and operands <= derived):
            return call
        derived |= {id(tensor) for tensor in call.outputs}
    return None


def _is_descending(call: TorchCall) -> bool:
    """Return whether a call sorts in descending order, as topk does."""
    options = [*call.args, call.kwargs.get("descending")]  # "stable" has to be passed by its name
    return call.name == "topk" or any(option is True for option in options)
