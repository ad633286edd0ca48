"""Tests of the comparison of two runs: what it finds, where, why, and that nothing is changed by it."""

from __future__ import annotations

import functools
import itertools
import os
import pickle
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.rules.examples import classifier, mlp, points
from nbdebug.tools.repeatable import Repeatable

COUNT = {"steps": 0}
UNSEEDED = np.random.default_rng()
SEEDED = np.random.default_rng(5)
NUMBERS = itertools.count()


@functools.cache
def drawn_offset(size: int) -> Tensor:
    return torch.randn(size)


def debugger_with(function: Callable[[Tensor], Tensor], **options: Any) -> Debugger:
    """A debugger of a model that changes its inputs by a function first."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = mlp(4, 8, 3)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.body(function(inputs))

    model = Model()
    loader = options.pop("loader", DataLoader(TensorDataset(*points()), batch_size=16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer, **options)


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with nbdebug.seed(0):
        yield


def test_plain_program_is_repeatable() -> None:
    result = Debugger.of(classifier()).repeatable(steps=6)
    assert result.verdict == "repeatable"
    assert result.causes == ()
    assert result.place == ""
    assert "equal in every bit" in result.headline
    assert set(result.to_frame().drop(columns="step").to_numpy().ravel()) == {"equal"}


def count_steps(inputs: Tensor) -> Tensor:
    COUNT["steps"] += 1
    return inputs + 0.01 * COUNT["steps"]


def test_counter_of_the_module_is_named_with_its_line_and_restored() -> None:
    COUNT["steps"] = 17
    result = debugger_with(count_steps).repeatable(steps=5)
    assert result.source == "variable COUNT"
    assert (result.step, result.phase) == (0, "forward")
    assert result.where.source is not None
    assert 'COUNT["steps"] += 1' in result.where.source
    assert COUNT == {"steps": 17}


def use_numbers(inputs: Tensor) -> Tensor:
    return inputs * (1 + next(NUMBERS) / 100)


def test_iterator_of_the_module_is_named_and_not_advanced() -> None:
    assert debugger_with(use_numbers).repeatable(steps=3).source == "variable NUMBERS"
    assert next(NUMBERS) == 0


def add_unseeded_noise(inputs: Tensor) -> Tensor:
    return inputs + torch.from_numpy(UNSEEDED.normal(size=tuple(inputs.shape))).float()


def add_seeded_noise(inputs: Tensor) -> Tensor:
    return inputs + torch.from_numpy(SEEDED.normal(size=tuple(inputs.shape))).float()


def test_generator_of_the_module_counts_only_without_a_seed() -> None:
    before = UNSEEDED.bit_generator.state, SEEDED.bit_generator.state
    assert debugger_with(add_unseeded_noise).repeatable(steps=3).source == "generator UNSEEDED"
    assert debugger_with(add_seeded_noise).repeatable(steps=3).verdict == "repeatable"
    assert (UNSEEDED.bit_generator.state, SEEDED.bit_generator.state) == before


class LateClock:
    """Reads the clock from the seventh call on."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        return inputs + (time.perf_counter() if self.calls > 6 else 0)


class CallsClock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.clock, self.body = LateClock(), mlp(4, 8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.body(self.clock(inputs))


def test_first_bad_step_is_found_with_its_operation() -> None:
    model = CallsClock()
    loader = DataLoader(TensorDataset(*points()), batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    result = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer).repeatable(steps=12)
    assert (result.step, result.phase, result.operation) == (6, "forward", "add")
    assert result.source == "clock"
    assert model.clock.calls == 0
    frame = result.to_frame()
    assert list(frame["forward"][:8]) == ["equal"] * 6 + ["differs", "not compared"]
    assert list(frame["data"][:8]) == ["equal"] * 7 + ["not compared"]


class NoisyGradient(torch.autograd.Function):
    """The identity, with noise of the operating system in its gradient."""

    @staticmethod
    def forward(context: Any, inputs: Tensor) -> Tensor:
        return inputs.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return gradient * (1 + os.urandom(1)[0] / 100)


class WithNoisyGradient(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.second(NoisyGradient.apply(self.first(inputs)))


def test_difference_in_the_backward_pass_is_located_there() -> None:
    model = WithNoisyGradient()
    loader = DataLoader(TensorDataset(*points()), batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    result = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer).repeatable(steps=3)
    assert (result.step, result.phase, result.module) == (0, "backward", "first")


class NoisyStep(torch.optim.SGD):
    """SGD that adds noise of the operating system to each update."""

    def step(self, closure: Any = None) -> Any:
        super().step(closure)
        for group in self.param_groups:
            for p in group["params"]:
                p.data.add_(os.urandom(1)[0] / 1000)


def test_difference_in_the_update_is_located_there() -> None:
    model = mlp(4, 8, 3)
    loader = DataLoader(TensorDataset(*points()), batch_size=16)
    optimizer = NoisyStep(model.parameters(), lr=0.1)
    result = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer).repeatable(steps=3)
    assert (result.step, result.phase, result.source) == (0, "update", "entropy")


class RandomSamples(Dataset[tuple[Tensor, int]]):
    """Samples that Python's global generator changes."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((4,), random.random()), index % 3


def test_seeded_global_generator_is_repeatable_as_its_seed_stands_in_this_file() -> None:
    loader = DataLoader(RandomSamples(), batch_size=8)
    assert debugger_with(torch.clone, loader=loader).repeatable(steps=3).verdict == "repeatable"


def test_unseeded_torch_generator_is_named_only_if_results_depend_on_it() -> None:
    torch.default_generator.manual_seed(2**50 + 1)
    assert debugger_with(torch.clone).repeatable(steps=3).verdict == "repeatable"
    result = debugger_with(drop).repeatable(steps=3)
    assert (result.verdict, result.source) == ("unseeded", "torch")
    assert "torch.rand_like" in (result.where.source or "")


def drop(inputs: Tensor) -> Tensor:
    return inputs * (torch.rand_like(inputs) > 0.5)


def test_step_function_and_no_optimizer_are_compared_too() -> None:
    model = mlp(4, 8, 3)
    loader = DataLoader(TensorDataset(*points()), batch_size=16)

    def step(batch: list[Tensor]) -> Tensor:
        return nn.functional.cross_entropy(model(count_steps(batch[0])), batch[1])

    result = Debugger(model, loader, step_fn=step).repeatable(steps=3)
    assert result.source == "variable COUNT"
    assert "the update: the setup has no optimizer" in result.unchecked


def test_one_shot_loader_keeps_its_batches() -> None:
    x, y = points()
    batches = iter([(x[i : i + 8], y[i : i + 8]) for i in range(0, 64, 8)])
    debugger = debugger_with(torch.clone, loader=batches)
    result = debugger.repeatable(steps=3)
    assert result.verdict == "repeatable"
    assert any("read only once" in reason for reason in result.unchecked)
    assert len(list(debugger.train_loader)) == 8


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_hidden_variables_are_restored_after_an_exception(error: type[BaseException]) -> None:
    COUNT["steps"] = 0

    def stop(inputs: Tensor) -> Tensor:
        COUNT["steps"] += 1
        if COUNT["steps"] > 4:
            raise error
        return inputs

    states = torch.get_rng_state(), random.getstate(), time.time, np.random.rand
    with pytest.raises((nbdebug.SetupError, KeyboardInterrupt)):
        debugger_with(stop).repeatable(steps=6)
    assert COUNT["steps"] == 0
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (random.getstate(), time.time, np.random.rand) == states[1:]


@pytest.mark.parametrize("steps", [0, 1001, 2.5, True])
def test_unusable_number_of_steps_raises(steps: Any) -> None:
    with pytest.raises(nbdebug.SetupError, match="steps is"):
        Debugger.of(classifier()).repeatable(steps=steps)


def test_empty_loader_raises_what_to_do() -> None:
    with pytest.raises(nbdebug.SetupError, match="train_loader is empty"):
        debugger_with(torch.clone, loader=[]).repeatable()


@pytest.fixture(scope="module")
def different() -> Repeatable:
    return debugger_with(count_steps).repeatable(steps=4)


def test_text_names_place_source_and_cure(different: Repeatable) -> None:
    text = different.to_text()
    assert text.startswith("nbdebug repeatable: Two runs from the same state differ from step 0 on (forward)")
    assert "source: the variable COUNT" in text
    assert "cure: Reset COUNT at the start of each run" in text
    assert "confirmed: with variable COUNT held constant" in text


def test_result_is_plain_data(different: Repeatable) -> None:
    copy = pickle.loads(pickle.dumps(different))
    assert copy.to_text() == different.to_text()
    assert list(copy.to_frame().columns) == ["step", "data", "forward", "backward", "update"]
    assert copy.plot().get_title() == "not repeatable"


def test_page_escapes_text_and_has_no_remote_address(different: Repeatable) -> None:
    html = different.view().html()
    assert "COUNT[&quot;steps&quot;]" in html
    assert "http" not in different.to_html().replace("http://www.w3.org", "")


def test_finding_points_at_the_line_of_the_source() -> None:
    debugger = debugger_with(count_steps)
    debugger.repeatable(steps=3)
    finding = next(finding for finding in debugger.findings if finding.code == "R902")
    assert finding.where.source is not None
    assert "COUNT" in finding.where.source
    assert finding.evidence["sources"] == ["variable COUNT"]


@pytest.mark.parametrize("is_filled", [False, True])
def test_results_of_a_cache_are_as_before(is_filled: bool) -> None:
    drawn_offset.cache_clear()
    offset = drawn_offset(4) if is_filled else None
    result = debugger_with(lambda inputs: inputs + drawn_offset(4) + torch.randn(4)).repeatable(steps=4)
    assert [cause.name for cause in result.causes] == ([] if is_filled else ["cache of drawn_offset"])
    assert drawn_offset.cache_info().currsize == is_filled
    assert offset is None or drawn_offset(4) is offset
