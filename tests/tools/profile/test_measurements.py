"""Tests of phases on a clock of their own, of operations, memory and gains, and of the diagnosis of given numbers."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise, repeat
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.preserve import Preserve
from nbdebug.setup import Batch
from nbdebug.source.location import SourceLine
from nbdebug.tools.batch_size.search import TrainingStep
from nbdebug.tools.profile.changes import ModelChanges
from nbdebug.tools.profile.clocks import HostClock, host_seconds
from nbdebug.tools.profile.diagnosis import Diagnosis, Facts
from nbdebug.tools.profile.line_calls import measure_line_calls
from nbdebug.tools.profile.line_sampler import LineSampler
from nbdebug.tools.profile.line_times import function_name, line_times
from nbdebug.tools.profile.modules import measure_modules
from nbdebug.tools.profile.operations import OperationTotals, measure_roofline
from nbdebug.tools.profile.phases import PHASES, WARMUP_STEPS, LoopEnd, LoopTimer, StepTime
from nbdebug.tools.profile.result import Profile
from nbdebug.tools.profile.time_profile import MIN_GAIN, Latency, LineTime, ModuleCost, Roofline, SpeedTrial
from nbdebug.tools.profile.trials import Candidate, measure_candidates

from .programs import BATCH, FEATURES, make_loop, make_setup


class CountingClock(HostClock):
    """Time that advances only when it is told to."""

    now = 0.0

    def stamp(self) -> float:
        return self.now


def timed() -> tuple[LoopTimer, CountingClock]:
    timer, clock = LoopTimer(make_setup(), 2, 60.0), CountingClock()
    timer.clock = clock
    return timer, clock


def advance(clock: CountingClock, seconds: float) -> None:
    clock.now += seconds


def test_nested_phases_are_charged_without_each_other() -> None:
    timer, clock = timed()
    with pytest.raises(LoopEnd):
        for _ in range(WARMUP_STEPS + 2):
            advance(clock, 1)
            with timer.charge("forward"):
                advance(clock, 2)
                with timer.charge("loss"):
                    advance(clock, 4)
                advance(clock, 8)
            with timer.exclude():
                advance(clock, 100)
            timer.end_step()
    expected = {**dict.fromkeys(PHASES, 0.0), "python": 1.0, "forward": 10.0, "loss": 4.0}
    assert [dict(step.phases) for step in timer.step_times()] == [expected] * 2


def test_lines_of_loop_are_charged_within_phases() -> None:
    timer, clock = timed()
    first, second = SourceLine("file", 1), SourceLine("file", 2)
    with pytest.raises(LoopEnd):
        for _ in range(WARMUP_STEPS + 2):
            timer.enter_line(first)
            advance(clock, 1)
            timer.enter_line(second)
            with timer.charge("backward"):
                advance(clock, 2)
            timer.end_step()
    charges = timer.line_seconds()[-1]
    assert (charges["python", first], charges["backward", second]) == (1.0, 2.0)


def test_hooks_see_each_phase_of_a_loop_and_evaluation() -> None:
    setup = make_setup()
    seen: set[str] = set()
    timer = LoopTimer(setup, 4, 60.0)
    enter = timer.enter
    timer.enter = lambda phase: (seen.add(phase), enter(phase))[1]  # type: ignore[method-assign]

    def evaluate(step: int, loss: Any) -> None:
        with torch.no_grad():
            setup.model(torch.randn(2, FEATURES))

    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader,)), timer.observe():
        make_loop(setup, evaluate)()
    assert seen == {"data", "forward", "loss", "backward", "optimizer", "evaluation"}
    assert len(timer.step_times()) == 4
    assert 0 < timer.overhead_seconds() < 1


def test_host_clock_advances_with_sleep_and_never_back() -> None:
    stamps = [host_seconds() for _ in range(1000)]
    assert all(b - a > -1e-3 for a, b in pairwise(stamps))


def test_operations_of_layers_are_exact() -> None:
    setup = make_setup()
    batch = Batch((torch.randn(BATCH, FEATURES),), targets=(torch.zeros(BATCH, dtype=torch.long),))
    with Preserve(*setup.mutable_objects):
        modules, counter = measure_modules(setup, batch)
    costs = {cost.path: cost for cost in modules}
    assert (costs["0"].flops, costs["2"].flops) == (2 * BATCH * FEATURES * 16, 2 * BATCH * 16 * 2)
    assert costs["0"].parameter_bytes == 4 * (FEATURES * 16 + 16)
    assert all(cost.forward > 0 and cost.backward > 0 for cost in modules)
    assert counter.total[0] > counter.flops["0"]
    assert 0 < counter.loss_calls < 10


WIDTHS = (FEATURES, 16, 12, 2)


def test_memory_of_a_stack_of_linear_layers_is_that_of_its_gradients_and_saved_activations() -> None:
    layers = [item for a, b in pairwise(WIDTHS) for item in (nn.Linear(a, b), nn.Tanh())]
    setup = make_setup()
    setup.model = nn.Sequential(*layers, nn.Flatten())
    setup.optimizers = (torch.optim.SGD(setup.model.parameters(), 0.01),)
    batch = Batch((torch.randn(BATCH, FEATURES),), targets=(torch.zeros(BATCH, dtype=torch.long),))
    with Preserve(*setup.mutable_objects):
        costs = {cost.path: cost for cost in measure_modules(setup, batch)[0]}
        peak = TrainingStep(setup).peak_memory(batch)
    for i, (inputs, outputs) in enumerate(pairwise(WIDTHS)):
        linear, tanh = costs[str(2 * i)], costs[str(2 * i + 1)]
        assert linear.backward_bytes == linear.parameter_bytes + (4 * BATCH * inputs if i else 0)
        assert (linear.kept_bytes, linear.freed_bytes) == (0, 4 * BATCH * outputs)
        assert tanh.kept_bytes == tanh.backward_bytes == 4 * BATCH * outputs
        assert tanh.freed_bytes == 8 * BATCH * outputs  # its result, and the gradient of that
    assert max(cost.peak_bytes for cost in costs.values()) == peak


def test_views_are_not_counted() -> None:
    with OperationTotals() as counter:
        torch.ones(4, 4).view(-1)[:2].reshape(1, 2)
    assert counter.total[2] == 1  # ones


def test_calls_on_whole_tensors_are_those_of_one_pass_of_the_loop() -> None:
    rows = torch.ones(20, 3)
    with OperationTotals() as counter:
        torch.stack([(row * 2).tanh().tanh() for row in rows]).sum()
    looped, outside = counter.line_operations.values()
    assert (sum(looped.values()), sum(outside.values())) == (60, 2)
    assert [counter.whole_calls(line) for line in counter.line_operations] == [3, 2]


class RowByRow(nn.Module):
    """Computes each row of a wide layer, and takes only a part of it, by a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.head = nn.Linear(FEATURES, 256), nn.Linear(256, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.wide(x)
        rows = []
        for i in range(len(hidden)):
            row = hidden[i]  # selected
            rows.append(self.head(row).tanh())  # computed
        return torch.stack(rows)


class LoopBetween(nn.Module):
    """Two layers, and between them a loop that belongs to neither of them."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(FEATURES, 64), nn.Linear(64, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.body(x)
        return self.head(torch.stack([hidden[:, i].tanh() for i in range(64)], 1))


def test_memory_between_two_modules_is_that_of_neither() -> None:
    setup = make_setup()
    setup.model = LoopBetween()
    batch = Batch((torch.randn(BATCH, FEATURES),), targets=(torch.zeros(BATCH, dtype=torch.long),))
    with Preserve(*setup.mutable_objects):
        costs = {cost.path: cost for cost in measure_modules(setup, batch)[0]}
    head, body = (cost.parameter_bytes for cost in (costs["head"], costs["body"]))
    assert costs["head"].backward_bytes == head + 4 * BATCH * 64  # gradients of the weights and of the input
    assert costs["body"].backward_bytes == body


def test_backward_pass_of_a_line_is_measured_also_if_it_only_selects() -> None:
    setup = make_setup()
    setup.model = RowByRow()
    batch = Batch((torch.randn(BATCH * 32, FEATURES),), targets=(torch.zeros(BATCH * 32, dtype=torch.long),))
    with Preserve(*setup.mutable_objects):
        calls = measure_line_calls(setup, batch, 1.0)
    selected, computed = (calls.backward_seconds[__file__, number_of(f"# {name}")] for name in ("selected", "computed"))
    assert selected > 0.2  # each fills a tensor of all rows with zeros
    assert 0.5 < selected + computed <= 1.0


def test_line_on_whole_tensors_is_measured_with_its_weights_shared() -> None:
    setup = make_setup()
    setup.model = RowByRow()
    batch = Batch((torch.randn(BATCH * 32, FEATURES),), targets=(torch.zeros(BATCH * 32, dtype=torch.long),))
    with Preserve(*setup.mutable_objects):
        calls = measure_line_calls(setup, batch, 1.0)
    line = __file__, number_of("# computed")
    linear, tanh = calls._calls[line].values()
    assert (linear.count, linear.shared, tanh.shared) == (BATCH * 32, {1, 2}, set())
    step = TrainingStep(setup)
    started = host_seconds()
    step.step(batch)
    assert 0 <= calls.whole_seconds(line) < 0.5 * (host_seconds() - started)
    assert calls.whole_seconds((__file__, number_of("# selected"))) == 0.0


def test_recurrence_needs_a_running_sum_on_whole_tensors() -> None:
    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        total, alone = output[0] * 0, []
        for row in output:
            total = total + row  # recurrent
            alone.append(row + row)  # alone
        return total.square().sum() + torch.stack(alone).sum()

    setup = make_setup(loss_fn=loss_fn)
    batch = Batch((torch.randn(BATCH, FEATURES),), targets=(torch.zeros(BATCH, dtype=torch.long),))
    with Preserve(*setup.mutable_objects):
        calls = measure_line_calls(setup, batch, 1.0)
    forms = [[*calls._calls[__file__, number_of(f"# {name}")].values()] for name in ("recurrent", "alone")]
    assert [[call.is_recurrent for call in calls_of_line] for calls_of_line in forms] == [[True], [False]]


def number_of(text: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if line.rstrip().endswith(text))


def test_roofline_bounds_by_arithmetic_or_by_memory() -> None:
    roofline = Roofline(100.0, 10.0)
    assert (roofline.ridge, roofline.seconds(1000, 10), roofline.seconds(10, 1000)) == (10.0, 10.0, 100.0)
    assert measure_roofline(torch.device("cpu"), torch.float32).flops_per_second > 1e6


def test_gain_compares_samples_per_second_and_failures_are_kept() -> None:
    def fail() -> None:
        raise ValueError("impossible")

    candidates = [Candidate("a", "base", 4, lambda: None), Candidate("a", "bad", 4, fail)]
    base, bad = measure_candidates(candidates, torch.device("cpu"), 4, 1.0)
    assert base.gain == 1.0
    assert bad.failure == "ValueError: impossible"


def test_checkpointing_and_accumulation_need_less_memory() -> None:
    setup = make_setup()
    layers = [layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.Tanh(), nn.Tanh())]
    setup.model = nn.Sequential(nn.Linear(FEATURES, 64), *layers, nn.Linear(64, 2))
    setup.optimizers = (torch.optim.SGD(setup.model.parameters(), 0.01),)
    batch = Batch((torch.randn(BATCH * 64, FEATURES),), targets=(torch.zeros(BATCH * 64, dtype=torch.long),))
    changes = ModelChanges(setup, batch, repeat(batch), BATCH * 64)
    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader,)):
        present = TrainingStep(setup).peak_memory(batch)
        made = [make for make in changes.optional() if make.args[0] == "memory"]
        peaks = [candidate.peak() for candidate in (make() for make in made) if candidate.peak is not None]
    assert len(peaks) == 2
    assert all(0 < peak < 0.9 * present for peak in peaks)


def make_profile(**phases: float) -> Profile:
    """A profile of steps with given phases."""
    step = StepTime({**dict.fromkeys(PHASES, 0.0), **phases})
    return Profile("", (step,) * 9, batch_size=4, threads=2, cores=2, replay_seconds=1.0, roofline=Roofline(1e9, 1e9))


def advised(result: Profile) -> dict[str, float]:
    """The kinds of advice on a profile with their gains."""
    facts = Facts(make_setup(), OperationTotals())
    return {item.kind: item.gain for item in Diagnosis(result, facts).advice() if item.gain >= MIN_GAIN}


def test_balanced_profile_has_no_advice() -> None:
    assert advised(make_profile(forward=0.4, backward=0.5, data=0.1)) == {}


def test_gain_of_perfect_loader_is_the_step_without_its_wait() -> None:
    assert advised(make_profile(forward=1.0, data=3.0)) == {"data": pytest.approx(4.0)}


@pytest.mark.parametrize(("threads", "gain", "is_advised"), [(2, 1.4, False), (2, 1.6, True), (16, 1.4, True)])
def test_fewer_threads_must_gain_more_if_there_are_not_more_than_cores(
    threads: int, gain: float, is_advised: bool
) -> None:
    trial = SpeedTrial("threads", "1", 1 / gain, 4, gain, gain, "torch.set_num_threads(1)")
    result = replace(make_profile(forward=1.0), threads=threads, trials=(trial,))
    assert ("threads" in advised(result)) == is_advised


def test_larger_batch_must_double_the_throughput_in_every_round() -> None:
    trial = SpeedTrial("batch size", "16", 1.5, 16, gain=2.7, low=2.5, code="batch_size=16")
    result = replace(make_profile(forward=1.0), trials=(trial,))
    assert advised(result) == {"batch size": pytest.approx(4 / 1.5)}
    assert advised(replace(result, trials=(replace(trial, low=1.2),))) == {}


def test_gain_of_larger_batch_compares_readings_that_were_measured_alike() -> None:
    present = SpeedTrial("loader", "cached batches", 1.0, 4, data_seconds=1.0)
    trial = SpeedTrial("batch size", "16", 1.0, 16, gain=4.0, low=3.9, code="batch_size=16", data_seconds=1.0)
    result = replace(make_profile(forward=1.5, data=1.5), trials=(present, trial))
    assert advised(result)["batch size"] == pytest.approx(4.0)


def test_gain_of_workers_is_the_ratio_of_whole_steps() -> None:
    trials = (SpeedTrial("workers", "0", 4.0, is_present=True), SpeedTrial("workers", "2", 2.0, gain=2.0, code="two"))
    assert advised(replace(make_profile(forward=1.0, data=3.9), trials=trials)) == {"data": pytest.approx(2.0)}


def test_gain_of_a_faster_line_leaves_the_time_to_collate() -> None:
    result = replace(make_profile(forward=1.0, data=3.0), plain_reading_seconds=1.0)
    assert advised(result) == {"data": pytest.approx(2.0)}
    assert advised(replace(result, plain_reading_seconds=2.5)) == {}
    assert advised(replace(result, workers=2)) == {"data": pytest.approx(4.0)}


def test_comprehension_belongs_to_its_function() -> None:
    names = [function_name(SourceLine(__file__, frame.f_lineno, "<listcomp>")) for frame in [sys._getframe()]]
    assert names == ["test_comprehension_belongs_to_its_function"]


def test_line_and_its_comprehension_are_one_line() -> None:
    sampler = LineSampler(LoopTimer(make_setup(), 2, 60.0), 0, ())
    for name, seconds in (("<listcomp>", 3.0), ("read", 1.0), ("<genexpr>", 2.0)):
        sampler.seconds["data", SourceLine(__file__, 7, name)] = seconds
    sampler.totals["data"] = 8.0
    (line,) = line_times(sampler, [], {"data": 4.0}, None)
    assert (line.line.function, line.seconds) == ("read", 3.0)


def test_loop_of_the_profiler_is_not_charged_with_its_own_lines() -> None:
    timer, clock = LoopTimer(make_setup(), 2, 60.0, is_own_loop=True), CountingClock()
    timer.clock = clock
    with pytest.raises(LoopEnd):
        for _ in range(WARMUP_STEPS + 2):
            advance(clock, 1)
            with timer.charge("forward"):
                advance(clock, 2)
            timer.end_step()
    assert [step.seconds for step in timer.step_times()] == [2.0] * 2


def test_debugging_setting_precedes_a_larger_batch() -> None:
    batch = SpeedTrial("batch size", "16", 1.5, 16, gain=2.7, low=2.5, code="batch_size=16")
    setting = SpeedTrial("settings", "anomaly mode off", 0.5, 4, gain=2.0, low=1.9, code="set_detect_anomaly(False)")
    assert next(iter(advised(replace(make_profile(forward=1.0), trials=(batch, setting))))) == "settings"


def test_estimate_states_the_range_over_the_rounds_of_its_trial() -> None:
    trial = SpeedTrial("dtype", "float32", 0.5, 4, gain=2.0, low=1.6, high=2.5, code="model.float()")
    result = replace(make_profile(forward=1.0), trials=(trial,))
    (advice,) = Diagnosis(result, Facts(make_setup(), OperationTotals())).advice()
    assert advice.gain_text == "Estimated gain: 2.00× (1.60 to 2.50)."
    assert replace(advice, low=1.0, high=1.0).gain_text == "Estimated gain: 2.00×."


def test_line_of_own_loop_is_advised_to_run_more_rarely() -> None:
    line = LineTime("python", SourceLine(__file__, 1), "print(loss)", 0.5, 1.0, True)
    result = replace(make_profile(forward=0.5, python=0.5), lines=(line,), is_user_loop=True)
    assert advised(result) == {"line": pytest.approx(1 / 0.505)}
    grown = replace(result, lines=(replace(line, growth=3.0),))
    assert list(advised(grown)) == ["growing"]


def test_result_has_frames_text_and_chart() -> None:
    result = replace(make_profile(forward=1.0), latencies=(Latency(1, 0.1, 0.2, 0.3, 20),))
    assert result.to_frame()["forward"].tolist() == [1.0] * 9
    assert result.modules_frame().empty
    assert result.trials_frame().empty
    assert "P99 300 ms" in str(result)
    module = ModuleCost("0", "Linear", 0.1, 0.2, 8, 1024, 2048, 3072, 4096, 1, 1, 1)
    shown = replace(result, modules=(module,), peak_bytes=4096)
    text = "keeps 1 KiB; backward 200 ms, allocates 2 KiB, frees 3 KiB; peak memory 4 KiB"
    assert f"module 0 (Linear): forward 100 ms, {text}" in str(shown)
    assert "<td>1 KiB</td><td>2 KiB</td><td>3 KiB</td><td>4 KiB</td>" in shown.view().html()
    assert len(result.plot().patches) == 9


def test_activation_function_without_parameters_is_a_module_of_its_own() -> None:
    setup = make_setup()
    batch = Batch((torch.randn(BATCH, FEATURES),), targets=(torch.zeros(BATCH, dtype=torch.long),))
    with Preserve(*setup.mutable_objects):
        kinds = {cost.kind for cost in measure_modules(setup, batch)[0]}
    assert kinds == {nn.Linear.__name__, nn.ReLU.__name__}
