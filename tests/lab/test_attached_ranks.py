"""Test of a job of two ranks that a notebook in JupyterLab starts and follows, and of which one rank is killed."""

from __future__ import annotations

from pathlib import Path

from tests.lab.findings_on_page import shown_steps
from tests.lab.lab_page import LabPage, OpenNotebook

JOB = """
import os
import time

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

torch.set_num_threads(1)
distributed.init_process_group("gloo", init_method=os.environ["MEETING"], rank=int(os.environ["RANK"]), world_size=2)
x = torch.randn(512, 8, generator=torch.Generator().manual_seed(0))
dataset = TensorDataset(x, (x[:, 0] > 0).long())
sampler = DistributedSampler(dataset)
train_loader = DataLoader(dataset, batch_size=16, sampler=sampler)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(200):
    sampler.set_epoch(epoch)
    for inputs, targets in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        time.sleep(0.03)
"""
START = """
import os
import subprocess
import sys
import time
from pathlib import Path

import nbdebug

folder = Path({folder!r})
(folder / "train.py").write_text({job!r})
command = [sys.executable, "-m", "nbdebug", "run", str(folder / "train.py"), "--record", str(folder / "run")]
environment = {{**os.environ, "MEETING": f"file://{{folder}}/meeting", "OMP_NUM_THREADS": "1"}}
ranks = [
    subprocess.Popen(
        command, env={{**environment, "RANK": str(rank)}}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    for rank in range(2)
]
while not (folder / "run/record.nbd").exists():
    time.sleep(0.1)
"""
FOLLOW = 'nbdebug.attach(folder / "run")'
KILL = "ranks[1].kill()"
END = "for rank in ranks:\n    rank.kill()"


def start_job(lab: LabPage) -> None:
    """Run the cells that start the job and follow it, and wait until its page shows some steps."""
    lab.run_cells(0, 1)
    lab.wait_until(lambda: shown_steps(lab, 1) >= 20, timeout=120)


def test_killed_rank_is_named_on_the_page_that_follows_the_job(open_notebook: OpenNotebook, tmp_path: Path) -> None:
    with open_notebook(START.format(folder=str(tmp_path), job=JOB), FOLLOW, KILL, END) as lab:
        start_job(lab)
        assert lab.output(1).get_by_text("stalled-rank").count() == 0
        lab.run_cells(2)
        finding = lab.output(1).get_by_text("stalled-rank").first
        finding.wait_for(timeout=60_000)
        assert "ank 1" in lab.output(1).inner_text()
        lab.run_cells(3)
