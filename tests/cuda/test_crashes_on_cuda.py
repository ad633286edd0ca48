"""Tests of crashes on an accelerator: assertions of the device and its memory, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

BEGIN = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import nbdebug

torch.manual_seed(0)
"""
END = """
try:
    main()
except Exception as error:
    for finding in nbdebug.explain_error(error).findings:
        print(finding.code, finding.message, finding.where)
"""
PROGRAMS = {
    "index beyond the embedding": (
        """
def main():
    tokens = torch.randint(0, 50, (64, 12))
    tokens[37, 5] = 50
    loader = DataLoader(TensorDataset(tokens, torch.arange(64) % 3), batch_size=16)
    model = nn.Sequential(nn.Embedding(50, 8), nn.Flatten(), nn.Linear(96, 3)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
""",
        ("50",),
    ),
    "class beyond the outputs": (
        """
def main():
    x, y = torch.randn(64, 5), torch.arange(64) % 4
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    model = nn.Linear(5, 3).cuda()
    for inputs, targets in loader:
        loss = nn.functional.cross_entropy(model(inputs.cuda()), targets.cuda())
        print(loss.item())
""",
        ("3",),
    ),
    "out of memory": (
        """
def main():
    model = nn.Linear(1000, 1000).cuda()
    x = torch.randn(1000, device="cuda").expand(10**9, 1000)
    loss = model(x.contiguous()).sum()
""",
        ("GiB",),
    ),
    "weights on the CPU": (
        """
def main():
    model = nn.Linear(5, 3)
    model(torch.randn(4, 5, device="cuda"))
""",
        ("cuda",),
    ),
    "array of a tensor on the device": (
        """
def main():
    scores = torch.randn(4, device="cuda")
    print(scores.numpy())
""",
        ("cuda",),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_crash_on_cuda_is_explained(tmp_path: Path, name: str) -> None:
    program, words = PROGRAMS[name]
    script = tmp_path / "train.py"
    script.write_text(BEGIN + program + END)
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    print(result.stdout, result.stderr)
    explanation = (result.stdout.splitlines() or [""])[-1]
    assert explanation.startswith("X1")
    assert not explanation.startswith("X1099")
    assert all(word in explanation for word in words)
