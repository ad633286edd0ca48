"""The first training step of a loop, traced like the first batch of a checkup: lines, modules and broadcasts."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from nbdebug.autograd import ForwardTrace
from nbdebug.autograd.broadcasts import ELEMENTWISE_LOSSES, Broadcast, BroadcastTracker
from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.distributed.parallel_models import is_sharded
from nbdebug.exceptions import SetupError
from nbdebug.loop_monitor.separate_draws import DrawnInputs, DrawTrace, SeparateDraws
from nbdebug.loop_monitor.write_trace import LoopMode
from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import score_tensor
from nbdebug.source.location import SourceLine, format_traceback_entry, get_line_from_frame
from nbdebug.tensors.pytree import tree_tensors

_HOOK_METHODS = frozenset({"register_hook", "retain_grad"})
_MOVING_CALLS = frozenset({"to", "cuda", "cpu", "contiguous", "long", "int", "pin_memory"})  # of the same values
_MAX_LOSS_CALLS = 256
_MAX_ATTEMPTS = 32  # batches and passes without a backward pass after them


@dataclass(frozen=True)
class TracedStep:
    """A training step up to its backward pass: batch, output and loss, the broadcasts, and the calls after the model.

    The inputs of the batch are the arguments that the loop has passed to the model. ``has_hooks`` tells whether the
    step registered hooks on tensors, which every backward pass would call. ``passes`` is the number of training passes
    of the model in the step, ``separate_draws`` a target that is drawn apart from what the model receives, and
    ``drawn_inputs`` inputs that are drawn while the loss depends on the batch.
    ``argument_lines`` are the user's lines that made tensor arguments of the model in the step, by their numbers;
    ``maker_lines`` are those that made tensors before the model ran.
    """

    batch: Batch
    trace: ForwardTrace
    output: Any
    loss: Tensor
    broadcasts: list[Broadcast]
    weight_broadcasts: list[Broadcast]
    kl_divergences: list[TorchCall]
    loss_calls: list[TorchCall]
    has_hooks: bool
    passes: int = 1
    separate_draws: SeparateDraws | None = None
    drawn_inputs: DrawnInputs | None = None
    argument_lines: Mapping[int, SourceLine] = field(default_factory=dict)
    maker_lines: Mapping[Tensor, SourceLine] = field(default_factory=dict)


class StepTrace(LoopMode):
    """Traces the torch calls between the first training batch and the first backward pass.

    Each operation of the graph gets the line of the user's that called it, in the form of torch's anomaly mode.
    A compiler would trace this mode and compile its code again after it, so the mode ends when a compilation starts.
    ``is_partial`` becomes True if another backward pass follows from the same output: the loss is computed in parts.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self.setup, self.attempts = setup, 0
        self.is_in_model, self.module_hooks, self.compile_callback = False, ExitStack(), ExitStack()
        self.error: Exception | None = None
        self.is_partial = self.awaits_pass = False
        self.clear()

    def clear(self) -> None:
        """Forget everything that refers to the step."""
        self.trace = ForwardTrace()
        self.batch: Batch | None = None
        self.earlier_batch: Batch | None = None  # of a loader that reads one batch ahead, as those of Accelerate do
        self.output: Any = None
        self.tracker = BroadcastTracker([], [])
        self.kl_divergences: list[TorchCall] = []
        self.has_hooks, self.passes = False, 0
        self.loss_calls: list[TorchCall] = []
        self.draw_trace = DrawTrace()
        self.drawn_inputs: DrawnInputs | None = None
        self.maker_lines: MutableMapping[Tensor, SourceLine] = WeakTensorKeyDictionary()
        self.argument_lines: dict[int, SourceLine] = {}

    @property
    def is_due(self) -> bool:
        """True until a step was traced, if no code is compiled and the model runs hooks."""
        if self.attempts >= _MAX_ATTEMPTS or isinstance(self.setup.eager_model, torch.jit.ScriptModule):
            return False
        return not _has_compiled_code(self.setup)

    def on_batch(self, raw: Any) -> None:
        """Start to trace after a batch of the training loader."""
        if self.is_due:
            # A loop may use its batches in another way; then tracing starts at the pass.
            with suppress(SetupError):
                batch, earlier = self.setup.split_batch(raw), self.batch
                self.open(batch, list(_raw_targets(raw, batch)))
                self.draw_trace.add_data(raw)
                self.tracker.add_companions(list(_companions(raw, batch)))
                if earlier is not None and self.batch is not None:
                    self.earlier_batch = earlier
                    self.tracker.add_targets(list(_raw_targets(earlier.raw, earlier)))
                    self.draw_trace.add_data(earlier.raw)

    def open(self, batch: Batch, targets: list[Tensor]) -> None:
        """Start to trace."""
        self.close()
        self.attempts += 1
        if self.enter():
            self.compile_callback.enter_context(_before_compilation(self.leave))
            self.batch, self.tracker = batch, BroadcastTracker([], targets, batch.size)

    def on_forward_begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Start to record the running submodules; without a loader that is known, start to trace."""
        self.awaits_pass = False
        if not torch.is_grad_enabled():
            return
        if self.batch is None and self.is_due:
            self.open(Batch(args, kwargs), [])
            self.draw_trace.add_data((args, kwargs))
        if self.batch is not None:
            if self.earlier_batch is not None and _has_inputs(self.earlier_batch, args, kwargs):
                self.batch = self.earlier_batch
            self.earlier_batch = None
            self.passes += 1
            own = tree_tensors(self.batch.args)
            self.drawn_inputs = self.draw_trace.find_drawn_inputs(tree_tensors((args, kwargs)), own)
            self.batch = replace(self.batch, args=args, kwargs=kwargs)
            lines = enumerate(map(self.maker_lines.get, tree_tensors((args, kwargs))))
            self.argument_lines = {number: line for number, line in lines if line is not None}
            self.module_hooks.close()
            self.module_hooks.enter_context(self.trace.track(self.setup.eager_model))
            self.is_in_model = True

    def on_forward_end(self, output: Any) -> None:
        """Record the output of a pass."""
        self.is_in_model = False
        self.module_hooks.close()
        if self.batch is not None and torch.is_grad_enabled() and score_tensor(output) is not None:
            self.output = output
            self.tracker.add_output(tree_tensors(output))

    def on_backward_begin(self, roots: Sequence[Tensor]) -> TracedStep | None:
        """Stop to trace; return the step, unless the model was not called or the loss is no single number."""
        batch, output, step = self.batch, self.output, None
        self.is_partial |= self.awaits_pass
        if batch is not None and output is not None and len(roots) == 1 and roots[0].numel() == 1:
            self.attempts, self.awaits_pass = _MAX_ATTEMPTS, True
            broadcasts = self.tracker.broadcasts_in(roots[0]), self.tracker.lost_weights
            calls = self.kl_divergences, self.loss_calls
            step = TracedStep(batch, self.trace, output, roots[0], *broadcasts, *calls, self.has_hooks, self.passes)
            draws = self.draw_trace.find_separate_draws(roots[0])
            if self.passes == 1 and self.draw_trace.origin(roots[0]).has_data:
                step = replace(step, drawn_inputs=self.drawn_inputs)
            step = replace(step, separate_draws=draws, argument_lines=self.argument_lines, maker_lines=self.maker_lines)
        self.close()
        error, self.error = self.error, None
        if error is not None:
            raise error
        return step

    @property
    def awaits_backward(self) -> bool:
        """True between the start of the trace and the backward pass, and after it until the next pass of the model."""
        return self.batch is not None or self.error is not None or self.awaits_pass

    def close(self) -> None:
        """Stop to trace. A backward pass is a torch call, inside which the mode cannot be left."""
        self.module_hooks.close()
        self.compile_callback.close()
        self.clear()
        self.leave()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.batch is None:
            return func(*args, **(kwargs or {}))
        inputs: list[Tensor] = []
        try:
            inputs = tree_tensors((args, kwargs or {}))
            if not self.is_in_model:
                self.tracker.on_call(func, inputs)
        except Exception as error:  # must not reach the user's loop
            self.stop(error)
        result = _call_quietly(func, args, kwargs or {})
        if self.batch is None:  # an error or a backward pass has ended the trace
            return result
        try:
            self.draw_trace.on_result(func, inputs, tree_tensors(result), sys._getframe(1))
            if self.is_in_model:
                inputs = []
            self.record_result(func, inputs, args, kwargs or {}, result, get_line_from_frame(sys._getframe(1)))
        except Exception as error:
            self.stop(error)
        return result

    def record_result(
        self, func: Any, inputs: list[Tensor], args: Any, kwargs: dict[str, Any], result: Any, line: SourceLine | None
    ) -> None:
        """Record a call that has returned; ``inputs`` are those of a call outside of the model."""
        outputs = tree_tensors(result)
        self.tracker.on_result(func, inputs, outputs)
        if line is not None:
            _add_line(outputs, line)
        name = getattr(func, "__name__", "")
        if self.output is None and not self.is_in_model:
            self._record_makers(name, inputs, outputs, line)
        self.has_hooks |= name in _HOOK_METHODS and line is not None
        call = TorchCall(name.strip("_"), tuple(inputs), tuple(outputs), args, kwargs, None, line)
        if name == "kl_div":
            self.kl_divergences.append(call)
        if outputs and self.output is not None and not self.is_in_model and len(self.loss_calls) < _MAX_LOSS_CALLS:
            self.loss_calls.append(call)

    def _record_makers(self, name: str, inputs: list[Tensor], outputs: list[Tensor], line: SourceLine | None) -> None:
        """Keep the line that makes each tensor before the model runs; that of its source for one that is moved."""
        made_at = next(filter(None, map(self.maker_lines.get, inputs)), line) if name in _MOVING_CALLS else line
        if made_at is not None:
            self.maker_lines.update(dict.fromkeys(outputs, made_at))

    def stop(self, error: Exception) -> None:
        """Stop to trace for good, because of an exception that the next event raises."""
        self.clear()
        self.error, self.attempts = error, _MAX_ATTEMPTS


def _has_inputs(batch: Batch, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a tensor that the model receives is one of the inputs of a batch."""
    inputs = {id(tensor) for tensor in tree_tensors((batch.args, batch.kwargs))}
    return any(id(tensor) in inputs for tensor in tree_tensors((args, kwargs)))


def _raw_targets(raw: Any, batch: Batch) -> Iterator[Tensor]:
    """Yield the tensors that a loader returned as targets, before they were moved to the model's device."""
    kinds = {(target.shape, target.dtype) for target in tree_tensors(batch.targets)}
    yield from (tensor for tensor in tree_tensors(raw) if (tensor.shape, tensor.dtype) in kinds)


def _companions(raw: Any, batch: Batch) -> Iterator[Tensor]:
    """Yield the tensors of a loader's batch that are neither inputs nor targets and have a row for each sample."""
    known = {id(tensor) for tensor in (*tree_tensors((batch.args, batch.kwargs)), *_raw_targets(raw, batch))}
    for tensor in tree_tensors(raw):
        if id(tensor) not in known and tensor.dim() and len(tensor) == batch.size:
            yield tensor


def _add_line(outputs: list[Tensor], line: SourceLine) -> None:
    """Add the user's line to all operations behind some tensors that have none, in the form of a traceback."""
    entry = [format_traceback_entry(line)]
    pending: list[Any] = [tensor.grad_fn for tensor in outputs]
    while pending:
        function = pending.pop()
        if function is not None and "traceback_" not in function.metadata:
            function.metadata["traceback_"] = entry
            pending += [next_function for next_function, _ in function.next_functions]


def _call_quietly(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Call a torch function; a loss that broadcasts would name this file in its warning.

    Torch repeats the warning at the next step, for the user's line.
    """
    if getattr(func, "__name__", "") not in ELEMENTWISE_LOSSES:
        return func(*args, **kwargs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return func(*args, **kwargs)


def _has_compiled_code(setup: Setup) -> bool:
    """Return whether torch.compile has compiled any code that is still there, or will compile a module of the model."""
    compiler = sys.modules.get("torch._dynamo.convert_frame")
    compiled_codes = getattr(getattr(compiler, "input_codes", None), "seen", True) if compiler is not None else ()
    is_compiled = any(getattr(module, "_compiled_call_impl", None) for module in setup.eager_model.modules())
    return bool(compiled_codes) or is_compiled or setup.is_compiled or is_sharded(setup.eager_model)


@contextmanager
def _before_compilation(callback: Callable[[], None]) -> Iterator[None]:
    """Call ``callback`` before torch.compile compiles code in the block, if its module is loaded by now."""
    handler = getattr(sys.modules.get("torch._dynamo"), "callback_handler", None)
    if handler is None:
        yield
        return

    def on_compilation(*_: Any) -> None:
        callback()

    handler.register_start_callback(on_compilation)
    try:
        yield
    finally:
        handler.remove_start_callback(on_compilation)
