"""Tests of slips on purpose in JupyterLab: cells that run again, out of order or after an interrupt; edited modules."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from tests.lab.findings_on_page import cut_parts, raised_errors, shown_faults, shown_steps
from tests.lab.lab_page import LabPage
from tests.lab.server import LabServer

IMPORTS = """
%load_ext nbdebug
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import nbdebug

torch.manual_seed(0)
"""
DATA = """
x = torch.randn(512, 8)
data = TensorDataset(x, (x[:, :4].sum(1) > 0).long())
train_loader = DataLoader(TensorDataset(*data[:384]), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(*data[384:]), batch_size=32)
"""
MODEL = """
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
"""
OPTIMIZER = "optimizer = torch.optim.Adam(model.parameters(), lr=0.01)"
LOSS = "loss_fn = nn.CrossEntropyLoss()"
DEBUGGER = "dbg = nbdebug.Debugger(model, train_loader, val_loader, loss_fn=loss_fn, optimizer=optimizer)"
CHECKUP = "dbg.checkup()"
LOOP = """
%%watch dbg
for epoch in range(4):
    for inputs, targets in train_loader:
        optimizer.zero_grad()
        loss_fn(model(inputs), targets).backward()
        optimizer.step()
"""
REFRESH = "dbg.refresh();"
CELLS = (IMPORTS, DATA, LOSS, MODEL, OPTIMIZER, DEBUGGER, CHECKUP, LOOP, REFRESH)
NUMBER = {source: number for number, source in enumerate(CELLS)}
STEPS = 48
SIZE = (1280, 3000)  # JupyterLab draws only the cells in sight


def run(lab: LabPage, *sources: str) -> None:
    """Run cells one after the other, and check that none of them raises."""
    lab.run_cells(*(NUMBER[source] for source in sources))
    assert raised_errors(lab) == []


def first_line(lab: LabPage, source: str) -> str:
    """Return the first line that the page shows below a cell."""
    return str(lab.output(NUMBER[source]).inner_text()).strip().partition("\n")[0]


def check_healthy(lab: LabPage, *, notice: str = "") -> None:
    """Check that the checkup and the watched loop accuse nothing, and begin with this notice or with none."""
    for source in (CHECKUP, LOOP):
        run(lab, source)
        wait_for_end(lab, NUMBER[source])
        line = first_line(lab, source)
        assert line.startswith(notice or ("Checkup" if source is CHECKUP else "Training of Sequential")), line
        assert line.count("dbg.refresh()") == bool(notice), line
        assert shown_faults(lab, NUMBER[source]) == []
    assert cut_parts(lab) == []


def wait_for_end(lab: LabPage, cell: int) -> None:
    """Wait until the page shows that the tool in a cell has ended."""
    lab.output(cell).get_by_text("Ended 20").first.wait_for()


@pytest.fixture(scope="module")
def notebook(jupyter_lab: LabServer) -> Iterator[LabPage]:
    """A healthy notebook whose cells up to the Debugger have run."""
    with jupyter_lab.open(jupyter_lab.write("slips.ipynb", *CELLS), size=SIZE) as lab:
        run(lab, *CELLS[: NUMBER[CHECKUP]])
        yield lab


@pytest.mark.parametrize(
    ("again", "notice"),
    [
        ((MODEL,), "model and optimizer now hold other objects"),
        ((DATA,), "train_loader and val_loader now hold other objects"),
        ((LOSS,), "loss_fn now holds another object"),
        ((OPTIMIZER,), "optimizer now holds another object"),
        ((IMPORTS, DATA, LOSS, MODEL), "model, optimizer, loss_fn, train_loader and val_loader now hold other objects"),
    ],
    ids=["model", "data", "loss", "optimizer", "all"],
)
def test_objects_made_again_are_named_first_until_refresh(
    notebook: LabPage, again: tuple[str, ...], notice: str
) -> None:
    run(notebook, REFRESH, *again)
    check_healthy(notebook, notice=f"{notice} than")
    if MODEL in again:
        assert "The loop trained another Sequential" in notebook.output(NUMBER[LOOP]).inner_text()
    run(notebook, REFRESH)
    check_healthy(notebook)
    assert shown_steps(notebook, NUMBER[LOOP]) == STEPS


def test_second_run_from_trained_weights_accuses_nothing(notebook: LabPage) -> None:
    run(notebook, MODEL, REFRESH)
    for _ in range(2):
        check_healthy(notebook)
        assert shown_steps(notebook, NUMBER[LOOP]) == STEPS
        assert notebook.output(NUMBER[LOOP]).get_by_role("heading", name="Training").count() == 1


FAULTY_LOOP = """
%%watch dbg
while not os.path.exists("end"):
    for inputs, targets in train_loader:
        loss_fn(model(inputs), targets).backward()
        optimizer.step()
        time.sleep(0.02)
"""


def wait_for_steps(lab: LabPage, cell: int, steps: int) -> None:
    """Wait until the live view below a cell is past a step."""
    lab.output(cell).locator(".nb-stop:visible").first.wait_for()
    lab.wait_until(lambda: shown_steps(lab, cell) >= steps, timeout=60)


@pytest.mark.parametrize("way", ["Stop", "interrupt button"])
def test_interrupted_loop_shows_its_findings_and_next_run_replaces_it(jupyter_lab: LabServer, way: str) -> None:
    cells = (f"{IMPORTS}import os", DATA, LOSS, MODEL, DEBUGGER, FAULTY_LOOP, "print(run.result.steps)")
    loop = cells.index(FAULTY_LOOP)
    with jupyter_lab.open(jupyter_lab.write("interrupted.ipynb", *cells), size=SIZE) as lab:
        lab.run_cells(*range(loop))
        lab.run_cell(loop)
        wait_for_steps(lab, loop, 40)
        if way == "Stop":
            lab.output(loop).locator(".nb-stop:visible").first.click()
        else:
            lab.page.locator("[data-command='notebook:interrupt-kernel']").first.click()
        lab.wait_idle(60)
        lab.output(loop).get_by_text("steps, interrupted").first.wait_for()
        stopped_at = shown_steps(lab, loop)
        assert stopped_at >= 40
        assert [fault.code for fault in shown_faults(lab, loop)][:1] == ["O505"]
        assert lab.output(loop).locator(".nb-stop:visible").count() == 0
        assert [error.partition(":")[0] for error in raised_errors(lab)] == ["KeyboardInterrupt"] * (way != "Stop")
        lab.run_cells(loop + 1)
        assert int(lab.outputs(loop + 1)[0]["text"]) == stopped_at

        lab.run_cell(loop)
        wait_for_steps(lab, loop, 10)
        assert "interrupted" not in lab.output(loop).inner_text()
        jupyter_lab.end_file.touch()
        lab.wait_idle(60)
        wait_for_end(lab, loop)
        assert lab.output(loop).get_by_role("heading", name="Training").count() == 1
        assert "interrupted" not in lab.output(loop).inner_text()
        assert shown_faults(lab, loop)[0].code == "O505"
        lab.run_cells(loop + 1)
        assert int(lab.outputs(loop + 1)[0]["text"]) == shown_steps(lab, loop)
        assert raised_errors(lab) == []


def test_magics_before_debugger_exists_say_one_sentence(jupyter_lab: LabServer) -> None:
    cells = (IMPORTS, "%checkup", LOOP, "%errors", "%nbdebug summary")
    with jupyter_lab.open(jupyter_lab.write("early.ipynb", *cells), size=SIZE) as lab:
        for cell in range(len(cells)):
            lab.run_cells(cell)
        for cell in range(1, len(cells)):
            text = str(lab.output(cell).inner_text()).strip()
            assert re.search(r"expected .*\. Create .*: dbg = nbdebug\.Debugger\(model, train_loader\)\.$", text), text
            assert len(text.splitlines()) == 1, text
        assert "Traceback" not in lab.page.locator(".jp-Notebook").inner_text()


NETS = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 2)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


def train(model, loader, loss_fn, optimizer):
    for epoch in range(4):
        for inputs, targets in loader:
            loss_fn(model(inputs), targets).backward()
            optimizer.step()
"""
RELOAD = "%load_ext autoreload\n%autoreload 2\nfrom edited_nets import Net, train"
NET = "net = Net()\nopt = torch.optim.Adam(net.parameters(), lr=0.01)"
NET_DEBUGGER = "dbg = nbdebug.Debugger(net, train_loader, val_loader, loss_fn=loss_fn, optimizer=opt)"
NET_LOOP = "%%watch dbg\ntrain(net, train_loader, loss_fn, opt)"


def test_edits_of_imported_module_are_followed(jupyter_lab: LabServer) -> None:
    file = jupyter_lab.notebooks / "edited_nets.py"
    file.write_text(NETS)
    cells = (IMPORTS, DATA, LOSS, RELOAD, NET, NET_DEBUGGER, NET_LOOP, REFRESH)
    net, loop, refresh = 4, 6, 7

    def edit(old: str, new: str) -> None:
        time.sleep(1.1)  # a file is loaded again if its time in seconds has changed
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def run_loop(lab: LabPage, *earlier: int) -> None:
        lab.run_cells(*earlier, loop)
        wait_for_end(lab, loop)
        assert raised_errors(lab) == []

    def check_uncleared(lab: LabPage) -> None:
        run_loop(lab)
        lines = file.read_text().splitlines()
        line = "loss_fn(model(inputs), targets).backward()"
        fault = shown_faults(lab, loop)[0]
        number = [text.strip() for text in lines].index(line) + 1
        assert (fault.code, fault.line) == ("O505", line)
        assert fault.place.endswith(f"edited_nets.py, line {number}"), fault.place

    with jupyter_lab.open(jupyter_lab.write("reloaded.ipynb", *cells), size=SIZE) as lab:
        lab.run_cells(*range(loop))
        check_uncleared(lab)
        edit("def train", "# The training loop.\n# It has a mistake.\n\n\ndef train")
        check_uncleared(lab)
        edit("            loss_fn(", "            optimizer.zero_grad()\n            loss_fn(")
        run_loop(lab, net, refresh)
        assert shown_faults(lab, loop) == []
        edit("(8, 16), nn.Linear(16, 2)", "(8, 24), nn.Linear(24, 2)")
        run_loop(lab)
        notice = str(lab.output(loop).inner_text()).strip().partition("\n")[0]
        assert notice.startswith("The class Net was defined again after net was made"), notice
        assert "dbg.refresh()" in notice
        assert shown_faults(lab, loop) == []
        run_loop(lab, net, refresh)
        assert "defined again" not in lab.output(loop).inner_text()
        assert shown_faults(lab, loop) == []
        assert shown_steps(lab, loop) == STEPS
