"""Whether neighbors along an axis are nearer to each other than any two numbers of a sample are."""

from __future__ import annotations

import numpy as np

from nbdebug.samples.arrays import Array


def nearness(values: Array, axis: int, step: int = 1) -> float:
    """The mean difference between numbers ``step`` apart along ``axis``, divided by that between numbers shuffled.

    ``values`` are samples × anything; each sample is shuffled by itself. About 1 where order means nothing, 1 too where
    all is one number or the axis is too short.
    """
    if values.shape[axis] <= step or not len(values):
        return 1.0
    found = np.nan_to_num(values.astype(np.float64), posinf=0.0, neginf=0.0)
    ahead = np.take(found, np.arange(step, found.shape[axis]), axis)
    apart = np.abs(ahead - np.take(found, np.arange(found.shape[axis] - step), axis)).mean()
    flat = found.reshape(len(found), -1)
    order = np.random.default_rng(0).permutation(flat.shape[1])
    shuffled = np.abs(flat[:, order] - flat).mean()
    return float(apart / shuffled) if shuffled > 0 else 1.0
