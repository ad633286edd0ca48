from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nbdebug.exceptions import SetupError
from nbdebug.history import diagnose
from nbdebug.rule_engine.rule_registry import load_rules
from nbdebug.triage import SymptomCause, SymptomPattern, load_patterns
from nbdebug.triage.stages import expand_codes, stage_of
from nbdebug.triage.symptom import recognize_symptom

PATTERNS = {pattern.name: pattern for pattern in load_patterns()}


@pytest.mark.parametrize("name", PATTERNS)
def test_codes_of_a_pattern_exist(name: str) -> None:
    pattern = PATTERNS[name]
    codes = [*pattern.signs, *(code for cause in pattern.causes for code in cause.codes)]
    assert [code for code in codes if not expand_codes([code])] == []
    assert all(cause.codes or cause.test for cause in pattern.causes)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("loss-flat", "loss-flat"),
        ("Loss flat", "loss-flat"),
        ("the loss does not decrease at all", "loss-flat"),
        ("loss becomes NaN after a few batches", "nan"),
        ("accuracy stays at 10 % from the first epoch", "stuck-at-chance"),
        ("training accuracy is perfect, validation is poor: it overfits", "overfits"),
        ("validation loss is lower than training loss", "validation-better"),
        ("the loss goes down, then suddenly spikes", "falls-then-spikes"),
        ("the model gives the same output for all images", "constant-output"),
        ("both training and validation stay poor, it underfits", "both-poor"),
        ("accuracy is 99 % but it never finds the rare class", "useless-accuracy"),
        ("training is slow, GPU utilization is low", "slow"),
        ("memory grows until it runs out of memory", "memory-grows"),
        ("works in validation but is bad in production", "worse-in-deployment"),
        ("it learns, but very slowly, still falling after 100 epochs", "slow-learning"),
    ],
)
def test_symptom_in_words(text: str, name: str) -> None:
    assert recognize_symptom(text, load_patterns()).patterns[0].name == name


def test_unknown_sentence_fits_no_pattern_and_unknown_name_is_refused() -> None:
    assert recognize_symptom("the cat sat on the mat", load_patterns()).patterns == ()
    with pytest.raises(SetupError, match="Did you mean 'overfits'"):
        recognize_symptom("overfis", load_patterns())


def test_symptom_of_curves_and_of_a_run() -> None:
    curves = {"loss": [1.0, 0.5, *[float("nan")] * 8]}
    assert recognize_symptom(curves, load_patterns()).patterns[0].name == "nan"
    assert recognize_symptom(diagnose(curves), load_patterns()).patterns[0].name == "nan"
    assert recognize_symptom(None, load_patterns(), ["T609"]).patterns[0].name == "overfits"
    assert recognize_symptom(None, load_patterns()).patterns == ()


def test_every_rule_has_a_stage() -> None:
    stages = {code: stage_of(code) for code in load_rules()}
    assert stages["T608"] == "overfit"
    assert stages["T615"] == "treatments"
    assert stages["O505"] == "watch"
    assert stages["L201"] == "quick"
    assert stages["D106"] == "standard"


def test_pattern_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    cause = {"name": "a cause", "codes": ["D104"], "prior": 2}
    path.write_text(json.dumps({"name": "mine", "symptom": "Odd.", "words": ["odd"], "causes": [cause]}))
    assert SymptomPattern.read(path) == SymptomPattern(
        "mine", "Odd.", ("odd",), (SymptomCause("a cause", ("D104",), 2),)
    )
    path.write_text(json.dumps({"name": "mine", "causes": [{"title": "x"}]}))
    with pytest.raises(SetupError, match="pattern is not complete"):
        SymptomPattern.read(path)
    with pytest.raises(SetupError, match="expected a JSON file"):
        SymptomPattern.read(tmp_path / "absent.json")


def test_stages_can_be_asked_before_any_measurement_is_imported() -> None:
    """The dependencies of a measurement are cached, so they must not be read before it is registered."""
    script = """
from nbdebug.triage.stages import stage_of
stage_of("L211")
from nbdebug.measurements.registry import measurement_closure
assert "first_pass" in measurement_closure(["loss_calls"])
"""
    subprocess.run([sys.executable, "-c", script], check=True)
