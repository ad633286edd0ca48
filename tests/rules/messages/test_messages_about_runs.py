"""Tests that the numbers in the messages about ranks, reproducibility, memory and training tests are facts."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

from nbdebug.setup import Setup
from tests.rules.messages.program import Fact, Facts, Program, check_numbers, near


def steps_of_ranks(program: Program) -> int:
    """Examples with ranks train for two epochs."""
    return 2 * len(program.setup.train_loader)


def parameter_count(program: Program) -> int:
    return len(list(program.model.parameters()))


def time_of_snapshot(program: Program) -> list[Fact]:
    """The message says when the snapshot was taken, which was just now; it has no other number."""
    message = program.findings[0].message
    time = re.search(r"\d{4}-\S+\+00:00", message)
    assert time is not None
    assert abs((datetime.now(timezone.utc) - datetime.fromisoformat(time.group())).total_seconds()) < 600
    assert not re.search(r"\d", message.replace(time.group(), "").replace("model.0", ""))
    return [*program.numbers]


def versions(program: Program) -> list[Fact]:
    return [2.0, float(".".join(torch.__version__.split(".")[:2]))]


def truncated_file(program: Program) -> list[Fact]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        torch.save(program.model.state_dict(), path)
        return [path.stat().st_size // 2]


def unfitted(program: Program) -> list[Fact]:
    """A sigmoid reaches at best the error of the targets outside [0, 1]; the goal is a tenth of a constant's error."""
    target = program.batch[1]
    best = float((target - target.clamp(0, 1)).square().mean())
    return [len(target), (best, 1.05 * best), float(target.var(unbiased=False)) / 10, 0]


def accuracy_after(setup: Setup, rate: float, steps: int) -> float:
    optimizer, done = torch.optim.Adam(setup.model.parameters(), lr=rate), 0
    while done < steps:
        for x, y in setup.train_loader:
            optimizer.zero_grad()
            setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
            optimizer.step()
            done += 1
    rows = setup.val_loader.dataset.tensors
    return float((setup.model(rows[0]).argmax(1) == rows[1]).double().mean())


def cured(program: Program) -> list[Fact]:
    rate = program.setup.optimizers[0].param_groups[0]["lr"]
    own = accuracy_after(program.new_setup(), rate, 240)
    with_treatment = accuracy_after(program.new_setup(), 1000 * rate, 60)
    return [near(own), 240, 1000, near(with_treatment), 60]


FACTS: Facts = {
    "O515": lambda program: [steps_of_ranks(program), 1, parameter_count(program), 1, 0],
    "O516": lambda program: [1, len(program.train[1]), len(program.train[1]), 0],
    "O518": lambda program: [steps_of_ranks(program)] * 2 + [len(program.batch[1]), 4],
    "O519": lambda program: [steps_of_ranks(program) + 1, 1, parameter_count(program)],
    "O520": lambda program: [0, len(program.setup.train_loader), 1, 2],
    "O521": lambda program: [steps_of_ranks(program)] * 2,
    "P804": lambda program: [near(5 * len(program.setup.train_loader), 0.3)] * 2 + [1],
    "P806": lambda program: [3 * len(program.setup.val_loader)] * 2,
    "P807": lambda program: [1, 500, (0, 100), 500],
    "P809": lambda program: [4, 1, 1, steps_of_ranks(program), 0, steps_of_ranks(program)],
    "R901": lambda program: [program.setup.train_loader.generator.initial_seed(), 2**32],
    "R902": lambda program: [0],
    "R903": versions,
    "R904": time_of_snapshot,
    "R905": lambda program: [len(program.model.state_dict())] * 2,
    "R906": lambda program: [len(program.model.state_dict())] * 2,
    "R907": lambda program: [],
    "R908": truncated_file,
    "R909": lambda program: [2, 3],
    "R910": lambda program: [1, parameter_count(program), 1],
    "T608": unfitted,
    "T613": lambda program: [],
    "T615": cured,
}


@pytest.mark.parametrize("code", FACTS)
def test_numbers_in_messages_about_runs_are_facts(code: str) -> None:
    check_numbers(code, FACTS)
