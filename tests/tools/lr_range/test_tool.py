"""Tests of range tests of many kinds of setups."""

from __future__ import annotations

import multiprocessing
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.rules.examples import minimal_setup, mlp, network, points, rings, training_setup
from nbdebug.setup import Setup
from nbdebug.tools.lr_range import LrRange
from tests.tools.lr_range.setups import loss_decreased, ring_classifier, run_lr_range


def test_lr_range_of_classifier_recommends_suitable_rate() -> None:
    result = run_lr_range(ring_classifier(lr=1e-2))
    assert result.verdict == "clear"
    assert 1e-3 < result.suggestion < 0.1
    assert [sweep.seed for sweep in result.sweeps] == [0, 1, 2]
    assert result.steps == sum(len(sweep.losses) for sweep in result.sweeps)
    assert "fine" in result.judgement


def test_lr_range_sweeps_are_reproducible_and_differ_by_seed() -> None:
    first, second = run_lr_range(ring_classifier(), steps=20), run_lr_range(ring_classifier(), steps=20)
    assert first.sweeps == second.sweeps
    assert first.sweeps[0].losses != first.sweeps[1].losses


def test_lr_range_accumulate_equals_one_large_batch() -> None:
    def run_with_batches(size: int, accumulate: int) -> LrRange:
        setup = ring_classifier(batch_size=size, shuffle=False, optimizer=None, lr=1e-3)
        return run_lr_range(setup, steps=20, seeds=1, accumulate=accumulate)

    accumulated, large_batch = run_with_batches(32, 4), run_with_batches(128, 1)
    assert accumulated.sweeps[0].losses == pytest.approx(large_batch.sweeps[0].losses, rel=1e-3)
    assert "each step trains on 4 batches" in accumulated.notes


@pytest.mark.parametrize("max_norm", [None, 1.0])
def test_lr_range_uses_and_restores_grad_scaler(max_norm: float | None) -> None:
    setup = ring_classifier()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    setup.extra_state = (scaler,)
    scaled = run_lr_range(setup, seeds=1, max_norm=max_norm)
    unscaled = run_lr_range(ring_classifier(), seeds=1, max_norm=max_norm)
    assert scaled.sweeps[0].losses == pytest.approx(unscaled.sweeps[0].losses, rel=1e-2)
    assert scaler.get_scale() == 2.0**8
    assert not scaler._per_optimizer_states


def test_lr_range_max_norm_prevents_divergence() -> None:
    setup = ring_classifier(optimizer=None)
    setup.optimizers = (torch.optim.SGD(setup.model.parameters(), 0.1),)
    unclipped, clipped = (run_lr_range(setup, seeds=1, end=100.0, max_norm=norm) for norm in (None, 1e-3))
    assert unclipped.sweeps[0].ended == "diverged"
    assert clipped.sweeps[0].ended == "finished"


def test_lr_range_optimizer_with_closure_is_swept() -> None:
    setup = ring_classifier(batch_size=384)
    passes: list[int] = []
    setup.model.register_forward_hook(lambda *_: passes.append(1))
    setup.optimizers = (torch.optim.LBFGS(setup.model.parameters(), max_iter=4),)
    result = run_lr_range(setup, seeds=1, steps=40, end=1.0)
    assert loss_decreased(result)
    assert len(result.sweeps[0].losses) == 40
    assert len(passes) > 100


def test_lr_range_step_fn_receives_raw_batch() -> None:
    setup = ring_classifier()
    batches: list[Any] = []

    def step_fn(batch: Any) -> Tensor:
        batches.append(batch)
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn, setup.loss_fn = step_fn, None
    assert run_lr_range(setup, seeds=1).sweeps == run_lr_range(ring_classifier(), seeds=1).sweeps
    assert all(type(batch) is list for batch in batches)


class DictDataset(Dataset[dict[str, Tensor]]):
    """Samples that are dictionaries."""

    def __init__(self) -> None:
        self.x, self.y = rings()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"inputs": self.x[index], "labels": self.y[index]}


class ModelWithLoss(nn.Module):
    """A model that computes its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = mlp(8, 32, 2)

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.inner(inputs)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def test_lr_range_dict_batches_and_model_with_loss_are_swept() -> None:
    model = ModelWithLoss()
    setup = Setup(model, DataLoader(DictDataset(), 32), optimizers=(torch.optim.Adam(model.parameters()),))
    assert loss_decreased(run_lr_range(setup, seeds=2))


def test_lr_range_val_uses_loss_of_validation_batch_in_eval_mode() -> None:
    setup = ring_classifier()
    modes: list[bool] = []
    setup.model.register_forward_pre_hook(lambda module, _: modes.append(module.training))
    result = run_lr_range(setup, seeds=2, val=True, steps=30)
    assert modes[:4] == [True, False, True, False]
    assert "the loss is that of one validation batch, in eval mode" in result.notes
    assert result.sweeps[0].losses[0] == pytest.approx(result.sweeps[1].losses[0], rel=1e-4)


def test_lr_range_short_loader_restarts() -> None:
    setup = training_setup(mlp(8, 32, 2), rings(32), rings(32), nn.CrossEntropyLoss(), batch_size=16)
    result = run_lr_range(setup, seeds=1, steps=30, end=0.01)
    assert len(result.sweeps[0].losses) == 30
    assert any("up to 15 times" in note for note in result.notes)


def test_lr_range_batch_norm_skips_batches_of_one_sample() -> None:
    x, y = rings(33)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    result = run_lr_range(
        training_setup(model, (x, y), (x, y), nn.CrossEntropyLoss(), batch_size=16), seeds=1, steps=20
    )
    assert len(result.sweeps[0].losses) == 20
    assert any("single sample" in note for note in result.notes)
    without_batch_norm = run_lr_range(
        training_setup(mlp(8, 8, 2), (x, y), (x, y), nn.CrossEntropyLoss(), batch_size=16), seeds=1, steps=20
    )
    assert not any("single sample" in note for note in without_batch_norm.notes)


def test_lr_range_batch_norm_uses_batches_of_one_sample_if_there_are_no_others() -> None:
    images, labels = torch.randn(6, 1, 4, 4), torch.tensor([0, 1] * 3)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2))
    result = run_lr_range(
        training_setup(model, (images, labels), (images, labels), nn.CrossEntropyLoss(), batch_size=1), steps=12
    )
    assert all(len(sweep.losses) == 12 for sweep in result.sweeps)


def test_lr_range_of_iterator_leaves_all_batches_to_user() -> None:
    x, y = points()
    batches = list(zip(x.split(16), y.split(16), strict=True))
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())
    setup = Setup(setup.model, iter(batches), loss_fn=setup.loss_fn, optimizers=setup.optimizers)
    result = run_lr_range(setup, steps=10, seeds=2)
    assert [len(sweep.losses) for sweep in result.sweeps] == [10, 10]
    assert len(batches) == 4
    assert all(remaining[0] is batch[0] for remaining, batch in zip(setup.train_loader, batches, strict=True))


@pytest.mark.parametrize("persistent", [False, True])
def test_lr_range_stops_workers_of_loader(persistent: bool) -> None:
    setup = ring_classifier()
    options = {"num_workers": 1, "persistent_workers": persistent, "multiprocessing_context": "fork"}
    setup.train_loader = DataLoader(setup.train_loader.dataset, 32, **options)
    user_iterator = iter(setup.train_loader) if persistent else None
    before = set(multiprocessing.active_children())
    result = run_lr_range(setup, steps=15, seeds=2, end=0.01)
    assert [len(sweep.losses) for sweep in result.sweeps] == [15, 15]
    assert set(multiprocessing.active_children()) == before
    assert setup.train_loader._iterator is user_iterator


def test_lr_range_without_optimizer_sweeps_adam_and_notes_it() -> None:
    with_adam = run_lr_range(ring_classifier(optimizer=None, lr=1e-3), optimizer=None)
    setup = ring_classifier()
    setup.optimizers = ()
    without_optimizer = run_lr_range(setup)
    assert without_optimizer.notes[0] == "the sweeps use Adam, since no optimizer was given"
    assert without_optimizer.sweeps == with_adam.sweeps
    assert without_optimizer.current is None
    assert without_optimizer.judgement == ""


def test_lr_range_optimizer_option_accepts_instance_and_class() -> None:
    setup = ring_classifier()
    by_class = run_lr_range(setup, optimizer=torch.optim.SGD, seeds=1)
    assert by_class.notes[0] == "the sweeps use SGD as you passed it"
    by_instance = run_lr_range(setup, optimizer=torch.optim.SGD(setup.model.parameters(), lr=1.0), seeds=1)
    assert by_instance.sweeps == by_class.sweeps
    assert by_instance.current == 1.0


def test_lr_range_sparse_gradients_are_swept() -> None:
    tokens, labels = torch.randint(0, 9, (64, 4)), torch.randint(0, 2, (64,))
    model = nn.Sequential(nn.EmbeddingBag(9, 2, mode="sum", sparse=True))
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.01)
    setup = training_setup(model, (tokens, labels), (tokens, labels), nn.CrossEntropyLoss(), optimizer=optimizer)
    assert loss_decreased(run_lr_range(setup, seeds=1))
