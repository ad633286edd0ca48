"""The heads of a setup: each pair of output and target that meet in the loss, as a setup of its own."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.layout_changes import LayoutChange, apply_changes, find_part
from nbdebug.autograd.loss_terms import LossTerm, find_terms, record_loss_calls
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.measurements.dataset_rows import SplitRows
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.registry import Measurements, measurement
from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import FUNCTION_KINDS_BY_NAME
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_get, tree_leaves, tree_map

_Path = tuple[Any, ...]
_MAX_HEADS = 8
_SHARED = frozenset({"samples", "loop", "record"})


@dataclass
class HeadSetup(Setup):
    """A setup narrowed to one tensor of the output and the tensor of the target that it meets in the loss.

    ``head`` is the name of the pair, empty if it is the only one; ``line`` is the user's line where the two meet.
    ``part`` selects the channels of a head from an output of several heads, and ``target_part`` its column from a
    target of several heads.
    """

    whole: Setup | None = None
    head: str = ""
    output_path: _Path = ()
    target_path: _Path = ()
    line: SourceLine | None = None
    part: tuple[LayoutChange, ...] = ()
    target_part: tuple[LayoutChange, ...] = ()

    def split_batch(self, raw: Any, indices: tuple[int, ...] | None = None) -> Batch:
        """Split a raw batch into inputs and the target of this head."""
        return self.narrow(self._get_whole().split_batch(raw, indices))

    @property
    def loss_of_pass(self) -> Any:
        """The loss of this head with the other outputs of the last pass, which later passes replace."""
        return copy(self.loss_fn) if isinstance(self.loss_fn, _TermLoss) else self.loss_fn

    def narrow(self, batch: Batch) -> Batch:
        """Return a batch of the whole setup with the target of this head alone."""
        return replace(batch, targets=(self.select_target(batch.targets),))

    def select_target(self, targets: tuple[Any, ...]) -> Any:
        """Return the target of this head."""
        return apply_changes(tree_get(targets, self.target_path), self.target_part)

    def predict(self, batch: Batch, model: nn.Module | None = None) -> Any:
        """Return the output of this head."""
        output = self._get_whole().predict(batch, self.eager_model if model is None else model)
        if isinstance(self.loss_fn, _TermLoss):
            targets = self._get_whole().split_batch(batch.raw).targets if batch.raw is not None else None
            self.loss_fn.use_context(output, targets)
        return apply_changes(tree_get(output, self.output_path), self.part)

    def _get_whole(self) -> Setup:
        assert self.whole is not None
        return self.whole


class _TermLoss:
    """The term of one head in a loss of several: the whole loss is computed, for the other outputs of the last pass."""

    def __init__(self, setup: Setup, batch: Batch, output: Any, paths: tuple[_Path, _Path], term: LossTerm) -> None:
        self._setup, self._output_path, self._target_path = setup, *paths
        self._targets, self._call = batch.targets, term.call
        self.ignore_index = get_options(term).get("ignore_index", -100)
        self.use_context(output, None)

    def use_context(self, output: Any, targets: tuple[Any, ...] | None) -> None:
        """Take the other outputs and the other targets from a pass."""
        self._output = tree_map(output, _detach)
        self._targets = self._targets if targets is None else targets

    def __call__(self, output: Tensor, target: Any) -> Tensor:
        """Return the term for an output and a target of this head."""
        own_output, own_target = (
            tree_get(self._output, self._output_path),
            tree_get(self._targets, self._target_path),
        )
        whole_output = tree_map(self._output, lambda leaf: output if leaf is own_output else leaf)
        targets = tree_map(self._targets, lambda leaf: target if leaf is own_target else leaf)
        calls, error = record_loss_calls(lambda: self._setup.raw_loss(whole_output, Batch((), targets=targets)))
        tensors = _tensors_by_path(whole_output).values(), _tensors_by_path(targets).values()
        terms = find_terms(calls, *tensors, self._is_own_call)
        own = [term.value for term in terms if term.output is output and term.target is target]
        if not own or own[0] is None:
            raise error or NotChecked("the loss of this head cannot be told from the others")
        return own[0]

    def _is_own_call(self, call: TorchCall) -> bool:
        """Check whether a call is the one in which output and target of this head met, in another pass."""
        return (call.name, call.line) == (self._call.name, self._call.line)


@measurement
def heads(setup: Setup, first_pass: ForwardPass) -> list[HeadSetup]:
    """A setup for each pair of output and target that meet in the loss of the first batch, if it is not the only one.

    Empty for a single tensor of the output with a single target.
    """
    batch, output = first_pass.batch, first_pass.output
    if setup.loss_fn is None or setup.step_fn is not None or output is None:
        return []
    if isinstance(output, Tensor) and isinstance(batch.target, Tensor):
        return []
    detached = tree_map(output, _as_leaf)
    with torch.enable_grad():
        calls, _ = record_loss_calls(lambda: setup.raw_loss(detached, batch))
    outputs, targets = _tensors_by_path(detached), _tensors_by_path(batch.targets)
    terms = find_terms(calls, outputs.values(), targets.values())
    paths = [(_find_path(outputs, term.output), _find_path(targets, term.target)) for term in terms]
    names = name_heads(paths)
    heads_of_terms = []
    for term, pair, name in zip(terms[:_MAX_HEADS], paths, names, strict=False):
        part = find_part(calls, term.output, term.operands[0])
        target_part = find_part(calls, term.target, term.operands[1])
        if (loss := get_torch_loss(term, part, target_part)) is not None:
            heads_of_terms.append(make_head(setup, loss, term, pair, name, part, target_part))
        else:
            own_loss = _TermLoss(setup, batch, detached, pair, term)
            heads_of_terms.append(make_head(setup, own_loss, term, pair, name))
    return heads_of_terms


def make_head(
    setup: Setup,
    loss_fn: Any,
    term: LossTerm,
    paths: tuple[_Path, _Path],
    name: str,
    part: tuple[LayoutChange, ...] = (),
    target_part: tuple[LayoutChange, ...] = (),
) -> HeadSetup:
    """Return the setup of one head."""
    replaced = {"loss_fn": loss_fn, "task": None, "class_names": None}
    return HeadSetup(
        **{**setup.arguments, **replaced},
        whole=setup,
        head=name,
        output_path=paths[0],
        target_path=paths[1],
        line=term.call.line,
        part=part,
        target_part=target_part,
    )


def get_torch_loss(term: LossTerm, part: Sequence[LayoutChange] = (), target_part: Sequence[LayoutChange] = ()) -> Any:
    """Return torch's own loss of a term that is its mean, perhaps with a positive weight; None for any other term.

    The loss gets the output and the target themselves, or the ``part`` and ``target_part`` that are selected from them.
    """
    is_direct = (part or term.operands[0] is term.output) and (target_part or term.operands[1] is term.target)
    if term.call.name not in FUNCTION_KINDS_BY_NAME or not is_direct or term.meetings > 1:
        return None
    result, value = term.call.outputs, term.value
    if result and (value is None or result[0].numel() != 1 or float(value.detach()) * float(result[0].detach()) <= 0):
        return None
    return partial(getattr(F, term.call.name), **get_options(term))


def get_options(term: LossTerm) -> dict[str, Any]:
    """Return the arguments of a loss besides output and target."""
    try:
        bound = inspect.signature(getattr(F, term.call.name)).bind(*term.call.args, **term.call.kwargs)
    except (AttributeError, TypeError, ValueError):
        return {}
    return {name: value for name, value in bound.arguments.items() if name not in ("input", "target")}


def name_heads(paths: list[tuple[_Path, _Path]]) -> list[str]:
    """Name heads by the key or position of their output, or by that of their target if they share an output."""
    if len(paths) < 2:
        return [""] * len(paths)
    shared = Counter(output for output, _ in paths)
    return [_format_path(output if shared[output] == 1 and output else target) for output, target in paths]


def _format_path(path: _Path) -> str:
    keys = [str(key) if isinstance(key, int) else repr(key) for key in path]
    return ".".join(keys)


def _tensors_by_path(tree: Any) -> dict[_Path, Tensor]:
    return {path: leaf for path, leaf in tree_leaves(tree) if isinstance(leaf, Tensor)}


def _find_path(tensors: Mapping[_Path, Tensor], tensor: Tensor) -> _Path:
    return next(path for path, leaf in tensors.items() if leaf is tensor)


def _detach(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, Tensor) else leaf


def _as_leaf(leaf: Any) -> Any:
    """Return a copy of a tensor apart from its graph, which has a gradient if the tensor has one."""
    return leaf.detach().requires_grad_(leaf.requires_grad).clone() if isinstance(leaf, Tensor) else leaf


class HeadMeasurements(Measurements):
    """Measurements of one head; the data are those of the whole setup, with the target of this head."""

    def __init__(self, whole: Measurements, head: HeadSetup) -> None:
        super().__init__(head, budget=whole["budget"])
        self._whole, self._head = whole, head

    def _measure(self, name: str) -> Any:
        try:
            if name in _SHARED:
                return self._whole[name]
            if name in ("batches", "val_batches"):
                return [self._head.narrow(batch) for batch in self._whole[name]]
            if name == "rows":
                return [self._narrow_rows(part) for part in self._whole[name]]
        except (NotChecked, SetupError) as reason:
            return reason
        return super()._measure(name)

    def _narrow_rows(self, part: SplitRows) -> SplitRows:
        try:
            return replace(part, targets=(self._head.select_target(part.targets),))
        except (KeyError, IndexError):
            raise NotChecked("the samples hold their targets in another form than the batches") from None
