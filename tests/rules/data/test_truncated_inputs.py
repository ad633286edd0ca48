"""Tests of D122 on standardized inputs whose decimals are cut off, and on inputs that are whole numbers by design."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdebug.setup import Setup
from tests.rules.rule_findings import fault_messages, rule_findings
from tests.source.source_modules import run_program

PROGRAM = """
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

rng = np.random.default_rng(0)
counts = np.rint(rng.normal(size=(600, 4)) * [60, 20, 130, 40] + [400, 150, 900, 250]).astype(np.int64)
classes = torch.from_numpy(((counts - counts.mean(0)) @ [1, 2, 0, -1] + rng.normal(size=600) * 60 > 0).astype(np.int64))


class Standardizer:
    def fit_transform(self, values):
        return (values - values.mean(0)) / values.std(0)


class Table(Dataset):
    def __init__(self, values):
        self.x = values

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return torch.as_tensor(self.x[index], dtype=torch.float32), classes[index]

{making}
loader = DataLoader(data, batch_size=50, shuffle=True)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, {outputs}))
loss_fn = nn.{loss}()
"""
AS_TENSORS = "data = TensorDataset(torch.from_numpy(x).float(), classes)"
TRUNCATED = {
    "an array like the counts": f"""
x = np.zeros_like(counts)
for j in range(4):
    x[:, j] = (counts[:, j] - counts[:, j].mean()) / counts[:, j].std()
{AS_TENSORS}""",
    "an array of whole numbers": f"""
x = np.empty(counts.shape, dtype=int)
x[:] = Standardizer().fit_transform(counts)
{AS_TENSORS}""",
    "a copy of the counts": f"""
x = counts.copy()
x[:, :] = (counts - counts.mean(0)) / counts.std(0)
{AS_TENSORS}""",
    "a conversion": f"""
centered = counts - counts.mean(0)
scaled = centered / centered.std(0)
x = scaled.astype("int32")
{AS_TENSORS}""",
    "a tensor of whole numbers": """
raw = torch.from_numpy(counts).float()
x = ((raw - raw.mean(0)) / raw.std(0)).long()
data = TensorDataset(x.float(), classes)""",
    "a function and a dataset": """
def scaled(values):
    result = np.zeros(values.shape, dtype=np.int64)
    for row, value in enumerate(values):
        result[row] = (value - values.mean(0)) / values.std(0)
    return result

data = Table(scaled(counts))""",
}
LINES = ["np.zeros_like(counts)", "dtype=int)", "counts.copy()", 'astype("int32")', ".long()", "dtype=np.int64)"]
WHOLE = {
    "decimals": f"x = (counts - counts.mean(0)) / counts.std(0)\n{AS_TENSORS}",
    "an array of decimals": f"""
x = np.zeros_like(counts, dtype=np.float64)
x[:] = (counts - counts.mean(0)) / counts.std(0)
{AS_TENSORS}""",
    "answers from -3 to 3": f"x = rng.integers(-3, 4, (600, 4)) // 2\n{AS_TENSORS}",
    "rounded on purpose": f"""
x = np.zeros_like(counts)
x[:] = np.rint((counts - counts.mean(0)) / counts.std(0))
{AS_TENSORS}""",
    "signs of changes": f"""
changes = np.sign((counts - counts.mean(0)) / counts.std(0))
x = changes.astype(np.int64)
{AS_TENSORS}""",
    "levels": f"""
x = np.zeros(counts.shape, dtype=int)
scores = (counts - counts.mean(0)) / counts.std(0)
x[scores > 1] = 1
x[scores < -1] = -1
{AS_TENSORS}""",
    "bins of a width": f"x = ((counts - counts.min(0)) / [60, 20, 130, 40]).astype(int)\n{AS_TENSORS}",
    "genotypes": f"x = rng.binomial(2, 0.5, (600, 4)) - 1\n{AS_TENSORS}",
}


def program_setup(folder: Path, making: str, *, is_regression: bool = False) -> Setup:
    loss, outputs = ("MSELoss", 1) if is_regression else ("CrossEntropyLoss", 2)
    if is_regression:
        making = making.replace("classes)", "classes.float().unsqueeze(1) + 0.1 * torch.rand(600, 1))")
    text = PROGRAM.format(making=making, loss=loss, outputs=outputs)
    names = run_program(folder / "program.py", text)
    setup = Setup(names["model"], names["loader"], loss_fn=names["loss_fn"])
    setup.files = {str(folder / "program.py")}
    return setup


@pytest.mark.parametrize(("name", "source"), [*zip(TRUNCATED, LINES, strict=True)])
def test_truncated_inputs_point_to_the_line_that_makes_whole_numbers(name: str, source: str, tmp_path: Path) -> None:
    (finding,) = rule_findings(program_setup(tmp_path, TRUNCATED[name]), "D122")
    assert finding.severity == "warning"
    assert "distinct inputs are left" in finding.message
    assert source in (finding.where.source or "")


def test_truncated_inputs_of_a_regression_are_reported(tmp_path: Path) -> None:
    setup = program_setup(tmp_path, TRUNCATED["an array like the counts"], is_regression=True)
    (finding,) = rule_findings(setup, "D122")
    assert "different target" in finding.message


@pytest.mark.parametrize("name", WHOLE)
def test_inputs_that_are_whole_numbers_by_design_are_at_most_a_note(name: str, tmp_path: Path) -> None:
    assert fault_messages(program_setup(tmp_path, WHOLE[name]), "D122") == []
