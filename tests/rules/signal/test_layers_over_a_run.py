"""The rules about layers on real runs: each mistake is found, its repaired twin and all healthy runs are left alone."""

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
from nbdebug.setup import Setup
from tests.rules.signal.faulty_runs import FAULTS
from tests.rules.signal.healthy_runs import HEALTHY
from tests.rules.signal.healthy_styles import STYLES
from tests.rules.signal.trials import Trial, record_of

CODES = ("G401", "G402", "G403", "G404", "G409", "G410", "G411", "G412", "G413")
ORDINARY = HEALTHY | STYLES
LATER = {"saturation": NotChecked("before training"), "loop": NotChecked("only recorded")}


def recorded(build: Callable[[], Trial], seed: int = 0) -> Record:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return record_of(build())


@cache
def faulty(name: str) -> Record:
    return recorded(lambda: FAULTS[name][1](False))


def said(record: Record) -> list[Finding]:
    """What the rules that need nothing but a record say of it; one that breaks fails the test."""
    found = []
    for code in CODES:
        try:
            found += rule_registry.find_rule(code)({**LATER, "record": record})
        except NotChecked:
            continue
    return found


def loud(record: Record) -> list[str]:
    return [str(one) for one in said(record) if one.severity != "note"]


RECORDED = {name: fault for name, fault in FAULTS.items() if fault[0] != ("G414",)}


@pytest.mark.parametrize("name", RECORDED)
def test_a_mistake_is_found(name: str) -> None:
    found = said(faulty(name))
    assert {one.code for one in found if one.severity != "note"} & set(RECORDED[name][0])
    for one in found:
        assert one.message.endswith(".")
        assert one.cause
        assert one.fix
        assert "nan" not in one.message


@pytest.mark.parametrize("name", FAULTS)
def test_its_repaired_twin_is_left_alone(name: str) -> None:
    assert loud(recorded(lambda: FAULTS[name][1](True))) == []


@pytest.mark.parametrize("name", ORDINARY)
def test_a_healthy_run_is_left_alone(name: str) -> None:
    assert loud(recorded(ORDINARY[name])) == []


PLACES = {
    "one group at 1e-8": ("G409", "0.weight"),
    "one group at 1": ("G410", "4.weight"),
    "decay on two layers": ("G411", "4.weight"),
    "eight sigmoids": ("G403", "0"),
    "functional ReLUs are dead": ("G401", "two"),
    "sigmoids drawn wide": ("G402", "1"),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_finding_names_the_layer(name: str) -> None:
    code, place = PLACES[name]
    (found,) = [one for one in said(faulty(name)) if one.code == code]
    where = found.where.parameter or found.where.module
    assert where == place or place in found.evidence.get("parameters", ())
    assert place in found.message


@pytest.mark.parametrize("fixed", [False, True], ids=["lost", "kept"])
@pytest.mark.parametrize(("name", "lost"), [("steps into a copy", "2.weight"), ("a weight put back", "0.weight")])
def test_steps_that_are_lost_show_in_a_record_alone(name: str, lost: str, fixed: bool) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        trial = FAULTS[name][1](fixed)
        record = record_of(trial)
    setup = Setup(trial.model, (), optimizers=(trial.optimizer,))
    evidence = Measurements(setup, record=record, loop=NotChecked("only recorded"))
    found = rule_registry.find_rule("G414")(evidence)
    assert [one.where.parameter for one in found] == ([] if fixed else [lost])


def test_an_open_gate_and_the_end_of_a_decoder_are_not_pinned() -> None:
    for name, kind in (("open gates", "gate.1"), ("binary pictures coded", "decode.3")):
        shares = get_layer_signal(recorded(ORDINARY[name]), "activation.saturated")
        assert float(shares.select([kind]).second_half.median[0]) > 0.7


def test_what_clipping_tames_is_left_alone_and_what_it_would_need_is_said() -> None:
    name = "an identity RNN without clipping"
    (found,) = [one for one in said(faulty(name)) if one.code == "G404"]
    assert found.evidence["norm"] > 100 * found.evidence["usual"]
    assert "clip_grad_norm_" in found.fix
    assert found.where.step is not None
