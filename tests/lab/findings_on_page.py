"""What a user reads in the outputs of a notebook in JupyterLab: findings, and what is wrong with the page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tests.lab.lab_page import LabPage

_READ_FINDINGS = """cells => cells.flatMap((cell, i) => {
  const text = (node, name) => node.querySelector(`:scope > ${name}`)?.textContent ?? "";
  return [...cell.querySelectorAll(".nb-cards > .nb-card")].map((card) => ({
    cell: i,
    severity: card.className.replace("nb-card", "").replace("nb-", "").trim(),
    code: text(card, ".nb-tag > b"),
    message: text(card, ".nb-message"),
    place: text(card, ".nb-where > .nb-place > b"),
    line: text(card, ".nb-where > .nb-code > .nb-hit").replace(/^\\d+/, "").trim(),
  }));
})"""
# Outputs and their parts that are wider than what shows them; parts that do not clip, or that scroll, are readable.
_FIND_CUT_PARTS = """outputs => outputs.flatMap((output) => [output, ...output.querySelectorAll("*")]
  .filter((node) => node === output || ["hidden", "clip"].includes(getComputedStyle(node).overflowX))
  .filter((node) => node.clientWidth > 1 && node.scrollWidth > node.clientWidth + 1)
  .map((node) => `${node.tagName} ${node.className}: ${node.scrollWidth} of ${node.clientWidth} pixels`))"""


@dataclass(frozen=True)
class ShownFinding:
    """The card of a finding below a cell; ``place`` and ``line`` are the heading and the marked line of its code."""

    cell: int
    severity: str
    code: str
    message: str
    place: str
    line: str


def shown_findings(lab: LabPage) -> list[ShownFinding]:
    """Return the findings on the page from top to bottom, without the consequences folded below them."""
    return [ShownFinding(**card) for card in lab.page.locator(".jp-Notebook .jp-Cell").evaluate_all(_READ_FINDINGS)]


def shown_faults(lab: LabPage, *cells: int) -> list[ShownFinding]:
    """Return the errors and warnings below these cells, or on the whole page."""
    faults = [finding for finding in shown_findings(lab) if finding.severity != "note"]
    return [finding for finding in faults if not cells or finding.cell in cells]


def cut_parts(lab: LabPage) -> list[str]:
    """Return the parts of outputs that are cut off on the right, with their widths."""
    return list(lab.page.locator(".jp-OutputArea-output").evaluate_all(_FIND_CUT_PARTS))


def raised_errors(lab: LabPage) -> list[str]:
    """Return the text of each exception that a cell displays."""
    outputs: list[dict[str, Any]] = []
    for index in range(lab.focus_state()[2]):
        outputs += lab.outputs(index)
    return [f"{output['ename']}: {output['evalue']}" for output in outputs if output["output_type"] == "error"]


def shown_steps(lab: LabPage, cell: int) -> int:
    """Return the number of steps that the page of a run below a cell shows; 0 before the first."""
    text = lab.output(cell).locator(".nb-status").first.text_content()  # also of a cell that is scrolled out of sight
    match = re.search(r"([\d,]+) steps", text or "")
    return int(match[1].replace(",", "")) if match else 0
