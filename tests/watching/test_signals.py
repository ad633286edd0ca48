"""The signals of a watched run, held against what a loop of its own measures in full."""

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
from nbdebug.tensors.histogram_bins import BIN_COUNT, ZERO_BIN, bin_shares
from nbdebug.tensors.histogram_bins import bin_edges as bin_edges


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 300), nn.ReLU(), nn.Linear(300, 30), nn.Tanh(), nn.Linear(30, 3))


def data(count: int = 256) -> TensorDataset:
    x = torch.randn(count, 20, generator=torch.Generator().manual_seed(1))
    return TensorDataset(x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long())


def run(every: int | None = 1, steps: int = 12, **options: Any) -> tuple[Record, dict[str, list[float]]]:
    """A watched loop, and its own exact measurements by signal."""
    model, exact = network(), dict[str, list[float]]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = data().tensors
    with nbdebug.watch(model, optimizer, every=every, **options) as watched:
        for _ in range(steps):
            optimizer.zero_grad()
            hidden = model[1](model[0](x))
            loss = nn.functional.cross_entropy(model[2:](hidden), y)
            loss.backward()
            before = copy.deepcopy(model)
            gradient = torch.cat([p.grad.flatten() for p in model.parameters()])  # type: ignore[union-attr]
            optimizer.step()
            move = model[2].weight.detach() - before[2].weight.detach()
            own = {
                "loss": loss,
                "gradient_norm": gradient.norm(),
                "weight.norm|2.weight": model[2].weight.norm(),
                "gradient.std|2.weight": model[2].weight.grad.std(),
                "update.norm|2.weight": move.norm(),
                "update.ratio|2.weight": move.norm() / model[2].weight.norm(),
                "gradient.absmax|0.bias": model[0].bias.grad.abs().max(),
                "gradient.mean|0.bias": model[0].bias.grad.mean(),
                "activation.zeros|1": (hidden == 0).float().mean(),
            }
            for name, value in own.items():
                exact.setdefault(name, []).append(float(value.detach()))
    assert watched.result is not None
    assert not watched.result.errors
    return watched.record, exact


def test_what_is_sampled_agrees_with_the_whole() -> None:
    record, exact = run()
    for name, values in exact.items():
        signal, _, place = name.partition("|")
        steps, seen = record.series(signal, place)
        exact_ones = place.endswith("bias") or not place
        assert steps.tolist() == list(range(1, 13))
        assert seen == pytest.approx(values, rel=1e-4 if exact_ones else 0.1), name


def test_the_largest_values_of_large_tensors_are_found_in_turn() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 300), nn.ReLU(), nn.Linear(300, 30), nn.Linear(30, 3))
    optimizer, (x, y), exact = torch.optim.SGD(model.parameters(), lr=0.1), data().tensors, []
    with nbdebug.watch(model, optimizer, every=1) as watched:
        for _ in range(28):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            large = model[0].weight, model[2].weight
            exact.append([float(one.abs().max()) for p in large for one in (p.detach(), p.grad)])
    for turn, name in enumerate(("0.weight", "2.weight")):
        for family, column in (("weight", 2 * turn), ("gradient", 2 * turn + 1)):
            steps, values = watched.record.series(f"{family}.absmax", name)
            assert steps.tolist() == [1 + 8 * turn, 17 + 8 * turn]
            assert values == pytest.approx([exact[step - 1][column] for step in steps], rel=1e-6)


def test_histograms_show_the_shape_of_the_weights() -> None:
    record, _ = run(steps=3)
    _, drawn = record.histograms("weight", "0.weight")
    found = bin_shares(drawn)[0]
    torch.manual_seed(0)
    weights = np.abs(network()[0].weight.detach().numpy()).ravel()
    true = np.histogram(weights, bin_edges())[0] / weights.size
    both = found[ZERO_BIN + 1 :] + found[ZERO_BIN - 1 :: -1]
    assert drawn.shape[1] == BIN_COUNT
    assert np.abs(both - true).max() < 0.05


def test_dead_and_pinned_units_are_counted() -> None:
    model = network()
    with torch.no_grad():
        model[0].bias[:75] = -1000.0
        model[2].weight *= 100
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    x, y = data().tensors
    with nbdebug.watch(model, optimizer, every=1) as watched:
        for _ in range(10):
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert watched.record.series("activation.dead", "1")[1][-1] == pytest.approx(0.25)
    assert watched.record.series("activation.saturated", "3")[1][-1] > 0.8
    assert watched.record.tensors("activation.saturated") == ["3"]


def test_layers_are_picked_by_path_pattern_and_kind() -> None:
    import re

    for match in ("2", re.compile("^2$"), [nn.Tanh, "2"]):
        record, _ = run(steps=2, match=match)
        assert record.tensors("weight.norm") == ["2.weight", "2.bias"]
    with pytest.raises(nbdebug.SetupError, match="expected a part of the model"):
        run(match="convolution*")


def test_a_set_up_with_loaders_is_measured_on_fixed_samples_and_by_epoch() -> None:
    model, train, val = network(), data(), data(64)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    loss_fn = nn.CrossEntropyLoss()
    loader = DataLoader(train, 32, shuffle=True)
    debugger = nbdebug.Debugger(model, loader, DataLoader(val, 32), loss_fn=loss_fn, optimizer=optimizer)
    with debugger.watch(budget=1.0) as watched:
        for epoch in range(4):
            for x, y in loader:
                optimizer.zero_grad()
                loss_fn(model(x), y).backward()
                optimizer.step()
            with torch.no_grad():
                mean = torch.stack([loss_fn(model(x), y) for x, y in debugger.val_loader]).mean()
            watched.log(epoch_loss=float(mean), number=epoch)
    record = watched.record
    assert [one.step for one in record.events_of_kind("epoch")] == [1, 9, 17, 25]
    assert record.series("epoch")[1].tolist() == [1.0] * 8 + [2.0] * 8 + [3.0] * 8 + [4.0] * 8
    assert record.series("eval_loss")[1] == pytest.approx(record.series("epoch_loss")[1])
    steps, score = record.series("sample_val_score")
    assert steps.tolist() == [0, 8, 16, 24, 32]
    assert score[-1] > score[0]
    assert record.about["chance"] == pytest.approx(1.0, abs=0.2)
    assert record.about["label_counts"].keys() == {"0", "1", "2"}
    assert record.series("wait_seconds")[1].min() > 0


def test_the_budget_is_kept_and_a_fixed_rhythm_is_too() -> None:
    record, _ = run(every=5, steps=12)
    assert record.series("weight.norm", "2.weight")[0].tolist() == [1, 6, 11]
    record, _ = run(every=None, steps=12)
    assert set(record.series("weight.norm", "2.weight")[0].tolist()) >= {1, 2, 3, 4, 6, 8, 12}
    for wrong in (
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
            nbdebug.watch(network(), **wrong)
