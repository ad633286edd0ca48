"""Tests of how a setup splits batches after a watched loop has shown it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

import nbdebug
from nbdebug.exceptions import SetupError

_GENERATOR = torch.Generator().manual_seed(0)
FRAMES, TAGS = torch.randn(64, 6, 4, generator=_GENERATOR), torch.randint(3, (64, 6), generator=_GENERATOR)
LENGTHS = torch.randint(3, 7, (64,), generator=_GENERATOR)
_Row = tuple[Tensor, Tensor, Tensor]


class Tagger(nn.Module):
    """A layer over frames, of which some loops pass flat rows."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, frames: Tensor) -> Tensor:
        return self.layer(frames.reshape(len(frames), 6, 4))


def tag_loss(scores: Tensor, tags: Tensor) -> Tensor:
    return F.cross_entropy(scores.transpose(1, 2), tags)


def weighted_tag_loss(scores: Tensor, tags: Tensor, weights: Tensor) -> Tensor:
    losses = F.cross_entropy(scores.transpose(1, 2), tags, reduction="none")
    return (losses.mean(1) * weights).sum() / weights.sum()


class Program(NamedTuple):
    """How a loader lays out a batch, and what the loop makes of it; ``learns`` tells whether that is learned."""

    collate: Callable[[Tensor, Tensor, Tensor], Any]
    step: Callable[[nn.Module, Any], Tensor]
    learns: bool
    loss_fn: Callable[..., Tensor] = tag_loss


PROGRAMS: Mapping[str, Program] = {
    "lengths beside the input": Program(
        lambda x, n, y: ((x, n), y), lambda model, batch: tag_loss(model(batch[0][0]), batch[1]), True
    ),
    "another part before the target": Program(
        lambda x, n, y: (x, n, y), lambda model, batch: tag_loss(model(batch[0]), batch[2]), True
    ),
    "custom names": Program(
        lambda x, n, y: {"sizes": n, "sound": x.double(), "tags": y},
        lambda model, batch: tag_loss(model(batch["sound"].float()), batch["tags"]),
        True,
    ),
    "flat rows": Program(
        lambda x, n, y: ((n, x), y), lambda model, batch: tag_loss(model(batch[0][1].flatten(1)), batch[1]), True
    ),
    "a weight for each sample": Program(
        lambda x, n, y: ((x, n), y, n.float()),
        lambda model, batch: weighted_tag_loss(model(batch[0][0]), batch[1], batch[2]),
        True,
        weighted_tag_loss,
    ),
    "names in place of positions": Program(
        lambda x, n, y: {"frames": x, "tags": y},
        lambda model, batch: tag_loss(model(batch["frames"]), batch["tags"]),
        False,
    ),
    "input and target": Program(
        lambda x, n, y: (x, y), lambda model, batch: tag_loss(model(batch[0]), batch[1]), False
    ),
    "noise": Program(
        lambda x, n, y: ((x, n), y),
        lambda model, batch: tag_loss(model(batch[0][0] + torch.randn_like(batch[0][0])), batch[1]),
        False,
    ),
    "two passes": Program(
        lambda x, n, y: ((x, n), y),
        lambda model, batch: tag_loss(model(batch[0][0]) + model(batch[0][0].flip(1)).flip(1), batch[1]),
        False,
    ),
}


def watched_debugger(program: Program, *, with_checkup: bool = False, **options: Any) -> nbdebug.Debugger:
    """Train a few steps and return the debugger."""
    torch.manual_seed(0)

    def collate(rows: list[_Row]) -> Any:
        return program.collate(*(torch.stack(column) for column in zip(*rows, strict=True)))

    loader = DataLoader(list(zip(FRAMES, LENGTHS, TAGS, strict=True)), 16, collate_fn=collate)
    model = Tagger()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    debugger = nbdebug.Debugger(model, loader, loss_fn=program.loss_fn, optimizer=optimizer, **options)
    if with_checkup:
        debugger.checkup()
    with debugger.watch(final_tests=with_checkup) as run:
        for batch in loader:
            optimizer.zero_grad()
            program.step(model, batch).backward()
            optimizer.step()
    assert not run.error_summary
    return debugger


@pytest.mark.parametrize("name", PROGRAMS)
def test_batches_are_split_as_the_loop_splits_them(name: str) -> None:
    program = PROGRAMS[name]
    setup = watched_debugger(program).setup
    assert (setup.unpack is not None) == program.learns
    if program.learns:
        (batch,) = setup.batches(1)
        assert torch.equal(setup.predict(batch), setup.eager_model(FRAMES[:16]))
        assert torch.equal(batch.targets[0], TAGS[:16])
        assert torch.isfinite(setup.loss(setup.predict(batch), batch))


@pytest.mark.parametrize("name", [name for name, program in PROGRAMS.items() if program.learns])
def test_rules_on_targets_are_checked_with_a_learned_split(name: str) -> None:
    debugger = watched_debugger(PROGRAMS[name], with_checkup=True)
    assert {"D101", "L211", "L214"} <= debugger.findings.checked_rules
    assert [finding.code for finding in debugger.findings if finding.severity != "note"] == []


def test_own_unpack_stays() -> None:
    def unpack(batch: Any) -> Any:
        return batch[0][0], batch[1]

    assert watched_debugger(PROGRAMS["lengths beside the input"], unpack=unpack).setup.unpack is unpack


def test_batch_with_other_parts_is_refused() -> None:
    setup = watched_debugger(PROGRAMS["lengths beside the input"]).setup
    with pytest.raises(SetupError, match="a batch has other parts than the first batch of your loop"):
        setup.split_batch((FRAMES, TAGS))
