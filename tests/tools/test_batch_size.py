"""What the batch-size finder measures, suggests and leaves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.rules.examples import classifier, network, points
from nbdebug.setup import Setup
from nbdebug.tools.batch_size import BatchSize, NoiseScale, SizeMeasurement, batch_size, memory
from nbdebug.tools.batch_size.search import BatchBuilder, BatchSizeSearch, TrainingStep
from nbdebug.tools.batch_size.tool import BatchSizeFinder, suggest_size
from nbdebug.views.page import static_html
from tests.tools.test_contest_run import StopAfter

MIB = 2**20


def wide(samples: int = 256, **options: Any) -> Setup:
    """A network whose activations outweigh its weights, with momentum."""
    torch.manual_seed(0)
    x = torch.randn(samples, 16)
    model = nn.Sequential(nn.Linear(16, 512), nn.Tanh(), nn.Linear(512, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 32, shuffle=True, **options)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(optimizer,))


@pytest.fixture(scope="module")
def found() -> BatchSize:
    """A search that ends with the data."""
    return batch_size(wide(), seconds=20)


def test_sizes_double_until_the_data_ends(found: BatchSize) -> None:
    assert [one.size for one in found.sizes] == [8, 16, 32, 64, 128, 256]
    assert found.ended == "data"
    assert found.current_size == 32
    assert all(one.low <= one.seconds <= one.high for one in found.sizes)


def test_memory_is_weights_state_and_what_a_step_makes(found: BatchSize) -> None:
    weights = sum(p.numel() for p in wide().model.parameters()) * 4
    assert found.resident_bytes == 2 * weights
    sizes = {one.size: one.memory for one in found.sizes}
    # Two activations of 512 floats live at once in the forward pass, or one with its gradient in the backward pass.
    slope = (sizes[256] - sizes[128]) / 128
    assert 2 * 512 * 4 <= slope <= 4 * 512 * 4
    assert sizes[256] > found.resident_bytes + 256 * 2 * 512 * 4


def test_what_is_counted_is_what_the_allocator_says() -> None:
    from torch.profiler import ProfilerActivity, profile

    setup = wide()
    steps, batch = TrainingStep(setup), BatchBuilder(setup).batch(64)
    steps.step(batch)
    counted = steps.peak_memory(batch) - memory.total_bytes(steps.resident_tensors)
    steps.clear()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        steps.step(batch)
    live = peak = 0
    events = [one for one in seen.profiler.kineto_results.events() if one.name() == "[memory]"]
    for event in sorted(events, key=lambda one: one.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    assert counted == pytest.approx(peak, rel=0.02)


def test_the_result_speaks_for_itself(found: BatchSize) -> None:
    assert found.suggestion in [one.size for one in found.sizes]
    assert f"Suggested batch size {found.suggestion}" in str(found)
    assert f"batch_size={found.suggestion}, shuffle=True" in found.code
    assert "Memory was measured by tracking every tensor" in str(found)
    assert list(found.to_frame()["size"]) == [8, 16, 32, 64, 128, 256]
    assert found.plot().get_xlabel() == "batch size"
    page = static_html(found.view())
    assert len(page) < 40_000
    assert "suggested" in found.view().html()


def sized(size: int, seconds: float, memory: int = MIB) -> SizeMeasurement:
    """One size whose steps all took as long."""
    return SizeMeasurement(size, memory, seconds, seconds, seconds, 5)


def test_the_smallest_size_of_nearly_the_best_throughput_is_suggested() -> None:
    sizes = [sized(8, 0.010), sized(16, 0.011), sized(32, 0.012), sized(64, 0.023), sized(128, 0.046)]
    said = suggest_size(sizes, "data", None, None, 8, NoiseScale(why="not asked"))
    assert said.suggestion == 32
    assert any("hardly grows" in one for one in said.reasons)
    assert any("Your current batch size is 8" in one for one in said.reasons)


def test_where_larger_sizes_may_be_faster_none_is_suggested() -> None:
    sizes = [sized(8, 0.010), sized(16, 0.011), sized(32, 0.012)]
    assert suggest_size(sizes, "time", None, None, None, NoiseScale()).suggestion is None
    assert suggest_size(sizes, "data", None, None, None, NoiseScale()).suggestion == 32
    slower = [*sizes, sized(64, 0.030)]
    assert suggest_size(slower, "time", None, None, None, NoiseScale()).suggestion == 32


def test_a_size_without_a_margin_of_memory_is_not_suggested() -> None:
    sizes = [sized(8, 1.0, 10), sized(16, 1.0, 20), sized(32, 1.0, 98)]
    assert suggest_size(sizes, "memory", 64, 100, None, NoiseScale()).suggestion == 16


FULL = torch.OutOfMemoryError("out of memory")


class Hungry(nn.Module):
    """Raises as a device does when a batch is too large for it, in place of a device that is full."""

    def __init__(self, most: int, error: Exception = FULL) -> None:
        super().__init__()
        self.inner, self.most, self.error = network(3), most, error

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > self.most:
            raise self.error
        output: Tensor = self.inner(x)
        return output


NO_ROOM_FOR_CUBLAS = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")


@pytest.mark.parametrize(
    ("most", "error", "sizes"),
    [(20, FULL, [8, 16]), (3, FULL, [2]), (1, FULL, [1]), (20, NO_ROOM_FOR_CUBLAS, [8, 16])],
)
def test_what_does_not_fit_ends_the_search(most: int, error: Exception, sizes: list[int]) -> None:
    model = Hungry(most, error)
    optimizer = torch.optim.Adam(model.parameters())
    setup = Setup(
        model, DataLoader(TensorDataset(*points()), 4), loss_fn=nn.CrossEntropyLoss(), optimizers=(optimizer,)
    )
    before = [p.clone() for p in model.parameters()]
    result = batch_size(setup, noise=False)
    assert [one.size for one in result.sizes] == sizes
    assert result.ended == "memory"
    assert result.failed == 2 * sizes[-1]
    assert f"{2 * sizes[-1]} does not fit into memory" in str(result)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert not optimizer.state


def test_nothing_fits() -> None:
    result = batch_size(Setup(Hungry(0), DataLoader(TensorDataset(*points()), 4), loss_fn=nn.CrossEntropyLoss()))
    assert result.sizes == ()
    assert result.suggestion is None
    assert result.code == ""
    assert "No batch size was measured" in str(result)


def test_on_the_cpu_nothing_is_tried_that_would_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = wide()
    monkeypatch.setattr(memory, "available_bytes", lambda _: MIB)
    result = batch_size(setup, noise=False)
    assert result.ended == "memory"
    assert result.sizes[-1].memory <= memory.total_bytes(TrainingStep(setup).resident_tensors) + MIB
    assert result.failed == 2 * result.sizes[-1].size


@pytest.mark.parametrize("looks", [0, 5, 40])
def test_stop_keeps_what_there_is(looks: int) -> None:
    finder = BatchSizeFinder(wide(), 8, None, 20.0, True)
    finder.run(StopAfter(looks))
    result = finder.result()
    assert result.ended == "stopped"
    assert 1 <= len(result.sizes) < 6
    assert "you stopped the search" in str(result)


def test_time_ends_the_search() -> None:
    steps = TrainingStep(wide())
    search = BatchSizeSearch(steps, BatchBuilder(steps.setup), 8, None, deadline=0.0)
    search.run(lambda: False)
    assert search.ended == "time"
    assert len(search.sizes) == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"start": 0}, "start is 0; expected a whole number of at least 1"),
        ({"start": True}, "start is True"),
        ({"most": 4}, "most is 4; expected a whole number of at least 8"),
        ({"seconds": 0}, "seconds is 0; expected a number above 0"),
    ],
)
def test_numbers_that_cannot_be_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(SetupError, match=words):
        Debugger.of(classifier()).batch_size(**given)


def test_batches_that_cannot_be_cut_are_refused() -> None:
    setup = Setup(network(3), [(torch.randn(6, 4), torch.zeros(5, dtype=torch.long))], loss_fn=nn.CrossEntropyLoss())
    with pytest.raises(SetupError, match="cannot be split into samples"):
        batch_size(setup)


def test_a_model_of_one_batch_size_is_told_with_the_size() -> None:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network(3)

        def forward(self, x: Tensor) -> Tensor:
            output: Tensor = self.inner(x.view(16, 4))
            return output

    with pytest.raises(SetupError, match=r"RuntimeError on a batch of 8: .*expected a loss"):
        batch_size(Setup(Fixed(), DataLoader(TensorDataset(*points()), 16), loss_fn=nn.CrossEntropyLoss()))


def test_a_container_counts_less_than_the_machine(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "memory.max": "1000",
        "memory.current": "600",
        "memory.stat": "anon 1\ninactive_file 50",
    }.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "CGROUP_PATH", tmp_path)
    assert memory.available_cgroup_memory() == 450
    assert memory.available_bytes(torch.device("cpu")) == 450
    (tmp_path / "memory.max").write_text("max")
    assert memory.available_cgroup_memory() is None
