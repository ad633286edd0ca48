"""The pass over a loader: every sample with its place, and nothing changed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from nbdebug.exceptions import SetupError
from nbdebug.predictions import collection
from nbdebug.predictions.collection import collect_predictions
from nbdebug.setup import Setup


def set_up(**options: Any) -> tuple[Setup, DataLoader[Any], TensorDataset]:
    torch.manual_seed(0)
    x = torch.randn(50, 6)
    data = TensorDataset(x, (x[:, 0] > 0).long())
    loader = DataLoader(data, batch_size=8, **options)
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 2))
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss()), loader, data


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"shuffle": True, "num_workers": 2}])
def test_every_row_knows_its_sample(options: dict[str, Any]) -> None:
    setup, loader, data = set_up(**options)
    table = collect_predictions(setup, loader)
    assert sorted(table.index.tolist()) == list(range(50))
    assert table.target.tolist() == data.tensors[1][table.index].tolist()
    setup.model.eval()
    assert table.prediction.tolist() == setup.model(data.tensors[0][table.index]).argmax(1).tolist()


def test_nothing_is_changed() -> None:
    setup, loader, _ = set_up(shuffle=True)
    setup.model[1].weight.grad = torch.ones(5)
    before = {name: value.clone() for name, value in setup.model.state_dict().items()}
    kind, random = type(loader.batch_sampler), torch.get_rng_state()
    collect_predictions(setup, loader)
    assert setup.model.training
    assert type(loader.batch_sampler) is kind
    assert torch.equal(torch.get_rng_state(), random)
    assert setup.model[1].weight.grad.tolist() == [1.0] * 5
    assert all(torch.equal(value, before[name]) for name, value in setup.model.state_dict().items())


@pytest.mark.parametrize("slow", [False, True])
def test_a_pass_that_is_stopped_gives_what_there_is(slow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass over quick batches looks at Stop every 16 of them, one over slow ones after each."""
    monkeypatch.setattr(collection, "MAX_PENDING_SECONDS", 0 if slow else 60)
    loader = DataLoader(TensorDataset(torch.randn(400, 6), torch.arange(400) % 2), batch_size=8)
    table = collect_predictions(set_up()[0], loader, lambda rows: rows >= 20)
    assert len(table) == (24 if slow else 8 + 16 * 8)
    assert table.index.tolist() == list(range(len(table)))


def test_an_interrupt_keeps_what_was_put_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "MAX_PENDING_SECONDS", 60)
    setup, loader, _ = set_up()

    def batches() -> Any:
        yield from list(loader)[:3]
        raise KeyboardInterrupt

    assert len(collect_predictions(setup, batches(), partial=True)) == 24
    with pytest.raises(KeyboardInterrupt):
        collect_predictions(setup, batches())


def test_a_stream_has_no_places() -> None:
    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Any:
            yield from ((torch.randn(6), 1) for _ in range(10))

    setup, _, _ = set_up()
    table = collect_predictions(setup, DataLoader(Stream(), batch_size=4))
    assert table.index is None
    assert any("an iterable dataset has no indices" in note for note in table.notes)


def test_what_cannot_be_a_table_is_refused() -> None:
    setup, loader, _ = set_up()
    with pytest.raises(SetupError, match="loader is empty"):
        collect_predictions(setup, [])
    setup.model.append(nn.Unflatten(1, (1, 2)))
    with pytest.raises(SetupError, match=r"the model returns shape \(8, 1, 2\) for targets \(8,\); expected scores"):
        collect_predictions(setup, loader)


def test_a_model_that_raises_leaves_the_loader_as_it_was() -> None:
    setup, loader, _ = set_up()
    kind = type(loader.batch_sampler)
    with pytest.raises(ZeroDivisionError):
        collect_predictions(setup, loader, lambda rows: rows / 0 > 1)
    assert type(loader.batch_sampler) is kind


def test_an_interrupt_ends_the_pass_with_what_there_is_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "MAX_PENDING_SECONDS", 0)
    setup, loader, _ = set_up()

    def interrupted(rows: int) -> bool:
        if rows >= 16:
            raise KeyboardInterrupt
        return False

    assert len(collect_predictions(setup, loader, interrupted, partial=True)) == 16
    with pytest.raises(KeyboardInterrupt):
        collect_predictions(setup, loader, interrupted)
    assert setup.model.training


CLASSES = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))


@pytest.mark.parametrize(("model", "waits"), [(CLASSES, True), (nn.Conv2d(1, 2, 1), False)])
def test_only_scores_that_are_kept_anyway_wait(model: nn.Module, waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks of many batches would fill the memory of a device whose calls return at once."""
    monkeypatch.setattr(collection, "MAX_PENDING_SECONDS", 60)
    seen: list[int] = []
    target = torch.zeros(40, dtype=torch.int64) if waits else torch.zeros(40, 4, 4, dtype=torch.int64)
    loader = DataLoader(TensorDataset(torch.randn(40, 1, 4, 4), target), batch_size=8)
    collect_predictions(
        Setup(model, loader, loss_fn=nn.CrossEntropyLoss()), loader, lambda rows: bool(seen.append(rows))
    )
    assert seen == ([8] if waits else [8, 16, 24, 32, 40])
