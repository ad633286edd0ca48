"""The operations of one run, each with its inputs, its output, the gradient of that, and its module."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nbdebug.autograd.tracing import ModuleStack
from nbdebug.source.location import SourceLine, get_line_from_frame
from nbdebug.tensors.pytree import tree_tensors

_NO_COMPUTATION = {"requires_grad_", "register_hook", "backward", "__get__", "__set__"}
_Perturb = Callable[[Tensor], Tensor]
# Momentum and averages start at zero, so only a second update with other gradients depends on their settings.
_SECOND_GRADIENT = -0.5


@dataclass(eq=False)
class RecordedTensor:
    """A tensor that a run computed, or a leaf: an input, a parameter or a constant, whose ``operation`` is empty."""

    value: Tensor
    operation: str = ""
    inputs: tuple[RecordedTensor, ...] = ()
    module: str = ""
    line: SourceLine | None = None
    parameter: str = ""
    gradient: Tensor | None = None

    @property
    def is_leaf(self) -> bool:
        """True if no recorded operation computed it."""
        return not self.operation


@dataclass
class Recording:
    """The nodes of a run in order, those of its outputs, and the gradients and the new values of the parameters.

    ``hidden_reason`` is why the run does not show its operations. ``remarks`` are causes by phase that the run knows.
    """

    nodes: list[RecordedTensor] = field(default_factory=list)
    outputs: list[RecordedTensor] = field(default_factory=list)
    gradients: dict[str, Tensor] = field(default_factory=dict)
    updated: dict[str, Tensor] = field(default_factory=dict)
    buffers: dict[str, Tensor] = field(default_factory=dict)
    loss: Tensor | None = None
    hidden_reason: str = ""
    remarks: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_opaque(self) -> bool:
        """True if the run does not show its operations."""
        return bool(self.hidden_reason)


class _OperationRecorder(TorchFunctionMode):
    """Records the operations on tensors while active, and on request perturbs their results."""

    def __init__(self, parameters: Mapping[int, str], stack: ModuleStack, perturb: _Perturb | None = None) -> None:
        super().__init__()
        self.recording, self.is_active = Recording(), True
        self._parameters, self._stack, self._perturb = parameters, stack, perturb
        self._nodes: dict[int, RecordedTensor] = {}
        self._kept: list[Tensor] = []  # ids are unique while the tensors live

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "call")
        if not self.is_active or name in _NO_COMPUTATION:
            return func(*args, **(kwargs or {}))
        inputs = tuple(self.node_of(tensor) for tensor in tree_tensors((args, kwargs or {})))
        result = func(*args, **(kwargs or {}))
        is_inner = any(result is part for part in (args[:1] if args else ()))
        for output in tree_tensors(result):
            if self._perturb is not None and output.is_floating_point() and not is_inner:
                self._add_noise(output)
            self._add(output, name.strip("_"), inputs)
        return result

    def _add_noise(self, output: Tensor) -> None:
        """Perturb a result in place, without a trace in the graph; a view of another tensor stays."""
        if output._is_view() or (output.is_leaf and output.requires_grad) or self._perturb is None:
            return
        with torch.no_grad(), torch._C.DisableTorchFunction():
            output.data.copy_(self._perturb(output.data))

    def _add(self, output: Tensor, name: str, inputs: tuple[RecordedTensor, ...]) -> None:
        with torch._C.DisableTorchFunction():
            value = output.detach().clone()
            node = RecordedTensor(
                value, name, inputs, self._stack.innermost or "", get_line_from_frame(sys._getframe(2))
            )
            if output.requires_grad and not output.is_leaf:
                hook = partial(_set_gradient, node, self._perturb)
                output.register_hook(hook)  # type: ignore[no-untyped-call]
        self._nodes[id(output)] = node
        self._kept.append(output)
        self.recording.nodes.append(node)

    def node_of(self, tensor: Tensor) -> RecordedTensor:
        """Return the node of a tensor; a leaf if no recorded operation has computed it."""
        if id(tensor) not in self._nodes:
            with torch._C.DisableTorchFunction():
                value = tensor.detach().clone()
            self._nodes[id(tensor)] = RecordedTensor(value, parameter=self._parameters.get(id(tensor), ""))
            self._kept.append(tensor)
        return self._nodes[id(tensor)]


def _set_gradient(node: RecordedTensor, perturb: _Perturb | None, gradient: Tensor) -> Tensor | None:
    """Keep the gradient of a node, and return it with noise on request; None leaves it as it is."""
    with torch._C.DisableTorchFunction():
        node.gradient = gradient.detach().clone()
        return None if perturb is None else perturb(gradient)


@contextmanager
def _track_modules(modules: Mapping[str, nn.Module]) -> Iterator[ModuleStack]:
    """Track the running submodules of some modules by path, each below its own prefix."""
    stack, handles = ModuleStack(), []
    for prefix, module in modules.items():
        for path, part in module.named_modules():
            if isinstance(part, torch.jit.ScriptModule):
                continue
            label = ".".join(filter(None, [prefix, path]))
            handles.append(part.register_forward_pre_hook(lambda *_, label=label: stack.enter(label)))
            handles.append(part.register_forward_hook(lambda *_: stack.leave(), always_call=True))
    try:
        yield stack
    finally:
        for handle in handles:
            handle.remove()


@dataclass
class Computation:
    """One of the two sides: a function of the inputs, the modules that it runs, and how it is trained, if it is.

    ``loss`` returns the loss of an output; without one, a fixed random projection of the output stands for it.
    """

    name: str
    run: Callable[[], Any]
    modules: dict[str, nn.Module]
    loss: Callable[[Any], Tensor] | None = None
    optimizers: Sequence[torch.optim.Optimizer] = ()
    is_compiled: bool = False

    def parameters(self) -> dict[str, Tensor]:
        """Return the parameters by path."""
        return {
            ".".join(filter(None, [prefix, name])): p
            for prefix, module in self.modules.items()
            for name, p in module.named_parameters()
        }

    def buffers(self) -> dict[str, Tensor]:
        """Return the buffers by path."""
        return {
            ".".join(filter(None, [prefix, name])): b
            for prefix, module in self.modules.items()
            for name, b in module.named_buffers()
        }

    def run_compiled(self) -> Any:
        """Run a compiled model, which warns if hooks for all modules exist, whoever set them."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"Using `torch\.compile\(module\)`")
            return self.run()

    def record(self, perturb: _Perturb | None) -> Recording:
        """Run forward, backward and update, and return what was computed; must be inside a Preserve."""
        parameters = self.parameters()
        names = {id(tensor): name for name, tensor in {**self.buffers(), **parameters}.items()}
        for parameter in parameters.values():
            parameter.grad = None
        if perturb is not None:
            with torch.no_grad():
                for parameter in parameters.values():
                    parameter.copy_(perturb(parameter) if parameter.is_floating_point() else parameter)
        # A compiler would trace the hooks and the recorder too, so only the output of a compiled model is recorded.
        compiled_output = self.run_compiled() if self.is_compiled else None
        with _track_modules(self.modules) as stack, _OperationRecorder(names, stack, perturb) as recorder:
            output = compiled_output if self.is_compiled else self.run()
            recording: Recording = recorder.recording
            recording.outputs = [recorder.node_of(tensor) for tensor in tree_tensors(output)]
            recorder.is_active = self.loss is not None
            loss = self.loss(output) if self.loss is not None else _projection(output)
            if self.loss is not None and loss is not None:
                recording.outputs.append(recorder.node_of(loss))
            recorder.is_active = False
        recording.hidden_reason = "is compiled and does not show its operations" if self.is_compiled else ""
        recording.loss = None if loss is None else loss.detach()
        self._train(recording, loss, parameters)
        return recording

    def _train(self, recording: Recording, loss: Tensor | None, parameters: dict[str, Tensor]) -> None:
        """Run the backward pass and two updates, if there are any."""
        recording.buffers = {name: b.detach().clone() for name, b in self.buffers().items()}
        if loss is None or not loss.requires_grad:
            return
        loss.backward()  # type: ignore[no-untyped-call]
        recording.gradients = {n: p.grad.detach().clone() for n, p in parameters.items() if p.grad is not None}
        for scale in (1.0, _SECOND_GRADIENT):
            for parameter in parameters.values():
                if parameter.grad is not None:
                    parameter.grad.mul_(scale)
            for optimizer in self.optimizers:
                optimizer.step()
        if self.optimizers:
            recording.updated = {name: p.detach().clone() for name, p in parameters.items()}


def _projection(output: Any) -> Tensor | None:
    """Return a sum of all floating-point outputs with fixed weights of either sign, so that no gradient cancels."""
    terms = []
    for tensor in tree_tensors(output):
        if tensor.is_floating_point() and tensor.requires_grad:
            weights = torch.cos(torch.arange(1, tensor.numel() + 1, dtype=torch.float64)).to(
                tensor.device, tensor.dtype
            )
            terms.append((tensor.flatten() * weights).sum().float())
    return torch.stack(terms).sum() if terms else None
