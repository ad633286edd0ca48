"""Tests of adapters that an installed package registers for its trainer."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

import nbdebug

TRAINER = """
import torch
from torch import nn

class SmallTrainer:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=1))
        self.batches = [(torch.randn(8, 4), torch.randint(2, (8,))) for _ in range(2)]

class LargeTrainer(SmallTrainer): ...
class BrokenTrainer: ...
class CarelessTrainer: ...
"""
ADAPTER = """
from torch import nn

def read(trainer):
    return {"model": trainer.net, "train_loader": trainer.batches, "loss_fn": nn.CrossEntropyLoss()}

def read_carelessly(trainer):
    return 3
"""
# The path of a class is the one by which users import it, or that of the module that defines it.
ENTRY_POINTS = """[nbdebug.adapters]
package_of_trainers.SmallTrainer = package_of_trainers.adapter:read
package_of_trainers.trainer.BrokenTrainer = package_of_trainers.absent:read
package_of_trainers.CarelessTrainer = package_of_trainers.adapter:read_carelessly
absent_package.Trainer = absent_package:read
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An installed package with trainers and their adapters; its module."""
    folder, metadata = tmp_path / "package_of_trainers", tmp_path / "package_of_trainers-1.0.dist-info"
    folder.mkdir()
    metadata.mkdir()
    (folder / "__init__.py").write_text("from package_of_trainers.trainer import *")
    (folder / "trainer.py").write_text(TRAINER)
    (folder / "adapter.py").write_text(ADAPTER)
    (metadata / "METADATA").write_text("Name: package-of-trainers\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return importlib.import_module("package_of_trainers")


@pytest.mark.parametrize("name", ["SmallTrainer", "LargeTrainer"])
def test_trainer_of_a_package_is_read_by_its_adapter(package: Any, name: str) -> None:
    trainer = getattr(package, name)()
    debugger = nbdebug.Debugger.from_trainer(trainer)
    assert debugger.setup.model is trainer.net
    assert "L201" in {finding.code for finding in debugger.checkup("quick")}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "BrokenTrainer",
            r"adapter of .*BrokenTrainer is .*absent:read \(No module .*\); expected a function .* Update",
        ),
        ("CarelessTrainer", r"result of .*adapter:read_carelessly is an int; expected the arguments of a Debugger"),
    ],
)
def test_adapter_that_cannot_be_used_is_refused(package: Any, name: str, message: str) -> None:
    with pytest.raises(nbdebug.SetupError, match=message):
        nbdebug.Debugger.from_trainer(getattr(package, name)())


@pytest.mark.usefixtures("package")
def test_object_without_adapter_is_refused_with_the_registered_classes() -> None:
    with pytest.raises(nbdebug.SetupError, match=r"an object; expected a transformers.Trainer or absent_package.Tr"):
        nbdebug.Debugger.from_trainer(object())
