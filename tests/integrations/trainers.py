"""One small classification program, and the line with which a user trains it in each trainer."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import nbdebug
from nbdebug.integrations.trainer_watch import TrainerWatch

EPOCHS, ROWS, BATCH = 4, 256, 32
STEPS = EPOCHS * ROWS // BATCH
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Points(Dataset[Any]):
    """Points of a plane with the side of a line; ``on_item`` is called with the number of the read."""

    def __init__(self, rows: int, seed: int, on_item: Callable[[int], None] | None = None) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.x = torch.randn(rows, 6, generator=generator)
        self.y = (self.x[:, 0] + self.x[:, 1] > 0).long()
        self.on_item, self.reads = on_item, 0

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        self.reads += 1
        if self.on_item is not None:
            self.on_item(self.reads)
        return self.x[index], self.y[index]


class Program:
    """Model, loss, optimizer and loaders, with one planted mistake or none."""

    def __init__(
        self, fault: str = "", on_item: Callable[[int], None] | None = None, has_validation: bool = True
    ) -> None:
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        layers: list[nn.Module] = [nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2)]
        if fault == "softmax before cross-entropy":
            layers.append(nn.Softmax(dim=1))
        self.model = nn.Sequential(*layers)
        self.loss_fn: Any = nn.CrossEntropyLoss()
        self.rate = 1e-7 if fault == "rate too low" else 1e-2
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=self.rate)
        self.train_data, self.val_data = Points(ROWS, 1, on_item), Points(128, 2)
        if fault == "raw units":
            for data in (self.train_data, self.val_data):
                data.x = data.x * 300 + 4000
        self.train_loader = DataLoader(self.train_data, BATCH, shuffle=True)
        self.val_loader = DataLoader(self.val_data, BATCH) if has_validation else None

    def debugger(self) -> nbdebug.Debugger:
        """Return the Debugger that a user makes of these objects."""
        loaders = self.train_loader, self.val_loader
        return nbdebug.Debugger(self.model, *loaders, loss_fn=self.loss_fn, optimizer=self.optimizer)

    def state(self) -> list[Tensor]:
        """Return all weights, and the state of the random generator."""
        return [*(p.detach().clone() for p in self.model.parameters()), torch.get_rng_state()]


def fit_bare(program: Program) -> None:
    """Train in a loop of one's own."""
    for _ in range(EPOCHS):
        program.model.train()
        for x, y in program.train_loader:
            program.optimizer.zero_grad()
            loss = program.loss_fn(program.model(x), y)
            loss.backward()
            program.optimizer.step()
        program.model.eval()
        with torch.no_grad():
            for x, y in program.val_loader or ():
                program.loss_fn(program.model(x), y)


def fit_lightning(program: Program, callback: TrainerWatch | None) -> None:
    """Train by the Trainer of Lightning."""
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.loss_fn = program.model, program.loss_fn

        def training_step(self, batch: Any, index: int) -> Tensor:
            return self.loss_fn(self.net(batch[0]), batch[1])

        def validation_step(self, batch: Any, index: int) -> None:
            self.log("val_loss", self.loss_fn(self.net(batch[0]), batch[1]))

        def configure_optimizers(self) -> Any:
            return program.optimizer

    lightning_trainer(max_epochs=EPOCHS, callbacks=[callback] if callback else []).fit(
        Module(), program.train_loader, program.val_loader
    )


def lightning_trainer(**options: Any) -> Any:
    """Return a quiet Trainer of Lightning."""
    quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    lightning = pytest.importorskip("lightning")
    return lightning.Trainer(accelerator="cpu", **dict.fromkeys(quiet, False), **options)


class ModelWithLoss(nn.Module):
    """A model that returns its loss and its logits, as those of Transformers, in a plain dictionary."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.net, self.loss_fn = program.model, program.loss_fn

    def forward(self, x: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        """Return the logits, and with labels also the loss."""
        logits = self.net(x)
        return {"logits": logits} if labels is None else {"loss": self.loss_fn(logits, labels), "logits": logits}


def collate_by_name(samples: list[Any]) -> dict[str, Tensor]:
    """Return a batch as Transformers wants it."""
    return {"x": torch.stack([x for x, _ in samples]), "labels": torch.stack([y for _, y in samples])}


def transformers_trainer(program: Program, folder: Path, callback: TrainerWatch | None, **options: Any) -> Any:
    """Return a quiet Trainer of Transformers that makes its own optimizer."""
    transformers = pytest.importorskip("transformers")
    quiet = {"report_to": [], "use_cpu": True, "disable_tqdm": True, "save_strategy": "no", "logging_strategy": "no"}
    arguments = transformers.TrainingArguments(
        str(folder),
        num_train_epochs=EPOCHS,
        learning_rate=program.rate,
        lr_scheduler_type="constant",
        per_device_train_batch_size=BATCH,
        eval_strategy="no" if program.val_loader is None else "epoch",
        **quiet,
        **options,
    )
    trainer = transformers.Trainer(
        ModelWithLoss(program),
        arguments,
        collate_by_name,
        program.train_data,
        program.val_data if program.val_loader is not None else None,
        callbacks=[callback] if callback else [],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def fit_transformers(program: Program, callback: TrainerWatch | None, folder: Path = Path("unused")) -> None:
    """Train by the Trainer of Transformers."""
    transformers_trainer(program, folder, callback).train()


def fit_skorch(program: Program, callback: TrainerWatch | None) -> None:
    """Train by a net of skorch."""
    skorch = pytest.importorskip("skorch")
    from skorch.helper import predefined_split

    net = skorch.NeuralNet(
        program.model,
        nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=program.rate,
        max_epochs=EPOCHS,
        batch_size=BATCH,
        iterator_train__shuffle=True,
        train_split=predefined_split(program.val_data) if program.val_loader is not None else None,
        callbacks=[callback] if callback else [],
        verbose=0,
    )
    net.fit(program.train_data, None)


def fit_ignite(program: Program, callback: TrainerWatch | None) -> None:
    """Train by an engine of Ignite."""
    pytest.importorskip("ignite")
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.metrics import Loss

    trainer = create_supervised_trainer(program.model, program.optimizer, program.loss_fn)
    evaluator = create_supervised_evaluator(program.model, {"loss": Loss(program.loss_fn)})
    if program.val_loader is not None:
        trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run(program.val_loader))
    if callback is not None:
        callback.attach(trainer, evaluator)  # type: ignore[attr-defined]
    trainer.run(program.train_loader, EPOCHS)


def fit_fastai(program: Program, callback: TrainerWatch | None, opt_func: Any = None) -> None:
    """Train by a Learner of fastai, by default with an optimizer of torch."""
    fastai = pytest.importorskip("fastai.basics")
    loaders = [fastai.DataLoader(program.train_data, bs=BATCH, shuffle=True)]
    if program.val_loader is not None:
        loaders.append(fastai.DataLoader(program.val_data, bs=BATCH))

    def wrap(_: Any, **__: Any) -> Any:
        return fastai.OptimWrapper(opt=program.optimizer)

    learner = fastai.Learner(
        fastai.DataLoaders(*loaders),
        program.model,
        loss_func=fastai.CrossEntropyLossFlat(),
        opt_func=opt_func or wrap,
        lr=program.rate,
    )
    learner.logger = lambda _: None
    learner.fit(EPOCHS, wd=0.0, cbs=[callback] if callback else [])


FITS = {
    "lightning": fit_lightning,
    "transformers": fit_transformers,
    "skorch": fit_skorch,
    "ignite": fit_ignite,
    "fastai": fit_fastai,
}


CALLBACKS = {
    "lightning": "LightningWatch",
    "transformers": "TransformersWatch",
    "skorch": "SkorchWatch",
    "ignite": "IgniteWatch",
    "fastai": "FastaiWatch",
}


PACKAGES = {"fastai": "fastai.learner"}  # the rest of fastai may lack its own dependencies


def make_callback(trainer: str, program: Program, **options: Any) -> TrainerWatch:
    """Return the callback of a trainer, which for Ignite needs a Debugger."""
    pytest.importorskip(PACKAGES.get(trainer, trainer))
    module = import_module(f"nbdebug.integrations.{trainer}")
    callback_class = getattr(module, CALLBACKS[trainer])
    return callback_class(program.debugger(), **options) if trainer == "ignite" else callback_class(**options)
