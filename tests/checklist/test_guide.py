"""Tests of the guide: the order of its steps, the answers that it reads, the journal, and requests of its page."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from torch import nn

import nbdebug
from nbdebug.checklist.steps import STEPS
from nbdebug.debugger import Debugger
from nbdebug.rules.examples import classifier
from nbdebug.views.kernel_bridge import get_response


@pytest.fixture
def debugger() -> Debugger:
    return Debugger.of(classifier(nn.Softmax(dim=1)))


def statuses(debugger: Debugger) -> dict[str, str]:
    return {state.step.name: state.status for state in debugger.guide().steps}


def test_every_step_names_a_method_and_says_what_its_answers_mean() -> None:
    for step in STEPS:
        assert callable(getattr(Debugger, step.name))
        assert step.question.endswith("?")
        assert all(text.endswith((".", "()")) for text in (step.why, step.clear))
        assert f"dbg.{step.name}" in step.code


def test_guide_runs_steps_in_order_and_judges_answers_by_findings(debugger: Debugger) -> None:
    guide = nbdebug.guide(debugger)
    assert guide.headline.startswith("0 of 10 steps done; next: summary.")
    guide.run()
    guide.run()
    assert statuses(debugger) | {"summary": "note", "checkup": "error"} == statuses(debugger)
    assert guide.headline.startswith("2 of 10 steps done; next: data.")
    text = guide.to_text()
    assert "error L201 softmax-before-cross-entropy" in text
    assert "Start with the first card" in text
    assert list(guide.to_frame().query("step == 'checkup'")["codes"]) == ["L201"]


def test_checkup_without_findings_is_done() -> None:
    debugger = Debugger.of(classifier())
    assert not debugger.checkup().findings
    assert statuses(debugger)["checkup"] == "good"


def test_tests_of_a_watched_run_do_not_answer_steps() -> None:
    debugger = Debugger.of(classifier())
    debugger.reports["overfit"] = debugger.checkup()
    assert statuses(debugger)["overfit"] == "open"


def test_guide_is_the_same_at_every_call_and_reads_tools_that_were_called_elsewhere(debugger: Debugger) -> None:
    guide = debugger.guide()
    debugger.overfit(examples=4)
    assert debugger.guide() is guide
    assert statuses(debugger)["overfit"] == "error"
    assert "Do not train on more data yet." in guide.skip("summary").to_html()


def test_skipped_step_is_left_out_until_it_is_taken_back_or_run(debugger: Debugger) -> None:
    guide = debugger.guide()
    assert guide.skip().position == "checkup"
    assert statuses(debugger)["summary"] == "skipped"
    assert guide.skip("summary").position == "summary"
    assert statuses(debugger)["summary"] == "open"
    guide.skip("summary").run("summary")
    assert statuses(debugger)["summary"] == "note"
    for step in STEPS[1:]:
        guide.skip(step.name)
    with pytest.raises(nbdebug.SetupError, match="guide has no step left; expected a name"):
        guide.run()


def test_step_of_own_loop_is_read_from_the_watched_run(debugger: Debugger) -> None:
    guide, setup = debugger.guide(), debugger.setup
    with pytest.raises(nbdebug.SetupError, match=r"dbg.watch\(\) has no run; expected one"):
        guide.run("watch")
    with debugger.watch(final_tests=False):
        for inputs, target in setup.train_loader:
            setup.optimizers[0].zero_grad()
            setup.loss_fn(setup.model(inputs), target).backward()
            setup.optimizers[0].step()
    assert guide.run("watch") is debugger.watched.result
    assert guide.answers["watch"].headline.startswith("4 steps, loss")


def test_unknown_step_is_refused_with_the_choices(debugger: Debugger) -> None:
    with pytest.raises(nbdebug.SetupError, match=r"step is 'overfitt'; expected one of summary, checkup, .*Choose one"):
        debugger.guide().run("overfitt")


def test_export_needs_an_open_journal_and_another_session_goes_on(debugger: Debugger, tmp_path: Path) -> None:
    guide = debugger.guide()
    with pytest.raises(nbdebug.SetupError, match="journal is not open"):
        guide.export()
    debugger.journal.open(tmp_path / "journal.md")
    guide.run("checkup")
    guide.skip("data")
    guide.export()
    assert "- data: skipped" in (tmp_path / "journal.md").read_text(encoding="utf-8")
    assert "guide: 1 steps done" in debugger.journal.to_text()

    other = Debugger.of(classifier())
    other.journal.open(tmp_path / "journal.md")
    assert statuses(other) | {"checkup": "open", "data": "skipped"} == statuses(other)
    states = {state.step.name: state for state in other.guide().steps}
    assert states["checkup"].headline == guide.answers["checkup"].headline
    assert "was exported to the journal before" in states["checkup"].meaning
    assert other.guide().position == guide.position


def test_requests_of_the_page_run_skip_and_open_steps(debugger: Debugger) -> None:
    guide = debugger.guide()
    state = get_response(guide, {"kind": "run", "step": "checkup"})["state"]
    checkup = next(step for step in state["steps"] if step["name"] == "checkup")
    assert (checkup["status"], checkup["findings"][0]["code"]) == ("error", "L201")
    assert checkup["pages"][0]["sections"][0][0] == "What it does"
    assert get_response(guide, {"kind": "open", "step": "errors"})["state"]["position"] == "errors"
    assert get_response(guide, {"kind": "skip", "step": "errors"})["state"]["steps"][6]["status"] == "skipped"
    assert "dbg.watch() has no run" in get_response(guide, {"kind": "run", "step": "watch"})["trouble"]
    assert "journal is not open" in get_response(guide, {"kind": "export"})["trouble"]
    assert "request is 'erase'; expected one of state, open" in get_response(guide, {"kind": "erase"})["trouble"]


def test_pickled_copy_has_the_answers_and_runs_nothing(debugger: Debugger) -> None:
    guide = debugger.guide()
    guide.run("checkup")
    copy = pickle.loads(pickle.dumps(guide))
    assert copy.to_text() == guide.to_text()
    with pytest.raises(nbdebug.SetupError, match="guide is a copy without its Debugger"):
        copy.run()
