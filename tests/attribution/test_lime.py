"""Tests of the lime method."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nbdebug.attribution import attribute
from nbdebug.exceptions import SetupError
from tests.attribution.networks import BACKGROUND, MixedInputModel, TokenTransformer, X


def test_lime_of_linear_model_matches_closed_form() -> None:
    model = nn.Linear(4, 3)
    attribution = attribute(model, X, method="lime", background=BACKGROUND)
    expected = ((X - BACKGROUND.mean(0)) * model.weight[attribution.classes]).detach().numpy()
    assert np.linalg.norm(attribution.array - expected) < 0.02 * np.linalg.norm(expected)
    assert attribution.converged
    assert "model is 1.00 for" in attribution.notes[0]


def test_lime_of_images_assigns_patch_coefficient_to_its_pixels() -> None:
    class QuarterSum(nn.Module):
        """The sum of one quarter of an image."""

        def forward(self, x: Tensor) -> Tensor:
            return x[:, :, :4, 4:].sum((1, 2, 3))

    x = torch.ones(1, 2, 8, 8)
    values = attribute(QuarterSum(), x, method="lime", background=torch.zeros(2, 2, 8, 8), size=4).array[0]
    assert values[:, :4, 4:] == pytest.approx(32, rel=0.02)
    values[:, :4, 4:] = 0
    assert np.abs(values).max() < 0.3


def test_lime_of_tokens_and_mixed_inputs_covers_every_input() -> None:
    torch.manual_seed(0)
    tokens = torch.randint(20, (9, 6))
    assert attribute(TokenTransformer(), tokens[:2], method="lime", background=tokens, samples=200).array.shape == (
        2,
        6,
    )
    inputs = (X, torch.randint(5, (3, 2)))
    assert set(attribute(MixedInputModel(), inputs, method="lime", background=inputs, samples=50).values) == {
        "input 0",
        "input 1",
    }


def test_lime_of_nonlinear_score_is_not_converged_and_few_samples_raise() -> None:
    def sign_product(x: np.ndarray) -> np.ndarray:
        return np.prod(np.sign(x), 1)

    attribution = attribute(sign_product, torch.ones(1, 6), method="lime", background=-torch.ones(2, 6))
    assert not attribution.converged
    assert any("is low: the score is not locally linear" in note for note in attribution.notes)
    with pytest.raises(SetupError, match="samples is 3 and size None; expected 10 or more"):
        attribute(sign_product, torch.ones(1, 6), method="lime", background=-torch.ones(2, 6), samples=3)
