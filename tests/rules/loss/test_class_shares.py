"""Tests of L206 and class_shares: shares of classes in a user's own loss that sum to one over positions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup
from tests.rules.rule_findings import checkup_findings

GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.rand(24, 2, 6, 8, generator=GENERATOR)
MASKS = (IMAGES[:, 0] * 2.99).long()
SERIES = torch.randn(24, 9, 4, generator=GENERATOR)
TAGS = (SERIES[..., 0] > 0).long() + (SERIES[..., 1] > 0).long()
Loss = Callable[[Tensor, Tensor], Tensor]


def exponentials(scores: Tensor, axes: tuple[int, ...]) -> Tensor:
    powers = (scores - scores.detach().amax()).exp()
    return powers / powers.sum(axes, keepdim=True)  # shares


def dice(axes: tuple[int, ...]) -> Loss:
    def loss(scores: Tensor, masks: Tensor) -> Tensor:
        truth, share = F.one_hot(masks, 3).movedim(-1, 1).float(), exponentials(scores, axes)
        overlap, total = (truth * share).sum((2, 3)), (truth + share).sum((2, 3))
        return 1 - ((2 * overlap + 1) / (total + 1)).mean()

    return loss


def flattened_focal(axis: int) -> Loss:
    def loss(scores: Tensor, masks: Tensor) -> Tensor:
        share = scores.flatten(2).softmax(axis)  # shares
        chosen = share.gather(1, masks.flatten(1).unsqueeze(1))
        return -((1 - chosen) ** 2 * (chosen + 1e-8).log()).mean()

    return loss


def pixels(axis: int) -> Loss:
    def loss(scores: Tensor, masks: Tensor) -> Tensor:
        share = F.softmax(scores.permute(0, 2, 3, 1).reshape(-1, 3), axis)  # shares
        return (share - torch.eye(3)[masks.reshape(-1)]).square().sum()

    return loss


def log_shares(axis: int) -> Loss:
    def loss(scores: Tensor, tags: Tensor) -> Tensor:
        logs = scores - scores.logsumexp(axis, keepdim=True)  # shares
        return -logs.gather(2, tags.unsqueeze(2)).mean()

    return loss


def jaccard_of_moved_classes(axis: int) -> Loss:
    def loss(scores: Tensor, tags: Tensor) -> Tensor:
        share = scores.transpose(1, 2).softmax(axis)  # shares
        truth = torch.stack([tags == number for number in range(3)], 1).float()
        both = (share * truth).sum((0, 2))
        return -(both / (share + truth - share * truth).sum((0, 2))).mean()

    return loss


def segmenter() -> nn.Module:
    return nn.Conv2d(2, 3, 3, padding=1)


def tagger() -> nn.Module:
    return nn.Linear(4, 3)


FAULTS: dict[str, tuple[Callable[[], nn.Module], Tensor, Tensor, Loss]] = {
    "width": (segmenter, IMAGES, MASKS, dice((-1,))),
    "all pixels": (segmenter, IMAGES, MASKS, dice((2, 3))),
    "flattened pixels": (segmenter, IMAGES, MASKS, flattened_focal(-1)),
    "pixels of all images": (segmenter, IMAGES, MASKS, pixels(0)),
    "samples": (segmenter, IMAGES, MASKS, dice((0,))),
    "time": (tagger, SERIES, TAGS, log_shares(1)),
    "time after a transpose": (tagger, SERIES, TAGS, jaccard_of_moved_classes(2)),
    "masks with an axis of length one": (segmenter, IMAGES, MASKS.unsqueeze(1), lambda s, m: dice((2,))(s, m[:, 0])),
    "masks of numbers": (segmenter, IMAGES, MASKS.float(), lambda s, m: dice((2,))(s, m.long())),
    "masks of one-hot vectors": (
        segmenter,
        IMAGES,
        F.one_hot(MASKS, 3).movedim(-1, 1),
        lambda s, m: dice((2,))(s, m.argmax(1)),
    ),
    "in a part of the loss": (
        segmenter,
        IMAGES,
        MASKS,
        lambda s, m: F.cross_entropy(s, m) + dice((3,))(s, m),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_shares_over_positions_in_the_loss_are_reported_at_their_line(name: str) -> None:
    network, x, y, loss = FAULTS[name]
    (finding,) = checkup_findings(minimal_setup(network(), x, y, loss), "L206")
    assert finding.severity == "error"
    assert (finding.where.source or "").endswith("# shares")


def linear_pooling(scores: Tensor, present: Tensor) -> Tensor:
    """Averages probabilities over time with weights that sum to one over it."""
    probability = scores.sigmoid()
    weights = probability / probability.sum(1, keepdim=True)
    return F.binary_cross_entropy((weights * probability).sum(1), present.float())


def labels_of_sequences(scores: Tensor, present: Tensor) -> Tensor:
    return F.binary_cross_entropy(scores.softmax(2).mean(1), present.float())


def with_centers(scores: Tensor, masks: Tensor) -> Tensor:
    """Draws the pixels of a class together, by weights that sum to one over them."""
    weights = exponentials(scores, (2, 3))
    places = torch.arange(48.0).view(6, 8)
    centers = (weights * places).sum((2, 3), keepdim=True)
    spread = (weights * (places - centers).square()).sum((2, 3)).mean()
    return F.cross_entropy(scores, masks) + 0.01 * spread


def of_sigmoids(scores: Tensor, masks: Tensor) -> Tensor:
    return F.binary_cross_entropy(scores.sigmoid(), F.one_hot(masks, 3).movedim(-1, 1).float())


HEALTHY: dict[str, tuple[Callable[[], nn.Module], Tensor, Tensor, Loss]] = {
    "classes": (segmenter, IMAGES, MASKS, dice((1,))),
    "classes of flattened pixels": (segmenter, IMAGES, MASKS, flattened_focal(1)),
    "classes of pixels": (segmenter, IMAGES, MASKS, pixels(1)),
    "classes of steps": (tagger, SERIES, TAGS, log_shares(2)),
    "classes after a transpose": (tagger, SERIES, TAGS, jaccard_of_moved_classes(1)),
    "pooling over time": (tagger, SERIES, TAGS[:, :3].clamp(max=1), linear_pooling),
    "labels of sequences": (tagger, SERIES, TAGS[:, :3].clamp(max=1), labels_of_sequences),
    "centers of classes": (segmenter, IMAGES, MASKS, with_centers),
    "sigmoids": (segmenter, IMAGES, MASKS, of_sigmoids),
    "places of keypoints": (
        segmenter,
        IMAGES,
        MASKS[:, 0, :3],
        lambda scores, places: F.nll_loss(scores.flatten(2).log_softmax(2).flatten(0, 1), places.flatten()),
    ),
    "steps of classes": (
        tagger,
        SERIES,
        TAGS[:, :3],
        lambda scores, steps: -scores.log_softmax(1).gather(1, steps.unsqueeze(1)).mean(),
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_shares_over_classes_and_weights_over_positions_are_quiet(name: str) -> None:
    network, x, y, loss = HEALTHY[name]
    assert checkup_findings(minimal_setup(network(), x, y, loss), "L206") == []


@pytest.mark.parametrize(("axes", "codes"), [((3,), ["L206"]), ((1,), [])])
def test_shares_over_positions_in_own_loop_are_reported(axes: tuple[int, ...], codes: list[str]) -> None:
    torch._dynamo.reset()
    model, batches = segmenter(), DataLoader(TensorDataset(IMAGES, MASKS), batch_size=8)
    optimizer, debugger = torch.optim.SGD(model.parameters(), lr=0.01), Debugger(model, batches)
    with debugger.watch() as run:
        for x, masks in batches:
            optimizer.zero_grad()
            dice(axes)(model(x), masks).backward()
            optimizer.step()
    assert not run.error_summary
    assert [finding.code for finding in debugger.findings if finding.code == "L206"] == codes
