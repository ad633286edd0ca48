"""Run a batch through a model without side effects and without fused fast paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nbdebug.exceptions import SetupError, first_line
from nbdebug.inference.inputs import ModelInputs, as_inputs
from nbdebug.setup import Batch, Setup
from nbdebug.setup.device_assertions import refuse_device_assertions
from nbdebug.setup.evaluation_mode import (
    differentiable_model,
    evaluation_mode,
    fast_attention_disabled,
    in_mode,
    model_device,
)
from nbdebug.tensors.pytree import describe_tensors
from nbdebug.validation import describe_type


def forward_error(model: Any, batch: Batch, error: Exception, run: Callable[[], Any]) -> SetupError:
    """Return the error for a model that raises in eval mode; `run` is retried in train mode to find the cause."""
    message = first_line(error, 160)
    message = message if isinstance(error, RuntimeError) else f"{type(error).__name__}: {message}"
    if isinstance(model, nn.Module) and runs_in_training(model, run):
        return SetupError(
            f"the model raises in eval mode ({message}) but runs in train mode; expected both, because explanations "
            "use eval mode. Fix the branch of forward() that runs if self.training is False."
        )
    return SetupError(
        f"the model raises on the samples, {describe_tensors(batch.inputs)} ({message}); expected inputs as in "
        "training. Pass samples of that shape and dtype."
    )


def runs_in_training(model: nn.Module, run: Callable[[], Any]) -> bool:
    """Return whether ``run`` succeeds with the model in train mode."""
    try:
        with in_mode(model, True):
            run()
    except Exception:
        return False
    return True


def get_model(setup_or_model: Any) -> Any:
    """Return the model of a Setup, of torch.compile, or the given module, function or estimator itself."""
    if isinstance(setup_or_model, Setup):
        return setup_or_model.eager_model
    model = getattr(setup_or_model, "_orig_mod", setup_or_model)
    if isinstance(model, nn.Module) or callable(model) or hasattr(model, "predict"):
        return model
    raise SetupError(
        f"model is {describe_type(setup_or_model)}; expected a Setup, a torch.nn.Module, "
        "a function or a fitted estimator."
    )


def get_forward(setup_or_model: Any, model: Any) -> Callable[[Batch], Any]:
    """Return the function that runs the model on a batch."""
    if isinstance(setup_or_model, Setup):
        return lambda batch: setup_or_model.predict(batch, model)
    if isinstance(model, nn.Module):
        return lambda batch: _call_module(model, batch)
    predict = getattr(model, "predict_proba", None) or getattr(model, "predict", None) or model
    return lambda batch: _call_array_function(predict, batch)


def _call_module(model: nn.Module, batch: Batch) -> Any:
    with refuse_device_assertions(model_device(model)):
        return model(*batch.args, **batch.kwargs)


def _call_array_function(function: Callable[..., Any], batch: Batch) -> Tensor:
    """Call a function of arrays and return its output as a tensor."""
    arrays = [argument.detach().cpu().numpy() if isinstance(argument, Tensor) else argument for argument in batch.args]
    output = function(*arrays, **batch.kwargs)
    return output if isinstance(output, Tensor) else torch.from_numpy(np.asarray(output, np.float64))


@dataclass(frozen=True)
class ModelRunner:
    """A model as Python code, and ``call(batch)``, which returns its output."""

    model: nn.Module
    call: Callable[[Batch], Any]
    owned: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Prepare the model for runs and hooks for the duration of a block."""
        with evaluation_mode(self.model, self.owned), fast_attention_disabled(), torch.no_grad():
            yield

    def inputs(self, user_inputs: Any, name: str = "inputs") -> ModelInputs:
        """Convert inputs to the model's device and precision; raise SetupError for inputs without samples."""
        inputs, device = as_inputs(user_inputs, self.model, name), model_device(self.model)
        return inputs.with_leaves(
            {
                index: (leaf.float() if self.notes and leaf.is_floating_point() else leaf).to(device)
                for index, leaf in enumerate(inputs.leaves)
                if isinstance(leaf, Tensor)
            }
        )

    def run(self, inputs: ModelInputs) -> Any:
        """Return the output for a copy of the inputs, which the model may modify in place."""
        return self.call(inputs.copy().batch)

    def layer_name(self, layer: str | nn.Module) -> str:
        """Return the name of a layer given by name or as a module; raise SetupError if it is unknown."""
        names = dict(self.model.named_modules())
        match: str | None = next((name for name, module in names.items() if module is layer or name == layer), None)
        if match is None:
            examples = ", ".join([name for name in names if name][-3:])
            raise SetupError(
                f"layer is {layer!r}, which is not in the model; expected one such as {examples}. Choose one."
            )
        return match


def get_model_runner(setup_or_model: Any) -> ModelRunner:
    """Return a runner for a Setup or a module; raise SetupError for a model without Python layers."""
    model = get_model(setup_or_model)
    if not isinstance(model, nn.Module):
        raise SetupError(f"model is {describe_type(model)}; expected a torch.nn.Module. Pass a module.")
    if isinstance(model, torch.jit.ScriptModule):
        raise SetupError("model is TorchScript; expected Python layers. Pass the model that it was compiled from.")
    model_copy, note = differentiable_model(model)
    owned = setup_or_model.mutable_objects if isinstance(setup_or_model, Setup) else ()
    return ModelRunner(model_copy, get_forward(setup_or_model, model_copy), owned, (note,) if note else ())
