"""Accuracy of the reliability checks on attributions that are known to be good or bad.

    python benchmarks/reliability.py           tables of the lights: each check, and all checks together
    python benchmarks/reliability.py times     seconds per examination, and randomization of guided backpropagation

Options: [--settings GRU,linear] selects settings by words in their names, [--samples 6] sets the number of samples per
setting, [--save FILE] writes all rows as a pickled data frame.

Samples are examined one at a time. "other" are methods that are neither good nor bad in general: their quality depends
on the model. For these the cosine similarity to converged expected gradients is listed by light.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from reliability_cases import (
    SAMPLES,
    Setting,
    attribution_cases,
    compute_attribution,
    create_settings,
    guided_backpropagation,
)

from nbdebug.attribution import Attribution
from nbdebug.attribution.reliability import examine
from nbdebug.attribution.reliability.checks import randomize_model
from nbdebug.statistics.estimates import median_rank_correlation

LIGHTS = ["green", "yellow", "red", "gray"]
QUANTILES = [0, 0.02, 0.1, 0.5, 0.9, 0.98, 1]


def select_sample(attribution: Attribution, row: int) -> Attribution:
    """Return the attribution of one sample."""
    arrays = {name: getattr(attribution, name) for name in ("classes", "scores", "base", "completeness", "outputs")}
    fields: dict[str, Any] = {name: None if array is None else array[row : row + 1] for name, array in arrays.items()}
    values = {name: array[row : row + 1] for name, array in attribution.values.items()}
    return replace(attribution, values=values, **fields)


def examine_setting(setting: Setting) -> list[dict[str, Any]]:
    """Return one row per case and sample."""
    reference = compute_attribution(setting, setting.model, "expected_gradients").flat
    rows = []
    for quality, name, attribution in attribution_cases(setting):
        lengths = np.linalg.norm(attribution.flat, axis=1) * np.linalg.norm(reference, axis=1)
        cosines = (attribution.flat * reference).sum(1) / lengths
        for i in range(len(attribution)):
            sample = select_sample(attribution, i)
            reliability = examine(setting.model, setting.x[i : i + 1], sample, setting.background)
            row = {"setting": setting.name, "quality": quality, "name": name, "cosine": cosines[i]}
            row |= {"all checks": reliability.light}
            row |= {measure.name: measure.light for measure in reliability.measures}
            row |= {f"{measure.name} value": measure.value for measure in reliability.measures}
            rows.append(row)
    return rows


def count_lights(frame: pd.DataFrame, by: list[str], column: str) -> str:
    """Return a table with the number of samples of each light."""
    counts = frame.groupby(by, sort=False)[column].value_counts().unstack(fill_value=0)
    return counts.reindex(columns=LIGHTS, fill_value=0).to_string()


def measure_accuracy(settings: Iterable[Setting]) -> pd.DataFrame:
    """Return one row per setting, case and sample."""
    rows = []
    for setting in settings:
        start = time.perf_counter()
        rows += examine_setting(setting)
        print(f"{setting.name}: {time.perf_counter() - start:.0f} s", flush=True)
    return pd.DataFrame(rows)


def print_tables(frame: pd.DataFrame) -> None:
    """Print the lights by check, case and setting, and the quantiles of the values."""
    checks = [name.removesuffix(" value") for name in frame if str(name).endswith(" value")]
    for column in ["all checks", *checks]:
        print(f"\n{column}\n{count_lights(frame, ['quality'], column)}")
    print(f"\nall checks, by case\n{count_lights(frame, ['quality', 'name'], 'all checks')}")
    good = frame[frame.quality == "good"]
    print(f"\ngood attributions, by setting\n{count_lights(good, ['setting'], 'all checks')}")
    cosines = frame[frame.quality == "other"].groupby("all checks").cosine.describe().round(2)
    print(f"\nother methods: cosine similarity to expected gradients, by light\n{cosines.to_string()}")
    values = [f"{name} value" for name in checks]
    quantiles = frame.groupby("quality")[values].quantile(QUANTILES).round(3)
    print(f"\nquantiles\n{quantiles.to_string()}")


def print_times(settings: Iterable[Setting]) -> None:
    """Print the seconds per examination.

    Guided backpropagation shows only the input, so its rank correlation with that of a randomized model should be high.
    """
    for setting in settings:
        attribution = select_sample(compute_attribution(setting, setting.model, "expected_gradients"), 0)
        start = time.perf_counter()
        examine(setting.model, setting.x[:1], attribution, setting.background)
        line = f"{setting.name}: {time.perf_counter() - start:.2f} s"
        if any(isinstance(module, torch.nn.ReLU) for module in setting.model.modules()):
            classes = [0] * len(setting.x)
            randomized = replace(setting, model=randomize_model(setting.model).eval())
            correlation = median_rank_correlation(
                guided_backpropagation(setting, classes), guided_backpropagation(randomized, classes)
            )
            line += f"; guided backpropagation with random weights: rank correlation {correlation:.2f}"
        print(line, flush=True)


def main() -> None:
    """Print the tables or the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["times"], help="measure the time")
    parser.add_argument("--settings", default="", help="comma-separated words in the names of settings")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="samples per setting, at least 2")
    parser.add_argument("--save", metavar="FILE", help="write all rows as a pickled data frame")
    options = parser.parse_args()
    if options.samples < 2:
        parser.error(f"--samples is {options.samples}; expected 2 or more. One bad case permutes the samples.")
    torch.set_num_threads(1)
    settings = create_settings(options.settings.split(","), options.samples)
    if options.part == "times":
        return print_times(settings)
    frame = measure_accuracy(settings)
    if options.save:
        frame.to_pickle(options.save)
    print_tables(frame)


if __name__ == "__main__":
    main()
