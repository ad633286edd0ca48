"""The loop of a program as a trainer has it, and the line with which a user runs it in each trainer."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from nbdebug.debugger import Debugger

BARE, BARE_WITH_OWN_LOSS = "bare loop", "bare loop, loss in the model"
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


@dataclass(frozen=True)
class Loop:
    """What a trainer must know of a loop beside its objects.

    ``validation_interval`` counts epochs and is zero without validation, ``max_norm`` is zero without clipping.
    """

    epochs: int
    validation_interval: int = 0
    max_norm: float = 0.0
    steps_scheduler: bool = False


class _EpochLimit(Exception):
    """Ends the loop of a program."""


def observe_loop(program: Any, max_epochs: int) -> Loop:
    """Run the loop of a program for some epochs, and return what a trainer must know to train the same."""
    iterations, norms, scheduler_steps = Counter[int](), [0.0], [0]
    begin, clip = DataLoader.__iter__, nn.utils.clip_grad_norm_

    def count_iteration(loader: Any) -> Any:
        if loader is program.train_loader and iterations[id(loader)] == max_epochs:
            raise _EpochLimit
        iterations[id(loader)] += 1
        return begin(loader)

    def record_norm(parameters: Any, max_norm: float, *args: Any, **options: Any) -> Any:
        norms[0] = max_norm
        return clip(parameters, max_norm, *args, **options)

    if program.scheduler is not None:
        step = program.scheduler.step

        def count_step(*args: Any) -> None:
            scheduler_steps[0] += 1
            step(*args)

        program.scheduler.step = count_step
    count = patch.object(DataLoader, "__iter__", count_iteration)
    with count, patch.object(nn.utils, clip.__name__, record_norm), suppress(_EpochLimit):
        program.train(program)
    epochs, validations = iterations[id(program.train_loader)], iterations[id(program.val_loader)]
    return Loop(epochs, round(epochs / validations) if validations else 0, norms[0], scheduler_steps[0] > 0)


class ProgramRun:
    """A program and its loop; ``with_checkup`` runs a checkup first, and each ``every`` steps are looked at."""

    def __init__(self, program: Any, loop: Loop, with_checkup: bool = False, every: int | None = None) -> None:
        self.program, self.loop, self.with_checkup, self.every = program, loop, with_checkup, every

    def debugger(self, **objects: Any) -> Debugger:
        """Return the Debugger that a user makes of the objects; ``objects`` replace some."""
        program = self.program
        names = ("model", "train_loader", "loss_fn", "optimizer", "scheduler")
        val_loader = program.val_loader if self.loop.validation_interval else None
        return Debugger(**{name: getattr(program, name) for name in names} | {"val_loader": val_loader} | objects)

    def begin(self, debugger: Debugger | None) -> None:
        """Check the program if that is wanted, and seed: some trainers draw random numbers before they train."""
        if self.with_checkup and debugger is not None:
            debugger.checkup()
        torch.manual_seed(0)

    def validation_epochs(self) -> Iterator[tuple[int, bool]]:
        """Yield each epoch, and whether a validation follows it."""
        interval = self.loop.validation_interval
        for epoch in range(1, self.loop.epochs + 1):
            yield epoch, bool(interval and epoch % interval == 0)


def fit_bare(run: ProgramRun, backward: Callable[[Tensor], None] = Tensor.backward, **objects: Any) -> None:
    """Train in a loop of one's own; ``objects`` are those that Accelerate has prepared."""
    program, loop = run.program, run.loop
    model, optimizer = objects.get("model", program.model), objects.get("optimizer", program.optimizer)
    train_loader, val_loader = (objects.get(name, getattr(program, name)) for name in ("train_loader", "val_loader"))
    for _, validates in run.validation_epochs():
        model.train()
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            loss = program.loss_fn(model(inputs), targets)
            backward(loss)
            if loop.max_norm:
                nn.utils.clip_grad_norm_(model.parameters(), loop.max_norm)
            optimizer.step()
        if loop.steps_scheduler:
            program.scheduler.step()
        if validates:
            model.eval()
            with torch.no_grad():
                for inputs, targets in val_loader:
                    program.loss_fn(model(inputs), targets)


def watch_bare(run: ProgramRun) -> Debugger:
    """Check and watch a loop of one's own."""
    debugger = run.debugger()
    run.begin(debugger)
    with debugger.watch(every=run.every):
        fit_bare(run)
    return debugger


def watch_accelerate(run: ProgramRun) -> Debugger:
    """Check and watch a loop on the objects that Accelerate has prepared."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    names = ["model", "optimizer", "train_loader", *(["val_loader"] if run.loop.validation_interval else [])]
    prepared = accelerator.prepare(*(getattr(run.program, name) for name in names))
    objects = dict(zip(names, prepared, strict=True))
    debugger = run.debugger(**objects)
    run.begin(debugger)
    with debugger.watch(every=run.every):
        fit_bare(run, accelerator.backward, **objects)
    return debugger


def watch_lightning(run: ProgramRun) -> Debugger:
    """Check and watch a LightningModule in the Trainer of Lightning."""
    import lightning

    from nbdebug.integrations.lightning import LightningWatch

    program, loop = run.program, run.loop

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = program.model
            if isinstance(program.loss_fn, nn.Module):
                self.loss_fn = program.loss_fn

        def training_step(self, batch: Any, _: int) -> Tensor:
            return program.loss_fn(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            schedulers = [program.scheduler] if loop.steps_scheduler else []
            return [program.optimizer], schedulers

    if loop.validation_interval:

        def validation_step(self: Any, batch: Any, _: int) -> None:
            self.log("val_loss", program.loss_fn(self.net(batch[0]), batch[1]))

        Module.validation_step = validation_step  # type: ignore[method-assign]

    loaders = program.train_loader, program.val_loader if loop.validation_interval else None
    module = Module()
    debugger = Debugger.from_lightning(module, *loaders)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=loop.epochs,
        gradient_clip_val=loop.max_norm or None,
        check_val_every_n_epoch=loop.validation_interval or 1,
        num_sanity_val_steps=0,
        callbacks=[LightningWatch(debugger, every=run.every)],
        **dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False),
    )
    run.begin(debugger)
    trainer.fit(module, *loaders)
    return debugger


class _ModelWithLoss(nn.Module):
    """A model that returns its loss and its logits in a dictionary."""

    def __init__(self, program: Any) -> None:
        super().__init__()
        self.net = program.model
        self.loss_fn = program.loss_fn

    def forward(self, inputs: Any, labels: Any = None) -> dict[str, Tensor]:
        logits = self.net(inputs)
        return {"logits": logits} if labels is None else {"loss": self.loss_fn(logits, labels), "logits": logits}


def watch_transformers(run: ProgramRun) -> Debugger:
    """Check and watch a model that returns its loss in the Trainer of Transformers."""
    import transformers

    from nbdebug.integrations.transformers import TransformersWatch

    program, loop = run.program, run.loop
    _name_parts(program)
    schedule = transformers.get_constant_schedule(program.optimizer)

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self) -> Any:
            return program.train_loader

        def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
            return program.val_loader

    with TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder,
            num_train_epochs=loop.epochs,
            max_grad_norm=loop.max_norm,
            per_device_train_batch_size=program.train_loader.batch_size,
            eval_strategy="epoch" if loop.validation_interval else "no",
            **{"report_to": [], "use_cpu": True, "disable_tqdm": True, "save_strategy": "no", "logging_strategy": "no"},
        )
        trainer = Trainer(
            _ModelWithLoss(program),
            arguments,
            train_dataset=program.train_loader.dataset,
            eval_dataset=program.val_loader.dataset if loop.validation_interval else None,
            optimizers=(program.optimizer, schedule),
        )
        trainer.remove_callback(transformers.PrinterCallback)
        debugger = Debugger.from_trainer(trainer)
        trainer.add_callback(TransformersWatch(debugger, every=run.every))
        run.begin(debugger)
        trainer.train()
    return debugger


def watch_bare_with_own_loss(run: ProgramRun) -> Debugger:
    """Check and watch a loop of one's own with the model that the Trainer of Transformers gets."""
    program, loop = run.program, run.loop
    _name_parts(program)
    model = _ModelWithLoss(program)
    debugger = run.debugger(model=model)
    run.begin(debugger)
    with debugger.watch(every=run.every):
        for _, validates in run.validation_epochs():
            model.train()
            for batch in program.train_loader:
                program.optimizer.zero_grad()
                model(**batch)["loss"].backward()
                if loop.max_norm:
                    nn.utils.clip_grad_norm_(model.parameters(), loop.max_norm)
                program.optimizer.step()
            if validates:
                model.eval()
                with torch.no_grad():
                    for batch in program.val_loader:
                        model(**batch)
    return debugger


def _name_parts(program: Any) -> None:
    """Make the batches of a program dictionaries."""
    for loader in filter(None, (program.train_loader, program.val_loader)):
        loader.collate_fn = _NamedParts(loader.collate_fn)


class _NamedParts:
    """Collates a batch of inputs and targets into a dictionary."""

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self.collate = collate

    def __call__(self, samples: list[Any]) -> dict[str, Any]:
        return dict(zip(("inputs", "labels"), self.collate(samples), strict=True))


class _LossModule(nn.Module):
    """A loss function as the module that skorch wants."""

    def __init__(self, loss_fn: Callable[..., Tensor]) -> None:
        super().__init__()
        self.loss_fn = loss_fn

    def forward(self, output: Any, target: Any) -> Tensor:
        return self.loss_fn(output, target)


def watch_skorch(run: ProgramRun) -> Debugger:
    """Check and watch a net of skorch."""
    import skorch
    from skorch.callbacks import Callback, GradientNormClipping
    from skorch.helper import predefined_split

    from nbdebug.integrations.skorch import SkorchWatch

    program, loop = run.program, run.loop

    class SchedulerStep(Callback):
        def on_epoch_end(self, net: Any, **_: Any) -> None:
            program.scheduler.step()

    debugger = run.debugger()
    callbacks: list[Any] = [SkorchWatch(debugger, every=run.every)]
    if loop.steps_scheduler:
        callbacks.append(SchedulerStep())
    if loop.max_norm:
        callbacks.append(GradientNormClipping(loop.max_norm))
    net = skorch.NeuralNet(
        program.model,
        program.loss_fn if isinstance(program.loss_fn, nn.Module) else _LossModule(program.loss_fn),
        optimizer=lambda *_, **__: program.optimizer,
        max_epochs=loop.epochs,
        iterator_train=lambda *_, **__: program.train_loader,
        iterator_valid=lambda *_, **__: program.val_loader,
        train_split=predefined_split(program.val_loader.dataset) if loop.validation_interval else None,
        callbacks=callbacks,
        verbose=0,
    )
    run.begin(debugger)
    net.fit(program.train_loader.dataset, None)
    return debugger


def watch_ignite(run: ProgramRun) -> Debugger:
    """Check and watch an engine of Ignite."""
    from ignite.engine import Engine, Events, create_supervised_evaluator
    from ignite.metrics import Loss

    from nbdebug.integrations.ignite import IgniteWatch

    program, loop = run.program, run.loop

    def update(_: Any, batch: Any) -> float:
        program.model.train()
        program.optimizer.zero_grad()
        loss = program.loss_fn(program.model(batch[0]), batch[1])
        loss.backward()
        if loop.max_norm:
            nn.utils.clip_grad_norm_(program.model.parameters(), loop.max_norm)
        program.optimizer.step()
        return loss.item()

    trainer = Engine(update)
    evaluator = create_supervised_evaluator(program.model, {"loss": Loss(program.loss_fn)})
    if loop.steps_scheduler:
        trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: program.scheduler.step())
    if loop.validation_interval:
        event = Events.EPOCH_COMPLETED(every=loop.validation_interval)
        trainer.add_event_handler(event, lambda: evaluator.run(program.val_loader))
    debugger = run.debugger()
    run.begin(debugger)
    IgniteWatch(debugger, every=run.every).attach(trainer, evaluator)
    with suppress(ValueError):  # Ignite's way to report that it has run no step
        trainer.run(program.train_loader, loop.epochs)
    return debugger


def watch_fastai(run: ProgramRun) -> Debugger:
    """Check and watch a Learner of fastai with an optimizer of torch."""
    from fastai.callback.core import Callback
    from fastai.callback.training import GradientClip
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner
    from fastai.optimizer import OptimWrapper

    from nbdebug.integrations.fastai import FastaiWatch

    program, loop = run.program, run.loop

    class SchedulerStep(Callback):
        def after_epoch(self) -> None:
            program.scheduler.step()

    debugger = run.debugger() if run.with_checkup else None  # otherwise it is that of the objects in the Learner
    watch = FastaiWatch(debugger, every=run.every)
    callbacks: list[Any] = [watch]
    if loop.steps_scheduler:
        callbacks.append(SchedulerStep())
    if loop.max_norm:
        callbacks.append(GradientClip(loop.max_norm))
    learner = Learner(
        DataLoaders(program.train_loader, program.val_loader),
        program.model,
        loss_func=program.loss_fn,
        opt_func=lambda *_, **__: OptimWrapper(opt=program.optimizer),
    )
    run.begin(debugger)
    with learner.no_bar(), learner.no_logging():
        learner.fit(loop.epochs, lr=[group["lr"] for group in program.optimizer.param_groups], cbs=callbacks)
    return watch.debugger


WATCHES: dict[str, Callable[[ProgramRun], Debugger]] = {
    BARE: watch_bare,
    BARE_WITH_OWN_LOSS: watch_bare_with_own_loss,
    "Lightning": watch_lightning,
    "Transformers": watch_transformers,
    "Accelerate": watch_accelerate,
    "skorch": watch_skorch,
    "Ignite": watch_ignite,
    "fastai": watch_fastai,
}


def is_expressible(trainer: str, loop: Loop) -> bool:
    """Return whether a trainer can run a loop.

    Transformers steps a scheduler with each batch, and skorch validates after each epoch; fastai requires that.
    """
    is_rare = loop.validation_interval > 1
    limits = {
        BARE_WITH_OWN_LOSS: loop.steps_scheduler,
        "Transformers": loop.steps_scheduler or is_rare,
        "skorch": is_rare,
        "fastai": loop.validation_interval != 1,
    }
    return not limits.get(trainer, False)


def parameters_equal(models: Iterable[nn.Module]) -> bool:
    """Return whether models have the same parameters, bit for bit; NaN equals NaN."""
    first, second = ([p.detach() for p in model.parameters()] for model in models)
    return all(torch.equal(a.nan_to_num(nan=3e38), b.nan_to_num(nan=3e38)) for a, b in zip(first, second, strict=True))
