"""Tests of the profile: bottlenecks with large planted ratios, lines, restored state, and invalid input."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import time
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import dataloader as torchs

from nbdebug.exceptions import SetupError
from nbdebug.preserve import Preserve
from nbdebug.setup import Setup
from nbdebug.tools.batch_size.search import TrainingStep
from nbdebug.tools.profile import profile
from nbdebug.tools.profile.trace import write_trace
from nbdebug.tools.profile.worker_sweep import sweep_workers

from .programs import BATCH, FEATURES, SleepingDataset, line_of, make_loop, make_setup

counter = 0
history: list[float] = []


def wait(step: int, loss: Tensor) -> None:
    """Take much longer than a step."""
    time.sleep(0.03)


def test_slow_dataset_is_named_with_its_line_and_workers() -> None:
    result = profile(make_setup(0.004), steps=6)
    first = result.advice[0]
    assert (first.kind, first.line.number) == ("data", line_of("time.sleep(self.seconds)"))
    assert result.share("data") > 0.5
    assert result.loader_gain > 2
    assert {trial.name for trial in result.trials if trial.group == "workers"} >= {"0", "2"}


def test_slow_line_of_own_loop_is_named() -> None:
    setup = make_setup()
    result = profile(setup, make_loop(setup, wait), steps=6)
    first = result.advice[0]
    assert (first.kind, first.line.number) == ("line", line_of("after_step(step, loss)"))
    assert result.is_user_loop
    assert len(result.steps) == 6
    assert first.gain > 3


def test_growing_line_of_own_loop_is_named() -> None:
    setup = make_setup()
    result = profile(setup, make_loop(setup, lambda step, loss: time.sleep(0.004 * step)), steps=12)
    assert result.bottleneck == "growing"


def test_validation_at_each_step_is_named() -> None:
    setup = make_setup(val_loader=DataLoader(SleepingDataset(0.001), batch_size=32))

    def validate(step: int, loss: Tensor) -> None:
        with torch.no_grad():
            for x, _ in setup.val_loader:
                setup.model(x)

    result = profile(setup, make_loop(setup, validate), steps=6)
    assert result.bottleneck == "evaluation"
    assert result.advice[0].line.number == line_of("after_step(step, loss)")
    assert result.phases["evaluation"] > result.phases["data"]


def test_python_loop_in_loss_is_named() -> None:
    def loss_fn(output: Tensor, target: Tensor) -> Tensor:
        return torch.stack(
            [nn.functional.cross_entropy(output[i : i + 1], target[i : i + 1]) for i in [*range(8)] * 20]
        ).mean()

    result = profile(make_setup(loss_fn=loss_fn), steps=6)
    advice = next(item for item in result.advice if item.kind == "loss")
    assert advice.line.file == __file__
    assert "operations" in advice.headline


class ComputesTable(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        total = sum(number % 7 for number in range(400_000))  # without tensors
        return self.model(x) + total % 1


def test_python_code_in_the_model_precedes_larger_batches() -> None:
    setup = make_setup()
    setup.model = ComputesTable(setup.model)
    result = profile(setup, steps=6)
    assert result.bottleneck == "module"
    assert result.advice[0].headline.startswith("forward() computes for ")
    assert result.advice[0].line.number == number_of("# without tensors")


def number_of(text: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if line.rstrip().endswith(text))


def test_checkpoint_behind_a_function_is_named() -> None:
    setup = make_setup()

    def keep_weights(step: int, loss: Tensor) -> None:
        torch.save(setup.model.state_dict(), io.BytesIO())
        time.sleep(0.006)

    def train() -> None:
        for x, y in cycle(setup.train_loader):
            loss = setup.loss_fn(setup.model(x), y)
            loss.backward()
            setup.optimizers[0].step()
            keep_weights(0, loss)  # each step

    result = profile(setup, train, steps=6)
    assert result.bottleneck == "checkpoint"
    assert result.advice[0].line.number == number_of("# each step")


def test_loop_over_an_iterator_type_is_not_used_up() -> None:
    setup = make_setup()

    def train() -> None:
        for x, y in cycle(setup.train_loader):
            setup.loss_fn(setup.model(x), y).backward()
            setup.optimizers[0].step()

    assert not any("rewound" in note for note in profile(setup, train, steps=4).notes)


def test_batches_of_a_loss_over_all_pairs_stop_growing() -> None:
    sizes: list[int] = []

    def loss_fn(output: Tensor, target: Tensor) -> Tensor:
        sizes.append(len(output))
        time.sleep(1e-3 * len(output) ** 2)  # as a loop over all pairs
        return output.square().mean()

    profile(make_setup(loss_fn=loss_fn), steps=4)
    assert max(sizes) <= 32  # of 96 samples; a step on all of them would sleep for nine seconds


def test_own_loop_stops_after_steps_and_restores_variables() -> None:
    setup = make_setup()
    before = [p.clone() for p in setup.model.parameters()]
    generator_state = torch.get_rng_state()
    steps_seen: list[int] = []

    def train() -> None:
        global counter
        for x, y in [*setup.train_loader] * 100:
            setup.optimizers[0].zero_grad()
            setup.loss_fn(setup.model(x), y).backward()
            setup.optimizers[0].step()
            counter += 1
            history.append(float(counter))
            steps_seen.append(counter)

    profile(setup, train, steps=5)
    assert (counter, history, steps_seen) == (0, [], [])
    assert all(torch.equal(a, b) for a, b in zip(before, setup.model.parameters(), strict=True))
    assert torch.equal(generator_state, torch.get_rng_state())
    assert all(p.grad is None for p in setup.model.parameters())


@pytest.mark.parametrize("error", [RuntimeError("mine"), KeyboardInterrupt()])
def test_exception_of_own_loop_is_raised_and_everything_is_restored(error: BaseException) -> None:
    setup = make_setup()
    before = [p.clone() for p in setup.model.parameters()]
    original = torchs._BaseDataLoaderIter.__next__, torch.autograd.backward, sys.getswitchinterval(), sys.gettrace()

    def fail(step: int, loss: Tensor) -> None:
        if step == 5:
            raise error

    with pytest.raises(type(error)):
        profile(setup, make_loop(setup, fail), steps=8)
    after = torchs._BaseDataLoaderIter.__next__, torch.autograd.backward, sys.getswitchinterval(), sys.gettrace()
    assert after == original
    assert all(torch.equal(a, b) for a, b in zip(before, setup.model.parameters(), strict=True))


def test_used_up_generator_is_noted() -> None:
    setup = make_setup()
    batches = (batch for _ in range(30) for batch in setup.train_loader)

    def train() -> None:
        for x, y in batches:
            setup.loss_fn(setup.model(x), y).backward()
            setup.optimizers[0].step()

    notes = profile(setup, train, steps=4).notes
    assert any("generator, which cannot be rewound" in note for note in notes)


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_trace_has_the_operations_of_three_steps(name: str, tmp_path: Path) -> None:
    setup, path = make_setup(), tmp_path / name
    before = [p.clone() for p in setup.model.parameters()]
    write_trace(setup, make_loop(setup) if name == "trace.json" else None, path)
    content = gzip.decompress(path.read_bytes()) if name.endswith("gz") else path.read_bytes()
    events = [event.get("name", "") for event in json.loads(content)["traceEvents"]]
    assert sum(event == "Optimizer.step#SGD.step" for event in events) == 3
    assert os.listdir(tmp_path) == [name]
    if name == "trace.json":
        assert all(torch.equal(a, b) for a, b in zip(before, setup.model.parameters(), strict=True))


def test_trace_that_cannot_be_written_is_noted(tmp_path: Path) -> None:
    (tmp_path / "trace.json").mkdir()  # a file cannot take its place
    note = write_trace(make_setup(), None, tmp_path / "trace.json")
    assert note.startswith(f"There is no trace in {tmp_path / 'trace.json'}: ")
    assert os.listdir(tmp_path) == ["trace.json"]


@pytest.mark.parametrize("trace", ["trace.txt", "/nowhere/trace.json", 3])
def test_path_of_no_trace_is_refused(trace: Any) -> None:
    with pytest.raises(SetupError, match=r"trace is .*; expected the path of a new \.json"):
        profile(make_setup(), trace=trace)


def test_loop_with_too_few_steps_is_refused() -> None:
    setup = make_setup()

    def train() -> None:
        for x, y in list(setup.train_loader)[:2]:
            setup.loss_fn(setup.model(x), y).backward()
            setup.optimizers[0].step()

    with pytest.raises(SetupError, match=r"train\(\) made 2 optimizer steps; expected at least 4"):
        profile(setup, train, steps=5)


@pytest.mark.parametrize("steps", [3, True, 2.5])
def test_invalid_steps_are_refused(steps: Any) -> None:
    with pytest.raises(SetupError, match="steps is"):
        profile(make_setup(), steps=steps)


def test_result_of_loop_in_place_of_function_is_refused() -> None:
    with pytest.raises(SetupError, match=r"train is 3; expected a function.*Pass train, not train\(\)"):
        profile(make_setup(), 3, steps=4)  # type: ignore[arg-type]


def test_stream_is_profiled_without_numbers_of_workers() -> None:
    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Any:
            for _ in range(500):
                time.sleep(0.001)
                yield torch.randn(FEATURES), torch.tensor(0)

    setup = make_setup()
    setup.train_loader = DataLoader(Stream(), batch_size=BATCH)
    result = profile(setup, steps=4)
    assert result.bottleneck == "data"
    assert "does not read its dataset by index" in result.notes[0]


class DyingDataset(SleepingDataset):
    """Ends the worker process that reads from it."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if torch.utils.data.get_worker_info() is not None:
            os._exit(1)
        return super().__getitem__(index)


def test_killed_worker_is_a_failed_trial() -> None:
    setup = make_setup()
    setup.train_loader = DataLoader(DyingDataset(0.001), batch_size=BATCH)
    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader,)):
        present, two = sweep_workers(setup, TrainingStep(setup), 4)
    assert present.is_present
    assert not present.failure
    assert "RuntimeError" in two.failure


@pytest.mark.parametrize(("steps", "waits"), [(4, True), (12, False)])
def test_step_with_workers_includes_the_first_wait_of_an_epoch_that_is_too_long_to_run(steps: int, waits: bool) -> None:
    setup = make_setup()
    wait_of_a_step = 120.0 / len(setup.train_loader)
    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader,)):
        trials = sweep_workers(setup, TrainingStep(setup), steps, reading_seconds=120.0)
    assert [trial.seconds > wait_of_a_step for trial in trials[:2]] == [False, waits]


def test_setup_without_optimizer_or_with_step_function_is_profiled() -> None:
    plain = make_setup()
    without = Setup(plain.model, plain.train_loader, loss_fn=plain.loss_fn)
    assert profile(without, steps=4).phases["optimizer"] < profile(without, steps=4).step_seconds
    stepped = Setup(
        *(plain.model, plain.train_loader),
        step_fn=lambda batch: nn.functional.cross_entropy(plain.model(batch[0]), batch[1]),
        optimizers=plain.optimizers,
    )
    result = profile(stepped, steps=4)
    assert result.latencies == ()
    assert result.phases["forward"] > 0


def test_double_precision_is_compared_with_float32_on_a_copy() -> None:
    setup = make_setup()
    setup.model.double()
    data = setup.train_loader.dataset
    data.x = data.x.double()
    trial = next(trial for trial in profile(setup, steps=4).trials if trial.group == "dtype")
    assert trial.name == "float32"
    assert 0 < trial.difference < 1e-4
    assert next(setup.model.parameters()).dtype == torch.float64
