"""Model summary: one row per submodule, from one forward pass that changes nothing."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from nbdebug.crashes import read_crash
from nbdebug.crashes.shape_trace import trace_shapes
from nbdebug.distributed.parallel_models import ModelPart, shard_access
from nbdebug.exceptions import SetupError
from nbdebug.finding import Finding
from nbdebug.preserve import Preserve
from nbdebug.report import Report
from nbdebug.setup import Setup
from nbdebug.source.location import get_line_from_exception
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.tensors.summary import TensorSummary, summarize_tensor
from nbdebug.tools.summary import optimizer_groups
from nbdebug.tools.summary.operation_count import OperationCounter
from nbdebug.tools.summary.result import Status, Summary, SummaryRow
from nbdebug.views.shape_graph import ShapeTrace

_MAX_TENSORS = 8
_TYPES_WITHOUT_FORWARD = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)


@dataclass
class _ModelPass:
    """Records of one forward pass by submodule: summaries of the tensors of the first call, and the number of calls.

    ``unfinished`` holds the calls that had not returned when the pass ended; ``stopped`` says why it ended early, if it
    did, and ``trace`` holds the calls up to that one. ``batch`` describes the batch.
    """

    modules: Set[nn.Module]
    batch: str = ""
    inputs: dict[nn.Module, tuple[TensorSummary, ...]] = field(default_factory=dict)
    outputs: dict[nn.Module, tuple[TensorSummary, ...]] = field(default_factory=dict)
    calls: Counter[nn.Module] = field(default_factory=Counter)
    multiply_adds: Counter[nn.Module] = field(default_factory=Counter)
    output_bytes: Counter[nn.Module] = field(default_factory=Counter)
    unfinished: list[nn.Module] = field(default_factory=list)
    stopped: str = ""
    trace: ShapeTrace = field(default_factory=ShapeTrace)

    def enter(self, module: nn.Module, args: Any) -> None:
        """Record that a call begins."""
        if module in self.modules:
            self.calls[module] += 1
            self.unfinished.append(module)
            if module not in self.inputs:
                self.inputs[module] = _summarize_tensors(args)

    def leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """Record that a call returns; calls still open inside it raised an exception that the model caught."""
        if module not in self.modules:
            return
        if not any(child in self.modules for child in module.children()):
            self.count(
                self.output_bytes, sum(tensor.numel() * tensor.element_size() for tensor in tree_tensors(output))
            )
        while self.unfinished.pop() is not module:
            pass
        if module not in self.outputs:
            self.inputs[module] += _summarize_tensors(kwargs)
            self.outputs[module] = _summarize_tensors(output)

    def count(self, counter: Counter[nn.Module], amount: int) -> None:
        """Add an amount to every module whose call is open."""
        for module in dict.fromkeys(self.unfinished):
            counter[module] += amount


def _run_forward_pass(setup: Setup) -> _ModelPass:
    """Run the first batch through the model; an exception of data or model is recorded, not raised.

    Nothing is changed, so a model with lazy layers, which the first pass would initialize, does not run.
    """
    forward_pass = _ModelPass(frozenset(setup.eager_model.modules()))
    if lazy_names := [name for name, p in setup.eager_model.named_parameters() if is_lazy(p)]:
        forward_pass.stopped = f"{lazy_names[0]} has no shape yet. Run one batch through the model first."
        return forward_pass
    if setup.model_part is not ModelPart.WHOLE:
        forward_pass.stopped = f"the model {setup.model_part.value}, so that no rank can run it alone"
        return forward_pass
    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader)):
        try:
            _run_batch(setup, forward_pass)
        except SetupError as setup_error:
            forward_pass.stopped = str(setup_error)
        except Exception as error:
            line = get_line_from_exception(error)
            forward_pass.stopped = f"{type(error).__name__}: {error}{f' ({line.where()})' if line else ''}"
            crash = read_crash(error, setup)
            forward_pass.trace = trace_shapes(crash) if crash is not None else ShapeTrace()
    return forward_pass


def _run_batch(setup: Setup, forward_pass: _ModelPass) -> None:
    batch = next(setup.batches(1))
    forward_pass.batch = str(batch)
    counter = OperationCounter(lambda amount: forward_pass.count(forward_pass.multiply_adds, amount))
    with _record_calls(forward_pass), _without_compilation(), counter:
        setup.predict(batch) if setup.step_fn is None else setup.step_fn(batch.raw)


def _without_compilation() -> AbstractContextManager[Any]:
    """Run compiled parts as Python in this block; does not import the compiler."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


@contextmanager
def _record_calls(forward_pass: _ModelPass) -> Iterator[None]:
    """Record every module call in this block, through global hooks that also cover scripted modules."""
    handles = [
        register_module_forward_pre_hook(forward_pass.enter),
        register_module_forward_hook(forward_pass.leave, with_kwargs=True),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _summarize_tensors(tree: Any) -> tuple[TensorSummary, ...]:
    return tuple(summarize_tensor(tensor) for tensor in tree_tensors(tree)[:_MAX_TENSORS])


@dataclass(frozen=True)
class _ModuleEntry:
    """A module at one path; ``same_as`` is its first path if it is shared."""

    path: str
    module: nn.Module
    level: int = 0
    same_as: str | None = None

    @property
    def kind(self) -> str:
        """The class name, for a scripted module that of its source."""
        return str(getattr(self.module, "original_name", type(self.module).__name__))


def _module_entries(model: nn.Module) -> list[_ModuleEntry]:
    """Return every submodule, parents first; a shared module is listed at each path but entered only once."""
    first_paths: dict[nn.Module, str] = {}

    def walk(path: str, module: nn.Module, level: int) -> Iterator[_ModuleEntry]:
        yield _ModuleEntry(path, module, level, first_paths.get(module))
        if module not in first_paths:
            first_paths[module] = path
            for name, child in module._modules.items():
                if child is not None:
                    yield from walk(f"{path}.{name}" if path else name, child, level + 1)

    return list(walk("", model, 0))


def _first_names(entries: Iterable[_ModuleEntry]) -> dict[nn.Parameter, str]:
    """Return the first name of each parameter; tied weights have one name."""
    names: dict[nn.Parameter, str] = {}
    for entry in entries:
        for name, parameter in entry.module.named_parameters(recurse=False):
            names.setdefault(parameter, f"{entry.path}.{name}" if entry.path else name)
    return names


def _value_count(parameters: Iterable[nn.Parameter]) -> int:
    """Return the number of values; lazy parameters have none yet."""
    return sum(p.numel() for p in parameters if not is_lazy(p))


def summary(setup: Setup, report: Report | None = None, *, reads_values: bool = True) -> Summary:
    """Summarize each submodule: inputs, outputs, parameters and optimizer groups; changes nothing.

    ``report`` holds findings to show next to the submodules that they name. A model that raises is shown as far as it
    ran. Without ``reads_values``, the values of parameters and buffers are not summarized.
    """
    return _summarize(setup.eager_model, setup.optimizers, _run_forward_pass(setup), report, reads_values)


def describe_modules(model: nn.Module, optimizers: Sequence[Optimizer]) -> Summary:
    """Summarize each submodule without a batch, and so without shapes, and without the values of tensors."""
    return _summarize(model, tuple(optimizers), _ModelPass(frozenset()), None, reads_values=False)


def _summarize(
    model: nn.Module,
    optimizers: tuple[Optimizer, ...],
    forward_pass: _ModelPass,
    report: Report | None,
    reads_values: bool,
) -> Summary:
    entries = _module_entries(model)
    names, groups = _first_names(entries), optimizer_groups.groups_by_parameter(optimizers)
    findings = _findings_by_path(report or (), {entry.path for entry in entries})
    with shard_access(model)():  # a norm or a mean of a whole tensor would wait for the other ranks
        gradient_squares = _gradient_squares(names)
        rows = tuple(
            _make_row(entry, forward_pass, names, groups, gradient_squares, tuple(findings.get(entry.path, ())))
            for entry in entries
        )
        if reads_values:
            rows = tuple(map(partial(_with_tensors, names=names), rows, entries))
    return Summary(
        rows=rows,
        batch=forward_pass.batch,
        stopped=forward_pass.stopped,
        trace=forward_pass.trace,
        optimizers=len(optimizers),
        unlocated_findings=tuple(findings.get(None, ())),
        is_checked=report is not None,
    )


def _gradient_squares(parameters: Iterable[nn.Parameter]) -> dict[nn.Parameter, float]:
    """Return the squared norm of each gradient that has dense values."""
    dense = [p for p in parameters if p.grad is not None and p.grad.layout == torch.strided and not p.grad.is_meta]
    norms = [torch.linalg.vector_norm(p.grad.detach(), dtype=torch.float32) for p in dense if p.grad is not None]
    return {parameter: float(norm) ** 2 for parameter, norm in zip(dense, norms, strict=True)}


def _make_row(
    entry: _ModuleEntry,
    forward_pass: _ModelPass,
    names: Mapping[nn.Parameter, str],
    groups_of: dict[nn.Parameter, tuple[optimizer_groups.ParameterGroup, ...]],
    gradient_squares: Mapping[nn.Parameter, float],
    findings: tuple[Finding, ...],
) -> SummaryRow:
    module, parameters = entry.module, list(entry.module.parameters())
    prefix = f"{entry.path}." if entry.path else ""
    own_parameters = [p for p in parameters if entry.same_as is None and names[p].startswith(prefix)]
    tensors = [*own_parameters, *(p.grad for p in own_parameters if p.grad is not None), *module.buffers()]
    total = sum(gradient_squares.values())
    return SummaryRow(
        path=entry.path,
        kind=entry.kind,
        level=entry.level,
        status=_forward_status(module, forward_pass),
        calls=forward_pass.calls[module],
        inputs=forward_pass.inputs.get(module, ()),
        outputs=forward_pass.outputs.get(module, ()),
        parameters=_value_count(own_parameters),
        own=_value_count(p for p in own_parameters if f"{prefix}{names[p].rpartition('.')[2]}" == names[p]),
        tied=_value_count(parameters) - _value_count(own_parameters),
        trainable=_value_count(p for p in parameters if p.requires_grad),
        training=module.training,
        groups=optimizer_groups.unique_groups(chain.from_iterable(groups_of.get(p, ()) for p in parameters)),
        loose=optimizer_groups.unoptimized_count(parameters, groups_of),
        same_as=entry.same_as,
        findings=findings,
        multiply_adds=forward_pass.multiply_adds[module],
        output_bytes=forward_pass.output_bytes[module],
        held_bytes=sum(t.numel() * t.element_size() for t in tensors if not is_lazy(t)),
        gradient=sum(gradient_squares.get(p, 0.0) for p in parameters) / total if total and parameters else None,
    )


def _with_tensors(row: SummaryRow, entry: _ModuleEntry, *, names: Mapping[nn.Parameter, str]) -> SummaryRow:
    """Return a row with the summaries of the own tensors of its module."""
    buffers = tuple((name, summarize_tensor(buffer)) for name, buffer in entry.module.named_buffers(recurse=False))
    return replace(row, weights=tuple(_own_weights(entry, names)), buffers=buffers)


def _forward_status(module: nn.Module, forward_pass: _ModelPass) -> Status:
    if module in forward_pass.unfinished:
        return "raised" if module is forward_pass.unfinished[-1] else "cut off"
    if module in forward_pass.outputs:
        return "ran"
    if type(module) in _TYPES_WITHOUT_FORWARD:
        return "holds"
    return "not reached" if forward_pass.stopped else "not called"


def _own_weights(entry: _ModuleEntry, names: Mapping[nn.Parameter, str]) -> Iterable[tuple[str, TensorSummary]]:
    """Yield the own parameters of a submodule; the name of a tied one includes its first name."""
    for name, parameter in entry.module.named_parameters(recurse=False):
        first_name = names[parameter]
        own_name = f"{entry.path}.{name}" if entry.path else name
        yield (
            name if first_name == own_name or entry.same_as is not None else f"{name} = {first_name}",
            summarize_tensor(parameter),
        )


def _findings_by_path(findings: Iterable[Finding], paths: set[str]) -> dict[str | None, list[Finding]]:
    """Group findings by the path of the submodule that they name (or its closest parent), or None."""
    result: dict[str | None, list[Finding]] = {}
    for finding in findings:
        result.setdefault(_finding_path(finding, paths), []).append(finding)
    return result


def _finding_path(finding: Finding, paths: set[str]) -> str | None:
    where = finding.where
    path = where.module if where.module is not None else (where.parameter or "").rpartition(".")[0] or None
    while path and path not in paths:
        path = path.rpartition(".")[0]
    return path
