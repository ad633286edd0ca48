"""Quantities that are no rate: at a constant rate the loss falls with time, whatever they do.

So each sweep is told against a control of the same batches at the user's own value, and the curve is the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nbdebug.tools.lr_range.pooled import pooled
from nbdebug.tools.lr_range.recommend import Advice
from nbdebug.tools.lr_range.result import NAMES, Quantity, Sweep
from nbdebug.tools.lr_range.suggestions import LEAST

GAIN = 0.02  # of the loss: what is less is no difference


def against(advice: Advice, quantity: Quantity, sweeps: Sequence[Sweep], current: float, level: float) -> Advice:
    """Advice in the light of the control, whose losses are ``level`` in the mean; that on a rate stays as it is.

    A value is recommended only where the loss came to lie clearly under that of the control.
    """
    usable = [one for one in sweeps if len(one.losses) >= LEAST]
    if quantity == "lr" or not usable or advice.verdict not in ("clear", "unclear", "flat"):
        return advice
    curve, name = pooled(usable), NAMES[quantity]
    smooth = np.asarray(curve.smooth) / max(level, 1e-12)
    if advice.verdict == "clear" and smooth.min() < -GAIN and advice.recommended is not None:
        said = f"A {name} of {advice.recommended.value:.2g} does better than yours, {current:.2g}"
        return replace(advice, headline=f"{said}: the loss comes to lie {-smooth.min():.0%} lower.")
    worse = np.asarray(curve.values)[smooth > GAIN]
    why = f"the loss is higher from {worse[0]:.2g} to {worse[-1]:.2g}" if len(worse) else "the loss is about the same"
    return Advice("flat", f"No {name} that was tried does clearly better than yours, {current:.2g}.", (why,))
