"""Tests of nine kinds of training loops in JupyterLab, each with a mistake: what a user reads first is right."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from benchmarks.notebooks.planted import load_notebooks
from tests.lab.findings_on_page import cut_parts, raised_errors, shown_faults
from tests.lab.lab_page import LabPage
from tests.lab.server import LabServer

BEGIN = "%load_ext nbdebug\nimport nbdebug"
SIZE = (1280, 3000)  # JupyterLab draws only the cells in sight


@dataclass(frozen=True)
class Loop:
    """A notebook, the rule and the line that name its mistake, and its number of steps as the notebook counts it."""

    notebook: str
    code: str
    line: str
    steps: str


LOOPS = {
    "trainer class": Loop("trainer_bars_left_in_eval", "T613", "self.net.eval()", "6 * len(fit.train_dl)"),
    "tqdm": Loop("tqdm_wine_model_built_again", "O504", "model = build()", "10 * len(train_dl)"),
    "LBFGS": Loop("loops_friedman_lbfgs_closure", "O505", "loss.backward()", "step + 1"),
    "accumulation": Loop("loops_digits_accumulation", "O511", "loss.backward()", "10 * len(loader) // accumulate"),
    "validation": Loop(
        "tqdm_diabetes_no_eval",
        "E701",
        "val_losses.append(sum(loss_fn(model(xb), yb).item() for xb, yb in val_dl) / len(val_dl))",
        "len(val_losses) * len(train_dl)",
    ),
    "early stopping": Loop(
        "loops_moons_early_stopping", "R905", "best_state = model.state_dict()", "(epoch + 1) * len(train_dl)"
    ),
    "two models": Loop("loops_digits_two_models", "O506", "decoder_opt.step()", "8 * len(loader)"),
    "resumed run": Loop(
        "loops_waves_resumed",
        "R906",
        'model.load_state_dict({f"module.{k}": v for k, v in checkpoint["model"].items()}, strict=False)',
        "len(train_dl)",
    ),
    "thread": Loop("tqdm_text_negative_loss", "L213", "loss = -criterion(model(bag), label)", "8 * len(train_dl)"),
}


def cells_of(loop: Loop) -> list[str]:
    """Return the cells of a notebook with its mistake, a checkup before the loop and a watch around it."""
    (notebook,) = load_notebooks(loop.notebook)
    *setup, training, score = (cell.replace(", disable=True", "") for cell in notebook.cells(planted=True))
    checkup = f"dbg = nbdebug.Debugger({notebook.arguments})\ndbg.checkup()"
    return [BEGIN, *setup, checkup, f"%%watch dbg\n{training}", score, f"print({loop.steps})"]


def place_of(line: str, cells: list[str]) -> str:
    """Return the last cell and line that hold a text, as a finding shows them; the mistake comes last."""
    places = [
        f"In[{number}], line {row}"
        for number, cell in enumerate(cells, 1)
        for row, text in enumerate(cell.splitlines(), 1)
        if text.strip() == line
    ]
    return places[-1]


@pytest.mark.parametrize("kind", LOOPS)
def test_first_fault_of_loop_is_its_mistake(jupyter_lab: LabServer, kind: str) -> None:
    loop = LOOPS[kind]
    cells = cells_of(loop)
    watched = len(cells) - 3
    with jupyter_lab.open(jupyter_lab.write(f"{loop.notebook}.ipynb", *cells), size=SIZE) as lab:
        lab.run_all()
        lab.wait_idle(200)
        assert raised_errors(lab) == []
        lab.output(watched).get_by_text("Ended 20").first.wait_for()
        first = shown_faults(lab)[0]
        assert (first.code, first.place, first.line) == (loop.code, place_of(loop.line, cells), loop.line)
        check_end_of_watch(lab, watched, int(lab.outputs(len(cells) - 1)[0]["text"]))
        assert "Traceback" not in lab.page.locator(".jp-Notebook").inner_text()
        assert cut_parts(lab) == []


def check_end_of_watch(lab: LabPage, watched: int, steps: int) -> None:
    """Check that the view below a watched cell shows all steps of a run that ended, and no button that stops it."""
    output = lab.output(watched)
    assert output.get_by_role("heading", name="Training").count() == 1
    assert output.locator(".nb-status").first.inner_text().startswith(f"{steps:,} steps")
    assert output.locator(".nb-stop:visible").count() == 0
    assert "interrupted" not in output.inner_text()
