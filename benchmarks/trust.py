"""How often the lights of trust are right, on attributions that are known to be good or bad.

    python benchmarks/trust.py           confusion tables: each light, and the one over all of them
    python benchmarks/trust.py times     seconds of an examination, and Adebayo's check on what shows the input alone

Samples are examined one by one, as a page does. "other" are engines that are neither: whether they hold depends on the
model, beside them stands how near they are to the converged expected gradients (cosine).
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from trust_cases import Setting, cases, found, guided, settings

from nbdebug.attribution import Attribution
from nbdebug.attribution.reliability import examine
from nbdebug.attribution.reliability.checks import randomize_model
from nbdebug.statistics.estimates import median_rank_correlation

SHADES = ["green", "yellow", "red", "gray"]


def one_of(given: Attribution, row: int) -> Attribution:
    """One sample of an attribution."""
    cut: dict[str, Any] = {
        name: getattr(given, name) for name in ("classes", "scores", "base", "completeness", "outputs")
    }
    cut = {name: None if one is None else one[row : row + 1] for name, one in cut.items()}
    values = {name: one[row : row + 1] for name, one in given.values.items()}
    return replace(given, values=values, **cut)


def lights(setting: Setting) -> list[dict[str, Any]]:
    """A row for each sample of each case."""
    reference = found(setting, setting.model, "expected_gradients").flat
    rows = []
    for kind, name, given in cases(setting):
        near = (given.flat * reference).sum(1) / np.linalg.norm(given.flat, axis=1) / np.linalg.norm(reference, axis=1)
        for row in range(len(given)):
            trust = examine(setting.model, setting.x[row : row + 1], one_of(given, row), setting.background)
            told = {"setting": setting.name, "kind": kind, "name": name, "near": near[row], "all": trust.light}
            told |= {one.name: one.light for one in trust.measures}
            told |= {f"{one.name} value": one.value for one in trust.measures}
            rows.append(told)
    return rows


def shades(frame: pd.DataFrame, by: list[str], column: str) -> pd.DataFrame:
    """How many have each light."""
    return (
        frame.groupby(by, sort=False)[column].value_counts().unstack(fill_value=0).reindex(columns=SHADES, fill_value=0)
    )


def confusion() -> None:
    """All tables."""
    rows = []
    for setting in settings():
        rows += lights(setting)
        print(f"{setting.name}: done", flush=True)
    frame = pd.DataFrame(rows)
    if len(sys.argv) > 1:
        frame.to_pickle(sys.argv[1])
    tell(frame)


def tell(frame: pd.DataFrame) -> None:
    """The tables of what was measured."""
    measures = [name.removesuffix(" value") for name in frame if str(name).endswith(" value")]
    for column in ["all", *measures]:
        print(f"\n{column}\n{shades(frame, ['kind'], column).to_string()}")
    print(f"\neach\n{shades(frame, ['kind', 'name'], 'all').to_string()}")
    good = frame[frame.kind == "good"]
    print(f"\ngood by set-up\n{shades(good, ['setting'], 'all').to_string()}")
    others = frame[frame.kind == "other"].groupby("all").near.describe()
    print(f"\nother engines: cosine to expected gradients by light\n{others.round(2).to_string()}")
    values = [f"{name} value" for name in measures]
    told = frame.groupby("kind")[values].quantile([0, 0.02, 0.1, 0.5, 0.9, 0.98, 1]).round(3)
    print(f"\nquantiles\n{told.to_string()}")


def times() -> None:
    """Seconds, and the check of weights on functions that it is meant for."""
    for setting in settings():
        given = one_of(found(setting, setting.model, "expected_gradients"), 0)
        begun = time.perf_counter()
        examine(setting.model, setting.x[:1], given, setting.background)
        print(f"{setting.name}: {time.perf_counter() - begun:.2f} s", end="")
        if any(isinstance(one, torch.nn.ReLU) for one in setting.model.modules()):
            ours, classes = found(setting, setting.model, "expected_gradients"), [0] * len(setting.x)
            blank = randomize_model(setting.model).eval()
            other = Setting("", blank, blank, setting.x, setting.background)
            alike = median_rank_correlation(guided(setting, classes), guided(other, classes))
            print(f"; guided backpropagation with random weights {alike:.2f}, of {len(ours)} samples", end="")
        print()


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:] == ["times"]:
        times()
    else:
        confusion()
