"""Tests of custom losses on the outputs of models that return their own loss."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.exceptions import NotChecked
from nbdebug.measurements import Measurements
from nbdebug.setup import Setup

BATCH = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3


class ModelWithLoss(nn.Module):
    """Returns its loss and its logits in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        logits = self.layer(x)
        return {"loss": logits.square().mean(), "logits": logits}


def loss_of_logits(logits: Tensor, targets: Tensor) -> Tensor:
    return -logits.log_softmax(1)[torch.arange(len(targets)), targets].mean()


def loss_of_output(output: dict[str, Tensor], targets: Tensor) -> Tensor:
    return output["loss"] + loss_of_logits(output["logits"], targets)


def compute(loss_fn: Any) -> Tensor:
    setup = Setup(ModelWithLoss(), [BATCH], loss_fn=loss_fn)
    first, second = (setup.output_and_loss(setup.split_batch(BATCH))[1] for _ in range(2))
    assert torch.equal(first, second)
    return first


def test_custom_loss_gets_the_output_or_the_logits_if_it_cannot_take_the_output() -> None:
    output = ModelWithLoss()(BATCH[0])
    assert torch.equal(compute(loss_of_logits), loss_of_logits(output["logits"], BATCH[1]))
    assert torch.equal(compute(loss_of_output), loss_of_output(output, BATCH[1]))


def test_loss_that_takes_neither_raises_its_error_on_the_output() -> None:
    def loss_of_scores(output: Any, targets: Tensor) -> Tensor:
        return output.scores[targets].mean()

    with pytest.raises(AttributeError, match="'dict' object has no attribute 'scores'"):
        compute(loss_of_scores)


def flat_loss(logits: Tensor, tags: Tensor) -> Tensor:
    loss: Tensor = F.cross_entropy(logits.reshape(-1, 3), tags.reshape(-1))
    return loss


def masked_loss(logits: Tensor, tags: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=0)


@pytest.mark.parametrize(("loss_fn", "is_known"), [(flat_loss, True), (masked_loss, False)])
def test_loss_of_a_class_at_each_position_is_known_if_it_is_that_of_torch(loss_fn: Any, is_known: bool) -> None:
    words, tags = BATCH[0].unsqueeze(1).repeat(1, 5, 1), BATCH[1].unsqueeze(1).repeat(1, 5)
    measurements = Measurements(Setup(nn.Linear(4, 3), [(words, tags)], loss_fn=loss_fn))
    if is_known:
        assert measurements["torch_loss_kind"] == "cross-entropy"
    else:
        with pytest.raises(NotChecked, match="none of torch's own"):
            measurements["torch_loss_kind"]


def own_cross_entropy(z: Tensor, y: Tensor) -> Tensor:
    return (z.logsumexp(1) - z.gather(1, y[:, None])[:, 0]).mean()


def one_hot_cross_entropy(z: Tensor, y: Tensor) -> Tensor:
    return -(F.one_hot(y, 3) * z.log_softmax(1)).sum(1).mean()


def product_of_probabilities(z: Tensor, y: Tensor) -> Tensor:
    return -z.softmax(-1)[torch.arange(len(y)), y].log().sum() / len(y)


def own_square(z: Tensor, y: Tensor) -> Tensor:
    return (z - y).square().mean()


def own_logistic(z: Tensor, y: Tensor) -> Tensor:
    return (z.clamp(min=0) - z * y + (-z.abs()).exp().log1p()).mean()


def focal(z: Tensor, y: Tensor) -> Tensor:
    own = z.softmax(1).gather(1, y[:, None])
    return -((1 - own).square() * own.log()).mean()


def margin(z: Tensor, y: Tensor) -> Tensor:
    return (1 + z - z.gather(1, y[:, None])).clamp(min=0).mean()


def smoothed(z: Tensor, y: Tensor) -> Tensor:
    return 0.9 * own_cross_entropy(z, y) - 0.1 * z.log_softmax(1).mean()


def contrast(z: Tensor, _: Tensor) -> Tensor:
    return own_cross_entropy(z @ z.t(), torch.arange(len(z)))


def constant_of_chance(z: Tensor, y: Tensor) -> Tensor:
    return own_cross_entropy(z.detach() * 0 + z.mean(), y)


LABELS, VALUES = BATCH[1], torch.rand(8, 3, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("loss_fn", "targets", "kind"),
    [
        (own_cross_entropy, LABELS, "cross-entropy"),
        (one_hot_cross_entropy, LABELS, "cross-entropy"),
        (product_of_probabilities, LABELS, "cross-entropy"),
        (own_square, VALUES, "squared"),
        (own_logistic, VALUES.round(), "bce-with-logits"),
        (focal, LABELS, None),
        (margin, LABELS, None),
        (smoothed, LABELS, None),
        (contrast, LABELS, None),
        (constant_of_chance, LABELS, None),
    ],
)
@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_loss_with_the_values_of_one_of_torch_has_its_kind(
    loss_fn: Any, targets: Tensor, kind: str | None, scale: float
) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    with torch.no_grad():
        model.weight.mul_(scale), model.bias.mul_(scale)
    measurements = Measurements(Setup(model, [(BATCH[0], targets)], loss_fn=loss_fn))
    if kind:
        assert measurements["prediction_loss_kind"] == kind
    else:
        with pytest.raises(NotChecked, match="none of torch's own"):
            measurements["prediction_loss_kind"]
