"""The training setup under test."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from nbdebug.distributed.parallel_models import ModelPart, get_model_part, unwrap_model, unwrap_parallel
from nbdebug.exceptions import SetupError
from nbdebug.preserve import Preserve
from nbdebug.setup import loaders, losses, unpacking
from nbdebug.setup.batch import Batch
from nbdebug.setup.callable_state import stateful_callable
from nbdebug.setup.device_assertions import refuse_ctc_labels_out_of_range, refuse_device_assertions
from nbdebug.setup.task import LearningTask, parse_task
from nbdebug.source.references import user_files
from nbdebug.stop_requests import check_stop
from nbdebug.tensors.pytree import to_device
from nbdebug.validation import describe_type

_UNKNOWN = object()


@dataclass
class Setup:
    """The user's training objects: model, loaders, loss, optimizers and scheduler, and how a batch goes through them.

    ``forward(model, inputs)`` calls the model, ``unpack(batch)`` returns ``(inputs, target)``, ``step_fn(batch)``
    returns the loss of a whole batch; each replaces a default that is inferred. ``files`` are the user's files that
    created the setup or run its loop. Raises SetupError for unusable objects.
    """

    model: nn.Module
    train_loader: Any
    val_loader: Any = None
    loss_fn: Callable[..., Any] | None = None
    optimizers: tuple[torch.optim.Optimizer, ...] = ()
    scheduler: Any = None
    task: LearningTask | None = None
    class_names: list[str] | None = None
    feature_names: list[str] | None = None
    forward: Callable[..., Any] | None = None
    unpack: Callable[[Any], Any] | None = None
    step_fn: Callable[[Any], Any] | None = None
    device: torch.device | None = None
    extra_state: tuple[Any, ...] = field(default_factory=tuple)
    other_schedulers: tuple[Any, ...] = ()
    files: set[str] = field(default_factory=set, repr=False, compare=False)
    _input_path: Any = field(default=_UNKNOWN, init=False, repr=False, compare=False)
    _target_form: unpacking.TargetForm | None = field(default=None, init=False, repr=False, compare=False)
    _loss_takes_logits: bool = field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Validate the objects, so that errors are raised in the user's call; record the files on the user's stack."""
        if not self.files:  # else it is a copy, which a tool or a rule has made
            self.files |= user_files(sys._getframe(1))
        if not isinstance(self.model, nn.Module):
            raise SetupError(f"model is {describe_type(self.model)}; expected a torch.nn.Module. Pass the module.")
        if isinstance(self.scheduler, (list, tuple)):
            schedulers = tuple(self.scheduler)
            self.scheduler, self.other_schedulers = (schedulers[0] if schedulers else None), schedulers[1:]
        if self.loss_fn is not None and (isinstance(self.loss_fn, type) or not callable(self.loss_fn)):
            raise SetupError(
                f"loss_fn is {describe_type(self.loss_fn)}; expected loss_fn(output, target). Pass a callable."
            )
        self.check_parameters()
        self.train_loader = loaders.make_peekable(self.train_loader, "train_loader")
        self.val_loader = loaders.make_peekable(self.val_loader, "val_loader")
        if self.train_loader is None:
            raise SetupError("train_loader is None; expected an iterable of batches. Pass the loader you train on.")

    def __repr__(self) -> str:
        loss = getattr(self.loss_fn, "__name__", type(self.loss_fn).__name__) if self.loss_fn is not None else None
        optimizers = (type(optimizer).__name__ for optimizer in self.optimizers)
        data = "train_loader" if self.val_loader is None else "train_loader, val_loader"
        return f"Setup({', '.join(filter(None, [type(self.model).__name__, data, loss, *optimizers]))})"

    @classmethod
    def of(
        cls,
        *,
        optimizer: Any = None,
        task: str | None = None,
        class_names: Iterable[str] | None = None,
        feature_names: Iterable[str] | None = None,
        device: torch.device | str | None = None,
        extra_state: Iterable[Any] = (),
        **others: Any,
    ) -> Setup:
        """Create a setup from the arguments of ``Debugger``."""
        return cls(
            optimizers=as_optimizers(optimizer),
            task=parse_task(task) if task is not None else None,
            class_names=list(class_names) if class_names is not None else None,
            feature_names=list(feature_names) if feature_names is not None else None,
            device=torch.device(device) if device is not None else None,
            extra_state=tuple(extra_state),
            **others,
        )

    def check_parameters(self) -> None:
        """Raise SetupError if there are no parameters, lazy ones, or parameters on a device without data."""
        named_parameters = list(self.model.named_parameters())
        if not named_parameters:
            raise SetupError("model has 0 parameters; expected at least one. Register its layers as attributes.")
        if lazy_parameters := [name for name, p in named_parameters if is_lazy(p)]:
            raise SetupError(
                f"{lazy_parameters[0]} has no shape yet; expected one. Run one batch through the model first."
            )
        devices = {p.device for _, p in named_parameters}
        if torch.device("meta") in devices:
            raise SetupError("model is on the meta device; expected a device with data. Load its weights first.")
        if self.device is not None and self.device.type not in {device.type for device in devices}:
            actual_device, expected_device = devices.pop(), str(self.device)
            raise SetupError(
                f"model is on {actual_device}; expected {expected_device} (device=). "
                f"Call model.to({expected_device!r})."
            )

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that create this setup again, without those of a subclass."""
        return {part.name: getattr(self, part.name) for part in fields(Setup) if part.init}

    @property
    def eager_model(self) -> nn.Module:
        """The model without the wrappers of ``torch.compile`` and DistributedDataParallel."""
        return unwrap_model(self.model)

    @property
    def is_compiled(self) -> bool:
        """True if ``torch.compile`` wraps the model."""
        return self.eager_model is not unwrap_parallel(self.model)

    @property
    def model_part(self) -> ModelPart:
        """What this rank holds of the model."""
        return get_model_part(self.eager_model)

    @property
    def passes_communicate(self) -> bool:
        """True if a pass needs the other ranks."""
        is_wrapped = unwrap_parallel(self.model) is not self.model
        return self.model_part is not ModelPart.WHOLE or (is_wrapped and self.step_fn is not None)

    def check_passes(self) -> None:
        """Raise SetupError if a pass needs the other ranks."""
        if self.passes_communicate:
            reason = self.model_part.value or "is called by step_fn through its wrapper"
            raise SetupError(
                f"model {reason}; expected one that a single rank can run. Check it before it is made parallel."
            )

    @property
    def has_training_data(self) -> bool:
        """True if there is training data; an empty tuple stands for none."""
        return not (isinstance(self.train_loader, tuple) and not self.train_loader)

    @property
    def model_device(self) -> torch.device:
        """Device of the batches: ``device``, else that of the first parameter."""
        return self.device or next(self.model.parameters()).device

    @property
    def mutable_objects(self) -> tuple[Any, ...]:
        """All objects that a run can change, except the loaders."""
        return (
            unwrap_parallel(self.model),
            stateful_callable(self.loss_fn),
            *self.optimizers,
            *self.schedulers,
            *self.extra_state,
        )

    @property
    def schedulers(self) -> tuple[Any, ...]:
        """The schedulers of the optimizers; ``scheduler`` is the first of them."""
        return () if self.scheduler is None else (self.scheduler, *self.other_schedulers)

    def loader_for_dataset(self, dataset: Any) -> Any:
        """Return the loader of a dataset, the validation loader first; None if neither has it."""
        loaders_in_order = (self.val_loader, self.train_loader)
        return next((loader for loader in loaders_in_order if getattr(loader, "dataset", None) is dataset), None)

    def resolve_loader(self, loader: Any) -> Any:
        """Resolve a loader, or the name of a split; by default the validation loader if there is one."""
        splits = {"val": self.val_loader, "train": self.train_loader}
        if loader is None:
            return next(split_loader for split_loader in splits.values() if split_loader is not None)
        if not isinstance(loader, str):
            return loaders.unwrap_loader(loader)
        if loader not in splits:
            raise SetupError(f"loader is {loader!r}; expected 'val', 'train' or a loader. Pass one of these.")
        if splits[loader] is None:
            raise SetupError("loader is 'val' and there is no val_loader; expected one. Pass it to Debugger.")
        return splits[loader]

    def batches(self, count: int, split: str = "train") -> Iterator[Batch]:
        """Yield up to ``count`` batches of a split on the model's device, without consuming the user's loader."""
        loader = self.train_loader if split == "train" else self.val_loader
        for raw, indices in loaders.peek_batches(loader, count, f"{split}_loader"):
            yield self.split_batch(raw, indices)

    def split_batch(self, raw: Any, indices: tuple[int, ...] | None = None) -> Batch:
        """Split a raw batch into inputs and targets, on the model's device."""
        if self.unpack is not None:
            batch = unpacking.batch_from_user_unpack(self.unpack(raw))
        else:
            batch = unpacking.guess_batch(raw, self.eager_model, self.loss_fn)
            batch = self._split_named_parts(raw, batch)
            batch = self._choose_targets(raw, batch)
        return replace(batch, indices=indices, raw=raw).to(self.model_device)

    @property
    def guesses_targets(self) -> bool:
        """True if the targets are the guess by structure and names: the loss does not require another form."""
        return self._target_form in (None, "guess")

    def _choose_targets(self, raw: Any, guess: Batch) -> Batch:
        """Return a batch with the targets in the form that a custom loss takes; the guess for any other loss."""
        if self._target_form is None:
            is_custom = self.loss_fn is not None and losses.get_loss_kind(self.loss_fn) == "other"
            self._target_form = self._find_target_form(raw, guess) if is_custom else "guess"
        return replace(guess, targets=unpacking.targets_in_form(self._target_form, raw, guess))

    def _find_target_form(self, raw: Any, guess: Batch) -> unpacking.TargetForm:
        batch, whole = guess.to(self.model_device), to_device(raw, self.model_device)
        with Preserve(*self.mutable_objects), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                output = self.predict(batch)
            except Exception:  # a checkup reports it
                return "guess"
            return unpacking.find_target_form(
                lambda targets: self.raw_loss(output, replace(batch, targets=targets)), whole, batch
            )

    def _split_named_parts(self, raw: Any, guess: Batch) -> Batch:
        """Split a batch whose model takes a part under another name, or all parts; return the guess for any other."""
        if self.forward is not None or self.step_fn is not None or self.passes_communicate:
            return guess
        if self._input_path is _UNKNOWN:
            self._input_path = unpacking.find_input_path(raw, guess, self.eager_model, self.model_device)
        if self._input_path is None:
            return guess
        return unpacking.batch_from_input_path(raw, self._input_path, self.loss_fn)

    def predict(self, batch: Batch, model: nn.Module | None = None) -> Any:
        """Return the output of the model, or of a copy of it, for a batch."""
        check_stop()
        if model is None:
            self.check_passes()
            model = self.eager_model
        is_compiled = hasattr(model, "_orig_mod")  # a mode of dispatch would keep torch.compile from compiling
        with nullcontext() if is_compiled else refuse_device_assertions(self.model_device):
            if self.forward is not None:
                return self.forward(model, batch.inputs)
            return model(*batch.args, **batch.kwargs)

    def loss(self, output: Any, batch: Batch) -> Tensor:
        """Return the user's loss of an output, the sum of its terms, or the mean of the losses of the samples.

        Raises SetupError if it is no tensor.
        """
        value = losses.total_loss(self.raw_loss(output, batch))
        if not isinstance(value, Tensor):
            raise SetupError(f"the loss is {describe_type(value)}; expected a tensor. Drop .item().")
        if not value.numel():
            raise SetupError(f"the loss has shape {tuple(value.shape)}; expected a value. Compute it of some samples.")
        return value if value.numel() == 1 else value.mean()

    def raw_loss(self, output: Any, batch: Batch) -> Any:
        """Return the value of ``loss_fn``, else the loss that the model computed itself."""
        if self.loss_fn is not None:
            loss_kind = losses.get_loss_kind(self.loss_fn)
            with refuse_device_assertions(self.model_device), refuse_ctc_labels_out_of_range():
                if loss_kind == "other":
                    return self._compute_custom_loss(self.loss_fn, output, batch.targets)
                scores = losses.score_tensor(output)
                return self.loss_fn(scores, *losses.matching_targets(loss_kind, scores, batch.targets))
        model_loss = losses.get_own_loss(output)
        if model_loss is None:
            raise SetupError("loss_fn is None and the model returns no loss; expected either. Pass loss_fn=.")
        return model_loss

    def _compute_custom_loss(self, loss_fn: Callable[..., Any], output: Any, targets: tuple[Any, ...]) -> Any:
        """Return the value of a custom loss for the output of a model, or for its logits if the output raises."""
        logits = losses.named_logits(output)
        if logits is None:
            return loss_fn(output, *targets)
        if self._loss_takes_logits:
            return loss_fn(logits, *targets)
        try:
            return loss_fn(output, *targets)
        except Exception as error:
            try:
                value = loss_fn(logits, *targets)
            except Exception:
                raise error from None
            self._loss_takes_logits = True
            return value

    @property
    def loss_of_pass(self) -> Any:
        """The loss as it is after the last pass, also if it depends on that."""
        return self.loss_fn

    def output_and_loss(self, batch: Batch, model: nn.Module | None = None) -> tuple[Any, Tensor]:
        """Return output and loss of a batch; the output is None with a ``step_fn``."""
        if self.step_fn is not None:
            check_stop()
            self.check_passes()
            with refuse_device_assertions(self.model_device):
                return None, self.validate_step_loss(self.step_fn(batch.raw))
        output = self.predict(batch, model)
        return output, self.loss(output, batch)

    def validate_step_loss(self, value: Any) -> Tensor:
        """Validate a loss that ``step_fn`` returned; raises SetupError if it is not a scalar tensor."""
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise SetupError(
                f"step_fn returned {describe_type(value)}; expected a scalar tensor. Return the loss of the batch."
            )
        return value


def as_optimizers(optimizer: Any) -> tuple[torch.optim.Optimizer, ...]:
    """Return one optimizer, several, or none as a tuple, without wrappers; raises SetupError for anything else."""
    if optimizer is None:
        return ()
    optimizers: dict[int, torch.optim.Optimizer] = {}
    for item in optimizer if isinstance(optimizer, Iterable) else (optimizer,):
        unwrapped = unwrap_optimizer(item)
        if not unwrapped:
            raise SetupError(
                f"optimizer is {describe_type(item)}; expected a torch.optim.Optimizer or a list of them. "
                f"Pass the object whose step() you call."
            )
        optimizers.update({id(part): part for part in unwrapped})
    return tuple(optimizers.values())


def optimized_parameters(*optimizers: torch.optim.Optimizer) -> list[Tensor]:
    """Return the parameters of some optimizers; a wrapper may have groups without any."""
    return [p for optimizer in optimizers for group in optimizer.param_groups for p in group.get("params", ())]


def maximizing_optimizer(setup: Setup) -> torch.optim.Optimizer | None:
    """Return the first optimizer of a setup with ``maximize=True``; None if all minimize."""
    maximizing = (o for o in setup.optimizers if any(group.get("maximize") for group in o.param_groups))
    return next(maximizing, None)


def unwrap_optimizer(optimizer: Any) -> list[torch.optim.Optimizer]:
    """Return the optimizers that update the parameters: those inside a wrapper, otherwise the optimizer itself.

    A wrapper, such as SAM, Lookahead or that of Accelerate, has other optimizers of its parameters as attributes, and
    calls their ``step()``. The list is empty if there is no optimizer.
    """
    parameters = _parameter_ids(optimizer)
    inner = [
        value
        for value in getattr(optimizer, "__dict__", {}).values()
        if isinstance(value, torch.optim.Optimizer)
        and value is not optimizer
        and (not parameters or parameters & _parameter_ids(value))
    ]
    if not inner:
        return [optimizer] if isinstance(optimizer, torch.optim.Optimizer) else []
    return [part for value in inner for part in unwrap_optimizer(value)]


def _parameter_ids(optimizer: Any) -> set[int]:
    groups = getattr(optimizer, "param_groups", ())
    return {id(parameter) for group in groups for parameter in group["params"]}
