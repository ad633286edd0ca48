"""The lines around a finding's own line."""

from __future__ import annotations

from nbdebug.finding import Finding, Location
from nbdebug.views.findings import FindingsView

from .conftest import Open


def test_blank_lines_at_the_ends_of_the_context_are_left_out(open_page: Open) -> None:
    context = ((2, ""), (3, "a = 1"), (4, ""), (5, "b = a / 0"), (6, " "), (7, ""))
    where = Location(file="train.py", line=5, source="b = a / 0", context=context)
    one = Finding("It divides by zero.", where, code="G405", name="non-finite-forward", severity="error")
    page = open_page(FindingsView(findings=[one.to_dict()], checked=1))
    assert page.locator(".nb-number").all_inner_texts() == ["3", "4", "5"]
