"""Tests of the seventh tutorial: six cells that raise, each explained, and each followed by one that runs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from nbdebug import demo
from tests.tutorials.tutorial_outputs import results_of, tutorial_path

# The finding of each cell that raises, with what its block tells to write.
CRASHES = {
    "X1014": "conv(images[:8].float()).shape",
    "X1001": "self.head = nn.Linear(512, 10)",
    "X1004": "return F.relu(self.projection(x) + y)",
    "X1012": "loss = loss_fn(net(images[:64]), spreadsheet_labels[:64] - 1)",
    "X1021": "gate = gate - gate.mean()",
    "X1025": "collate_fn=collate)",
}


@pytest.fixture(scope="module")
def notebook() -> Any:
    return demo.execute_notebook(tutorial_path("07_it_does_not_even_run.ipynb"))


def blocks_of(cell: Any) -> list[str]:
    texts = [output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", [])]
    return [text for text in texts if re.match(r"nbdebug X\d{4} ", text)]


def test_each_crash_has_one_block_with_its_fix_and_next_code_cell_runs(notebook: Any) -> None:
    code_cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    raised = [cell for cell in code_cells if any(output.output_type == "error" for output in cell.outputs)]
    assert [cell.metadata.get("tags") for cell in raised] == [["raises-exception"]] * len(CRASHES)
    for cell, (code, fix) in zip(raised, CRASHES.items(), strict=True):
        (block,) = blocks_of(cell)
        assert block.startswith(f"nbdebug {code} ")
        assert fix in block
    assert sum(len(blocks_of(cell)) for cell in code_cells) == len(CRASHES)


def test_summary_and_checkup_of_broken_model_show_its_break(notebook: Any) -> None:
    texts = demo.debugger_texts(notebook)
    (summary,) = results_of(texts, "summary")
    (checkup,) = results_of(texts, "checkup")
    assert "stopped in blocks.1" in summary
    assert "X1004 broadcast-mismatch" in checkup


def test_repaired_network_trains(notebook: Any) -> None:
    prints = "".join(output.text for cell in notebook.cells for output in cell.get("outputs", []) if "text" in output)
    accuracies = [float(number) for number in re.findall(r"validation accuracy (\d\.\d+)", prints)]
    assert accuracies[-1] > 0.85
