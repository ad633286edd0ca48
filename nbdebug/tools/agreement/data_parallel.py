"""A setup in one process compared with the same setup trained data-parallel on several ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parallel import DistributedDataParallel

from nbdebug.exceptions import SetupError
from nbdebug.parallel.rank_processes import run_ranks
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.stop_requests import check_stop
from nbdebug.tools.agreement.matching import is_equal
from nbdebug.tools.agreement.rank_recordings import FlatRecording, RankMerger, flatten
from nbdebug.tools.agreement.recording import Computation, Recording
from nbdebug.tools.agreement.result import Agreement
from nbdebug.tools.agreement.sides import MAX_SAMPLES, Side, make_side
from nbdebug.tools.agreement.tolerance import tolerance, unit_roundoff
from nbdebug.tools.agreement.tool import AgreementCheck, Round, record_side, unconsumed
from nbdebug.validation import describe_type
from nbdebug.views.late_screen import LateScreen

_MAX_INDICES = 1_000_000
_MODES = ("eval", "train")
_MEAN_LOSS = "the loss of b is the mean over its ranks, which is what averaged gradients minimize"
_SPLIT_CAUSE = (
    "a computes the same as b on the parts of the batch one after the other: the split of the batch makes the "
    "difference, not the processes"
)


@dataclass(frozen=True)
class DataParallel:
    """A setup that is trained data-parallel in several processes, as the second side of ``compare()``.

    ``source`` is a Debugger, whose model is wrapped in DistributedDataParallel, or a function that each rank calls.
    """

    source: Any
    processes: int
    timeout: float


@dataclass
class _RankResult:
    """What one rank returns; only the first one returns its ``model`` and ``optimizers``, if the rank has made them."""

    recordings: dict[str, FlatRecording]
    indices: list[Any] | None
    batch_size: int | None
    random_state: bytes
    dropout: str
    model: nn.Module | None = None
    optimizers: tuple[Any, ...] = ()


def compare_processes(first: Any, second: DataParallel, inputs: Any = None) -> Agreement:
    """Compare a setup in this process with one that is trained data-parallel; the objects of both are unchanged.

    Raises SetupError for a first side that is no setup on the CPU, for a batch with fewer samples than processes, and
    if a rank dies or does not return in time.
    """
    setup = getattr(first, "setup", first)
    if not isinstance(setup, Setup) or isinstance(first, nn.Module):
        raise SetupError(f"a is {describe_type(first)}; expected a Debugger, whose batch the ranks share. Pass one.")
    if setup.model_device.type != "cpu":
        raise SetupError(f"a is on {setup.model_device}; expected the CPU, on which the ranks run. Move it there.")
    with unconsumed(first, getattr(second.source, "setup", None)), LateScreen("Comparison") as screen:
        batch, parts = _shared_parts(setup, inputs, second.processes)
        task = partial(_run_on_rank, second.source, [part.raw for part in parts])
        ranks: list[_RankResult] = run_ranks(task, second.processes, second.timeout, partial(_report_ranks, screen))
        side = make_side(first, "a")
        check = _ProcessCheck(side, _replica_side(second, ranks), batch, screen, parts, ranks)
        notes = _rank_notes(setup, ranks)
        difference = _data_difference(setup, ranks)
        result = check.run() if difference is None else difference
        result = replace(result, notes=(*result.notes, *notes))
        screen.finish(result)
    return result


def _report_ranks(screen: LateScreen) -> None:
    """Display that the ranks run, and interrupt them if the user asked to stop."""
    screen.report("running the ranks of b")
    check_stop()


def _shared_parts(setup: Setup, inputs: Any, count: int) -> tuple[Any, list[Batch]]:
    """Return a batch as the loader yields it, and the part of each rank, all of equal size."""
    batch = next(setup.batches(1)) if inputs is None else setup.split_batch(inputs)
    size = min(batch.size, max(MAX_SAMPLES, count)) // count
    if not size:
        raise SetupError(f"the batch has {batch.size} samples; expected at least {count}. Pass a larger batch.")
    parts = [batch.take_samples(range(rank * size, (rank + 1) * size)) for rank in range(count)]
    return batch.take_samples(range(size * count)).raw, parts


class _ProcessCheck(AgreementCheck):
    """Compares one process with the merged recordings of all ranks."""

    def __init__(
        self,
        first: Side,
        second: Side,
        inputs: Any,
        screen: LateScreen,
        parts: Sequence[Batch],
        ranks: Sequence[_RankResult],
    ) -> None:
        super().__init__(first, second, inputs, screen)
        self._parts, self._ranks = parts, ranks

    def record_second(self, mode: str, first: Recording) -> Recording:
        """Return the recording of all ranks, with the cause if the parts of the batch alone explain a difference."""
        merger = RankMerger(first)
        merged = merger.merge([rank.recordings[mode] for rank in self._ranks], has_loss=True)
        if self._differs(first, merged):
            in_turn = [flatten(record_side(self.first, part.raw, mode)) for part in self._parts]
            if not self._differs(merger.merge(in_turn, has_loss=True), merged):
                merged.remarks["forward"] = (_SPLIT_CAUSE, *merged.remarks.get("forward", ()))
        return merged

    def located(self, runs: Round, *args: Any) -> Agreement:
        """Return the difference of an output with the operation that it comes from, and say what the loss of b is."""
        result = super().located(runs, *args)
        is_loss = args[2] is runs.first.outputs[-1]
        return replace(result, causes=(*result.causes, _MEAN_LOSS)) if is_loss else result

    @staticmethod
    def _differs(first: Recording, second: Recording) -> bool:
        """Check whether any output differs by more than rounding, so that its cause is worth more passes."""
        roundoff = unit_roundoff((first, second))
        pairs = zip(first.outputs, second.outputs, strict=False)
        return any(not is_equal(a.value, b.value, tolerance(a.value, (), roundoff)) for a, b in pairs)


def _run_on_rank(source: Any, parts: Sequence[Any], rank: int) -> _RankResult:
    """Make the setup of a rank, and record it on its part of the batch in both modes."""
    made = getattr(source, "setup", source)
    is_made_here = not isinstance(made, Setup)
    seed_all(rank)  # as a process that nothing has seeded, ranks draw different numbers
    setup = _called_setup(source) if is_made_here else _wrapped(made, parts[rank])
    dropout = next((name for name, part in setup.eager_model.named_modules() if _drops(part)), "")
    state = torch.get_rng_state().numpy().tobytes()
    loader = setup.train_loader
    indices = _epoch_indices(loader) if is_made_here else None
    side = make_side(setup, f"rank {rank}")
    return _RankResult(
        recordings={mode: flatten(record_side(side, parts[rank], mode)) for mode in _MODES},
        indices=indices,
        batch_size=getattr(loader, "batch_size", None) if is_made_here else None,
        random_state=state,
        dropout=dropout if is_made_here else "",
        model=setup.eager_model if is_made_here and rank == 0 else None,
        optimizers=setup.optimizers if is_made_here and rank == 0 else (),
    )


def _called_setup(make: Callable[[], Any]) -> Setup:
    """Return the setup that the user's function makes on this rank."""
    made = make()
    if isinstance(made, Mapping):
        return Setup.of(**made)
    setup = getattr(made, "setup", made)
    if not isinstance(setup, Setup):
        raise SetupError(
            f"the function of data_parallel() returned {describe_type(made)}; expected a Debugger, or a dictionary of "
            "its arguments. Return one."
        )
    return setup


class _StepModule(nn.Module):
    """A step function with the model whose parameters it trains."""

    def __init__(self, model: nn.Module, step_fn: Callable[[Any], Any]) -> None:
        super().__init__()
        self.model, self.step_fn = model, step_fn

    def forward(self, raw: Any) -> Any:
        """Return the loss of a batch."""
        return self.step_fn(raw)


def _wrapped(setup: Setup, part: Any) -> Setup:
    """Return the setup with its model in DistributedDataParallel."""
    wrap = partial(DistributedDataParallel, find_unused_parameters=_has_unused_parameters(setup, part))
    if setup.step_fn is None:
        return replace(setup, model=wrap(setup.eager_model))
    return replace(setup, step_fn=wrap(_StepModule(setup.eager_model, setup.step_fn)))


def _has_unused_parameters(setup: Setup, part: Any) -> bool:
    """Check whether the loss of any rank leaves out parameters, for whose gradients the wrapper would wait."""
    gradients = record_side(make_side(setup, "b"), part, "eval").gradients
    trainable = {name for name, p in setup.eager_model.named_parameters() if p.requires_grad}
    count = torch.tensor(len(trainable - gradients.keys()))
    distributed.all_reduce(count)
    return bool(count)


def _drops(module: nn.Module) -> bool:
    return isinstance(module, _DropoutNd) and module.p > 0 and module.training


def _epoch_indices(loader: Any) -> list[Any] | None:
    """Return the dataset indices that a loader reads in an epoch, in order; None if it has no sampler of indices."""
    batch_sampler = getattr(loader, "batch_sampler", None)
    if batch_sampler is None:
        return None
    return [*islice((index for batch in batch_sampler for index in batch), _MAX_INDICES)]


def _replica_side(second: DataParallel, ranks: Sequence[_RankResult]) -> Side:
    """Return the side of the ranks, whose weights and settings are those of the first one."""
    setup = getattr(second.source, "setup", second.source)
    if isinstance(setup, Setup):
        return replace(make_side(setup, "b"), name="b")
    assert ranks[0].model is not None
    modules, optimizers = {"": ranks[0].model}, ranks[0].optimizers
    return Side("b", (), modules, lambda _: Computation("b", lambda: None, modules, optimizers=optimizers))


def _data_difference(setup: Setup, ranks: Sequence[_RankResult]) -> Agreement | None:
    """Return the difference that the ranks together read other samples in an epoch than one process."""
    own = _epoch_indices(setup.train_loader)
    if not own or len(set(own)) < len(own) or any(rank.indices is None for rank in ranks):
        return None  # samples are drawn with replacement, or nothing says which ones are read
    counts, batch = Counter(index for rank in ranks for index in rank.indices or ()), ranks[0].batch_size or 1
    repeated, missing = counts.total() - len(counts), len({*own} - counts.keys())
    # A sampler fills the ranks up to equal numbers, and each rank may drop its last batch.
    if repeated < len(ranks) and missing < len(ranks) * batch:
        return None
    causes = []
    if repeated >= len(ranks):
        is_same = all({*(rank.indices or ())} == {*(ranks[0].indices or ())} for rank in ranks)
        causes.append(
            "all ranks read the same samples" if is_same else "the samplers of the ranks shuffle by different seeds"
        )
    headline = (
        f"a and b part in the data: in an epoch, a reads {len(own):,} samples once each, and the {len(ranks)} ranks of "
        f"b read {len(counts):,} samples, {repeated:,} of them again."
    )
    return Agreement(False, headline, "data", tensor="train_loader", causes=tuple(causes), checked=("data",))


def _rank_notes(setup: Setup, ranks: Sequence[_RankResult]) -> tuple[str, ...]:
    """Return what differs in training without a difference on one batch: batch sizes, and the streams of dropout."""
    notes = []
    sizes, own = [rank.batch_size for rank in ranks], getattr(setup.train_loader, "batch_size", None)
    if own is not None and None not in sizes and (whole := sum(size or 0 for size in sizes)) != own:
        notes.append(f"a step of b reads {whole} samples on all ranks, and one of a {own}")
    if ranks[0].dropout and len({rank.random_state for rank in ranks}) == 1:
        notes.append(f"all ranks draw the same random numbers, so {ranks[0].dropout} drops the same units on each")
    return tuple(notes)
