"""The two sides of a comparison: models, functions or setups, and the batch that both compute with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.setup import Batch, Setup
from nbdebug.tensors.pytree import to_device, tree_map, tree_tensors
from nbdebug.tools.agreement.recording import Computation
from nbdebug.validation import describe_type

MAX_SAMPLES = 16  # of a batch; more would keep more copies of every result
Perturb = Callable[[Tensor], Tensor]


@dataclass
class Side:
    """A side: its name, the objects that a run can change, and a function that makes a run with some inputs."""

    name: str
    objects: tuple[Any, ...]
    modules: dict[str, nn.Module]
    make: Callable[[Any], Computation]

    @property
    def device(self) -> torch.device:
        """The device of the first parameter."""
        tensors = (p for module in self.modules.values() for p in module.parameters())
        return next((p.device for p in tensors), torch.device("cpu"))


def make_side(item: Any, name: str) -> Side:
    """Return a model, a function, a setup or the Debugger of one as a side."""
    setup = item if isinstance(item, Setup) else getattr(item, "setup", None)
    if isinstance(setup, Setup) and not isinstance(item, nn.Module):
        return _setup_side(setup, name)
    if isinstance(item, nn.Module):
        return _model_side(item, name)
    if callable(item):
        return _function_side(item, _modules_of(item), name)
    raise SetupError(
        f"{name} is {describe_type(item)}; expected a model, a function, a Debugger or a snapshot. Pass one of these."
    )


def _is_compiled(model: Any) -> bool:
    return hasattr(model, "_orig_mod") or getattr(model, "_compiled_call_impl", None) is not None


def _model_side(model: nn.Module, name: str) -> Side:
    """Return a model as a side; floating-point inputs are converted to the type of its weights, if all have one."""
    eager: nn.Module = getattr(model, "_orig_mod", model)
    dtypes = {p.dtype for p in eager.parameters() if p.is_floating_point()}
    side = _function_side(model, {"": eager}, name)
    if len(dtypes) != 1:
        return side
    (dtype,) = dtypes

    def convert(leaf: Any) -> Any:
        return leaf.to(dtype) if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf

    return replace(side, make=lambda inputs: side.make(tree_map(inputs, convert)))


def _function_side(function: Callable[..., Any], modules: dict[str, nn.Module], name: str) -> Side:
    def make(inputs: Any) -> Computation:
        args, kwargs = _as_arguments(inputs)
        return Computation(name, lambda: function(*args, **kwargs), modules, is_compiled=_is_compiled(function))

    return Side(name, tuple(modules.values()), modules, make)


def _setup_side(setup: Setup, name: str) -> Side:
    modules: dict[str, nn.Module] = {"": setup.eager_model}

    def make(raw: Any) -> Computation:
        options: dict[str, Any] = {"optimizers": setup.optimizers, "is_compiled": _is_compiled(setup.model)}
        step_fn = setup.step_fn
        if step_fn is not None:
            return Computation(name, lambda: setup.validate_step_loss(step_fn(raw)), modules, _itself, **options)
        batch = setup.split_batch(raw)
        loss = partial(_loss_of, setup, batch)
        return Computation(name, lambda: setup.predict(batch, setup.model), modules, loss, **options)

    return Side(name, setup.mutable_objects, modules, make)


def _itself(loss: Tensor) -> Tensor:
    return loss


def _loss_of(setup: Setup, batch: Batch, output: Any) -> Tensor:
    return setup.loss(output, batch)


def _modules_of(function: Any) -> dict[str, nn.Module]:
    """Return the modules that a function refers to by name: of its object, its closure and its module."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, nn.Module):
        return {"": owner}
    plain = inspect.unwrap(getattr(function, "__func__", getattr(function, "func", function)))
    if not inspect.isfunction(plain):
        plain = type(function).__call__
        variables: dict[str, Any] = dict(vars(function)) if hasattr(function, "__dict__") else {}
    else:
        found = inspect.getclosurevars(plain)
        variables = {**found.globals, **found.nonlocals, **(vars(owner) if hasattr(owner, "__dict__") else {})}
    modules = {name: value for name, value in variables.items() if isinstance(value, nn.Module)}
    return {"": next(iter(modules.values()))} if len(modules) == 1 else modules


def _as_arguments(inputs: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return inputs as positional and keyword arguments: a tuple or list is several, a mapping is by name."""
    if isinstance(inputs, Mapping):
        return (), inputs
    return (tuple(inputs), {}) if isinstance(inputs, (tuple, list)) else ((inputs,), {})


def shared_inputs(first: Any, second: Any, inputs: Any) -> Any:
    """Return the inputs that both sides get: those passed, else a batch of the first side that has a loader."""
    if inputs is not None:
        if not tree_tensors(inputs):
            raise SetupError(
                f"inputs is {describe_type(inputs)}; expected tensors. Pass what the model is called with."
            )
        return inputs
    setups = [getattr(item, "setup", item) for item in (first, second)]
    setups = [setup for setup in setups if isinstance(setup, Setup)]
    if not setups:
        raise SetupError("inputs is None; expected the inputs of the models. Pass inputs=x, or two Debuggers.")
    batch = next(setups[0].batches(1))
    size = min(batch.size, MAX_SAMPLES)
    small = batch.take_samples(range(size)) if size < batch.size else batch
    return small.raw if len(setups) == 2 else small.kwargs or small.args


def copied(inputs: Any, device: torch.device, perturb: Perturb | None) -> Any:
    """Return a copy of the inputs on a device, on request with noise in those of floating-point type."""

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        value = leaf.detach().clone()
        return perturb(value) if perturb is not None and value.is_floating_point() else value

    return to_device(tree_map(inputs, copy), device)
