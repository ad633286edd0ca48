"""Playgrounds: small networks that are trained on the spot, with sliders to see what a setting does."""

from __future__ import annotations

from importlib import import_module

from nbdebug.playgrounds.play import Play as Play
from nbdebug.validation import validate_choice

PLAYGROUNDS = ("gradient-health", "loss-curves", "learning-rate", "batch-noise")


def play(name: str) -> Play:
    """Return a playground with its sliders.

    Every move of a slider trains a small seeded network; nothing of yours is used or changed. Raises SetupError for an
    unknown name.

    Args:
        name: "gradient-health", "loss-curves", "learning-rate" or "batch-noise".
    """
    validate_choice("name", name, PLAYGROUNDS)
    module = import_module(f"nbdebug.playgrounds.{name.replace('-', '_')}")
    return Play(module.PLAYGROUND)
