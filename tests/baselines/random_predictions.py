"""Random targets and predictions of 300 rows: classes with scores, and real values."""

from __future__ import annotations

import numpy as np

_RANDOM = np.random.default_rng(0)
ROWS = np.arange(300)
TARGET = _RANDOM.choice(4, 300, p=[0.5, 0.3, 0.15, 0.05])
SCORES = _RANDOM.normal(size=(300, 4)) + 2 * np.eye(4)[TARGET]
PROBABILITIES = np.exp(SCORES) / np.exp(SCORES).sum(1, keepdims=True)
TARGET_VALUES = _RANDOM.normal(size=300)
PREDICTED_VALUES = TARGET_VALUES + _RANDOM.normal(size=300)
