"""Tests of layer_signals, and of the rules that read records, on synthetic records."""

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
from nbdebug.rules.examples import classifier
from nbdebug.tensors.histogram_bins import BIN_COUNT, pack_counts

STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
UNAVAILABLE = {
    "saturation": NotChecked("before training"),
    "hidden_sigmoids": NotChecked("before training"),
    "loop": NotChecked("only recorded"),
    "setup": classifier(),
}
Values = Callable[[int, int], float]  # by layer and snapshot


def make_record(layers: int = 4, steps: tuple[int, ...] = STEPS, loss: float = 1.0, **signals: Values) -> Record:
    """Return a record of linear layers with ReLUs, healthy except for ``signals``, named ``family_statistic``."""
    defaults: dict[str, Values] = {
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
    record = Record(about={"batch_size": 32})
    for i in range(layers):
        record.modules += [RecordedModule(f"l{i}", "Linear", (f"l{i}.weight",)), RecordedModule(f"a{i}", "ReLU")]
    for snapshot, step in enumerate(steps):
        row = {
            f"{key.replace('_', '.', 1)}|l{i}.weight": value(i, snapshot)
            for key, value in defaults.items()
            for i in range(layers)
        }
        record.layers.append(step, row)
    for step in range(1, steps[-1] + 1):
        record.run.append(step, {"loss": loss, "gradient_norm": 0.2})
    return record


def findings(code: str, record: Record) -> list[Finding]:
    return rule_registry.find_rule(code)({**UNAVAILABLE, "record": record})


def test_quantile_of_layer_signal_equals_numpy_nanquantile() -> None:
    random = np.random.default_rng(0)
    table = np.where(random.random((14, 4)) < 0.3, np.nan, random.normal(size=(14, 4)))
    signal = get_layer_signal(make_record(weight_norm=lambda i, t: float(table[t, i])), "weight.norm")
    for share in (0.1, 0.5, 0.9):
        assert signal.quantile(share) == pytest.approx(np.nanquantile(table, share, axis=0), rel=1e-5)
    assert np.isnan(get_layer_signal(make_record(), "weight.norm", ["nowhere"], 0).median).all()


def test_layer_signal_windows_are_split_by_step_and_not_by_snapshot() -> None:
    signal = get_layer_signal(make_record(), "weight.norm")
    assert signal.after_warm_up.steps.tolist() == [16, 24, 32, 48, 64, 96, 128]
    assert signal.second_half.steps.tolist() == [64, 96, 128]
    sparse_end = get_layer_signal(make_record(steps=(1, 2, 3, 4, 5, 6, 7, 100)), "weight.norm")
    assert sparse_end.second_half.steps.tolist() == [6, 7, 100]


def test_get_layer_signal_of_non_finite_weights_is_infinite() -> None:
    signal = get_layer_signal(make_record(weight_nonfinite=lambda i, t: float(i == 1 and t > 9)), "weight.norm")
    assert np.isinf(signal.values[10:, 1]).all()
    assert np.isfinite(signal.values[:10]).all()
    overflow = make_record(weight_norm=lambda i, t: 4.0 if t < 10 else 0.0, weight_nonfinite=lambda i, t: float(t > 9))
    assert findings("G411", overflow) == []


def test_get_layer_signal_of_too_few_snapshots_raises_not_checked() -> None:
    with pytest.raises(NotChecked, match=r"only 4 snapshots of weight\.norm"):
        get_layer_signal(make_record(steps=STEPS[:4]), "weight.norm")
    with pytest.raises(NotChecked, match="steps were recorded"):
        findings("G409", make_record(steps=(1, 2, 3, 4, 5, 6, 7, 8, 9)))


def test_layer_signals_read_value_counts_zero_starts_and_batch_size() -> None:
    record = make_record(update_ratio=lambda i, t: 1.0 / (t + 1) if i == 2 else 1e-3)
    assert value_counts(record, layer_weights(record)).tolist() == [256.0] * 4
    assert zero_initialized(record) == {"l2.weight"}
    assert recorded_batch_size(record) == 32
    record.about = {"train_samples": 640, "batches_per_epoch": 10}
    assert recorded_batch_size(record) == 64
    assert not has_learned(record)


def test_weight_and_update_rules_ignore_layer_that_starts_at_zero() -> None:
    growing: dict[str, Values] = {
        "update_ratio": lambda i, t: 1 / STEPS[t] if i == 2 else 1e-3,
        "weight_norm": lambda i, t: 0.01 * STEPS[t] if i == 2 else 4.0,
    }
    assert findings("G410", make_record(**growing)) == []
    assert findings("G412", make_record(**growing)) == []
    assert findings("G409", make_record(**growing)) == []


def test_update_too_small_reports_layer_below_a_thousandth_of_others() -> None:
    (finding,) = findings("G409", make_record(update_ratio=lambda i, t: 1e-7 if i == 1 else 1e-3))
    assert finding.where.parameter == "l1.weight"
    assert finding.evidence["median of the others"] == pytest.approx(1e-3)
    assert findings("G409", make_record(update_ratio=lambda i, t: 3e-6 if i == 1 else 1e-3)) == []


def test_update_too_small_ignores_schedule_that_ends_at_zero() -> None:
    assert findings("G409", make_record(update_ratio=lambda i, t: 1e-3 if t < 9 else 1e-9)) == []


def test_exploding_gradient_ignores_sudden_non_finite_gradient() -> None:
    record = make_record()
    record.run.append(200, {"loss": float("inf"), "gradient_norm": float("inf")})
    assert findings("G404", record) == []


def test_exploding_gradient_reports_spike_only_if_loss_stays_high() -> None:
    record = Record()
    for step in range(200):
        norm = 300.0 if step == 100 else 1.0
        record.run.append(step + 1, {"loss": 2.0 * 0.98**step, "gradient_norm": norm})
    assert findings("G404", record) == []
    record = Record()
    for step in range(200):
        norm = 300.0 if step == 100 else 1.0
        record.run.append(
            step + 1, {"loss": 2.0 * 0.98 ** min(step, 100) if step < 101 else 5.0, "gradient_norm": norm}
        )
    (finding,) = findings("G404", record)
    assert finding.where.step == 101
    assert finding.evidence["max_norm"] == 1.0


def record_with_dead_units(dead: float, silent: float, first_dead: float | None = None) -> Record:
    """Return a record of four layers, the third with a share of dead units and of zeros."""
    record = make_record()
    record.layers = StepTable([*record.layers.columns, *layer_columns(f"activation|a{i}" for i in range(4))])
    template = make_record()
    for snapshot, step in enumerate(STEPS):
        names = list(template.layers.columns)
        row = dict(zip(names, template.layers.values[snapshot].tolist(), strict=True))
        for i in range(4):
            late = dead if first_dead is None or snapshot >= 4 else first_dead
            share = (late, silent) if i == 2 else (0.0, 0.5)
            row |= {f"activation.dead|a{i}": share[0], f"activation.zeros|a{i}": share[1]}
            row |= {f"activation.norm|a{i}": 32.0, f"activation.mean|a{i}": 0.0, f"activation.std|a{i}": 1.0}
        record.layers.append(step, row)
    return record


def test_dead_relu_distinguishes_dead_from_rarely_active_units() -> None:
    (finding,) = findings("G401", record_with_dead_units(dead=0.8, silent=0.9))
    assert finding.where.module == "a2"
    assert finding.evidence["others"] == [0.0, 0.0, 0.0]
    assert findings("G401", record_with_dead_units(dead=0.8, silent=0.998)) == []


@pytest.mark.parametrize(
    ("dead", "chance", "severity"),
    [(0.8, 10.0, "note"), (0.8, 1.2, "warning"), (0.8, None, "warning"), (0.99, 10.0, "warning")],
)
def test_dead_relu_of_a_run_that_learned_is_a_note_unless_the_whole_layer_is_dead(
    dead: float, chance: float | None, severity: str
) -> None:
    record = record_with_dead_units(dead, silent=0.99)
    if chance is not None:
        record.about["chance"] = chance
    (finding,) = findings("G401", record)
    assert finding.severity == severity


def packed_histogram(values: np.ndarray) -> np.ndarray:
    """Return the packed histogram of weights."""
    bins = np.clip(np.floor(2 * (np.log2(np.abs(values)) + 30)), 0, 87).astype(int) + 1
    return pack_counts(np.bincount(88 + np.sign(values).astype(int) * bins, minlength=BIN_COUNT))


@pytest.mark.parametrize(
    ("scales", "split"),
    [((0.1, 0.1), False), ((0.1, 0.05), False), ((0.1, 1e-4), True), ((0.1, 10.0), True)],
    ids=["one scale", "near scales", "half shrunk", "half grown"],
)
def test_weights_bimodal_distinguishes_two_scales_from_one(scales: tuple[float, float], split: bool) -> None:
    random, record = np.random.default_rng(0), make_record(layers=1)
    record.histogram_names = ["weight|l0.weight"]
    for step, (first, second) in ((1, (0.1, 0.1)), (100, scales)):
        values = np.concatenate([first * random.normal(size=3000), second * random.normal(size=3000)])
        record.shapes.append(step, packed_histogram(values)[None])
    reports = findings("G413", record)
    assert bool(reports) == split
    assert all(finding.severity == "note" for finding in reports)


def test_weights_bimodal_reports_weights_with_gap_at_zero() -> None:
    random, record = np.random.default_rng(0), make_record(layers=1)
    record.histogram_names = ["weight|l0.weight"]
    for step, values in (
        (1, random.normal(size=4000)),
        (100, np.sign(random.normal(size=4000)) * random.normal(1, 0.05, 4000)),
    ):
        record.shapes.append(step, packed_histogram(values)[None])
    assert len(findings("G413", record)) == 1


@pytest.mark.parametrize(
    ("dead", "last_loss", "chance", "severity"),
    [
        (0.6, 0.2, None, "note"),
        (0.6, 0.9, None, "warning"),
        (0.8, 0.2, None, "warning"),
        (0.6, -3.0, None, "note"),
        (0.6, 0.8, 1.0, "note"),
        (0.6, 0.98, 1.0, "warning"),
        (0.8, 0.8, 1.0, "warning"),
    ],
    ids=[
        *("learned", "not learned", "many units", "unknown loss level"),
        *("below a constant prediction", "as a constant prediction", "many units below a constant prediction"),
    ],
)
def test_dead_relu_of_half_a_layer_is_a_note_unless_the_run_is_poor(
    dead: float, last_loss: float, chance: float | None, severity: str
) -> None:
    record = record_with_dead_units(dead=dead, silent=0.9, first_dead=0.1)
    losses = Record()
    for step, loss in enumerate(np.linspace(1.0, last_loss, 200), 1):
        losses.run.append(step, {"loss": loss})
    record.run = losses.run
    if chance is not None:
        record.about["chance"] = chance
    (finding,) = findings("G401", record)
    assert finding.severity == severity
