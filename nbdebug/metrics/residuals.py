"""How far real numbers are off: RMSE, MAE, R² and bias, with intervals; and whether residuals follow a pattern."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.number import Number, around

Floats = NDArray[np.float64]
SOME = 200_000  # rows that a pattern is sought in
TENTHS, SURE = 10, 1e-3
STEADY = 0.8  # how straight along its tenths a trend is that rises or falls
SHARE, WIDER = 0.05, 1.5  # what a trend must explain, and how much wider residuals must get, to be spoken of


def residual_metrics(target: Any, prediction: Any) -> dict[str, Number]:
    """``rmse``, ``mae``, ``r2`` and ``bias`` (prediction minus target) of finite numbers, one output.

    Rows with a value that is not finite are left out. R² is NaN for targets that are all the same.
    """
    target, prediction = np.asarray(target, np.float64), np.asarray(prediction, np.float64)
    kept = np.isfinite(target) & np.isfinite(prediction)
    target, prediction = target[kept], prediction[kept]
    if not len(target):
        nothing = Number(float("nan"), float("nan"), float("nan"))
        return dict.fromkeys(("rmse", "mae", "r2", "bias"), nothing)
    off = prediction - target
    squares, sizes = off**2, np.abs(off)
    mse = around(float(np.average(squares)), squares - squares.mean())
    rmse = Number(float(np.sqrt(mse.value)), float(np.sqrt(max(mse.low, 0.0))), float(np.sqrt(mse.high)))
    mae = around(float(np.average(sizes)), sizes - sizes.mean())
    return {"rmse": rmse, "mae": mae, "r2": r_squared(target, squares), "bias": around(float(off.mean()), off)}


def r_squared(target: Floats, squares: Floats) -> Number:
    """The share of the variance of the target that is explained; its interval by the delta method."""
    apart = (target - np.average(target)) ** 2
    total = float(apart.sum())
    if not total:
        return Number(float("nan"), float("nan"), float("nan"))
    unexplained = float(squares.sum()) / total
    found = around(1 - unexplained, (squares - unexplained * apart) / apart.mean())
    return Number(found.value, found.low, min(found.high, 1.0))


def pattern(x: Any, residual: Any, name: str) -> str:
    """Whether residuals rise, fall, bend or spread with something, in a sentence; by tenths of its values."""
    x, residual = np.asarray(x, np.float64), np.asarray(residual, np.float64)
    kept = np.flatnonzero(np.isfinite(x) & np.isfinite(residual))
    kept = kept[:: max(1, len(kept) // SOME)]
    if len(kept) < 10 * TENTHS or np.ptp(x[kept]) == 0:
        return f"Too few different values of {name} to see a pattern in the residuals."
    kept = kept[np.argsort(x[kept], kind="stable")]
    parts = np.array_split(residual[kept], TENTHS)
    said = [one for one in (trend(parts, name), spread(parts, x[kept], name)) if one]
    return " ".join(said) or f"Residuals show no trend with {name}, and no change of their spread."


def trend(parts: list[Floats], name: str) -> str:
    """Whether the mean of the residuals changes along tenths: one-way analysis of variance."""
    from scipy.stats import f_oneway

    every, means = np.concatenate(parts), [float(part.mean()) for part in parts]
    between = sum(len(part) * (mean - every.mean()) ** 2 for part, mean in zip(parts, means, strict=True))
    total = float(((every - every.mean()) ** 2).sum())
    if not total or between / total < SHARE or not float(f_oneway(*parts).pvalue) < SURE:
        return ""
    along = float(np.corrcoef(np.arange(TENTHS), means)[0, 1])
    way = "bend" if abs(along) < STEADY else "rise" if along > 0 else "fall"
    return (
        f"Residuals {way} with {name}: {means[0]:.3g} in its lowest tenth, {means[TENTHS // 2]:.3g} in the middle, "
        f"{means[-1]:.3g} in its highest."
    )


def spread(parts: list[Floats], x: Floats, name: str) -> str:
    """Whether the spread of the residuals changes along tenths.

    By the rank correlation of their distance from the median of their tenth, as Brown and Forsythe 1974
    (doi:10.1080/01621459.1974.10482955) take it.
    """
    from scipy.stats import spearmanr

    away = [np.abs(part - np.median(part)) for part in parts]
    first, last = float(away[0].mean()), float(away[-1].mean())
    low, high = min(first, last), max(first, last)
    if high < WIDER * low or not high or not float(spearmanr(x, np.concatenate(away)).pvalue) < SURE:
        return ""
    times = f"{high / low:.1f} times as wide" if low else "wide"
    ends = ("highest", "lowest") if last > first else ("lowest", "highest")
    return f"Residuals spread {times} in the {ends[0]} tenth of {name} as in its {ends[1]} (heteroscedastic)."
