"""Tests of the line that D105 names if an image and its target are transformed differently."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.rules.rule_findings import rule_faults

HEADER = """\
import random
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from nbdebug.setup import Setup
generator = torch.Generator().manual_seed(0)
centers = 2 + 6 * torch.rand(40, 2, generator=generator)
rows, columns = torch.meshgrid(torch.arange(12), torch.arange(12), indexing="ij")
areas = torch.stack([((rows - r) ** 2 + 3 * (columns - c) ** 2 < 7).float() for r, c in centers])
scenes = areas.unsqueeze(1) + 0.3 * torch.randn(40, 1, 12, 12, generator=generator)
"""
FOOTER = """
loader = DataLoader(Scenes(), 8, shuffle=True{option})
setup = Setup(nn.Conv2d(1, 1, 3, padding=1), loader, loss_fn=nn.BCEWithLogitsLoss())
"""
_DATASET = "class Scenes(Dataset):\n    def __len__(self): return 40\n"
_READ = "    def __getitem__(self, i):\n"
# The line with "here" transforms one of both alone.
PROGRAMS = {
    "a statement": _DATASET + _READ + "        scene, area = scenes[i], areas[i]\n        if torch.rand(()) < 0.5:\n"
    "            scene = scene.flip(-1)  # here\n        return scene, area\n",
    "the target": _DATASET + _READ + "        scene, area = scenes[i], areas[i]\n"
    "        area = torch.rot90(area, random.randrange(4))  # here\n        area = area.clone()\n"
    "        return scene, area\n",
    "rows of what is stored": _DATASET + _READ + "        x = scenes[i]\n        if random.random() < 0.5:\n"
    "            x = torch.flip(scenes[i], [1])  # here\n        x = (x - 0.3) / 0.4\n        return x, areas[i]\n",
    "in place": _DATASET + _READ + "        sample = {'x': scenes[i].numpy().copy(), 'y': areas[i].numpy()}\n"
    "        if np.random.rand() < 0.5:\n            sample['x'][:] = sample['x'][:, ::-1].copy()  # here\n"
    "        return sample['x'], sample['y']\n",
    "after a transform of both": _DATASET + _READ + "        scene, area = scenes[i], areas[i]\n"
    "        if random.random() < 0.5:\n            scene = scene.flip(-1)\n            area = area.flip(-1)\n"
    "        if random.random() < 0.5:\n            scene = scene.flip(-2)  # here\n        return scene, area\n",
    "a helper of both": "def augment(picture, area):\n    if random.random() < 0.5:\n"
    "        picture = picture.flip(-1)  # here\n    return picture, area\n"
    + _DATASET
    + _READ
    + "        return augment(scenes[i], areas[i])\n",
    "a helper of one": "def turned(values):\n    return values.rot90(random.randrange(4), (-2, -1))\n"
    + _DATASET
    + _READ
    + "        scene = turned(scenes[i])  # here\n        area = areas[i]\n        return scene, area\n",
    "a transform object": "class Flip:\n    def __call__(self, values):\n        if random.random() < 0.5:\n"
    "            values = np.ascontiguousarray(values[..., ::-1])\n        return values\n"
    "class Steps:\n    def __init__(self, *steps): self.steps = steps\n"
    "    def __call__(self, values):\n        for step in self.steps:\n            values = step(values)\n"
    "        return values\n"
    + _DATASET
    + "    steps = Steps(Flip(), torch.from_numpy)\n"
    + _READ
    + "        scene, area = scenes[i].numpy(), areas[i]\n        scene = self.steps(scene)  # here\n"
    "        return scene, area\n",
    "pictures": _DATASET + _READ + "        levels = (100 + 50 * scenes[i, 0]).numpy()\n"
    "        scene = Image.fromarray(levels.astype('uint8'))\n"
    "        area = Image.fromarray(areas[i].numpy().astype('uint8'))\n        if random.random() < 0.5:\n"
    "            scene = scene.transpose(Image.Transpose.FLIP_LEFT_RIGHT)  # here\n"
    "        return torch.tensor(np.array(scene))[None].float() / 255, torch.tensor(np.array(area)).float()\n",
    "a generator of the dataset": _DATASET.replace(
        "    def __len__", "    def __init__(self): self.random = np.random.default_rng(0)\n    def __len__"
    )
    + _READ
    + "        scene, area = scenes[i], areas[i]\n        if self.random.random() < 0.5:\n"
    "            scene = scene.flip(2)  # here\n        return scene, area\n",
    "a collate function": "def collate(samples):\n    pictures = torch.stack([sample[0] for sample in samples])\n"
    "    masks = torch.stack([sample[1] for sample in samples])\n    if random.random() < 0.5:\n"
    "        pictures = pictures.flip(3)  # here\n    return pictures, masks\n"
    + _DATASET
    + _READ
    + "        return scenes[i], areas[i]\n",
    "a collating object": "class Collate:\n    def __init__(self): self.random = np.random.default_rng(0)\n"
    "    def __call__(self, samples):\n        batch = {'x': torch.stack([x for x, _ in samples])}\n"
    "        batch['y'] = torch.stack([y for _, y in samples])\n        if self.random.random() < 0.5:\n"
    "            batch['x'] = batch['x'].flip(3)  # here\n        return batch['x'], batch['y']\n"
    "collate = Collate()\n" + _DATASET + _READ + "        return scenes[i], areas[i]\n",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_unpaired_transform_names_the_line_that_transforms_one_part(name: str, tmp_path: Path) -> None:
    option = ", collate_fn=collate" if "collat" in name else ""
    path = tmp_path / "program.py"
    path.write_text(HEADER + PROGRAMS[name] + FOOTER.format(option=option))
    variables: dict[str, Any] = {"__name__": "program"}
    exec(compile(path.read_text(), str(path), "exec"), variables)
    states = torch.get_rng_state(), random.getstate(), str(np.random.get_state())
    owners = variables["setup"].train_loader.dataset, variables["setup"].train_loader.collate_fn
    own = [vars(owner) for owner in owners]
    own_states = [str(part["random"].bit_generator.state) for part in own if "random" in part]
    (finding,) = rule_faults(variables["setup"], "D105")
    assert "flipped or rotated differently" in finding.message
    assert "# here" in (finding.where.source or "")
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (random.getstate(), str(np.random.get_state())) == states[1:]
    assert own_states == [str(part["random"].bit_generator.state) for part in own if "random" in part]
