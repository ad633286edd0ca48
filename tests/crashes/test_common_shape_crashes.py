"""Tests of shape crashes that many people meet: their causes, and edits with which the program runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import nbdebug
from nbdebug.source.edits import apply_edits
from tests.crashes.programs import raise_from

IMAGE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 6, 3, padding=1), nn.Linear(6 * 8 * 8, 3)
    def forward(self, x):
        return self.head(torch.flatten(torch.relu(self.conv(x)), start_dim=1))
net, image = Net(), torch.rand(1, 8, 8)
scores = net(image)
"""
CHANNELS = """
MEAN, STD = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.2, 0.2, 0.2])
def normalize(images):
    return (images - MEAN) / STD
normalize(torch.rand(4, 3, 8, 8)).mean()
"""
POSITIONS = """
class Positions(nn.Module):
    def __init__(self, width, longest):
        super().__init__()
        table = torch.zeros(1, longest, width)
        table[:, :, 0] = torch.arange(longest)
        self.register_buffer("table", table)
    def forward(self, x):
        return x + self.table[:, : x.size(1)]
class Model(nn.Module):
    def __init__(self, width=4, longest=6):
        super().__init__()
        self.positions = Positions(width, longest)
    def forward(self, x):
        return self.positions(x)
Model()(torch.randn(2, 9, 4)).sum()
"""
BLOCK = """
class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride, 1)
        self.shortcut = nn.Identity()
        if inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride)
    def forward(self, x):
        return self.conv(x) + self.shortcut(x)
net = nn.Sequential(Block(4, 4, 2), Block(4, 8, 2))
net(torch.randn(2, 4, 16, 16)).mean().backward()
"""
LOSSES = """
def total(losses):
    return torch.tensor(losses).sum()
def step(net):
    losses = [net(torch.randn(3, 2)).mean() for _ in range(2)]
    total(losses).backward()
step(nn.Linear(2, 1))
"""
PROGRAMS = {
    "image without a batch": (IMAGE, "batch", "torch.rand(1, 8, 8).unsqueeze(0)"),
    "mean of channels": (CHANNELS, "one value for each channel", "(images - MEAN[:, None, None]) / STD[:, None, None]"),
    "positions": (POSITIONS, "only 6 positions", "longest=9"),
    "shortcut of a strided block": (BLOCK, "needs a projection", "nn.Conv2d(inputs, outputs, 1, stride=stride)"),
    "tensor of losses": (LOSSES, "cuts the graph", "torch.stack(losses)"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_explanation_names_cause_and_its_edits_let_the_program_run(tmp_path: Path, name: str) -> None:
    program, word, change = PROGRAMS[name]
    error, _, path = raise_from(tmp_path, program)
    finding = nbdebug.explain_error(error).findings[0]
    changed = apply_edits(path.read_text(), finding.edits)
    assert word in str(finding)
    assert change in changed
    exec(compile(changed, str(path), "exec"), {"__name__": "program"})


def test_trial_does_not_accept_a_transposed_convolution_of_other_channels(tmp_path: Path) -> None:
    program = """
    up = nn.ConvTranspose2d(8, 2, 2, stride=2)
    def decode(h):
        h = h.view(h.size(0), 8, 3, 3)
        return up(h)
    decode(torch.randn(5, 4 * 9))
    """
    error, _, path = raise_from(tmp_path, program)
    finding = nbdebug.explain_error(error).findings[0]
    assert "-1" not in apply_edits(path.read_text(), finding.edits)
    assert not finding.trial
