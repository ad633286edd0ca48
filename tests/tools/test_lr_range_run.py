"""The range test on real programs of every kind that it must take."""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.debugger import Debugger
from nbdebug.rules.loops import layers, rings, run
from nbdebug.rules.programs import classifier, network, points, program
from nbdebug.setup import Setup
from nbdebug.tools.lr_range import LrRange
from nbdebug.tools.lr_range.picture import growing
from nbdebug.tools.lr_range.plan import Plan, chosen
from nbdebug.tools.lr_range.trial import Trial
from nbdebug.views.screen import LiveScreen, Screen


def lr_range(setup: Setup, **asked: Any) -> LrRange:
    """The range test of a set-up."""
    return Debugger.of(setup).lr_range(**asked)


def learner(**given: Any) -> Setup:
    """A classifier that has much to learn."""
    return run(layers(8, 32, 2), rings(), rings(64, seed=1), nn.CrossEntropyLoss(), **given)


def usual(found: LrRange) -> bool:
    """Whether a sweep went through, and its loss came down."""
    return all(one.ended in ("finished", "diverged") and min(one.smooth) < one.smooth[0] for one in found.sweeps)


def with_rates_seen(setup: Setup, **asked: Any) -> tuple[LrRange, list[list[float]]]:
    """A result, and the rates of all groups at each step of the first optimizer."""
    seen: list[list[float]] = []

    def note(optimizer: Any, *_: Any) -> None:
        seen.append([float(group["lr"]) for one in setup.optimizers for group in one.param_groups])

    handle = setup.optimizers[0].register_step_pre_hook(note)
    found = lr_range(setup, **asked)
    handle.remove()
    return found, seen


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


@pytest.mark.parametrize("mode", ["exp", "linear"])
def test_the_values_run_from_start_to_end(mode: Any) -> None:
    found, seen = with_rates_seen(learner(), start=1e-4, end=1e-2, steps=10, seeds=1, mode=mode)
    assert [one[0] for one in seen] == pytest.approx(found.sweeps[0].values)
    assert found.sweeps[0].values[0] == pytest.approx(1e-4)
    assert found.sweeps[0].values[-1] == pytest.approx(1e-2)
    steps = [b / a if mode == "exp" else b - a for (a,), (b,) in pairwise(seen)]
    assert steps == pytest.approx([steps[0]] * 9)


def two_groups(**second: Any) -> Setup:
    """Two groups, the second with settings of its own."""
    model = layers(8, 32, 2)
    groups = [{"params": model[0].parameters()}, {"params": model[2].parameters(), **second}]
    return run(model, rings(), rings(), nn.CrossEntropyLoss(), optimizer=torch.optim.SGD(groups, lr=0.1))


def test_groups_keep_their_ratios_or_get_the_same() -> None:
    _, seen = with_rates_seen(two_groups(lr=0.02), start=1e-4, end=1e-2, steps=10, seeds=1)
    assert [b / a for a, b in seen] == pytest.approx([0.2] * 10)
    _, seen = with_rates_seen(two_groups(lr=0.02), start=1e-4, end=1e-2, steps=10, seeds=1, groups="same")
    assert [b / a for a, b in seen] == pytest.approx([1.0] * 10)


def test_a_group_at_rate_zero_stays_there_and_does_not_count_as_the_first() -> None:
    setup = two_groups()
    setup.optimizers[0].param_groups[0]["lr"] = 0.0
    found, seen = with_rates_seen(setup, start=1e-4, end=1e-2, steps=10, seeds=1)
    assert {a for a, _ in seen} == {0.0}
    assert [b for _, b in seen] == pytest.approx(found.sweeps[0].values)
    assert found.current == 0.1


def test_several_optimizers_are_swept_together() -> None:
    setup = learner()
    body, head = setup.model[0], setup.model[2]
    setup.optimizers = (torch.optim.SGD(body.parameters(), 0.1), torch.optim.Adam(head.parameters(), 1e-3))
    found, seen = with_rates_seen(setup, seeds=1)
    assert [b / a for a, b in seen] == pytest.approx([0.01] * len(seen))
    assert usual(found)


def test_accumulated_batches_equal_one_large_batch() -> None:
    def of(size: int, accumulate: int) -> LrRange:
        setup = learner(batch_size=size, shuffle=False, optimizer=None, lr=1e-3)
        return lr_range(setup, steps=20, seeds=1, accumulate=accumulate)

    assert of(32, 4).sweeps[0].losses == pytest.approx(of(128, 1).sweeps[0].losses, rel=1e-3)
    assert "each step learns 4 batches" in of(32, 4).notes


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
        self.inner = layers(8, 32, 2)

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
    setup = run(layers(8, 32, 2), rings(32), rings(32), nn.CrossEntropyLoss(), batch_size=16)
    found = lr_range(setup, seeds=1, steps=30, end=0.01)
    assert len(found.sweeps[0].losses) == 30
    assert any("15 rounds" in one for one in found.notes)


def test_batches_of_one_sample_are_left_out_under_batch_statistics() -> None:
    x, y = rings(33)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    found = lr_range(run(model, (x, y), (x, y), nn.CrossEntropyLoss(), batch_size=16), seeds=1, steps=20)
    assert len(found.sweeps[0].losses) == 20
    assert any("single sample" in one for one in found.notes)
    kept = lr_range(run(layers(8, 8, 2), (x, y), (x, y), nn.CrossEntropyLoss(), batch_size=16), seeds=1, steps=20)
    assert not any("single sample" in one for one in kept.notes)


def test_batches_of_one_sample_are_used_where_there_are_no_others() -> None:
    images, labels = torch.randn(6, 1, 4, 4), torch.tensor([0, 1] * 3)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2))
    found = lr_range(run(model, (images, labels), (images, labels), nn.CrossEntropyLoss(), batch_size=1), steps=12)
    assert all(len(one.losses) == 12 for one in found.sweeps)


def test_an_iterator_keeps_its_batches_for_the_user() -> None:
    x, y = points()
    batches = list(zip(x.split(16), y.split(16), strict=True))
    setup = program(network(3), x, y, nn.CrossEntropyLoss())
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


def test_a_rate_that_is_a_tensor_stays_the_same_tensor() -> None:
    setup = learner()
    rate = torch.tensor(1e-3)
    setup.optimizers = (torch.optim.Adam(setup.model.parameters(), lr=rate),)
    assert usual(lr_range(setup, seeds=1))
    assert setup.optimizers[0].param_groups[0]["lr"] is rate
    assert rate == torch.tensor(1e-3)


def test_a_schedule_is_not_stepped_and_its_highest_rate_counts_as_present() -> None:
    setup = learner(lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(setup.optimizers[0], max_lr=0.5, total_steps=10)
    setup.scheduler = schedule
    found = lr_range(setup, seeds=1, steps=20)
    assert found.current == 0.5
    assert schedule.last_epoch == 0
    assert any("schedule is not stepped" in one for one in found.notes)


def test_momentum_and_weight_decay_are_swept_at_the_present_rate() -> None:
    setup = learner(optimizer=None)
    setup.optimizers = (torch.optim.SGD(setup.model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4),)
    seen: list[tuple[float, float, float]] = []
    setup.optimizers[0].register_step_pre_hook(
        lambda one, *_: seen.append(tuple(one.param_groups[0][name] for name in ("lr", "momentum", "weight_decay")))
    )
    momentum = Debugger.of(setup).momentum_range(steps=10, seeds=1)
    assert [one[1] for one in seen] == pytest.approx(momentum.sweeps[0].values)
    assert {(one[0], one[2]) for one in seen} == {(0.1, 1e-4)}
    seen.clear()
    decay = Debugger.of(setup).weight_decay_range(steps=10, seeds=1)
    assert [one[2] for one in seen] == pytest.approx(decay.sweeps[0].values)
    assert {one[:2] for one in seen} == {(0.1, 0.9)}
    assert (momentum.current, decay.current) == (0.9, 1e-4)


def test_the_first_beta_is_the_momentum_of_adam() -> None:
    setup = learner()
    seen: list[Any] = []
    setup.optimizers[0].register_step_pre_hook(lambda one, *_: seen.append(one.param_groups[0]["betas"]))
    found = Debugger.of(setup).momentum_range(steps=10, seeds=1)
    assert [one[0] for one in seen] == pytest.approx(found.sweeps[0].values)
    assert {one[1] for one in seen} == {0.999}
    assert found.current == 0.9


def scripted(loss_at: Callable[[int], float]) -> Setup:
    """A program whose losses are given by the number of the step."""
    setup = classifier()
    numbers: Iterator[int] = iter(range(10_000))
    anchor = next(setup.model.parameters())
    setup.step_fn = lambda _: anchor.sum() * 0 + loss_at(next(numbers) % 100)
    return setup


@pytest.mark.parametrize("step", [0, 1, 4, 50, 99])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_ends_the_sweep_at_once_and_is_left_out(step: int, bad: float) -> None:
    setup = scripted(lambda at: bad if at == step else 2 - at / 200)
    found = lr_range(setup, seeds=1)
    assert found.sweeps[0].ended == "not finite"
    assert len(found.sweeps[0].losses) == step
    assert found.steps == step + 1
    assert all(map(math.isfinite, (*found.sweeps[0].losses, *found.sweeps[0].smooth)))
    assert any("not finite after" in one for one in found.notes)
    assert str(found)


@pytest.mark.parametrize("value", [2.3, 0.0, -5.0])
def test_a_constant_loss_is_flat(value: float) -> None:
    found = lr_range(scripted(lambda _: value), seeds=2)
    assert found.verdict == "flat"
    assert found.suggestion is None
    assert found.reasons
    assert [one.ended for one in found.sweeps] == ["finished"] * 2
    assert found.sweeps[0].smooth == pytest.approx((value,) * 100)


def test_negative_losses_are_swept_like_any_other() -> None:
    def loss(at: int) -> float:
        return 2 - 1.5 / (1 + math.exp(-(at - 50) / 4)) + 0.3 * max(0, at - 75) ** 1.5

    above, below = (lr_range(scripted(lambda at, by=shift: loss(at) + by), seeds=1) for shift in (0.0, -40.0))
    assert above.sweeps[0].values == below.sweeps[0].values
    assert above.sweeps[0].ended == below.sweeps[0].ended == "diverged"
    assert above.suggestion == pytest.approx(below.suggestion)


def test_a_spike_at_the_first_step_moves_nothing() -> None:
    def loss(at: int) -> float:
        return 2 - 1.5 / (1 + math.exp(-(at - 50) / 4)) + 0.3 * max(0, at - 75) ** 1.5

    plain = lr_range(scripted(loss), seeds=1)
    spiked = lr_range(scripted(lambda at: 1e4 if at == 0 else loss(at)), seeds=1)
    assert spiked.suggestion == pytest.approx(plain.suggestion, rel=0.3)
    assert spiked.sweeps[0].ended == "diverged"


def test_blocked_gradients_are_told() -> None:
    setup = learner()
    setup.step_fn = lambda batch: (setup.model(batch[0]) * 0).sum() + batch[0].mean()
    found = lr_range(setup, seeds=2)
    assert found.verdict == "flat"
    assert "gradient" in found.reasons[0]


def test_sparse_gradients_are_taken() -> None:
    tokens, labels = torch.randint(0, 9, (64, 4)), torch.randint(0, 2, (64,))
    model = nn.Sequential(nn.EmbeddingBag(9, 2, mode="sum", sparse=True))
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.01)
    setup = run(model, (tokens, labels), (tokens, labels), nn.CrossEntropyLoss(), optimizer=optimizer)
    assert usual(lr_range(setup, seeds=1))


def test_an_interrupt_under_a_live_view_keeps_what_there_is() -> None:
    setup = learner()
    calls: list[int] = []

    def step_fn(batch: Any) -> Tensor:
        calls.append(1)
        if len(calls) == 131:
            raise KeyboardInterrupt
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step_fn
    trial = Trial(setup, Plan(end=1e-2), chosen(setup, None), None)
    with LiveScreen(growing(trial.result(), trial.plan), time.monotonic, 0.1) as screen:
        trial.run(screen)
    assert [one.ended for one in trial.result().sweeps] == ["finished", "interrupted"]
    assert len(trial.result().sweeps[1].losses) == 30


def test_stop_keeps_what_there_is() -> None:
    class Pressed(Screen):
        rows = 0

        def append(self, row: Any) -> None:
            self.rows += 1

        @property
        def stopped(self) -> bool:
            return self.rows >= 130

    setup = learner()
    trial = Trial(setup, Plan(end=1e-2), chosen(setup, None), None)
    trial.run(Pressed())
    found = trial.result()
    assert [one.ended for one in found.sweeps] == ["finished", "stopped"]
    assert [len(one.losses) for one in found.sweeps] == [100, 30]
