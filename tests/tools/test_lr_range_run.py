"""The range test on real programs of every kind that it must take."""

from __future__ import annotations

import multiprocessing
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, mlp, network, points, rings, training_setup
from nbdebug.setup import Setup
from nbdebug.tools.lr_range import LrRange


def lr_range(setup: Setup, **asked: Any) -> LrRange:
    """The range test of a set-up."""
    return Debugger.of(setup).lr_range(**asked)


def learner(**given: Any) -> Setup:
    """A classifier that has much to learn."""
    return training_setup(mlp(8, 32, 2), rings(), rings(64, seed=1), nn.CrossEntropyLoss(), **given)


def usual(found: LrRange) -> bool:
    """Whether a sweep went through, and its loss came down."""
    return all(one.ended in ("finished", "diverged") and min(one.smooth) < one.smooth[0] for one in found.sweeps)


def test_a_learner_gets_a_rate_that_trains_it() -> None:
    found = lr_range(learner(lr=1e-2))
    assert found.verdict == "clear"
    assert 1e-3 < found.suggestion < 0.1
    assert [one.seed for one in found.sweeps] == [0, 1, 2]
    assert found.steps == sum(len(one.losses) for one in found.sweeps)
    assert "fine" in found.judgement


def test_sweeps_are_the_same_each_time_and_differ_by_their_seed() -> None:
    first, again = lr_range(learner(), steps=20), lr_range(learner(), steps=20)
    assert first.sweeps == again.sweeps
    assert first.sweeps[0].losses != first.sweeps[1].losses


def test_accumulated_batches_equal_one_large_batch() -> None:
    def of(size: int, accumulate: int) -> LrRange:
        setup = learner(batch_size=size, shuffle=False, optimizer=None, lr=1e-3)
        return lr_range(setup, steps=20, seeds=1, accumulate=accumulate)

    assert of(32, 4).sweeps[0].losses == pytest.approx(of(128, 1).sweeps[0].losses, rel=1e-3)
    assert "each step trains on 4 batches" in of(32, 4).notes


@pytest.mark.parametrize("max_norm", [None, 1.0])
def test_a_grad_scaler_scales_and_is_put_back(max_norm: float | None) -> None:
    setup = learner()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    setup.extra_state = (scaler,)
    scaled, plain = lr_range(setup, seeds=1, max_norm=max_norm), lr_range(learner(), seeds=1, max_norm=max_norm)
    assert scaled.sweeps[0].losses == pytest.approx(plain.sweeps[0].losses, rel=1e-2)
    assert scaler.get_scale() == 2.0**8
    assert not scaler._per_optimizer_states


def test_clipping_is_part_of_the_sweep() -> None:
    setup = learner(optimizer=None)
    setup.optimizers = (torch.optim.SGD(setup.model.parameters(), 0.1),)
    free, clipped = (lr_range(setup, seeds=1, end=100.0, max_norm=norm) for norm in (None, 1e-3))
    assert free.sweeps[0].ended == "diverged"
    assert clipped.sweeps[0].ended == "finished"


def test_an_optimizer_that_evaluates_the_loss_itself() -> None:
    setup = learner(batch_size=384)
    passes: list[int] = []
    setup.model.register_forward_hook(lambda *_: passes.append(1))
    setup.optimizers = (torch.optim.LBFGS(setup.model.parameters(), max_iter=4),)
    found = lr_range(setup, seeds=1, steps=40, end=1.0)
    assert usual(found)
    assert len(found.sweeps[0].losses) == 40
    assert len(passes) > 100


def test_a_step_function_gets_the_raw_batch() -> None:
    setup = learner()
    raw: list[Any] = []

    def step(batch: Any) -> Tensor:
        raw.append(batch)
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn, setup.loss_fn = step, None
    assert lr_range(setup, seeds=1).sweeps == lr_range(learner(), seeds=1).sweeps
    assert all(type(one) is list for one in raw)


class Named(Dataset[dict[str, Tensor]]):
    """Samples as dictionaries."""

    def __init__(self) -> None:
        self.x, self.y = rings()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"inputs": self.x[index], "labels": self.y[index]}


class OwnLoss(nn.Module):
    """A model that computes its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = mlp(8, 32, 2)

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.inner(inputs)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def test_batches_may_be_dictionaries_and_the_model_may_compute_the_loss() -> None:
    model = OwnLoss()
    setup = Setup(model, DataLoader(Named(), 32), optimizers=(torch.optim.Adam(model.parameters()),))
    assert usual(lr_range(setup, seeds=2))


def test_the_loss_may_be_that_of_a_validation_batch() -> None:
    setup = learner()
    modes: list[bool] = []
    setup.model.register_forward_pre_hook(lambda module, _: modes.append(module.training))
    found = lr_range(setup, seeds=2, val=True, steps=30)
    assert modes[:4] == [True, False, True, False]
    assert "the loss is that of one validation batch, in eval mode" in found.notes
    assert found.sweeps[0].losses[0] == pytest.approx(found.sweeps[1].losses[0], rel=1e-4)


def test_a_short_loader_begins_anew() -> None:
    setup = training_setup(mlp(8, 32, 2), rings(32), rings(32), nn.CrossEntropyLoss(), batch_size=16)
    found = lr_range(setup, seeds=1, steps=30, end=0.01)
    assert len(found.sweeps[0].losses) == 30
    assert any("up to 15 times" in one for one in found.notes)


def test_batches_of_one_sample_are_left_out_under_batch_statistics() -> None:
    x, y = rings(33)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    found = lr_range(training_setup(model, (x, y), (x, y), nn.CrossEntropyLoss(), batch_size=16), seeds=1, steps=20)
    assert len(found.sweeps[0].losses) == 20
    assert any("single sample" in one for one in found.notes)
    kept = lr_range(
        training_setup(mlp(8, 8, 2), (x, y), (x, y), nn.CrossEntropyLoss(), batch_size=16), seeds=1, steps=20
    )
    assert not any("single sample" in one for one in kept.notes)


def test_batches_of_one_sample_are_used_where_there_are_no_others() -> None:
    images, labels = torch.randn(6, 1, 4, 4), torch.tensor([0, 1] * 3)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2))
    found = lr_range(
        training_setup(model, (images, labels), (images, labels), nn.CrossEntropyLoss(), batch_size=1), steps=12
    )
    assert all(len(one.losses) == 12 for one in found.sweeps)


def test_an_iterator_keeps_its_batches_for_the_user() -> None:
    x, y = points()
    batches = list(zip(x.split(16), y.split(16), strict=True))
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())
    setup = Setup(setup.model, iter(batches), loss_fn=setup.loss_fn, optimizers=setup.optimizers)
    found = lr_range(setup, steps=10, seeds=2)
    assert [len(one.losses) for one in found.sweeps] == [10, 10]
    assert [one[0] is kept[0] for one, kept in zip(setup.train_loader, batches, strict=True)] == [True] * 4


@pytest.mark.parametrize("persistent", [False, True])
def test_the_workers_of_a_loader_are_let_go(persistent: bool) -> None:
    setup = learner()
    options = {"num_workers": 1, "persistent_workers": persistent, "multiprocessing_context": "fork"}
    setup.train_loader = DataLoader(setup.train_loader.dataset, 32, **options)
    own = iter(setup.train_loader) if persistent else None
    before = set(multiprocessing.active_children())
    found = lr_range(setup, steps=15, seeds=2, end=0.01)
    assert [len(one.losses) for one in found.sweeps] == [15, 15]
    assert set(multiprocessing.active_children()) == before
    assert setup.train_loader._iterator is own


def test_without_an_optimizer_adam_is_swept_and_said() -> None:
    found = lr_range(learner(optimizer=None, lr=1e-3), optimizer=None)
    setup = learner()
    setup.optimizers = ()
    alone = lr_range(setup)
    assert alone.notes[0] == "Adam was swept: no optimizer was given"
    assert alone.sweeps == found.sweeps
    assert alone.current is None
    assert alone.judgement == ""


def test_another_optimizer_may_be_given_as_such_or_as_a_class() -> None:
    setup = learner()
    by_class = lr_range(setup, optimizer=torch.optim.SGD, seeds=1)
    assert by_class.notes[0] == "SGD was swept: as given"
    given = lr_range(setup, optimizer=torch.optim.SGD(setup.model.parameters(), lr=1.0), seeds=1)
    assert given.sweeps == by_class.sweeps
    assert given.current == 1.0


def test_sparse_gradients_are_taken() -> None:
    tokens, labels = torch.randint(0, 9, (64, 4)), torch.randint(0, 2, (64,))
    model = nn.Sequential(nn.EmbeddingBag(9, 2, mode="sum", sparse=True))
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.01)
    setup = training_setup(model, (tokens, labels), (tokens, labels), nn.CrossEntropyLoss(), optimizer=optimizer)
    assert usual(lr_range(setup, seeds=1))
