"""Tests of findings as JSON, SARIF and annotations."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import torch

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding, LineChange, Location, RelatedLine
from nbdebug.report import Report, SkippedRule
from nbdebug.serialization.github import workflow_commands
from nbdebug.serialization.sarif import sarif_log
from nbdebug.serialization.schema import (
    MAX_SUMMARY_BYTES,
    SCHEMA,
    document,
    read_findings,
    relative_paths,
    shorten,
    to_json,
)
from nbdebug.watching.result import WatchResult
from tests.programs import PROGRAMS, train
from tests.serialization.sarif_structure import LOG

CAUSE = Finding(
    message="The loss is 100%, it is: high, and\nstays there.",
    where=Location(
        module="head", file="/repo/src/a train.py", line=7, source="    loss.backward()", context=((7, "x"),)
    ),
    cause="Two softmaxes.",
    fix="return x",
    evidence={"floor": float("nan"), "classes": 3},
    explains=("T601",),
    changes=(LineChange("a train.py, line 7", ("old",), ("new",)),),
    code="L201",
    name="softmax-before-cross-entropy",
    severity="error",
)
SHIFTED = RelatedLine(Location(file="/repo/data.py", line=3, source="    y = x[1:]"), "the dataset shifts them here")
CONSEQUENCE = Finding(message="The loss is flat.", code="T601", name="flat-loss", severity="note")


def described(*findings: Finding) -> list[dict[str, object]]:
    return relative_paths(document("Check", findings)["findings"], Path("/repo"))


def test_finding_in_schema_has_location_change_and_index_of_cause() -> None:
    first, second = described(CAUSE, CONSEQUENCE)
    assert (first["file"], first["line"], first["source"]) == ("src/a train.py", 7, "loss.backward()")
    assert first["changes"] == [{"place": "a train.py, line 7", "removed": ["old"], "added": ["new"]}]
    assert first["evidence"] == {"floor": None, "classes": 3}
    assert "caused_by" not in first
    assert second == {
        "code": "T601",
        "name": "flat-loss",
        "severity": "note",
        "message": "The loss is flat.",
        "caused_by": 0,
    }


def test_related_line_in_schema_is_read_back_and_may_be_missing() -> None:
    content = json.loads(to_json(document("Check", [replace(CAUSE, related=(SHIFTED,)), CONSEQUENCE])))
    written = {"role": SHIFTED.role, "file": "/repo/data.py", "line": 3, "source": "y = x[1:]"}
    assert content["findings"][0]["related"] == [written]
    assert relative_paths(content["findings"], Path("/repo"))[0]["related"] == [{**written, "file": "data.py"}]
    first, second = read_findings(content)
    assert first.related == (RelatedLine(replace(SHIFTED.where, source="y = x[1:]"), SHIFTED.role),)
    assert "related" not in content["findings"][1]
    assert second.related == ()


def test_report_as_dict_holds_all_that_its_page_shows() -> None:
    report = Report(
        (CAUSE, CONSEQUENCE), (SkippedRule("D101", "name", "no data"),), frozenset({"L201", "T601"}), seconds=1.5
    )
    content = json.loads(report.to_json())
    assert content == json.loads(to_json(report.to_dict()))
    assert (content["schema"], content["title"], content["seconds"]) == (SCHEMA, "Checkup", 1.5)
    assert content["counts"] == {"error": 1, "warning": 0, "note": 1}
    assert content["checked_rules"] == ["L201", "T601"]
    assert content["not_checked"] == [{"code": "D101", "name": "name", "why": "no data"}]
    card = report.view().state()["findings"][0]
    first = content["findings"][0]
    assert {name: first[name] for name in ("code", "name", "severity", "message", "cause", "fix")} == {
        name: card[name] for name in ("code", "name", "severity", "message", "cause", "fix")
    }


@pytest.fixture(scope="module")
def watched() -> WatchResult:
    torch.manual_seed(0)
    program = PROGRAMS["mlp"]()
    debugger = Debugger(program.model, program.loader(), loss_fn=program.loss_fn, optimizer=program.optimizer)
    with debugger.watch(every=2, final_tests=False) as run:
        train(program, program.loader(), 12)
    assert run.result is not None
    return run.result


def test_watch_result_as_dict_has_findings_curves_and_layers(watched: WatchResult) -> None:
    content = json.loads(watched.to_json())
    assert content["schema"] == SCHEMA
    assert [item["code"] for item in content["findings"]] == [finding.code for finding in watched.report]
    assert (content["run"]["steps"], content["run"]["interrupted"]) == (12, False)
    losses = content["run"]["curves"]["loss"]
    assert losses["steps"] == [step for step, _ in watched.loss]
    assert losses["values"] == pytest.approx([value for _, value in watched.loss], rel=1e-3)
    assert [layer["name"] for layer in content["layers"]["modules"]] == [item.name for item in watched.record.modules]
    statistics = content["layers"]["statistics"]
    assert statistics.keys() == set(watched.record.layers.columns)
    assert all(len(values) == len(content["layers"]["steps"]) for values in statistics.values())


@pytest.mark.parametrize("count", [1, 4, 60])
def test_shortened_document_fits_limit_and_keeps_counts(count: int) -> None:
    texts = {"message": "m" * 900, "cause": "c" * 900, "fix": "f" * 900}
    long = [replace(CAUSE, **texts)]
    content = document("Check", long * count, script={"path": "train.py", "arguments": ["a" * 5_000]})
    short = shorten(content)
    assert len(to_json(short)) <= MAX_SUMMARY_BYTES
    assert short["counts"]["error"] == count
    assert short["abridged"]
    assert short["findings"][0]["code"] == "L201"
    assert len(content["findings"][0]["message"]) == 900


def test_short_document_stays_as_it_is() -> None:
    content = document("Check", [CAUSE])
    assert shorten(content) == content


def test_annotation_has_escaped_place_and_text() -> None:
    error, note = workflow_commands(described(CAUSE, CONSEQUENCE))
    assert error == (
        "::error file=src/a train.py,line=7,title=L201 softmax-before-cross-entropy::"
        "The loss is 100%25, it is: high, and%0Astays there.%0ATwo softmaxes.%0Areturn x"
    )
    assert note == "::notice title=T601 flat-loss::The loss is flat."
    comma = [{**described(CAUSE)[0], "file": "a,b:c.py"}]
    assert next(iter(workflow_commands(comma))).startswith("::error file=a%2Cb%3Ac.py,line=7")


def test_sarif_log_has_published_structure() -> None:
    outside = Finding(
        message="m", where=Location(file="/other dir/x.py", line=1), code="D101", name="d", severity="note"
    )
    log = sarif_log(described(CAUSE, CONSEQUENCE, CAUSE, outside), "1.0", {"L201": "Softmax before the loss."})
    jsonschema.Draft7Validator(LOG).validate(log)
    run = log["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["L201", "T601", "D101"]
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == ["L201", "T601", "L201", "D101"]
    assert "relatedLocations" not in run["results"][0]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "src/a%20train.py"
    assert place["region"] == {"startLine": 7, "snippet": {"text": "loss.backward()"}}
    assert run["results"][1]["locations"] == []
    assert (
        run["results"][3]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "file:///other%20dir/x.py"
    )


def test_related_line_in_sarif_is_a_related_location_with_its_role() -> None:
    log = sarif_log(described(replace(CAUSE, related=(SHIFTED,))), "1.0", {})
    jsonschema.Draft7Validator(LOG).validate(log)
    (related,) = log["runs"][0]["results"][0]["relatedLocations"]
    assert related["physicalLocation"]["artifactLocation"] == {"uri": "data.py"}
    assert related["physicalLocation"]["region"]["startLine"] == 3
    assert related["message"] == {"text": SHIFTED.role}


def test_structure_rejects_log_with_unknown_property_or_level() -> None:
    log = sarif_log(described(CAUSE), "1.0", {})
    for change in ({"severity": "error"}, {"level": "fatal"}):
        broken = json.loads(json.dumps(log))
        broken["runs"][0]["results"][0].update(change)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft7Validator(LOG).validate(broken)
