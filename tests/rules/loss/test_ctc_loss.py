"""Tests of L204 and D101 on the CTC loss: no log-probabilities, and targets that contain the blank."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

STRIPS = torch.randn(32, 12, 6, generator=torch.Generator().manual_seed(0))
LETTERS = torch.randint(1, 5, (32, 3), generator=torch.Generator().manual_seed(1))
Loss = Callable[[Tensor, Tensor], Tensor]


def ctc(frames: Tensor, letters: Tensor, length: int = 12) -> Tensor:
    n = len(letters)
    return F.ctc_loss(frames.transpose(0, 1), letters, torch.full((n,), length), torch.full((n,), 3))


def of_probabilities(logits: Tensor, letters: Tensor) -> Tensor:
    return ctc(logits.softmax(-1), letters)


def of_logits(logits: Tensor, letters: Tensor) -> Tensor:
    n = len(letters)
    return nn.CTCLoss()(logits.transpose(0, 1), letters, (12,) * n, (3,) * n)


def of_own_probabilities(logits: Tensor, letters: Tensor) -> Tensor:
    exponents = logits.exp()
    return ctc(exponents / exponents.sum(-1, keepdim=True), letters)


def of_log_softmax(logits: Tensor, letters: Tensor) -> Tensor:
    return ctc(logits.log_softmax(-1), letters)


def of_guarded_logarithm(logits: Tensor, letters: Tensor) -> Tensor:
    return ctc((logits.softmax(-1) + 1e-6).log(), letters)


def of_padded_frames(logits: Tensor, letters: Tensor) -> Tensor:
    return ctc(F.pad(logits.log_softmax(-1), (0, 0, 0, 5)), letters)


def of_first_sample(logits: Tensor, letters: Tensor) -> Tensor:
    return F.ctc_loss(logits[0].log_softmax(-1), letters[0], torch.tensor(12), torch.tensor(3))


def setup_of(loss_fn: Loss) -> Setup:
    torch.manual_seed(0)
    return minimal_setup(nn.Linear(6, 5), STRIPS, LETTERS, loss_fn)


@pytest.mark.parametrize(
    ("loss_fn", "fed", "source", "fix"),
    [
        (of_probabilities, "probabilities", "logits.softmax(-1)", "return ctc(logits.log_softmax(-1), letters)"),
        (of_own_probabilities, "probabilities", "F.ctc_loss", "Pass the log_softmax of the scores"),
        (of_logits, "logits", "nn.CTCLoss", "(logits.transpose(0, 1).log_softmax(-1), letters, (12,) * n, (3,) * n)"),
    ],
)
def test_nll_without_log_softmax_of_ctc_loss_says_what_it_is_fed(
    loss_fn: Loss, fed: str, source: str, fix: str
) -> None:
    (finding,) = rule_findings(setup_of(loss_fn), "L204")
    assert finding.severity == "error"
    assert finding.evidence["fed"] == fed
    assert source in (finding.where.source or "")
    assert fix in finding.fix


@pytest.mark.parametrize("loss_fn", [of_log_softmax, of_guarded_logarithm, of_padded_frames, of_first_sample])
def test_nll_without_log_softmax_of_log_probabilities_in_ctc_loss_is_quiet(loss_fn: Loss) -> None:
    assert rule_findings(setup_of(loss_fn), "L204") == []


@pytest.mark.parametrize(("loss_fn", "is_fault"), [(of_probabilities, True), (of_log_softmax, False)])
def test_watch_reports_ctc_loss_of_probabilities_in_the_loop(loss_fn: Loss, is_fault: bool) -> None:
    setup = setup_of(loss_fn)
    model, optimizer = setup.model, torch.optim.SGD(setup.model.parameters(), lr=0.01)
    debugger = Debugger(model, setup.train_loader, optimizer=optimizer)
    with debugger.watch():
        for _ in range(3):
            for x, y in setup.train_loader:
                optimizer.zero_grad()
                loss_fn(model(x), y).backward()
                optimizer.step()
    assert any(finding.code == "L204" for finding in debugger.findings) is is_fault


def test_ctc_targets_that_contain_the_blank_are_reported_at_its_option() -> None:
    loss_fn = nn.CTCLoss(blank=4)
    lengths = torch.full((32,), 12), torch.arange(32) % 2 + 2

    def of_blank(logits: Tensor, letters: Tensor) -> Tensor:
        n = len(letters)
        return loss_fn(logits.log_softmax(-1).transpose(0, 1), letters, lengths[0][:n], lengths[1][:n])

    (finding,) = rule_findings(setup_of(of_blank), "D101")
    counted = LETTERS[:16][torch.arange(3) < lengths[1][:16, None]]  # of the first batch
    assert f"{int((counted == 4).sum())} of the {len(counted)} labels" in finding.message
    assert "nn.CTCLoss(blank=0)" in finding.fix
    assert "blank=4" in (finding.where.source or "")
    assert rule_findings(setup_of(of_log_softmax), "D101") == []


def test_ctc_lengths_that_count_the_padding_are_reported_where_the_loss_is_called() -> None:
    padded = LETTERS.masked_fill(torch.arange(3) >= (torch.arange(len(LETTERS)) % 2 + 2)[:, None], 0)
    setup = minimal_setup(nn.Linear(6, 5), STRIPS, padded, of_log_softmax)
    (finding,) = rule_findings(setup, "D101")
    assert "count the padding" in finding.cause
    assert "`target_lengths = (targets != 0).sum(1)`" in finding.fix
    assert "F.ctc_loss(" in (finding.where.source or "")


def of_log_softmax_over_frames(logits: Tensor, letters: Tensor) -> Tensor:
    scores = logits.log_softmax(1)
    return ctc(scores, letters)


class ClassOfDepth(nn.Module):
    """Scores of 5 classes for each of 12 positions, normalized over the positions."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.layer, self.axis = nn.Linear(6, 5), axis

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layer(x)
        return torch.log_softmax(scores, self.axis)


def position_loss(scores: Tensor, letters: Tensor) -> Tensor:
    return F.nll_loss(scores[:, :3].flatten(0, 1), letters.flatten())


def test_nll_without_log_softmax_names_the_log_softmax_over_another_axis() -> None:
    (finding,) = rule_findings(setup_of(of_log_softmax_over_frames), "L204")
    assert "log-probabilities over axis 1 of shape (16, 12, 5)" in finding.message
    assert "logits.log_softmax(1)" in (finding.where.source or "")
    (finding,) = rule_findings(minimal_setup(ClassOfDepth(1), STRIPS, LETTERS, position_loss), "L204")
    assert "torch.log_softmax(scores, self.axis)" in (finding.where.source or "")
    assert not rule_findings(minimal_setup(ClassOfDepth(2), STRIPS, LETTERS, position_loss), "L204")


PIXELS = torch.randn(32, 3, 6, 7, generator=torch.Generator().manual_seed(3))
LABELS_OF_PIXELS = torch.randint(0, 5, (32, 6, 7), generator=torch.Generator().manual_seed(4))
Source = tuple[Callable[[], nn.Module], Tensor, Tensor, Loss]


def over_samples_of_frames(logits: Tensor, letters: Tensor) -> Tensor:
    frames = logits.transpose(0, 1)
    return ctc(frames.log_softmax(1).transpose(0, 1), letters)


def over_columns(logits: Tensor, labels: Tensor) -> Tensor:
    return F.nll_loss(F.log_softmax(logits, dim=-1), labels)


def over_steps_before_exchange(scores: Tensor, letters: Tensor) -> Tensor:
    return F.nll_loss(torch.log_softmax(scores[:, :3], dim=1).transpose(1, 2), letters)


def over_steps_before_flattening(scores: Tensor, letters: Tensor) -> Tensor:
    return F.nll_loss(scores[:, :3].log_softmax(1).flatten(0, 1), letters.flatten())


def of_shares_before_flattening(scores: Tensor, letters: Tensor) -> Tensor:
    return F.nll_loss(scores[:, :3].softmax(-1).flatten(0, 1), letters.flatten())


# By name: model, inputs, targets, loss; the axis of the softmax, that of the classes there, and the edited line.
AXES: dict[str, tuple[Source, str, str]] = {
    "samples of time-first frames": (
        (lambda: nn.Linear(6, 5), STRIPS, LETTERS, over_samples_of_frames),
        "Axis 1 holds the 16 samples of the batch; the 5 classes are along axis 2.",
        "return ctc(frames.log_softmax(2).transpose(0, 1), letters)",
    ),
    "columns of pixels": (
        (lambda: nn.Conv2d(3, 5, 1), PIXELS, LABELS_OF_PIXELS, over_columns),
        "The 5 classes are along axis 1.",
        "return F.nll_loss(F.log_softmax(logits, dim=1), labels)",
    ),
    "steps before an exchange of axes": (
        (lambda: nn.Linear(6, 5), STRIPS, LETTERS, over_steps_before_exchange),
        "The 5 classes are along axis 2.",
        "return F.nll_loss(torch.log_softmax(scores[:, :3], dim=2).transpose(1, 2), letters)",
    ),
    "steps before flattening": (
        (lambda: nn.Linear(6, 5), STRIPS, LETTERS, over_steps_before_flattening),
        "The 5 classes are along axis 2.",
        "return F.nll_loss(scores[:, :3].log_softmax(2).flatten(0, 1), letters.flatten())",
    ),
    "samples of single scores": (
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(72, 5), nn.LogSoftmax(0)), STRIPS, LETTERS[:, 0], nn.NLLLoss()),
        "Axis 0 holds the 16 samples of the batch; the 5 classes are along axis 1.",
        "Write `log_p = logits.log_softmax(1)` (over the 5 classes).",
    ),
}


@pytest.mark.parametrize("name", AXES)
def test_l204_fix_takes_the_axis_that_the_classes_have_in_the_log_softmax(name: str) -> None:
    (build, inputs, targets, loss_fn), cause, fix = AXES[name]
    torch.manual_seed(0)
    (finding,) = rule_findings(minimal_setup(build(), inputs, targets, loss_fn), "L204")
    assert finding.cause == cause
    assert finding.fix == fix


def test_l204_fix_for_probabilities_takes_the_axis_of_their_softmax() -> None:
    torch.manual_seed(0)
    setup = minimal_setup(nn.Linear(6, 5), STRIPS, LETTERS, of_shares_before_flattening)
    (finding,) = rule_findings(setup, "L204")
    assert "F.log_softmax(logits, dim=2)" in finding.fix


@pytest.mark.parametrize(("model", "axis"), [(nn.Conv2d(3, 5, 1), 1), (nn.Conv2d(3, 7, 1), -1)])
def test_l204_fix_for_divergences_takes_the_axis_along_which_the_targets_sum_to_one(
    model: nn.Module, axis: int
) -> None:
    targets = torch.randn(32, model.weight.shape[0], 6, 7).softmax(axis)
    (finding,) = rule_findings(minimal_setup(model, PIXELS, targets, nn.KLDivLoss(reduction="batchmean")), "L204")
    assert f"dim={axis % 4})" in finding.fix


TEXTS = {
    "encoded on reading": (
        "        return self.strips[i], self.encode(self.words[i])\n"
        "    def encode(self, word):\n        codes = [self.letters.index(letter) for letter in word]  # here\n"
        "        return torch.tensor(codes)\n",
        "default_collate",
    ),
    "shifted back": (
        "        codes = torch.tensor([self.letters.index(letter) + 1 for letter in self.words[i]])\n"
        "        return self.strips[i], codes - 1  # here\n",
        "default_collate",
    ),
    "joined by a collate function": (
        "        label = torch.tensor([self.letters.index(letter) for letter in self.words[i]])  # here\n"
        "        return self.strips[i], label\n",
        "lambda rows: (torch.stack([x for x, _ in rows]), torch.cat([y for _, y in rows]))",
    ),
    "stored": (
        "        return self.strips[i], self.labels[i]\n",
        "default_collate",
    ),
}
HEADER = """\
import torch
from torch.utils.data import DataLoader, Dataset, default_collate
from torch.nn import functional as F
class Words(Dataset):
    letters = "abcd"
    def __init__(self):
        self.strips = torch.randn(32, 12, 6)
        self.words = [self.letters[i % 4] + "bd" for i in range(32)]
        self.labels = torch.tensor([[self.letters.index(a) for a in w] for w in self.words])  # stored
    def __len__(self): return 32
    def __getitem__(self, i):
"""
LOSS = """\
def loss(logits, labels):
    n = len(logits)
    return F.ctc_loss(logits.log_softmax(-1).transpose(0, 1), labels, torch.full((n,), 12), torch.full((n,), 3){option})
"""


@pytest.mark.parametrize("option", ["", ", blank=0"])
@pytest.mark.parametrize("name", TEXTS)
def test_ctc_labels_that_contain_the_blank_are_reported_where_they_are_made(
    name: str, option: str, tmp_path: Path
) -> None:
    body, collate = TEXTS[name]
    file = tmp_path / "program.py"
    unstored = "" if name == "stored" else "        del self.labels\n"
    header = HEADER.replace("    def __len__", f"{unstored}    def __len__")
    file.write_text(
        f"{header}{body}loader = DataLoader(Words(), 16, collate_fn={collate})\n{LOSS.format(option=option)}",
        encoding="utf-8",
    )
    scope: dict[str, Any] = {"__name__": "program"}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), scope)
    torch.manual_seed(0)
    setup = Setup(nn.Linear(6, 5), scope["loader"], loss_fn=scope["loss"])
    setup.files = {str(file)}
    (finding,) = rule_findings(setup, "D101")
    source = (finding.where.source or "").strip()
    assert source.endswith("# stored" if name == "stored" else "# here"), str(finding)
    assert finding.fix == "Add 1 to each label from 0 on, or pass blank=4 to the loss, which no label uses."
