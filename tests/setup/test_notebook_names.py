"""Tests of a Debugger whose names in the notebook hold other objects than those that it was made from."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.rules.examples import classifier
from nbdebug.setup.notebook_names import NotebookNames
from nbdebug.tools.provenance import ProgramSnapshot

CLASSES = """
import torch, nbdebug
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 2)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))
"""
DATA = "x = torch.randn(64, 8)\ndata = TensorDataset(x, (x[:, 0] > 0).long())"
LOADER = "loader = DataLoader(data, batch_size=16)"
MODEL = "net = Net()"
OPTIMIZER = "opt = torch.optim.SGD(net.parameters(), lr=0.1)"
LOSS = "loss_fn = nn.CrossEntropyLoss()"
DEBUGGER = "dbg = nbdebug.Debugger(net, loader, loss_fn=loss_fn, optimizer=opt)"
LOOP = """
with dbg.watch() as run:
    for _ in range(5):
        for x_batch, y_batch in loader:
            opt.zero_grad()
            loss_fn(net(x_batch), y_batch).backward()
            opt.step()
"""
MADE_IN_FUNCTION = """
def make():
    net = Net()
    return nbdebug.Debugger(net, loader, loss_fn=loss_fn)
"""
FIT = """
class Fit:
    def __init__(self):
        self.net = Net()
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

fit = Fit()
"""
FIT_DEBUGGER = "dbg = nbdebug.Debugger(fit.net, loader, loss_fn=loss_fn, optimizer=[fit.opt])"
SCHEDULER = "schedule = torch.optim.lr_scheduler.StepLR(opt, 5)"
SCHEDULER_DEBUGGER = "dbg = nbdebug.Debugger(net, loader, loss_fn=loss_fn, optimizer=opt, scheduler=[schedule])"
CONFIG = """
cfg = {'models': {'a': Net()}, 'loss': [loss_fn]}
cfg['optimizer'] = torch.optim.SGD(cfg['models']['a'].parameters())
"""
CONFIG_DEBUGGER = "dbg = nbdebug.Debugger(cfg['models']['a'], loader, loss_fn=loss_fn, optimizer=cfg['optimizer'])"
LISTS = "nets = [Net(), Net()]"
LIST_DEBUGGER = "dbg = nbdebug.Debugger(nets[1], loader, loss_fn=loss_fn)"
TEACHERS = "teachers = nn.ModuleDict({'t-1': Net()})"
TEACHER_DEBUGGER = "dbg = nbdebug.Debugger(teachers['t-1'], loader, loss_fn=loss_fn)"
LIT = """
import lightning
class Lit(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.loss = Net(), nn.CrossEntropyLoss()

    def training_step(self, batch, batch_idx):
        return self.loss(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

lit = Lit()
"""
LIT_DEBUGGER = "dbg = nbdebug.Debugger.from_lightning(lit, loader)"
SETUP = (CLASSES, DATA, LOADER, MODEL, OPTIMIZER, LOSS, DEBUGGER)
Notebook = Callable[..., str]


@pytest.fixture
def run_cells(capsys: pytest.CaptureFixture[str]) -> Iterator[Notebook]:
    """Run cells in a real IPython, and return what they print."""
    from IPython.core.interactiveshell import InteractiveShell

    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "nbdebug")

    def run(*cells: str) -> str:
        capsys.readouterr()
        for cell in cells:
            shell.run_cell(cell, store_history=True).raise_error()
        return str(capsys.readouterr().out)

    yield run
    InteractiveShell.clear_instance()


def first_line(output: str) -> str:
    return output.strip().partition("\n")[0]


@pytest.mark.parametrize(
    ("again", "subject"),
    [
        ((MODEL, OPTIMIZER), "net and opt now hold other objects than those that dbg was made from"),
        ((OPTIMIZER,), "opt now holds another object than the one that dbg was made from"),
        ((LOSS,), "loss_fn now holds another object"),
        ((LOADER,), "loader now holds another object"),
        ((DATA, LOADER), "loader now holds another object"),
        ((DATA,), "data now holds another dataset than that of loader"),
        ((CLASSES.replace("relu", "tanh"),), "The class Net was defined again after net was made"),
    ],
)
@pytest.mark.parametrize("tool", ["dbg.checkup('quick');", "%errors dbg", "%nbdebug summary dbg"])
def test_tool_after_object_was_made_again_says_so_first(
    run_cells: Notebook, again: tuple[str, ...], subject: str, tool: str
) -> None:
    line = first_line(run_cells(*SETUP, *again, tool))
    assert line.startswith(subject)
    assert "dbg.refresh()" in line


@pytest.mark.parametrize(
    ("cells", "again", "subject", "current"),
    [
        ((FIT, FIT_DEBUGGER), "fit = Fit()", "fit.net and fit.opt now hold other objects", "fit.net"),
        ((SCHEDULER, SCHEDULER_DEBUGGER), SCHEDULER, "schedule now holds another object", "net"),
        (
            (CONFIG, CONFIG_DEBUGGER),
            CONFIG,
            'cfg["models"]["a"] and cfg["optimizer"] now hold other objects',
            "cfg['models']['a']",
        ),
        ((LISTS, LIST_DEBUGGER), "nets[1] = Net()", "nets[1] now holds another object", "nets[1]"),
        ((TEACHERS, TEACHER_DEBUGGER), TEACHERS, 'teachers["t-1"] now holds another object', "teachers['t-1']"),
        ((LIT, LIT_DEBUGGER), "lit = Lit()", "lit now holds another object", "lit.net"),
    ],
    ids=["attributes", "list", "items", "item of a list", "module dict", "lightning"],
)
def test_objects_without_a_name_of_their_own_are_followed(
    run_cells: Notebook, cells: tuple[str, ...], again: str, subject: str, current: str
) -> None:
    if LIT in cells:
        pytest.importorskip("lightning", reason="lightning is not installed")
    assert "now hold" not in run_cells(*SETUP, *cells, "dbg.checkup('quick');")
    line = first_line(run_cells(again, "dbg.checkup('quick');"))
    assert line.startswith(f"{subject} than")
    output = run_cells(
        "dbg.refresh();", "dbg.checkup();", f"print(dbg.setup.model is {current}, len(dbg.findings.faults))"
    )
    assert output.strip().splitlines()[-1] == "True 0", output


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "explain": (0,),
    "try_fix": ("L201",),
    "ablation": (["L201", "O501"],),
    "triage": ("the loss is NaN",),
    "tune": ({"lr": (0.01, 0.1)},),
    "changes_since": (ProgramSnapshot(),),
    "check_checkpoint": ("model.pt",),
    "bisect": ([lambda: None, lambda: None],),
}
WITHOUT_NOTICE = {"refresh", "of", "from_lightning", "from_trainer", "begin", "train_loader", "val_loader", "journal"}
SHOW_IT_IN_THE_REPORT = {"findings", "report"}


def test_every_tool_gives_notice_before_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Notice(BaseException):
        pass

    def notice(names: NotebookNames, owner: object) -> None:
        raise Notice

    debugger = nbdebug.Debugger.of(classifier())
    monkeypatch.setattr(NotebookNames, "notice", notice)
    tools = {name for name in dir(debugger) if not name.startswith("_") and hasattr(type(debugger), name)}
    for name in sorted(tools - WITHOUT_NOTICE - SHOW_IT_IN_THE_REPORT):
        with pytest.raises(Notice):
            getattr(debugger, name)(*ARGUMENTS.get(name, ()))


@pytest.mark.parametrize("again", [(MODEL, OPTIMIZER), (MODEL,), (DATA, LOADER, MODEL, OPTIMIZER, LOSS)])
def test_watch_of_loop_that_trains_model_made_again_accuses_nothing(
    run_cells: Notebook, again: tuple[str, ...]
) -> None:
    output = run_cells(*SETUP, *again, LOOP, "print(run.result)", "print(len(dbg.findings))")
    lines = output.strip().splitlines()
    assert "now hold" in lines[0]
    assert lines[1].startswith("The loop trained another Net than the one that is watched")
    assert lines[-1] == "0"
    refreshed = run_cells("dbg.refresh();", "print(dbg.setup.model is net)", LOOP, "print(run.result.steps)")
    assert refreshed.split()[:1] == ["True"]
    assert refreshed.split()[-1] == "20"
    if OPTIMIZER in again:
        assert run_cells("print([f.code for f in dbg.findings if f.severity == 'error'])").strip() == "[]"


@pytest.mark.parametrize("again", [(OPTIMIZER,), (LOSS,), (LOADER,), (DATA, LOADER)])
def test_watch_after_other_objects_were_made_again_reports_no_fault(
    run_cells: Notebook, again: tuple[str, ...]
) -> None:
    output = run_cells(*SETUP, *again, LOOP, "print(len(dbg.findings.faults), run.result.steps)")
    assert "now holds another object" in first_line(output)
    assert output.split()[-2:] == ["0", "20"]


@pytest.mark.parametrize(
    "cells",
    [
        (),
        ("del net, opt",),
        ("net = None", "opt = 'sgd'", "loader = list(loader)"),
        ("alias = net", "dbg = nbdebug.Debugger(alias, loader, loss_fn=loss_fn, optimizer=opt)"),
        ("first = dbg", MODEL, OPTIMIZER, DEBUGGER, "dbg, second = first, dbg"),
        ("data = TensorDataset(torch.randn(9, 8))",),
        (CLASSES,),
        (MADE_IN_FUNCTION, "dbg = make()", MODEL),
        ("_ = net", "for net_2 in [Net()]: pass"),
        (LISTS, LIST_DEBUGGER, "nets.insert(0, Net())"),
        (CONFIG, CONFIG_DEBUGGER, "del cfg['models']['a'], cfg['optimizer']"),
    ],
)
def test_tool_of_present_or_unnamed_objects_says_nothing(run_cells: Notebook, cells: tuple[str, ...]) -> None:
    output = run_cells(*SETUP, *cells, "dbg.overfit(steps=20);")
    assert "now hold" not in output
    assert "defined again" not in output


def test_refresh_takes_present_objects_and_keeps_other_arguments(run_cells: Notebook) -> None:
    made = "dbg = nbdebug.Debugger(net, loader, loss_fn=loss_fn, optimizer=[opt], class_names=['a', 'b'])"
    run_cells(*SETUP, made, MODEL, OPTIMIZER, "dbg.refresh();")
    output = run_cells("print(dbg.setup.optimizers[0] is opt, dbg.setup.class_names)", "dbg.overfit(steps=20);")
    assert output.strip() == "True ['a', 'b']"
    assert first_line(run_cells(MODEL, OPTIMIZER, "dbg.overfit(steps=20);")).startswith("net and opt now hold")


def test_notice_after_autoreload_changed_class_of_model(
    run_cells: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "reloaded_net.py"
    source = CLASSES.replace("import torch, nbdebug", "import torch")
    file.write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    cells = ("%load_ext autoreload\n%autoreload 2", "from reloaded_net import Net", *SETUP[1:])
    run_cells("import torch, nbdebug\nfrom torch import nn\nfrom torch.utils.data import DataLoader, TensorDataset")
    assert run_cells(*cells, "dbg.overfit(steps=20);") == ""
    time.sleep(1.1)  # a file is reloaded if its time in seconds has changed
    file.write_text(source.replace("torch.relu", "torch.tanh"))
    assert run_cells("1;", "dbg.overfit(steps=20);") == ""  # the model runs the new code
    time.sleep(1.1)
    file.write_text(source.replace("(8, 16)", "(8, 24)").replace("(16, 2)", "(24, 2)"))
    assert first_line(run_cells("1;", "dbg.overfit(steps=20);")).startswith("The class Net was defined again")


def test_refresh_in_script_raises_setup_error() -> None:
    setup = classifier()
    debugger = nbdebug.Debugger(setup.model, setup.train_loader, loss_fn=setup.loss_fn)
    with pytest.raises(nbdebug.SetupError, match="has no names in a notebook"):
        debugger.refresh()


def train(model: nn.Module, setup: Any) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in setup.train_loader:
        optimizer.zero_grad()
        setup.loss_fn(model(x), y).backward()
        optimizer.step()


def test_watch_in_script_of_loop_that_trains_another_model_says_so() -> None:
    setup, other = classifier(), classifier()
    debugger = nbdebug.Debugger(setup.model, setup.train_loader, loss_fn=setup.loss_fn)
    with debugger.watch() as run:
        train(other.model, setup)
    assert run.result is not None
    assert str(run.result).startswith("The loop trained another")
    assert not run.result.report.findings


@pytest.mark.parametrize("with_other", [False, True])
def test_watch_of_loop_that_trains_watched_model_has_no_warning(with_other: bool) -> None:
    setup, other = classifier(), classifier()
    debugger = nbdebug.Debugger(setup.model, setup.train_loader, loss_fn=setup.loss_fn)
    with debugger.watch() as run:
        train(setup.model, setup)
        if with_other:
            train(other.model, setup)
    assert run.result is not None
    assert run.result.warning == ""


def test_page_of_a_checkup_calls_its_debugger_by_its_name(run_cells: Notebook) -> None:
    slow = (OPTIMIZER.replace("0.1", "0.0001, maximize=True"), LOSS, "second = None")
    named = DEBUGGER.replace("dbg =", "second =")
    page = run_cells(CLASSES, DATA, LOADER, MODEL, *slow, named, "print(second.checkup().view().html())")
    assert "second.try_fix(&quot;L213&quot;)" in page
    assert "dbg.try_fix" not in page
