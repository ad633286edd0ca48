"""Tests of the result of the overfit test."""

from __future__ import annotations

import pickle

import numpy as np
import torch
from torch import nn

from nbdebug.rules.examples import minimal_setup
from nbdebug.tools.overfit import overfit
from nbdebug.views.page import static_html


def test_overfit_result_is_plain_data_with_plot_frame_and_page() -> None:
    torch.manual_seed(0)
    x = torch.rand(32, 1, 40, 40)
    y = torch.arange(32) % 2
    model = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(100, 2))
    result = overfit(minimal_setup(model, x, y, nn.CrossEntropyLoss(), class_names=["even", "odd"]))
    assert b"torch" not in pickle.dumps(result)
    assert result.examples[3].index == 3
    assert result.examples[3].target == 1
    assert result.examples[3].image.shape == (28, 28)
    assert result.examples[3].image.dtype == np.uint8
    frame = result.to_frame()
    assert list(frame.columns) == ["attempt", "step", "loss", "eval_loss", "accuracy", "eval_accuracy", "gradient"]
    assert len(frame) == sum(len(attempt.points) for attempt in result.attempts)
    assert result.plot().get_title() == f"overfit: {result.verdict}"
    page = static_html(result.view())
    assert "odd" in page
    assert len(page) < 200_000
    assert str(result).startswith(f"nbdebug overfit: {result.verdict}. ")
    assert all(0 <= score <= 1 for point in result.attempts[0].points for score in point.score)
    assert all(len(point.prediction) == 16 for point in result.attempts[0].points)
