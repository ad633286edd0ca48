"""Tests of collect_predictions: sample indices, interruption, and state that must not change."""

from __future__ import annotations

from itertools import chain, repeat
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from nbdebug.exceptions import SetupError
from nbdebug.predictions import collection
from nbdebug.predictions.collection import collect_predictions
from nbdebug.setup import Setup


def make_setup(**options: Any) -> tuple[Setup, DataLoader[Any], TensorDataset]:
    torch.manual_seed(0)
    x = torch.randn(50, 6)
    data = TensorDataset(x, (x[:, 0] > 0).long())
    loader = DataLoader(data, batch_size=8, **options)
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 2))
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss()), loader, data


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"shuffle": True, "num_workers": 2}])
def test_collect_predictions_stores_index_of_every_sample(options: dict[str, Any]) -> None:
    setup, loader, data = make_setup(**options)
    table = collect_predictions(setup, loader)
    assert sorted(table.index.tolist()) == list(range(50))
    assert table.target.tolist() == data.tensors[1][table.index].tolist()
    setup.model.eval()
    assert table.prediction.tolist() == setup.model(data.tensors[0][table.index]).argmax(1).tolist()


def test_collect_predictions_leaves_model_loader_and_random_state_unchanged() -> None:
    setup, loader, _ = make_setup(shuffle=True)
    setup.model[1].weight.grad = torch.ones(5)
    before = {name: value.clone() for name, value in setup.model.state_dict().items()}
    sampler_class, random_state = type(loader.batch_sampler), torch.get_rng_state()
    collect_predictions(setup, loader)
    assert setup.model.training
    assert type(loader.batch_sampler) is sampler_class
    assert torch.equal(torch.get_rng_state(), random_state)
    assert setup.model[1].weight.grad.tolist() == [1.0] * 5
    assert all(torch.equal(value, before[name]) for name, value in setup.model.state_dict().items())


@pytest.mark.parametrize("is_slow", [False, True])
def test_collect_predictions_when_stopped_returns_rows_so_far(is_slow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The callback runs after every 16 fast batches, and after every slow batch."""
    monkeypatch.setattr(collection, "MAX_PENDING_SECONDS", 0 if is_slow else 60)
    loader = DataLoader(TensorDataset(torch.randn(400, 6), torch.arange(400) % 2), batch_size=8)
    table = collect_predictions(make_setup()[0], loader, lambda rows: rows >= 20)
    assert len(table) == (24 if is_slow else 8 + 16 * 8)
    assert table.index.tolist() == list(range(len(table)))


def test_collect_predictions_with_partial_after_interrupted_loader_returns_queued_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collection, "MAX_PENDING_SECONDS", 60)
    setup, loader, _ = make_setup()

    def batches() -> Any:
        yield from list(loader)[:3]
        raise KeyboardInterrupt

    assert len(collect_predictions(setup, batches(), partial=True)) == 24
    with pytest.raises(KeyboardInterrupt):
        collect_predictions(setup, batches())


def test_collect_predictions_of_iterable_dataset_has_no_index() -> None:
    class StreamDataset(IterableDataset[Any]):
        def __iter__(self) -> Any:
            yield from ((torch.randn(6), 1) for _ in range(10))

    setup, _, _ = make_setup()
    table = collect_predictions(setup, DataLoader(StreamDataset(), batch_size=4))
    assert table.index is None
    assert any("an iterable dataset has no indices" in note for note in table.notes)


def test_collect_predictions_of_empty_loader_or_unsupported_shape_raises() -> None:
    setup, loader, _ = make_setup()
    with pytest.raises(SetupError, match="loader is empty"):
        collect_predictions(setup, [])
    setup.model.append(nn.Unflatten(1, (1, 2)))
    with pytest.raises(SetupError, match=r"the model returns shape \(8, 1, 2\) for targets \(8,\); expected scores"):
        collect_predictions(setup, loader)


def test_collect_predictions_after_error_restores_batch_sampler() -> None:
    setup, loader, _ = make_setup()
    sampler_class = type(loader.batch_sampler)
    with pytest.raises(ZeroDivisionError):
        collect_predictions(setup, loader, lambda rows: rows / 0 > 1)
    assert type(loader.batch_sampler) is sampler_class


def test_collect_predictions_with_partial_after_interrupted_callback_returns_rows_so_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collection, "MAX_PENDING_SECONDS", 0)
    setup, loader, _ = make_setup()

    def interrupt(rows: int) -> bool:
        if rows >= 16:
            raise KeyboardInterrupt
        return False

    assert len(collect_predictions(setup, loader, interrupt, partial=True)) == 16
    with pytest.raises(KeyboardInterrupt):
        collect_predictions(setup, loader, interrupt)
    assert setup.model.training


CLASSIFIER = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))


@pytest.mark.parametrize(
    ("model", "is_queued"), [(CLASSIFIER, True), (nn.Conv2d(1, 2, 1), False)], ids=["class scores", "masks"]
)
def test_collect_predictions_queues_class_scores_but_not_masks(
    model: nn.Module, is_queued: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queued masks would fill the memory of a device with asynchronous calls."""
    monkeypatch.setattr(collection, "MAX_PENDING_SECONDS", 60)
    row_counts: list[int] = []
    target = torch.zeros(40, dtype=torch.int64) if is_queued else torch.zeros(40, 4, 4, dtype=torch.int64)
    loader = DataLoader(TensorDataset(torch.randn(40, 1, 4, 4), target), batch_size=8)
    collect_predictions(
        Setup(model, loader, loss_fn=nn.CrossEntropyLoss()), loader, lambda rows: bool(row_counts.append(rows))
    )
    assert row_counts == ([8] if is_queued else [8, 16, 24, 32, 40])


def test_collect_predictions_with_inconsistent_extra_columns_raises() -> None:
    setup, loader, _ = make_setup()
    with pytest.raises(SetupError, match="more returned 1 values of 'a'; expected 8"):
        collect_predictions(setup, loader, more=lambda batch, output: {"a": [1]})
    names = chain("a", repeat("b"))
    with pytest.raises(SetupError, match="more returned b; expected a"):
        collect_predictions(setup, loader, more=lambda batch, output: {next(names): output[:, 0]})
