"""What is read from a record: looks at uneven steps, places that are missing, values that were not finite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.records import Record, RecordedModule
from nbdebug.records.layer_signals import (
    get_layer_signal,
    has_learned,
    layer_weights,
    recorded_batch_size,
    value_counts,
    zero_initialized,
)
from nbdebug.records.record import layer_columns
from nbdebug.records.table import StepTable
from nbdebug.rule_engine import rule_registry
from nbdebug.tensors.histogram_bins import BIN_COUNT, pack_counts

STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
Values = Callable[[int, int], float]  # of the place and of the look


def record(places: int = 4, steps: tuple[int, ...] = STEPS, loss: float = 1.0, **signals: Values) -> Record:
    """Linear layers with ReLUs, healthy but for the signals that are given as ``family_statistic``."""
    usual: dict[str, Values] = {
        "weight_norm": lambda i, t: 4.0,
        "weight_mean": lambda i, t: 0.0,
        "weight_std": lambda i, t: 0.25,
        "gradient_norm": lambda i, t: 0.1,
        "gradient_zeros": lambda i, t: 0.0,
        "update_norm": lambda i, t: 0.004,
        "update_ratio": lambda i, t: 1e-3,
        "weight_nonfinite": lambda i, t: 0.0,
        **signals,
    }
    made = Record(about={"batch_size": 32})
    for i in range(places):
        made.modules += [RecordedModule(f"l{i}", "Linear", (f"l{i}.weight",)), RecordedModule(f"a{i}", "ReLU")]
    for look, step in enumerate(steps):
        row = {
            f"{key.replace('_', '.', 1)}|l{i}.weight": value(i, look)
            for key, value in usual.items()
            for i in range(places)
        }
        made.layers.append(step, row)
    for step in range(1, steps[-1] + 1):
        made.run.append(step, {"loss": loss, "gradient_norm": 0.2})
    return made


def said(code: str, seen: Record) -> list[Finding]:
    later = {"saturation": NotChecked("before training"), "loop": NotChecked("only recorded")}
    return rule_registry.find_rule(code)({**later, "record": seen})


def test_quantiles_are_those_of_numpy_where_a_place_was_seen() -> None:
    random = np.random.default_rng(0)
    table = np.where(random.random((14, 4)) < 0.3, np.nan, random.normal(size=(14, 4)))
    found = get_layer_signal(record(weight_norm=lambda i, t: float(table[t, i])), "weight.norm")
    for share in (0.1, 0.5, 0.9):
        assert found.quantile(share) == pytest.approx(np.nanquantile(table, share, axis=0), rel=1e-5)
    assert np.isnan(get_layer_signal(record(), "weight.norm", ["nowhere"], 0).median).all()


def test_looks_are_counted_by_steps_and_not_by_their_number() -> None:
    found = get_layer_signal(record(), "weight.norm")
    assert found.after_warm_up.steps.tolist() == [16, 24, 32, 48, 64, 96, 128]
    assert found.second_half.steps.tolist() == [64, 96, 128]
    assert get_layer_signal(record(steps=(1, 2, 3, 4, 5, 6, 7, 100)), "weight.norm").second_half.steps.tolist() == [
        6,
        7,
        100,
    ]


def test_what_was_not_finite_is_infinite() -> None:
    found = get_layer_signal(record(weight_nonfinite=lambda i, t: float(i == 1 and t > 9)), "weight.norm")
    assert np.isinf(found.values[10:, 1]).all()
    assert np.isfinite(found.values[:10]).all()
    assert (
        said(
            "G411", record(weight_norm=lambda i, t: 4.0 if t < 10 else 0.0, weight_nonfinite=lambda i, t: float(t > 9))
        )
        == []
    )


def test_too_few_looks_are_not_judged() -> None:
    with pytest.raises(NotChecked, match=r"only 4 snapshots of weight\.norm"):
        get_layer_signal(record(steps=STEPS[:4]), "weight.norm")
    with pytest.raises(NotChecked, match="steps were recorded"):
        said("G409", record(steps=(1, 2, 3, 4, 5, 6, 7, 8, 9)))


def test_sizes_starts_and_batches_are_read_off() -> None:
    seen = record(update_ratio=lambda i, t: 1.0 / (t + 1) if i == 2 else 1e-3)
    assert value_counts(seen, layer_weights(seen)).tolist() == [256.0] * 4
    assert zero_initialized(seen) == {"l2.weight"}
    assert recorded_batch_size(seen) == 32
    seen.about = {"train_samples": 640, "batches_per_epoch": 10}
    assert recorded_batch_size(seen) == 64
    assert not has_learned(seen)


def test_a_layer_that_only_starts_at_zero_has_no_large_steps_and_does_not_explode() -> None:
    grows: dict[str, Values] = {
        "update_ratio": lambda i, t: 1 / STEPS[t] if i == 2 else 1e-3,
        "weight_norm": lambda i, t: 0.01 * STEPS[t] if i == 2 else 4.0,
    }
    assert said("G410", record(**grows)) == []
    assert said("G412", record(**grows)) == []
    assert said("G409", record(**grows)) == []


def test_a_layer_that_moves_less_than_a_thousandth_of_the_others_is_named() -> None:
    (found,) = said("G409", record(update_ratio=lambda i, t: 1e-7 if i == 1 else 1e-3))
    assert found.where.parameter == "l1.weight"
    assert found.evidence["median of the others"] == pytest.approx(1e-3)
    assert said("G409", record(update_ratio=lambda i, t: 3e-6 if i == 1 else 1e-3)) == []


def test_a_schedule_that_ends_at_zero_is_not_a_low_rate() -> None:
    assert said("G409", record(update_ratio=lambda i, t: 1e-3 if t < 9 else 1e-9)) == []


def test_a_gradient_that_is_not_finite_out_of_nothing_is_left_to_its_own_rule() -> None:
    seen = record()
    seen.run.append(200, {"loss": float("inf"), "gradient_norm": float("inf")})
    assert said("G404", seen) == []


def test_a_spike_that_the_loss_survives_is_no_explosion() -> None:
    seen = Record()
    for step in range(200):
        norm = 300.0 if step == 100 else 1.0
        seen.run.append(step + 1, {"loss": 2.0 * 0.98**step, "gradient_norm": norm})
    assert said("G404", seen) == []
    seen = Record()
    for step in range(200):
        norm = 300.0 if step == 100 else 1.0
        seen.run.append(step + 1, {"loss": 2.0 * 0.98 ** min(step, 100) if step < 101 else 5.0, "gradient_norm": norm})
    (found,) = said("G404", seen)
    assert found.where.step == 101
    assert found.evidence["max_norm"] == 1.0


def units(dead: float, silent: float) -> Record:
    """Four layers, of which the third has a share of dead units and of zeros."""
    seen = record()
    seen.layers = StepTable([*seen.layers.columns, *layer_columns(f"activation|a{i}" for i in range(4))])
    old = record()
    for look, step in enumerate(STEPS):
        names = list(old.layers.columns)
        row = dict(zip(names, old.layers.values[look].tolist(), strict=True))
        for i in range(4):
            share = (dead, silent) if i == 2 else (0.0, 0.5)
            row |= {f"activation.dead|a{i}": share[0], f"activation.zeros|a{i}": share[1]}
            row |= {f"activation.norm|a{i}": 32.0, f"activation.mean|a{i}": 0.0, f"activation.std|a{i}": 1.0}
        seen.layers.append(step, row)
    return seen


def test_dead_units_are_told_from_rare_ones() -> None:
    (found,) = said("G401", units(dead=0.8, silent=0.9))
    assert found.where.module == "a2"
    assert found.evidence["others"] == [0.0, 0.0, 0.0]
    assert said("G401", units(dead=0.8, silent=0.998)) == []


def drawn(values: np.ndarray) -> np.ndarray:
    """The histogram of some weights, packed."""
    bins = np.clip(np.floor(2 * (np.log2(np.abs(values)) + 30)), 0, 87).astype(int) + 1
    return pack_counts(np.bincount(88 + np.sign(values).astype(int) * bins, minlength=BIN_COUNT))


@pytest.mark.parametrize(
    ("scales", "split"),
    [((0.1, 0.1), False), ((0.1, 0.05), False), ((0.1, 1e-4), True), ((0.1, 10.0), True)],
    ids=["one", "near", "half died", "half grew"],
)
def test_two_populations_are_told_from_one_that_is_wide(scales: tuple[float, float], split: bool) -> None:
    random, seen = np.random.default_rng(0), record(places=1)
    seen.histogram_names = ["weight|l0.weight"]
    for step, (one, two) in ((1, (0.1, 0.1)), (100, scales)):
        values = np.concatenate([one * random.normal(size=3000), two * random.normal(size=3000)])
        seen.shapes.append(step, drawn(values)[None])
    found = said("G413", seen)
    assert bool(found) == split
    assert all(one.severity == "note" for one in found)


def test_weights_that_leave_out_the_middle_are_two_populations_too() -> None:
    random, seen = np.random.default_rng(0), record(places=1)
    seen.histogram_names = ["weight|l0.weight"]
    for step, values in (
        (1, random.normal(size=4000)),
        (100, np.sign(random.normal(size=4000)) * random.normal(1, 0.05, 4000)),
    ):
        seen.shapes.append(step, drawn(values)[None])
    assert len(said("G413", seen)) == 1
