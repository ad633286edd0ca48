"""Tests that the examples of the rules have the same findings on an accelerator as on the CPU."""

from __future__ import annotations

import pytest
import torch

from docs.rule_examples import examine
from nbdebug.exceptions import SetupError
from nbdebug.report import Report
from nbdebug.rule_engine import rule_registry
from nbdebug.rule_engine.rule_registry import Rule
from tests.cuda.devices import device_batches, move_setup

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

# What a profile measures depends on the load of the machine.
RULES = {code: rule for code, rule in rule_registry.load_rules().items() if "profile" not in rule.needs}
EXAMPLES_OF_THE_CPU = {
    "R905": "the example copies references to the weights before they are moved",
    "T609": "the example is too short for measurements that are planned independently of the time that they take",
}


def findings_on_cuda(rule: Rule, example: str) -> Report:
    """Return the findings of an example; skip the test if its model creates tensors on the CPU."""
    setup = move_setup(getattr(rule.module, example)())
    try:
        with device_batches():
            debugger = examine(setup, rule, example)
    except (RuntimeError, SetupError) as error:
        if "same device" in str(error):
            pytest.skip("the example runs on the CPU only")
        raise
    findings = debugger.findings
    if rule.code != "X1031" and "X1031" in {finding.code for finding in findings}:
        pytest.skip("the example runs on the CPU only")
    assert debugger.watched is None or not debugger.watched.error_summary
    return findings


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_rule_fires_on_bad_example_and_not_on_good_one(rule: Rule) -> None:
    if rule.code in EXAMPLES_OF_THE_CPU:
        pytest.skip(EXAMPLES_OF_THE_CPU[rule.code])
    assert rule.code in {finding.code for finding in findings_on_cuda(rule, "bad")}
    assert [str(finding) for finding in findings_on_cuda(rule, "good").faults] == []
