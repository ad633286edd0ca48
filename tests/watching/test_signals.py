"""Tests that compare recorded signals with exact measurements of the same loop."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.records import Record
from nbdebug.tensors.histogram_bins import BIN_COUNT, ZERO_BIN, bin_edges, bin_shares


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 300), nn.ReLU(), nn.Linear(300, 30), nn.Tanh(), nn.Linear(30, 3))


def data(count: int = 256) -> TensorDataset:
    x = torch.randn(count, 20, generator=torch.Generator().manual_seed(1))
    return TensorDataset(x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long())


def train_watched(every: int | None = 1, steps: int = 12, **options: Any) -> tuple[Record, dict[str, list[float]]]:
    """Train under a watch; return the record and exact values by signal."""
    model, exact = network(), dict[str, list[float]]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = data().tensors
    with nbdebug.watch(model, optimizer, every=every, **options) as watch:
        for _ in range(steps):
            optimizer.zero_grad()
            hidden = model[1](model[0](x))
            loss = nn.functional.cross_entropy(model[2:](hidden), y)
            loss.backward()
            before = copy.deepcopy(model)
            gradient = torch.cat([p.grad.flatten() for p in model.parameters()])  # type: ignore[union-attr]
            optimizer.step()
            update = model[2].weight.detach() - before[2].weight.detach()
            exact_values = {
                "loss": loss,
                "gradient_norm": gradient.norm(),
                "weight.norm|2.weight": model[2].weight.norm(),
                "gradient.std|2.weight": model[2].weight.grad.std(),
                "update.norm|2.weight": update.norm(),
                "update.ratio|2.weight": update.norm() / model[2].weight.norm(),
                "gradient.absmax|0.bias": model[0].bias.grad.abs().max(),
                "gradient.mean|0.bias": model[0].bias.grad.mean(),
                "activation.zeros|1": (hidden == 0).float().mean(),
            }
            for name, value in exact_values.items():
                exact.setdefault(name, []).append(float(value.detach()))
    assert watch.result is not None
    assert not watch.result.errors
    return watch.record, exact


def test_signals_of_sampled_tensors_agree_with_exact_values() -> None:
    record, exact = train_watched()
    for name, values in exact.items():
        signal, _, tensor = name.partition("|")
        steps, recorded = record.series(signal, tensor)
        is_exact = tensor.endswith("bias") or not tensor
        assert steps.tolist() == list(range(1, 13))
        assert recorded == pytest.approx(values, rel=1e-4 if is_exact else 0.1), name


def test_absmax_of_large_tensors_is_exact_at_alternating_snapshots() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 300), nn.ReLU(), nn.Linear(300, 30), nn.Linear(30, 3))
    optimizer, (x, y), exact = torch.optim.SGD(model.parameters(), lr=0.1), data().tensors, []
    with nbdebug.watch(model, optimizer, every=1) as watch:
        for _ in range(28):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            large = model[0].weight, model[2].weight
            exact.append([float(tensor.abs().max()) for p in large for tensor in (p.detach(), p.grad)])
    for turn, name in enumerate(("0.weight", "2.weight")):
        for family, column in (("weight", 2 * turn), ("gradient", 2 * turn + 1)):
            steps, values = watch.record.series(f"{family}.absmax", name)
            assert steps.tolist() == [1 + 8 * turn, 17 + 8 * turn]
            assert values == pytest.approx([exact[step - 1][column] for step in steps], rel=1e-6)


def test_histograms_agree_with_the_distribution_of_the_weights() -> None:
    record, _ = train_watched(steps=3)
    _, histograms = record.histograms("weight", "0.weight")
    shares = bin_shares(histograms)[0]
    torch.manual_seed(0)
    weights = np.abs(network()[0].weight.detach().numpy()).ravel()
    exact_shares = np.histogram(weights, bin_edges())[0] / weights.size
    shares_by_size = shares[ZERO_BIN + 1 :] + shares[ZERO_BIN - 1 :: -1]
    assert histograms.shape[1] == BIN_COUNT
    assert np.abs(shares_by_size - exact_shares).max() < 0.05


def test_activation_signals_measure_dead_and_saturated_units() -> None:
    model = network()
    with torch.no_grad():
        model[0].bias[:75] = -1000.0
        model[2].weight *= 100
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    x, y = data().tensors
    with nbdebug.watch(model, optimizer, every=1) as watch:
        for _ in range(10):
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert watch.record.series("activation.dead", "1")[1][-1] == pytest.approx(0.25)
    assert watch.record.series("activation.saturated", "3")[1][-1] > 0.8
    assert watch.record.tensors("activation.saturated") == ["3"]


def test_match_selects_layers_by_path_pattern_or_type() -> None:
    import re

    for match in ("2", re.compile("^2$"), [nn.Tanh, "2"]):
        record, _ = train_watched(steps=2, match=match)
        assert record.tensors("weight.norm") == ["2.weight", "2.bias"]
    with pytest.raises(nbdebug.SetupError, match="expected a part of the model"):
        train_watched(match="convolution*")


def test_watch_of_debugger_records_epochs_validation_loss_and_fixed_samples() -> None:
    model, train, val = network(), data(), data(64)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    loss_fn = nn.CrossEntropyLoss()
    loader = DataLoader(train, 32, shuffle=True)
    debugger = nbdebug.Debugger(model, loader, DataLoader(val, 32), loss_fn=loss_fn, optimizer=optimizer)
    with debugger.watch(budget=1.0) as watch:
        for epoch in range(4):
            for x, y in loader:
                optimizer.zero_grad()
                loss_fn(model(x), y).backward()
                optimizer.step()
            with torch.no_grad():
                mean = torch.stack([loss_fn(model(x), y) for x, y in debugger.val_loader]).mean()
            watch.log(epoch_loss=float(mean), number=epoch)
    record = watch.record
    assert [event.step for event in record.events_of_kind("epoch")] == [1, 9, 17, 25]
    assert record.series("epoch")[1].tolist() == [1.0] * 8 + [2.0] * 8 + [3.0] * 8 + [4.0] * 8
    assert record.series("eval_loss")[1] == pytest.approx(record.series("epoch_loss")[1])
    steps, score = record.series("sample_val_score")
    assert steps.tolist() == [0, 8, 16, 24, 32]
    assert score[-1] > score[0]
    assert record.about["chance"] == pytest.approx(1.0, abs=0.2)
    assert record.about["label_counts"].keys() == {"0", "1", "2"}
    assert record.series("wait_seconds")[1].min() > 0


def test_snapshots_follow_every_or_a_spaced_schedule_and_wrong_options_raise() -> None:
    record, _ = train_watched(every=5, steps=12)
    assert record.series("weight.norm", "2.weight")[0].tolist() == [1, 6, 11]
    record, _ = train_watched(every=None, steps=12)
    assert set(record.series("weight.norm", "2.weight")[0].tolist()) >= {1, 2, 3, 4, 6, 8, 12}
    for options in (
        {"budget": 0.0},
        {"budget": 2.0},
        {"budget": float("nan")},
        {"budget": "much"},
        {"every": 0},
        {"every": 1.5},
        {"stop_on": "note"},
        {"on_finding": 3},
    ):
        with pytest.raises(nbdebug.SetupError, match="expected"):
            nbdebug.watch(network(), **options)
