"""Tests that fixes which are code run as they stand, for data of several shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from nbdebug.measurements.paired_transforms import UnpairedTransforms
from nbdebug.rules.transformed_targets import unpaired_finding
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults
from tests.source.source_modules import load_module


@pytest.mark.parametrize("mask_shape", [(6, 5), (1, 6, 5)])
@pytest.mark.parametrize("channels", [1, 3])
def test_fix_of_unpaired_transforms_draws_once_for_image_and_mask(mask_shape: tuple[int, ...], channels: int) -> None:
    image = torch.arange(channels * 30.0).view(channels, 6, 5)
    mask = torch.arange(30).view(mask_shape)
    names: dict[str, Any] = {"torch": torch, "image": image, "mask": mask, "augment": lambda planes: planes.flip(-1)}
    exec(unpaired_finding(UnpairedTransforms("flipped or rotated", 8, 8, 4, None)).fix, names)
    assert torch.equal(names["image"], image.flip(-1))
    assert torch.equal(names["mask"], mask.flip(-1))
    assert names["mask"].dtype == mask.dtype


CONSTANT = "The targets are created as a constant here, and no line of the function fills them."


@pytest.mark.parametrize(
    ("lines", "is_constant"),
    [
        (["y = torch.ones(64)"], True),
        (["y = torch.full((64,), 1.0)"], True),
        (["y = torch.zeros(64)", "y[x[:, 0] > 99] = 1"], False),
        (["y = (x[:, 0] > 99).float()"], False),
    ],
)
def test_constant_targets_tell_whether_they_are_written_or_computed(
    lines: list[str], is_constant: bool, tmp_path: Path
) -> None:
    body = "".join(f"    {line}\n" for line in lines)
    text = (
        "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n\n\n"
        f"def build(x):\n{body}    return DataLoader(TensorDataset(x, y), 16, shuffle=True)\n"
    )
    generator = torch.Generator().manual_seed(0)
    loader: DataLoader[Any] = load_module(tmp_path / "constant.py", text).build(torch.randn(64, 4, generator=generator))
    val_loader = DataLoader([(torch.randn(4), torch.tensor(float(i % 2))) for i in range(40)], 20)
    model = nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))
    setup = Setup(model, loader, val_loader, loss_fn=nn.BCEWithLogitsLoss())
    setup.files.add(str(tmp_path / "constant.py"))
    (finding,) = rule_faults(setup, "D102")
    assert (finding.cause == CONSTANT) is is_constant
