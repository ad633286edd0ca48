from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.journal import Journal
from nbdebug.journal.entries import TWO_CHANGES
from nbdebug.journal.settings import changed_settings, describe_settings
from nbdebug.rules.examples import healthy_classifier, train

WRITER = """
import sys
from nbdebug.journal import Journal
journal = Journal().open(sys.argv[1])
for number in range(100_000):
    journal.note(f"entry {number} " + "x" * 3000)
    print(number, flush=True)
"""


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal().open(tmp_path / "journal.md", problem="The loss oscillates.")


def reopened(journal: Journal) -> Journal:
    assert journal.path is not None
    return Journal().open(journal.path)


def test_hypotheses_and_experiments_are_read_back(journal: Journal) -> None:
    rate = journal.hypothesis("the rate is too high", prior=0.6, prediction="at a tenth the loss falls")
    journal.hypothesis("the labels are wrong", prior=0.2)
    change = "learning rate 0.1 → 0.01"
    journal.experiment(change, before="2.3", after="0.4", conclusion="it falls", hypothesis=rate, status="supported")
    journal.decide("H2", "dropped", "not needed")
    again = reopened(journal)
    assert again.problem == "The loss oscillates."
    assert [(item.name, item.status, item.prior) for item in again.hypotheses] == [
        ("H1", "supported", 0.6),
        ("H2", "dropped", 0.2),
    ]
    assert again.experiments == journal.experiments
    assert again.experiments[0].hypothesis == "H1"
    assert len(again.to_frame()) == 6


def test_conclusion_is_added_to_an_experiment_later(journal: Journal) -> None:
    rate = journal.hypothesis("the rate is too high")
    tested = journal.experiment("rate 0.1 → 0.01", before="2.3", hypothesis=rate)
    assert journal.conclude(tested, "it falls", after="0.4", status="supported").after == "0.4"
    journal.experiment("batch 8 → 64", after="1.9")
    journal.conclude("E2", "no effect", hypothesis="H1")
    first, second = reopened(journal).experiments
    assert (first.before, first.after, first.conclusion) == ("2.3", "0.4", "it falls")
    assert (second.after, second.conclusion, second.hypothesis) == ("1.9", "no effect", "H1")
    assert (journal.hypotheses[0].status, journal.hypotheses[0].reason) == ("supported", "it falls")
    journal.experiment("a wider layer")
    for refused, options in (("E7", {}), ("E3", {"status": "refuted"}), ("E3", {"hypothesis": "H7"})):
        with pytest.raises(SetupError, match="expected"):
            journal.conclude(refused, "x", **options)  # type: ignore[arg-type]


def test_what_another_program_writes_is_read_and_numbers_go_on(journal: Journal) -> None:
    other = reopened(journal)
    other.hypothesis("the labels are wrong")
    assert journal.hypothesis("the rate is too high").name == "H2"
    assert other.experiment("labels shuffled", hypothesis="H2").hypothesis == "H2"
    assert journal.answer({"kind": "state"})["state"]["experiments"][0]["name"] == "E1"
    assert journal.path is not None
    journal.path.unlink()
    journal.note("first of a new file")
    assert [entry.kind for entry in reopened(journal).entries] == ["note"]
    assert not journal.hypotheses


def test_forms_of_the_page_add_entries(journal: Journal) -> None:
    requests = [
        {"kind": "problem", "text": "The loss is flat."},
        {"kind": "hypothesis", "claim": " the rate is too high ", "prior": "0.6", "prediction": "it falls"},
        {"kind": "decide", "name": "H1", "status": "supported", "reason": "seen"},
        {"kind": "experiment", "change": "rate 0.1 → 0.01\nbatch 8 → 64\n", "before": "2.3", "hypothesis": "H1"},
        {"kind": "conclude", "name": "E1", "conclusion": "unclear", "after": "2", "status": "open"},
        {"kind": "note", "text": "a note"},
    ]
    for request in requests:
        state = journal.answer(request)["state"]
    again = reopened(journal)
    assert state == {**again.view().state(), "status": str(journal.path)}
    assert again.problem == "The loss is flat."
    assert (again.hypotheses[0].claim, again.hypotheses[0].prior) == ("the rate is too high", 0.6)
    assert again.hypotheses[0].status == "open"
    assert (again.experiments[0].changes, again.experiments[0].after) == (("rate 0.1 → 0.01", "batch 8 → 64"), "2")
    count = len(journal.entries)
    for refused, expected in (
        ({"kind": "hypothesis", "claim": " "}, "claim is empty"),
        ({"kind": "hypothesis", "claim": "x", "prior": "much"}, "prior is 'much'"),
        ({"kind": "decide", "name": "H1", "status": "sure"}, "status is 'sure'"),
        ({"kind": "delete"}, "request is 'delete'"),
    ):
        with pytest.raises(SetupError, match=expected):
            journal.answer(refused)
    assert len(journal.entries) == count


def test_file_is_markdown_with_front_matter(journal: Journal) -> None:
    journal.hypothesis("the rate is too high", prior=0.6)
    assert journal.path is not None
    text = journal.path.read_text(encoding="utf-8")
    assert text.startswith("---\nnbdebug: journal\n")
    assert "## Problem" in text
    assert "## H1: the rate is too high" in text
    assert "- prior: 0.6" in text


def test_file_only_grows(journal: Journal) -> None:
    assert journal.path is not None
    for act in (lambda: journal.note("a"), lambda: journal.hypothesis("b"), lambda: journal.decide("H1", "refuted")):
        before = journal.path.read_bytes()
        act()
        assert journal.path.read_bytes().startswith(before)


def test_two_changes_at_once_are_flagged(journal: Journal) -> None:
    journal.experiment("one change")
    assert TWO_CHANGES not in str(journal)
    journal.experiment(["rate 0.1 → 0.01", "batch 8 → 64"])
    assert TWO_CHANGES in str(journal)
    assert journal.path is not None
    assert journal.path.read_text(encoding="utf-8").count(TWO_CHANGES) == 1


def test_hostile_text_stays_text(journal: Journal) -> None:
    text = 'a --> <script>alert(1)</script>\n## H9: x\n<!-- nbdebug {"kind": "note", "time": ""} -->'
    journal.note(text)
    again = reopened(journal)
    assert [entry.data["text"] for entry in again.entries if entry.kind == "note"] == [text]
    assert journal.path is not None
    content = journal.path.read_text(encoding="utf-8")
    assert "<script>" not in content
    assert "\n## H9" not in content


def test_killed_process_loses_no_confirmed_entry(tmp_path: Path) -> None:
    path = tmp_path / "journal.md"
    for delay in (0.05, 0.2, 0.4):
        start = len(Journal().open(path).entries) if path.exists() else 0
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()  # it writes
            time.sleep(delay)
            os.kill(process.pid, signal.SIGKILL)
            confirmed = [0, *map(int, process.stdout.read().split())]
        journal = Journal().open(path)
        notes = [entry.data["text"].split()[1] for entry in journal.entries[start:]]
        assert notes[: len(confirmed)] == [str(number) for number in range(len(confirmed))]
        assert len(notes) <= len(confirmed) + 1
        journal.note("last 0 after")
        assert reopened(journal).entries[-1].data["text"] == "last 0 after"


def test_part_of_an_entry_is_left_out_and_writing_goes_on(journal: Journal) -> None:
    journal.note("whole")
    assert journal.path is not None
    whole = journal.path.read_bytes()
    journal.note("torn")
    for cut in range(len(whole), len(journal.path.read_bytes())):
        torn = journal.path.with_name("torn.md")
        torn.write_bytes(journal.path.read_bytes()[:cut])
        again = Journal().open(torn)
        assert next(entry.data["text"] for entry in again.entries if entry.kind == "note") == "whole"
        again.note("next")
        assert reopened(again).entries[-1].data["text"] == "next"


def test_refusals(journal: Journal, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="journal is not open"):
        Journal().note("x")
    other = tmp_path / "README.md"
    other.write_text("# Mine\n")
    with pytest.raises(SetupError, match="a new file or a journal of nbdebug"):
        Journal().open(other)
    assert other.read_text() == "# Mine\n"
    with pytest.raises(SetupError, match="expected a file that can be written"):
        Journal().open(tmp_path / "absent" / "journal.md")
    with pytest.raises(SetupError, match="prior is 2"):
        journal.hypothesis("x", prior=2)
    with pytest.raises(SetupError, match="hypothesis is 'H7'"):
        journal.decide("H7", "refuted")
    with pytest.raises(SetupError, match="status is 'sure'"):
        journal.decide(journal.hypothesis("x"), "sure")  # type: ignore[arg-type]
    with pytest.raises(SetupError, match="status is 'refuted'"):
        journal.experiment("x", status="refuted")


def test_tools_feed_the_journal_and_changes_are_shown(tmp_path: Path) -> None:
    setup = healthy_classifier()
    debugger = Debugger.of(setup)
    debugger.checkup("quick")
    assert not debugger.journal.entries
    debugger.journal.open(tmp_path / "journal.md")
    debugger.checkup("quick")
    with debugger.watch(final_tests=False):
        train(setup, 1)
    setup.optimizers[0].param_groups[0]["lr"] *= 10
    debugger.summary()
    setup.optimizers[0].param_groups[0]["lr"] /= 10
    setup.loss_fn = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    debugger.summary()
    entries = debugger.journal.entries
    assert [entry.data["tool"] for entry in entries] == ["checkup", "watch", "summary", "summary"]
    assert [len(entry.data["changes"]) for entry in entries] == [0, 0, 1, 2]
    assert str(debugger.journal).count(TWO_CHANGES) == 1
    assert "CrossEntropyLoss" in entries[-1].data["changes"][0]
    assert "Journal" in debugger.report(tmp_path / "report.html").read_text(encoding="utf-8")


def test_tried_change_is_an_experiment(tmp_path: Path) -> None:
    debugger = Debugger.of(healthy_classifier())
    debugger.journal.open(tmp_path / "journal.md")
    tried = debugger.try_fix("learning rate=0.02", steps=5, seeds=2, checkup=None)
    (experiment,) = debugger.journal.experiments
    assert experiment.changes == (tried.change,)
    assert experiment.before.startswith(tried.metric)
    assert str(tried.difference) in experiment.conclusion


def test_settings_do_not_depend_on_weights_or_a_schedule() -> None:
    setup = healthy_classifier()
    before = describe_settings(setup)
    optimizer = setup.optimizers[0]
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    train(setup, 1)
    scheduler.step()
    assert changed_settings(before, describe_settings(setup)) == []
