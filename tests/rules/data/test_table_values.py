"""Tests of D112, D113 and D114: constant features, numbers that stand for missing values, and outliers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import Finding
from nbdebug.measurements import Measurements
from nbdebug.report import rank_findings
from nbdebug.rule_engine.rule_registry import find_rule
from nbdebug.rules.examples import minimal_setup, network, regressor
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(400, 4, generator=GENERATOR)
Y = (X[:, 0] > 0).long()
SERIES = 20 + torch.rand(400, 12, generator=GENERATOR)
LENGTHS = torch.randint(4, 13, (400, 1), generator=GENERATOR)


def table_setup(x: Tensor, model: nn.Module | None = None) -> Setup:
    return minimal_setup(model or nn.Linear(x[0].numel(), 2), x, Y, nn.CrossEntropyLoss())


def with_values(x: Tensor, column: int, value: float, every: int = 9) -> Tensor:
    x = x.clone()
    x[::every, column] = value
    return x


def with_last_column(values: Tensor) -> Tensor:
    return torch.cat([X[:, :3], values[:, None]], 1)


IMAGES = torch.rand(400, 1, 8, 8, generator=GENERATOR)
SIGNALS = X[:, :, None].repeat(1, 1, 8) + torch.arange(8)


class MissingMask(nn.Module):
    """A linear layer that replaces -999 by zero and adds a flag for it."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        missing = x == -999
        logits: Tensor = self.head(torch.cat([x.masked_fill(missing, 0.0), missing.float()], 1))
        return logits


PRESSURE = 70 + 10 * X[:, 3]
STANDARDIZED = with_values(X, 3, -999.0)
SENTINELS = {
    "-999": with_values(X, 1, -999.0),
    "-999, standardized": (STANDARDIZED - STANDARDIZED.mean(0)) / STANDARDIZED.std(0),
    "zero among pressures": with_last_column(PRESSURE * (torch.arange(400) % 9 > 0)),
    "999 days": with_values(with_last_column((30 * torch.rand(400, generator=GENERATOR)).round()), 3, 999.0),
    "-50 in images": torch.where(torch.arange(400 * 64).reshape(IMAGES.shape) % 11 == 0, -50.0, IMAGES),
}
NO_SENTINELS = {
    "no missing values": X,
    "mostly zero": with_last_column(torch.where(X[:, 3] > 1, 5000.0 + 100 * X[:, 3], 0.0)),
    "rain": with_last_column((X[:, 3]).clamp_min(0.0)),
    "flags": with_last_column((X[:, 3] > 0).float()),
    "largest value repeated": with_last_column(X[:, 3].clamp_max(1.0)),
    "single outlier": with_values(X, 2, 500.0, every=500),
    "padded series": SERIES * (torch.arange(12) < LENGTHS),
    "padded series, left": (SERIES * (torch.arange(12) < LENGTHS)).flip(1),
}


@pytest.mark.parametrize("name", SENTINELS)
def test_missing_values_stored_as_a_number_are_a_warning(name: str) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(SENTINELS[name][0].numel(), 2))
    (finding,) = rule_findings(table_setup(SENTINELS[name], model), "D113")
    assert finding.severity == "warning"
    assert finding.where.sample == 0


SEVERAL_SENTINELS = {
    "one number in two columns": with_values(SENTINELS["-999"], 2, -999.0, every=7),
    "zero beside a flag": torch.cat([SENTINELS["zero among pressures"], (X[:, :1] > 0).float()], 1),
    "pixels": SENTINELS["-50 in images"],
}


@pytest.mark.parametrize("name", SEVERAL_SENTINELS)
def test_code_that_fills_missing_values_makes_the_rule_quiet_and_changes_nothing_else(name: str) -> None:
    x = SEVERAL_SENTINELS[name]
    setup = table_setup(x, nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 2)))
    (finding,) = find_rule("D113")(Measurements(setup))
    names = {"torch": torch, "x": x.clone()}
    exec(finding.fix.replace("x_train", "x"), names)
    filled = names["x"]
    assert rule_findings(table_setup(filled, setup.model), "D113") == []
    assert bool((filled == x)[x != finding.evidence["values"][0]].all())
    assert torch.equal(filled[:, 4:], x[:, 4:])


def test_missing_values_that_were_scaled_are_to_be_replaced_where_the_data_are_read() -> None:
    raw = with_values(with_values(X * torch.tensor([1.0, 2.0, 3.0, 4.0]), 1, -999.0), 3, -999.0)
    x = (raw - raw.mean(0)) / raw.std(0)
    (finding,) = rule_findings(table_setup(x), "D113")
    assert finding.fix.startswith("Replace the number that stands for missing values of columns 1, 3 by NaN")


def test_samples_with_an_unknown_target_are_to_be_dropped() -> None:
    target = torch.where(torch.arange(400) % 20 == 0, -99.0, X.sum(1))[:, None]
    (finding,) = find_rule("D113")(Measurements(minimal_setup(network(1), X, target, nn.MSELoss())))
    names = {"torch": torch, "x": X, "y": target}
    exec(finding.fix, names)
    assert torch.equal(names["y"], target[target != -99.0][:, None])
    assert len(names["x"]) == 380


@pytest.mark.parametrize(
    ("name", "dominates"), [("-999, standardized", True), ("-999", True), ("zero among pressures", False)]
)
def test_only_a_number_beside_which_the_others_hardly_differ_explains_a_run_at_chance(
    name: str, dominates: bool
) -> None:
    (finding,) = rule_findings(table_setup(SENTINELS[name]), "D113")
    stuck = Finding(code="T607", severity="error", message="", explains=("T610", "E709"))
    first = rank_findings([stuck, finding])[0]
    assert (first.code == "D113") == dominates
    assert ("T601" in finding.explains) == dominates


@pytest.mark.parametrize("name", NO_SENTINELS)
def test_missing_values_of_complete_data_is_quiet(name: str) -> None:
    assert rule_findings(table_setup(NO_SENTINELS[name]), "D113") == []


def test_missing_values_that_the_model_replaces_are_a_note() -> None:
    (finding,) = rule_findings(table_setup(SENTINELS["-999"], MissingMask()), "D113")
    assert finding.severity == "note"


def test_missing_values_in_regression_target_name_the_target() -> None:
    target = torch.where(torch.arange(400) % 20 == 0, -99.0, X.sum(1))[:, None]
    (finding,) = rule_findings(minimal_setup(network(1), X, target, nn.MSELoss()), "D113")
    assert "target" in finding.message
    assert finding.evidence["counts"] == [20]


@pytest.mark.parametrize(
    ("x", "expected_features"),
    [
        (with_last_column(torch.full((400,), 7.0)), [3]),
        (torch.rand(400, 3, 4, 4, generator=GENERATOR) * torch.tensor([1.0, 0.0, 1.0])[:, None, None], [1]),
        (X, None),
    ],
    ids=["column", "channel", "none"],
)
def test_constant_feature_lists_columns_and_channels(x: Tensor, expected_features: list[int] | None) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 2))
    findings = rule_findings(table_setup(x, model), "D112")
    assert [finding.evidence["features"] for finding in findings] == ([expected_features] if expected_features else [])


@pytest.mark.parametrize(
    ("x", "expected_sample"),
    [
        (with_values(X, 2, 500.0, every=500), 0),
        (torch.where(torch.arange(400)[:, None, None] == 200, 300.0, SIGNALS), 200),
        (X, None),
        ((0.4 * X).exp(), None),
    ],
    ids=["table", "signal", "normal", "log-normal"],
)
def test_outliers_note_names_the_sample(x: Tensor, expected_sample: int | None) -> None:
    findings = rule_findings(table_setup(x, nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 2))), "D114")
    assert {finding.severity for finding in findings} <= {"note"}
    assert [finding.where.sample for finding in findings] == ([expected_sample] if expected_sample is not None else [])


@pytest.mark.parametrize("code", ["D112", "D113", "D114"])
def test_value_rules_with_too_few_samples_are_quiet(code: str) -> None:
    options: dict[str, Any] = {"loss_fn": nn.CrossEntropyLoss()}
    setup = minimal_setup(network(2), X[:16], Y[:16], **options)
    assert rule_findings(setup, code) == []
    assert rule_findings(regressor(), code) == []


class OneBranch(nn.Module):
    """Two inputs through one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.branch, self.head = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.head((self.branch(a) - self.branch(b)).abs())


def test_constant_feature_of_two_inputs_of_one_width_does_not_advise_to_drop_columns_of_one() -> None:
    a = with_last_column(torch.full((400,), 7.0))
    data = TensorDataset(a, a.roll(1, 0), Y)
    setup = Setup(OneBranch(), DataLoader(data, 32), loss_fn=nn.CrossEntropyLoss())
    findings = rule_findings(setup, "D112")
    assert len(findings) == 2
    assert all("same columns of all" in finding.fix and "x_train" not in finding.fix for finding in findings)


@pytest.mark.parametrize("channels_first", [False, True])
def test_missing_values_of_one_series_among_several_are_found_in_windows(channels_first: bool) -> None:
    series = torch.randn(900, 3, generator=GENERATOR).cumsum(0) * 0.1 * torch.tensor([1.0, 40.0, 5.0])
    series = torch.where(torch.rand(900, 3, generator=GENERATOR) < 0.08, -200.0, series)
    series = (series - series.mean(0)) / series.std(0)  # every series has another number for its gaps
    windows = torch.stack([series[2 * i : 2 * i + 12] for i in range(400)])
    windows = windows.transpose(1, 2) if channels_first else windows
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 2))
    (finding,) = rule_findings(table_setup(windows, model), "D113")
    assert len(finding.evidence["features"]) >= 2
    assert finding.evidence["values"] == pytest.approx(series.min(0).values[finding.evidence["features"]].tolist())
