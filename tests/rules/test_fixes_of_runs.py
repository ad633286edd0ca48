"""Fixes of the rules on runs are tried on their examples: the finding is gone, and the training is not worse."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from inspect import signature
from pathlib import Path
from statistics import fmean
from types import ModuleType

import numpy as np
import pytest
import torch

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding, is_code
from nbdebug.rule_engine import fix_writer
from nbdebug.rule_engine.rule_registry import Rule, load_rules
from nbdebug.setup import Setup
from nbdebug.setup.fix_names import setup_objects
from nbdebug.source.edits import apply_edits
from tests.rules.example_programs import example_source
from tests.rules.rule_findings import own_findings
from tests.source.source_modules import load_module

# By reason, the rules on runs whose fix is a sentence, since no change of the program follows from what they measure.
_SENTENCES = {
    "names a tool that finds the cause": "E702 E705 E706 E709 T601 T603 T607 T610",
    "needs a decision on the data": "E703 G413 T605 T611",
    "needs a decision on the model": "G403 G404 T606",
    "has several causes with the same numbers": "G411 G412",
    "keeps weights of an earlier step": "E707 T609",
    "leaves open what the loop over another loader is for": "E711 E712",
    "is on other processes than this one": "M325 O515 O516 O518 O519 O520 O521 P807 P809 R909 R910",
    "needs an accelerator": "P803",
}
SENTENCES = {code: reason for reason, codes in _SENTENCES.items() for code in codes.split()}
RULES = [rule for rule in load_rules().values() if hasattr(rule.module, "bad_loop")]
EDITED = [rule for rule in RULES if rule.code not in SENTENCES]
_WORSE = 1.1  # times the loss at the end


@pytest.fixture(autouse=True)
def _time_for_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fix_writer, "_LEAST_SECONDS", 600.0)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    known = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - known:
        if name.startswith("example_"):
            del sys.modules[name]


def program(rule: Rule, source: str, folder: Path, name: str = "bad") -> ModuleType:
    module = load_module(folder / f"example_{rule.code.lower()}_{name}.py", source)
    sys.modules[module.__name__] = module
    return module


def debugger_of_run(example: ModuleType, rule: Rule, fix: str = "") -> Debugger:
    """Return the debugger of a watched run of an example, before which the code of a fix has run."""
    torch.manual_seed(0)
    np.random.seed(0)
    setup: Setup = example.bad()
    if fix:
        variables = setup_objects(setup)
        exec(fix, variables)
        names = ("model", "loss_fn", "train_loader", "val_loader")
        objects = {name: variables[name] for name in names if name in variables}
        setup = replace(setup, **objects, optimizers=(variables["optimizer"],))
    debugger = Debugger.of(setup)
    with debugger.watch(final_tests=False) as run:
        example.bad_loop(setup, *([run] if "watch" in signature(example.bad_loop).parameters else []))
    if "errors" in rule.needs:
        debugger.errors()
    return debugger


def stated(debugger: Debugger, rule: Rule) -> Finding:
    return own_findings(debugger, rule.code)[0]


def final_loss(debugger: Debugger) -> float:
    assert debugger.watched is not None
    assert debugger.watched.result is not None
    losses = [loss for _, loss in debugger.watched.result.loss]
    return fmean(losses[-max(len(losses) // 4, 1) :])


@pytest.mark.parametrize("rule", EDITED, ids=lambda rule: rule.code)
def test_fix_removes_the_finding_and_harms_nothing(rule: Rule, folder: Path) -> None:
    source = example_source(rule, "bad", "bad_loop")
    example = program(rule, source, folder)
    before = debugger_of_run(example, rule)
    finding = stated(before, rule)
    assert finding.edits or is_code(finding.fix), finding.fix
    if finding.edits:
        after = debugger_of_run(program(rule, apply_edits(source, finding.edits), folder, "fixed"), rule)
    else:
        after = debugger_of_run(example, rule, finding.fix)
    assert [item for item in own_findings(after, rule.code) if item.severity != "note"] == []
    old_errors = {item.code for item in before.findings if item.severity == "error"}
    new = [item for item in after.findings if item.severity == "error" and item.code not in old_errors]
    assert [str(item) for item in new] == []
    assert not final_loss(after) > _WORSE * final_loss(before), (final_loss(before), final_loss(after))


@pytest.mark.parametrize(
    "rule",
    [r for r in RULES if SENTENCES.get(r.code, "accelerator").rpartition(" ")[2] != "accelerator"],
    ids=lambda rule: rule.code,
)
def test_other_fix_is_a_sentence(rule: Rule, folder: Path) -> None:
    finding = stated(debugger_of_run(program(rule, example_source(rule, "bad", "bad_loop"), folder), rule), rule)
    assert finding.fix.endswith(".")
    assert not finding.edits
    assert not is_code(finding.fix)
