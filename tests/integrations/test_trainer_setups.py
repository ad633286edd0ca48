"""Tests of Debuggers made of a LightningModule or a Trainer, of prepared objects, and of models with their own loss."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader

import nbdebug
from nbdebug.setup import losses
from tests.integrations.trainers import (
    EPOCHS,
    FITS,
    STEPS,
    ModelWithLoss,
    Points,
    Program,
    collate_by_name,
    make_callback,
    transformers_trainer,
)


def lightning_module(program: Program, step: Any, automatic: bool = True) -> Any:
    """Return a LightningModule with a training step."""
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.criterion = program.model, program.loss_fn
            self.automatic_optimization = automatic

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x)

        def training_step(self, batch: Any, index: int) -> Any:
            self.log("train_loss", 0.0)
            return step(self, *batch)

        def configure_optimizers(self) -> Any:
            scheduler = torch.optim.lr_scheduler.StepLR(program.optimizer, 1)
            return {"optimizer": program.optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "epoch"}}

    return Module()


def smooth_loss(output: Tensor, target: Tensor) -> Tensor:
    """A loss function of one's own, with another one inside that returns the same value."""
    return mean_over_batch(output, target) * 1.0


def mean_over_batch(output: Tensor, target: Tensor) -> Tensor:
    return -(output.log_softmax(1)[torch.arange(len(target)), target]).mean()


class HalfLoss:
    def compute(self, output: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(output, target) / 2


STEPS_OF_MODULES = {
    "a function of one's own": (lambda m, x, y: smooth_loss(m.net(x), y), "net", "function"),
    "a method of an object": (lambda m, x, y: HalfLoss().compute(m.net(x), y), "net", "method"),
    "a function of other arguments": (lambda m, x, y: mean_over_batch(m.net(x) * 2, y), "net", None),
    "a loss module on a submodule": (lambda m, x, y: m.criterion(m.net(x), y), "net", "CrossEntropyLoss"),
    "a function on the module": (lambda m, x, y: {"loss": F.cross_entropy(m(x), y)}, "", "partial"),
    "an option of the function": (lambda m, x, y: F.cross_entropy(m(x), y, label_smoothing=0.1), "", "partial"),
    "a penalty": (lambda m, x, y: F.cross_entropy(m(x), y) + m.net[0].weight.square().sum(), "", None),
}


@pytest.mark.parametrize("form", STEPS_OF_MODULES)
def test_model_and_loss_of_a_lightning_module_are_found(form: str) -> None:
    step, path, loss_name = STEPS_OF_MODULES[form]
    program = Program()
    module = lightning_module(program, step)
    before = copy.deepcopy(module.state_dict()), torch.get_rng_state(), set(vars(module))
    debugger = nbdebug.Debugger.from_lightning(module, program.train_loader, program.val_loader)
    setup = debugger.setup
    assert setup.model is module.get_submodule(path)
    assert (type(setup.loss_fn).__name__ if setup.loss_fn is not None else None) == loss_name
    assert (setup.step_fn is not None) == (loss_name is None)
    assert setup.optimizers == (program.optimizer,)
    assert type(setup.scheduler).__name__ == "StepLR"
    assert all(torch.equal(module.state_dict()[name], value) for name, value in before[0].items())
    assert torch.equal(torch.get_rng_state(), before[1])
    assert set(vars(module)) == before[2]
    batch = next(setup.batches(1))
    assert float(setup.output_and_loss(batch)[1]) == pytest.approx(_loss_of(step, module, batch.raw), rel=1e-6)


def _loss_of(step: Any, module: Any, raw: Any) -> float:
    loss = step(module, *raw)
    return float(loss["loss"] if isinstance(loss, dict) else loss)


def test_manual_optimization_is_not_run_ahead() -> None:
    def raise_error(*_: Any) -> None:
        raise AssertionError

    program = Program()
    module = lightning_module(program, raise_error, automatic=False)
    assert nbdebug.Debugger.from_lightning(module, program.train_loader).setup.model is module


def test_data_module_is_set_up_in_a_copy_and_missing_data_is_refused() -> None:
    lightning = pytest.importorskip("lightning")

    class Data(lightning.LightningDataModule):
        def setup(self, stage: str) -> None:
            self.rows = Points(64, 1)
            torch.rand(1)

        def train_dataloader(self) -> Any:
            return DataLoader(self.rows, 16)

        def val_dataloader(self) -> Any:
            return [DataLoader(self.rows, 32)]

    program, data = Program(), Data()
    module = lightning_module(program, STEPS_OF_MODULES["a penalty"][0])
    state = torch.get_rng_state()
    setup = nbdebug.Debugger.from_lightning(module, data).setup
    assert (setup.train_loader.batch_size, setup.val_loader.batch_size) == (16, 32)
    assert not hasattr(data, "rows")
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(nbdebug.SetupError, match="training data is missing"):
        nbdebug.Debugger.from_lightning(module)


def test_from_trainer_leaves_the_trainer_as_it_was(tmp_path: Path) -> None:
    program = Program()
    trainer = transformers_trainer(program, tmp_path, None, weight_decay=0.25)
    state = program.state()
    debugger = nbdebug.Debugger.from_trainer(trainer)
    assert trainer.optimizer is None
    assert trainer.accelerator._dataloaders == []
    assert all(torch.equal(one, other) for one, other in zip(state, program.state(), strict=True))
    assert debugger.setup.optimizers[0].param_groups[0]["weight_decay"] == 0.25
    assert debugger.setup.val_loader.dataset is program.val_data
    callback = make_callback("transformers", program, debugger=debugger, final_tests=False)
    trainer.add_callback(callback)
    trainer.train()
    assert debugger.watched.result.steps == STEPS
    assert debugger.setup.optimizers[0].param_groups[0]["params"][0] is program.model[0].weight
    with pytest.raises(nbdebug.SetupError, match="trainer is a"):
        nbdebug.Debugger.from_trainer(program.model)


def test_prepared_objects_of_accelerate_are_seen_through() -> None:
    accelerate = pytest.importorskip("accelerate")
    program = Program()
    accelerator = accelerate.Accelerator(cpu=True)
    prepared = accelerator.prepare(program.model, program.optimizer, program.train_loader, program.val_loader)
    model, optimizer, train_loader, val_loader = prepared
    debugger = nbdebug.Debugger(model, train_loader, val_loader, loss_fn=program.loss_fn, optimizer=optimizer)
    with debugger.watch(final_tests=False) as run:
        for _ in range(EPOCHS):
            for x, y in train_loader:
                optimizer.zero_grad()
                accelerator.backward(program.loss_fn(model(x), y))
                optimizer.step()
            with torch.no_grad():
                for x, y in val_loader:
                    program.loss_fn(model(x), y)
    assert run.result.steps == STEPS
    assert [event.kind for event in run.record.events].count("epoch") == EPOCHS
    assert len(run.record.series("eval_loss")[1]) == EPOCHS
    errors = debugger.errors()
    errors.tag([5, 7], "odd")
    assert list(errors.to_frame().index) == list(range(len(program.val_data)))
    assert torch.equal(torch.as_tensor(debugger.errors(loader=val_loader).to_frame()["target"].to_numpy(int)),
                       program.val_data.y)  # fmt: skip
    assert debugger.explain(5, method="saliency") is not None


@pytest.mark.parametrize("form", ["dict", "tuple", "object"])
def test_output_with_loss_and_logits_is_unpacked(form: str) -> None:
    class Output:
        def __init__(self, loss: Tensor, logits: Tensor) -> None:
            self.loss, self.logits = loss, logits

    loss, logits = torch.tensor(0.5), torch.zeros(4, 2)
    output = {"dict": {"loss": loss, "logits": logits}, "tuple": (loss, logits), "object": Output(loss, logits)}[form]
    assert losses.get_own_loss(output) is loss
    assert losses.score_tensor(output) is logits


def test_errors_of_a_model_that_returns_a_dict() -> None:
    program = Program()
    model = ModelWithLoss(program)
    loaders = (DataLoader(data, 32, collate_fn=collate_by_name) for data in (program.train_data, program.val_data))
    debugger = nbdebug.Debugger(model, *loaders, optimizer=program.optimizer)
    frame = debugger.errors().to_frame()
    with torch.no_grad():
        expected = program.model(program.val_data.x).argmax(1)
    assert np.array_equal(frame["prediction"].to_numpy(int), expected.numpy())


def test_steps_of_an_optimizer_of_fastai_itself_are_seen() -> None:
    callback, program = make_callback("fastai", Program()), Program()
    from fastai.optimizer import Adam

    optimizers: list[Any] = []

    def make_optimizer(*args: Any, **options: Any) -> Any:
        optimizers.append(Adam(*args, **options))
        return optimizers[0]

    FITS["fastai"](program, callback, make_optimizer)  # type: ignore[call-arg]
    state, plain = program.state(), Program()
    FITS["fastai"](plain, None, Adam)  # type: ignore[call-arg]
    assert all(torch.equal(one, other) for one, other in zip(state, plain.state(), strict=True))
    assert callback.result.steps == STEPS
    assert set(callback.debugger.watched.record.series("lr")[1]) == {np.float32(program.rate)}
    assert not {finding.code for finding in callback.debugger.findings} & {"O504", "O505", "O506"}
    assert not {"step", "zero_grad"} & set(vars(optimizers[0]))
