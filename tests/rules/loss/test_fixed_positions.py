"""Tests of L214 for data of the samples that a loss reads as row numbers, so that a few rows have all the influence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import source_line
from tests.rules.rule_findings import rule_findings
from tests.source.source_modules import run_program

HEADER = "import torch\nfrom torch.nn import functional as F\n"
FLAG = "    flag = F.binary_cross_entropy_with_logits(output[:, 4], target[:, 4])\n"
GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(64, 6, generator=GENERATOR)
PRESENT = (torch.rand(64, generator=GENERATOR) < 0.5).float()
TARGET = torch.cat([X[:, :4] * PRESENT[:, None], PRESENT[:, None], torch.arange(64)[:, None] % 3 + 0.0], 1)

# The line with "here" makes the integers; the output and the target have a flag in column 4, labels are in column 5.
FAULTY = {
    "a mask of integers": "    present = target[:, 4].long()  # here\n"
    "    return flag + F.smooth_l1_loss(output[present, :4], target[present, :4])\n",
    "a comparison as integers": "    present = (target[:, 4] > 0).int()  # here\n"
    "    chosen = output[:, :4].index_select(0, present)\n"
    "    return flag + F.mse_loss(chosen, target.index_select(0, present)[:, :4])\n",
    "rows of the errors": "    error = (output[:, :4] - target[:, :4]).abs().mean(1)\n"
    "    return flag + error[target[:, 4].to(torch.int64)].mean()  # here\n",
    "labels of classes": "    labels = target[:, 5].long()  # here\n    picked = output[:, :4].log_softmax(1)[labels]\n"
    "    return flag - picked.mean()\n",
    "a list": "    present = [int(value) for value in target[:, 4].tolist()]\n"
    "    return flag + F.l1_loss(output[present, :4], target[present, :4])  # here\n",
    "the column of nonzero entries": "    where = target[:, 4:5].nonzero()\n    rows = where[:, 1]  # here\n"
    "    return flag + F.l1_loss(output[rows, :4], target[rows, :4])\n",
}
HEALTHY = {
    "a mask of booleans": "    present = target[:, 4].bool()\n"
    "    return flag + F.smooth_l1_loss(output[present, :4], target[present, :4])\n",
    "numbers of the rows": "    (rows,) = target[:, 4].nonzero(as_tuple=True)\n"
    "    return flag + F.mse_loss(output[rows, :4], target[rows, :4])\n",
    "a mask of bytes": "    present = target[:, 4].to(torch.uint8)\n"
    "    return flag + F.mse_loss(output[:, :4][present > 0], target[:, :4][present > 0])\n",
    "the hardest sample for each": "    boxes = output[:, :4]\n"
    "    hardest = (torch.cdist(boxes, target[:, :4]) - boxes.norm(dim=1)).argmax(1)\n"
    "    return flag + boxes[hardest].square().mean()\n",
    "a table of classes": "    table = torch.stack([output[target[:, 5] == k, :4].mean(0) for k in range(3)])\n"
    "    return flag + (table[target[:, 5].long()] - target[:, :4]).abs().mean()\n",
    "random rows": "    rows = torch.randint(len(output), (4,)).repeat(2)\n"
    "    return flag + F.mse_loss(output[rows, :4], target[rows, :4])\n",
    "a column of each row": "    picked = output[torch.arange(len(output)), target[:, 5].long()]\n"
    "    return flag - picked.sigmoid().mean()\n",
    "a few rows for the sake of time": "    return flag + F.mse_loss(output[:4, :4], target[:4, :4])\n",
    "the largest errors twice": "    error = (output[:, :4] - target[:, :4]).abs().mean(1)\n"
    "    rows = error.topk(3).indices.repeat(2)\n    return flag + error[rows].mean()\n",
}


def setup_of(body: str, folder: Path) -> Setup:
    file = folder / "program.py"
    program: dict[str, Any] = run_program(file, HEADER + "def criterion(output, target):\n" + FLAG + body)
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(X, TARGET), 32, shuffle=True)
    setup = Setup(nn.Linear(6, 5), loader, loss_fn=program["criterion"])
    setup.files = {str(file)}
    return setup


@pytest.mark.parametrize("name", FAULTY)
def test_integers_of_samples_as_row_numbers_are_reported_where_they_are_made(name: str, tmp_path: Path) -> None:
    findings = [f for f in rule_findings(setup_of(FAULTY[name], tmp_path), "L214") if "other orders" in f.message]
    assert [(f.severity, source_line(f).endswith("# here")) for f in findings] == [("error", True)]


@pytest.mark.parametrize("name", HEALTHY)
def test_rows_that_move_with_their_samples_or_are_a_slice_are_quiet(name: str, tmp_path: Path) -> None:
    findings = rule_findings(setup_of(HEALTHY[name], tmp_path), "L214")
    assert [f for f in findings if "other orders" in f.message] == []


def test_generators_are_as_before(tmp_path: Path) -> None:
    setup = setup_of(FAULTY["a mask of integers"], tmp_path)
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    rule_findings(setup, "L214")
    assert torch.equal(torch.rand(1), expected)
    assert setup.model.weight.grad is None


def test_labels_of_an_output_without_other_columns_are_row_numbers_too(tmp_path: Path) -> None:
    def loss_fn(output: Tensor, target: Tensor) -> Tensor:
        return -output.log_softmax(1)[target].mean()

    setup = Setup(nn.Linear(6, 3), DataLoader(TensorDataset(X, torch.arange(64) % 3), 32), loss_fn=loss_fn)
    (finding,) = rule_findings(setup, "L214")
    assert finding.evidence["rows with influence"] == [0, 1, 2]


class Heads(nn.Module):
    """A flag and a box for each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.flag, self.box = nn.Linear(6, 1), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"flag": self.flag(x)[:, 0], "box": self.box(x)}


def loss_of_heads(output: dict[str, Tensor], target: Tensor) -> Tensor:
    present = target[:, 4].int()
    flag = nn.functional.binary_cross_entropy_with_logits(output["flag"], target[:, 4])
    return flag + nn.functional.l1_loss(output["box"][present], target[present, :4])


def test_watched_loop_with_several_heads_is_reported_without_a_checkup() -> None:
    torch.manual_seed(0)
    model = Heads()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(TensorDataset(X, TARGET), 16, shuffle=True)
    debugger = Debugger(model, loader, loss_fn=loss_of_heads, optimizer=optimizer)
    with debugger.watch():
        for x, target in loader:
            optimizer.zero_grad()
            loss_of_heads(model(x), target).backward()
            optimizer.step()
    messages = [finding.message for finding in debugger.findings if finding.code == "L214"]
    assert ["other orders" in message for message in messages] == [True]
