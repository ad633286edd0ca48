"""Playgrounds: small networks that are trained on the spot, with sliders to see what a setting does."""

from __future__ import annotations

from importlib import import_module

from nbdebug.playgrounds.play import Play as Play
from nbdebug.validation import validate_choice

PLAYGROUNDS = (
    "loss-curves",
    "gradient-health",
    "activation-flow",
    "weight-signatures",
    "learning-rate",
    "loss-landscape",
    "batch-noise",
    "clipping",
    "label-noise",
    "calibration",
    "shap",
)


def play(name: str) -> Play:
    """Return a playground with its sliders.

    Every move of a slider trains a small seeded network; nothing of yours is used or changed. Raises SetupError for an
    unknown name.

    Args:
        name: "loss-curves", "gradient-health", "activation-flow", "weight-signatures", "learning-rate",
            "loss-landscape", "batch-noise", "clipping", "label-noise", "calibration" or "shap".
    """
    validate_choice("name", name, PLAYGROUNDS)
    module = import_module(f"nbdebug.playgrounds.{name.replace('-', '_')}")
    return Play(module.PLAYGROUND)
