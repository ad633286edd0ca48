"""Tests of the layer rules on recorded runs: faults are reported, repaired twins and healthy runs are not."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.measurements import Measurements
from nbdebug.records import Record
from nbdebug.records.layer_signals import get_layer_signal
from nbdebug.rule_engine import rule_registry
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from tests.rules.signal.faulty_runs import FAULTS
from tests.rules.signal.healthy_runs import HEALTHY
from tests.rules.signal.more_healthy_runs import MORE_HEALTHY
from tests.rules.signal.training_runs import TrainingRun, record_run

CODES = ("G401", "G402", "G403", "G404", "G409", "G410", "G411", "G412", "G413")
HEALTHY_RUNS = HEALTHY | MORE_HEALTHY
UNAVAILABLE = {
    "saturation": NotChecked("before training"),
    "hidden_sigmoids": NotChecked("before training"),
    "loop": NotChecked("only recorded"),
    "setup": classifier(),
}


def record_seeded_run(build: Callable[[], TrainingRun], seed: int = 0) -> Record:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return record_run(build())


@cache
def record_faulty_run(name: str) -> Record:
    return record_seeded_run(lambda: FAULTS[name][1](False))


def layer_findings(record: Record) -> list[Finding]:
    """Return the findings of the rules that need only a record."""
    findings = []
    for code in CODES:
        try:
            findings += rule_registry.find_rule(code)({**UNAVAILABLE, "record": record})
        except NotChecked:
            continue
    return findings


def layer_faults(record: Record) -> list[str]:
    return [str(finding) for finding in layer_findings(record) if finding.severity != "note"]


RECORDED_FAULTS = {name: fault for name, fault in FAULTS.items() if fault[0] != ("G414",)}


@pytest.mark.parametrize("name", RECORDED_FAULTS)
def test_layer_rules_report_fault_of_run(name: str) -> None:
    findings = layer_findings(record_faulty_run(name))
    assert {finding.code for finding in findings if finding.severity != "note"} & set(RECORDED_FAULTS[name][0])
    for finding in findings:
        assert finding.message.endswith(".")
        assert finding.cause
        assert finding.fix
        assert "nan" not in finding.message


@pytest.mark.parametrize("name", FAULTS)
def test_layer_rules_ignore_repaired_run(name: str) -> None:
    assert layer_faults(record_seeded_run(lambda: FAULTS[name][1](True))) == []


@pytest.mark.parametrize("name", HEALTHY_RUNS)
def test_layer_rules_ignore_healthy_run(name: str) -> None:
    assert layer_faults(record_seeded_run(HEALTHY_RUNS[name])) == []


LOCATIONS = {
    "one group at 1e-8": ("G409", "0.weight"),
    "one group at 1": ("G410", "4.weight"),
    "decay of two layers": ("G411", "4.weight"),
    "eight sigmoids": ("G403", "0"),
    "functional ReLUs are dead": ("G401", "second"),
    "activations of an own module are dead": ("G401", "second"),
    "wide initialization of sigmoids": ("G402", "1"),
}


@pytest.mark.parametrize("name", LOCATIONS)
def test_layer_rules_name_layer_of_fault(name: str) -> None:
    code, location = LOCATIONS[name]
    (finding,) = [finding for finding in layer_findings(record_faulty_run(name)) if finding.code == code]
    places = (finding.where.parameter, finding.where.module, *finding.evidence.get("parameters", ()))
    assert location in places
    assert location in finding.message


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("wide initialization of sigmoids", "has not increased the norm much"),
        ("saturated tanhs", "Training has increased the norm of "),
    ],
)
def test_saturation_in_training_is_explained_by_the_growth_of_the_weights(name: str, cause: str) -> None:
    (finding,) = [finding for finding in layer_findings(record_faulty_run(name)) if finding.code == "G402"]
    assert cause in finding.cause


@pytest.mark.parametrize("fixed", [False, True], ids=["lost", "kept"])
@pytest.mark.parametrize(("name", "parameter"), [("steps into a copy", "2.weight"), ("a restored weight", "0.weight")])
def test_unchanged_parameter_reports_lost_steps_from_record_only(name: str, parameter: str, fixed: bool) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        run = FAULTS[name][1](fixed)
        record = record_run(run)
    setup = Setup(run.model, (), optimizers=(run.optimizer,))
    evidence = Measurements(setup, record=record, loop=NotChecked("only recorded"))
    findings = rule_registry.find_rule("G414")(evidence)
    assert [finding.where.parameter for finding in findings] == ([] if fixed else [parameter])


def test_saturated_signal_of_healthy_gate_and_decoder_exceeds_70_percent() -> None:
    for name, module in (("open gates", "gate.1"), ("binary autoencoder", "decode.3")):
        shares = get_layer_signal(record_seeded_run(HEALTHY_RUNS[name]), "activation.saturated")
        assert float(shares.select([module]).second_half.median[0]) > 0.7


def test_exploding_gradient_without_clipping_suggests_clip_grad_norm() -> None:
    name = "an identity RNN without clipping"
    (finding,) = [finding for finding in layer_findings(record_faulty_run(name)) if finding.code == "G404"]
    assert finding.evidence["norm"] > 100 * finding.evidence["usual"]
    assert "clip_grad_norm_" in finding.fix
    assert finding.where.step is not None
