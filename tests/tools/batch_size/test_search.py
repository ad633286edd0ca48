"""Tests of the search over batch sizes, and of the batches that it builds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup
from nbdebug.tools.batch_size import BatchSize, batch_size, memory
from nbdebug.tools.batch_size.search import BatchBuilder, BatchSizeSearch, TrainingStep
from tests.tools.batch_size.wide_network import wide_network_setup

MIB = 2**20
OUT_OF_MEMORY = torch.OutOfMemoryError("out of memory")
CUBLAS_ALLOCATION_FAILED = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")


def test_batch_size_doubles_size_until_data_ends(complete_result: BatchSize) -> None:
    assert [measurement.size for measurement in complete_result.sizes] == [8, 16, 32, 64, 128, 256]
    assert complete_result.ended == "data"
    assert complete_result.current_size == 32
    assert all(measurement.low <= measurement.seconds <= measurement.high for measurement in complete_result.sizes)


class MemoryLimitedModel(nn.Module):
    """Raises ``error``, as a full device does, for batches above ``max_batch_size``."""

    def __init__(self, max_batch_size: int, error: Exception = OUT_OF_MEMORY) -> None:
        super().__init__()
        self.inner, self.max_batch_size, self.error = network(3), max_batch_size, error

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > self.max_batch_size:
            raise self.error
        output: Tensor = self.inner(x)
        return output


@pytest.mark.parametrize(
    ("max_batch_size", "error", "sizes"),
    [
        (20, OUT_OF_MEMORY, [8, 16]),
        (3, OUT_OF_MEMORY, [2]),
        (1, OUT_OF_MEMORY, [1]),
        (20, CUBLAS_ALLOCATION_FAILED, [8, 16]),
    ],
    ids=["above 20", "above 3", "above 1", "cuBLAS above 20"],
)
def test_batch_size_out_of_memory_ends_search_and_restores_setup(
    max_batch_size: int, error: Exception, sizes: list[int]
) -> None:
    model = MemoryLimitedModel(max_batch_size, error)
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(TensorDataset(*points()), 4)
    setup = Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(optimizer,))
    before = [p.clone() for p in model.parameters()]
    result = batch_size(setup, noise=False)
    assert [measurement.size for measurement in result.sizes] == sizes
    assert result.ended == "memory"
    assert result.failed == 2 * sizes[-1]
    assert f"{2 * sizes[-1]} does not fit into memory" in str(result)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert not optimizer.state


def test_batch_size_where_no_size_fits_has_no_suggestion() -> None:
    loader = DataLoader(TensorDataset(*points()), 4)
    result = batch_size(Setup(MemoryLimitedModel(0), loader, loss_fn=nn.CrossEntropyLoss()))
    assert result.sizes == ()
    assert result.suggestion is None
    assert result.code == ""
    assert "No batch size was measured" in str(result)


def test_batch_size_on_cpu_tries_no_size_above_available_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = wide_network_setup()
    monkeypatch.setattr(memory, "available_bytes", lambda _: MIB)
    result = batch_size(setup, noise=False)
    assert result.ended == "memory"
    assert result.sizes[-1].memory <= memory.total_bytes(TrainingStep(setup).resident_tensors) + MIB
    assert result.failed == 2 * result.sizes[-1].size


def test_search_past_deadline_ends_after_one_size() -> None:
    steps = TrainingStep(wide_network_setup())
    search = BatchSizeSearch(steps, BatchBuilder(steps.setup), 8, None, deadline=0.0)
    search.run(lambda: False)
    assert search.ended == "time"
    assert len(search.sizes) == 1


class SentenceDataset(Dataset[dict[str, Any]]):
    """Sentences of different lengths, each with a class."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"tokens": torch.arange(1 + index % 7), "label": index % 3}


def collate_padded(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """A nested batch, padded to its longest sentence."""
    tokens = nn.utils.rnn.pad_sequence([sample["tokens"] for sample in samples], batch_first=True)
    return {"text": {"tokens": tokens}, "labels": torch.tensor([sample["label"] for sample in samples])}


class BagModelWithLoss(nn.Module):
    """Computes its own loss from a nested batch."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(8, 3)

    def forward(self, text: dict[str, Tensor], labels: Tensor) -> dict[str, Tensor]:
        return {"loss": nn.functional.cross_entropy(self.bag(text["tokens"]), labels)}


def test_batch_size_collate_fn_of_loader_makes_batches() -> None:
    collated_sizes: list[int] = []

    def collate(samples: list[dict[str, Any]]) -> dict[str, Any]:
        collated_sizes.append(len(samples))
        return collate_padded(samples)

    result = batch_size(Setup(BagModelWithLoss(), DataLoader(SentenceDataset(), 4, collate_fn=collate)), noise=False)
    assert [measurement.size for measurement in result.sizes] == [8, 16, 32, 40]
    assert set(collated_sizes) == {8, 16, 32, 40}


def test_batch_size_step_fn_receives_collated_batch() -> None:
    model = BagModelWithLoss()
    loader = DataLoader(SentenceDataset(), 4, collate_fn=collate_padded)
    setup = Setup(model, loader, step_fn=lambda batch: model(**batch)["loss"])
    assert [measurement.size for measurement in batch_size(setup, noise=False).sizes] == [8, 16, 32, 40]


class SampleStream(IterableDataset[tuple[Tensor, int]]):
    """Samples without indices."""

    def __iter__(self) -> Any:
        return (((torch.full((4,), float(i))), i % 3) for i in range(20))


@pytest.mark.parametrize(
    "loader",
    [DataLoader(SampleStream(), 4), [(points()[0][:6], points()[1][:6])], iter([(points()[0][:6], points()[1][:6])])],
    ids=["iterable dataset", "list", "iterator"],
)
def test_batch_size_loader_without_indices_is_measured_without_noise_scale(loader: Any) -> None:
    setup = Setup(network(3), loader, loss_fn=nn.CrossEntropyLoss())
    result = batch_size(setup, most=32)
    assert [measurement.size for measurement in result.sizes] == [8, 16, 32]
    assert "not measured" in str(result.noise)
    assert len(list(setup.train_loader)) in (1, 5)
