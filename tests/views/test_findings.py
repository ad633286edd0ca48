"""Tests of the findings view."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from nbdebug.finding import Finding, LineChange, Location, RelatedLine
from nbdebug.views.findings import FindingsView
from nbdebug.views.kernel_bridge import get_response
from nbdebug.views.page import static_html
from tests.browser import answer_requests
from tests.tools.try_fix.programs import debugger, sgd

from .conftest import OpenPage
from .error_browser_pages import FAKE_KERNEL
from .sample_views import findings_view


def test_findings_view_shows_source_line_and_nests_consequences(open_page: OpenPage) -> None:
    page = open_page(findings_view())
    assert page.locator(".nb-cards > .nb-card").count() == 3
    first = page.locator(".nb-card").first
    assert "In[12], line 7" in first.locator(".nb-place").first.inner_text()
    assert first.locator(".nb-hit").inner_text().strip().endswith("return F.softmax(x, dim=1)")
    assert first.locator(".nb-where .nb-code > div").count() == 5
    page.get_by_text("Explains 2 more").click()
    assert page.get_by_text("16 examples cannot be memorized.").is_visible()


def test_finding_at_module_with_numeric_name_says_module(open_page: OpenPage) -> None:
    finding = Finding(
        "It ends in softmax.", Location(module="7", step=3), code="L201", name="softmax", severity="error"
    )
    page = open_page(FindingsView(findings=[finding.to_dict()]))
    assert page.locator(".nb-place").inner_text() == str(finding.where) == "module 7 · step 3"
    assert str(Location(module="7", parameter="7.weight")) == "7.weight"


def test_findings_filter_hides_severity_and_unnests_consequences(open_page: OpenPage) -> None:
    page = open_page(findings_view())
    page.get_by_role("button", name="2 errors").click()
    top = page.locator(".nb-cards > .nb-card")
    assert top.locator(".nb-tag b").all_inner_texts() == ["O503", "L208", "D112"]
    page.get_by_role("button", name="2 errors").click()
    assert top.first.locator(".nb-tag b").first.inner_text() == "L201"


def test_finding_copy_button_puts_fix_on_clipboard(open_page: OpenPage) -> None:
    page = open_page(findings_view())
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy: fix").first.click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "return x  # CrossEntropyLoss applies log_softmax itself"


CHANGE = LineChange("In[3], line 7", ("return F.softmax(x, dim=1)",), ("return x  # <logits>",))
CHANGED = Finding(
    "It ends in softmax.", fix="return x  # <logits>", changes=(CHANGE,), trial="the rule no longer reports it"
)


def test_fix_that_changes_a_line_is_a_diff_with_a_copy_button(open_page: OpenPage) -> None:
    page = open_page(FindingsView(findings=[CHANGED.to_dict()], checked=1))
    assert page.locator(".nb-fix .nb-place").inner_text() == "In[3], line 7"
    assert page.locator(".nb-diff > .nb-removed").all_inner_texts() == ["- return F.softmax(x, dim=1)"]
    assert page.locator(".nb-diff > .nb-added").all_inner_texts() == ["+ return x  # <logits>"]
    assert page.locator(".nb-trial").inner_text() == "Tried: the rule no longer reports it."
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy: fix").click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "return x  # <logits>"


def test_fix_that_changes_a_line_is_a_diff_in_plain_html_and_text() -> None:
    html = FindingsView(findings=[CHANGED.to_dict()], checked=1).html()
    assert "<pre>In[3], line 7\n- return F.softmax(x, dim=1)\n+ return x  # &lt;logits&gt;</pre>" in html
    assert "Tried: the rule no longer reports it." in html
    assert str(CHANGED).endswith("+ return x  # <logits>\n         tried: the rule no longer reports it")


RELATED = Finding(
    "The targets are 2 tokens ahead.",
    Location(cell=5, line=4, source="    loss = f(out[:, :-1], y[:, 1:])", file="5.py"),
    related=(
        RelatedLine(Location(cell=2, line=9, source="    return x, '<b>'", file="2.py"), "<i>they</i> shift here"),
    ),
    code="D126",
    name="targets-not-shifted",
    severity="error",
)


def test_related_line_is_one_line_with_its_source(open_page: OpenPage) -> None:
    page = open_page(FindingsView(findings=[RELATED.to_dict()], checked=1))
    assert page.locator(".nb-place").all_inner_texts() == ["In[5], line 4", "In[2], line 9 · <i>they</i> shift here"]
    assert page.locator(".nb-where pre").all_inner_texts() == [
        "4    loss = f(out[:, :-1], y[:, 1:])",
        "9return x, '<b>'",
    ]


def test_related_line_is_escaped_in_html_and_stands_below_the_place_in_text() -> None:
    html = FindingsView(findings=[RELATED.to_dict()], checked=1).html()
    escaped = "<p>In[2], line 9: &lt;i&gt;they&lt;/i&gt; shift here</p><pre>return x, &#x27;&lt;b&gt;&#x27;</pre>"
    assert escaped in html
    assert "<i>" not in html
    assert "<b>'" not in html
    assert str(RELATED).splitlines()[1:] == [
        "  at     In[5], line 4",
        "         loss = f(out[:, :-1], y[:, 1:])",
        "  see    In[2], line 9: <i>they</i> shift here",
        "         return x, '<b>'",
    ]


def test_finding_keeps_two_related_lines_other_than_its_own() -> None:
    lines = [RelatedLine(Location(file="5.py", line=line), "here") for line in (4, 5, 5, 6, 7)]
    finding = replace(RELATED, related=tuple(lines))
    assert [item.where.line for item in finding.related] == [5, 6]
    assert [item.where.line for item in replace(finding, where=lines[3].where).related] == [5]


def test_code_in_a_sentence_is_no_code_block(open_page: OpenPage) -> None:
    finding = Finding("Two linear layers.", fix="Write `x = torch.relu(x)` (between the two layers).")
    page = open_page(FindingsView(findings=[finding.to_dict()], checked=1))
    assert page.locator("code").all_inner_texts() == ["x = torch.relu(x)"]
    assert page.locator("pre").count() == page.get_by_role("button", name="Copy").count() == 0


def test_single_finding_displays_as_a_card(open_page: OpenPage) -> None:
    bundle = CHANGED._repr_mimebundle_()
    assert bundle["text/plain"] == str(CHANGED)
    assert "<pre>In[3], line 7" in bundle["text/html"]
    assert open_page(FindingsView(title="Finding", findings=[CHANGED.to_dict()])).locator(".nb-card").count() == 1


def test_findings_view_without_findings_says_nothing_found(open_page: OpenPage) -> None:
    assert "Nothing found by 12 checks" in open_page(FindingsView(checked=12)).locator(".nb-good").inner_text()


def test_findings_view_before_first_check_says_nothing(open_page: OpenPage) -> None:
    assert open_page(FindingsView()).locator(".nb-good").count() == 0


def test_findings_view_shows_progress_and_early_stop(open_page: OpenPage) -> None:
    page = open_page(
        FindingsView(progress={"done": 3, "total": 12, "name": "broadcast-loss", "seconds_left": 14.2}),
        FindingsView(checked=3, stopped=True),
    )
    assert "3 of 12 · broadcast-loss · about 15 s left" in page.locator(".nb-progress").first.inner_text()
    assert "Stopped after 3 checks" in page.locator(".nb-warning").inner_text()


def test_finding_context_omits_blank_lines_at_its_ends(open_page: OpenPage) -> None:
    context = ((2, ""), (3, "a = 1"), (4, ""), (5, "b = a / 0"), (6, " "), (7, ""))
    location = Location(file="train.py", line=5, source="b = a / 0", context=context)
    finding = Finding("It divides by zero.", location, code="G405", name="non-finite-forward", severity="error")
    page = open_page(FindingsView(findings=[finding.to_dict()], checked=1))
    assert page.locator(".nb-number").all_inner_texts() == ["3", "4", "5"]


def test_findings_that_explain_each_other_are_nested_once() -> None:
    view = findings_view()
    first, second = (
        {**finding, "code": code, "explains": explains}
        for finding, code, explains in zip(view.findings, "AB", "BA", strict=False)
    )
    view.findings = [first, second]
    assert [card["under"] for card in view.state()["findings"]] == [None, 0]


def test_finding_whose_fix_changes_the_setup_shows_the_line_that_tries_it(open_page: OpenPage) -> None:
    findings = [Finding("Too low.", code="O502", setup_fix="learning rate=0.1"), Finding("No clear.", code="O505")]
    view = FindingsView(findings=[finding.to_dict() for finding in findings], checked=1)
    page = open_page(view)
    assert page.get_by_text("dbg.try_fix").all_inner_texts() == ['dbg.try_fix("O502")']
    assert page.get_by_role("button", name="Try it now").count() == 0
    assert "dbg.try_fix(&quot;O502&quot;)" in view.html()
    view.debugger = "debugger_of_head"
    assert view.state()["findings"][0]["try_line"] == 'debugger_of_head.try_fix("O502")'


def test_try_button_trains_with_the_fix_while_python_is_available(browser: Any, tmp_path: Path) -> None:
    dbg = debugger(nn.Softmax(1), optimizer=sgd(0.05))
    report = dbg.checkup(select=["L"])
    page = browser.new_page()
    file = tmp_path / "report.html"
    file.write_text("<!doctype html><meta charset=utf-8>" + static_html(report.view(), "result"), encoding="utf-8")
    page.goto(file.as_uri())
    answer_requests(page, lambda text: json.dumps(get_response(report, json.loads(text))))
    page.evaluate(FAKE_KERNEL)
    button = page.get_by_role("button", name="Try it now")
    button.click()
    page.get_by_text("nbdebug try_fix: helps. With fix of L201").wait_for(timeout=60_000)
    assert dbg.results["try_fix"].helps  # type: ignore[attr-defined]
    page.evaluate("restart()")
    assert not button.is_visible()
    page.close()


def test_report_without_setup_refuses_a_trial() -> None:
    report = pickle.loads(pickle.dumps(debugger(nn.Softmax(1)).checkup(select=["L"])))
    assert "this report has no setup" in get_response(report, {"kind": "try", "finding": 0})["trouble"]
