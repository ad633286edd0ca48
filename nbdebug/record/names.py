"""What the signals of a whole run are called where a person reads of them."""

from __future__ import annotations

NAMES = {
    "eval_loss": "validation loss",
    "sample_train_loss": "loss of fixed training samples",
    "sample_val_loss": "loss of fixed validation samples",
    "sample_train_score": "score of fixed training samples",
    "sample_val_score": "score of fixed validation samples",
    "sample_changed": "share of answers that changed",
    "lr": "learning rate",
    "gradient_norm": "gradient norm",
    "raw_gradient_norm": "gradient norm before clipping",
    "step_seconds": "seconds a step",
    "wait_seconds": "seconds of waiting for data",
}


def called(signal: str) -> str:
    """A signal in words; what was logged keeps its name."""
    return NAMES.get(signal, signal)
