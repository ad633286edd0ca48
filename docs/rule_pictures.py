"""A section of a rule's page: what a run of its bad and of its good example shows, with a picture of both."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from html import escape
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from docs.rule_examples import ExampleRun, Numbers, run_examples, time_examples
from nbdebug.formatting import format_value
from nbdebug.rule_engine.rule_registry import find_rule

_ROOT = Path(__file__).resolve().parents[1]
_TITLE = "## The examples, run"
_INK = "#123456"  # replaced by the color of the text around the picture
_COLORS = {"bad": "#d95f02", "good": "#3b82c4"}  # 3.5 to 1 on white and on the dark page at least
_MAX_QUANTITIES = 2
_LOG_RANGE = 50.0  # of losses, from which their axis is logarithmic
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "nbdebug",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK),
}


def run_sections(codes: Iterable[str], processes: int = 2) -> dict[str, str]:
    """Return the section of each rule, from runs in several processes."""
    codes = list(codes)
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        return dict(zip(codes, pool.map(run_section, codes, chunksize=4), strict=True))


def run_section(code: str) -> str:
    """Return the finding on the bad example, what the good one shows, and the picture of both."""
    rule = find_rule(code)
    if getattr(rule.module, "DEVICE", "cpu") == "cuda" and not torch.cuda.is_available():
        return f"{_TITLE}\n\nThe examples need an accelerator, which the machine that built this page lacks."
    if "profile" in rule.needs:
        bad, good = time_examples(rule)
        parts = [_TITLE, "The times are those of the machine that built this page: `dbg.profile()` measures yours."]
    else:
        bad, good = run_examples(rule)
        parts = [_TITLE, _finding("bad", bad), _finding("good", good)]
    if bad.losses or good.losses or _quantities(bad, good):
        caption = " ".join(_caption(bad, good))
        parts += [f"```{{raw}} html\n{picture(bad, good, caption)}```", caption]
    return "\n\n".join(parts)


def _finding(name: str, run: ExampleRun) -> str:
    """Return the finding on an example as a script prints it, with paths inside the package."""
    if run.finding is None:
        return f"On the {name} example, the rule reports nothing."
    text = str(run.finding).replace(f"{_ROOT}/", "")
    return f"On the {name} example, the rule reports:\n\n```text\n{text}\n```"


def _caption(bad: ExampleRun, good: ExampleRun) -> list[str]:
    """Return one sentence for each curve, and for each quantity."""
    sentences: list[str] = []
    for name, run in (("bad", bad), ("good", good)):
        if run.losses:
            first, last = (format_value(value) for value in (run.losses[0], run.losses[-1]))
            steps = f"{len(run.losses)} step{'s' * (len(run.losses) > 1)} of {run.loop}"
            sentences.append(f"Loss of the {name} example in {steps}: {first} at the first, {last} at the last.")
        if run.error:
            sentences.append(f"{run.loop[0].upper()}{run.loop[1:]} over the {name} example raises {run.error}.")
    for name, (before, after) in _quantities(bad, good).items():
        sentences.append(f"{name.capitalize()}: {_text(before)} in the bad example, {_text(after)} in the good one.")
    return sentences


def _text(numbers: Numbers) -> str:
    return ", ".join(format_value(number) for number in numbers)


def _quantities(bad: ExampleRun, good: ExampleRun) -> dict[str, tuple[Numbers, Numbers]]:
    """Return the first quantities that differ between both examples."""
    both = ((name, (bad.numbers[name], numbers)) for name, numbers in good.numbers.items())
    return dict(islice(((name, pair) for name, pair in both if pair[0] != pair[1]), _MAX_QUANTITIES))


def picture(bad: ExampleRun, good: ExampleRun, caption: str) -> str:
    """Return the losses of both examples, and the quantities that differ, as SVG in the color of the page's text."""
    quantities = _quantities(bad, good)
    has_losses = bool(bad.losses or good.losses)
    widths = [2.0] * has_losses + [1.0] * len(quantities)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(2.1 * sum(widths) + 0.6, 2.2))
        figure.subplots_adjust(0.45 / sum(widths), 0.22, 0.98, 0.86, 0.4)
        axes = figure.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0].tolist()
        if has_losses:
            _draw_losses(axes.pop(0), bad, good)
        for ax, (name, pair) in zip(axes, quantities.items(), strict=True):
            _draw_quantity(ax, name, *pair)
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg ") :].replace(_INK, "currentColor")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(caption)}" style="max-width: 100%" ', 1)


def _draw_losses(ax: Axes, bad: ExampleRun, good: ExampleRun) -> None:
    """Draw a curve for each run, and a cross at the step that raised."""
    for (name, color), run in zip(_COLORS.items(), (bad, good), strict=True):
        steps = range(1, len(run.losses) + 1)
        ax.plot(steps, run.losses, color=color, label=name, linestyle="-" if name == "bad" else "--")
        if run.error:
            place = (len(run.losses) + 1, 0.5)
            ax.plot(*place, "X", color=color, markersize=9, transform=ax.get_xaxis_transform())
            ax.annotate(run.error, place, (8, 0), ax.get_xaxis_transform(), "offset points", va="center")
    values = [*bad.losses, *good.losses]
    if min(values) > 0 and max(values) > _LOG_RANGE * min(values):
        ax.set_yscale("log")
    ax.set(xlabel="step", title="loss")
    ax.legend(frameon=False)


def _draw_quantity(ax: Axes, name: str, bad: Numbers, good: Numbers) -> None:
    """Draw one number as bars, several as points by their position."""
    ax.set_title(textwrap.fill(name, 26), fontsize=8)
    for position, (color, numbers) in enumerate(zip(_COLORS.values(), (bad, good), strict=True)):
        if len(bad) == len(good) == 1:
            bars = ax.bar([position], numbers, color=color)
            ax.bar_label(bars, [format_value(numbers[0])], fontsize=8)
            ax.margins(y=0.15)
        else:
            ax.plot(range(len(numbers)), numbers, color=color, marker=".")
    if len(bad) == len(good) == 1:
        ax.set_xticks([0, 1], list(_COLORS))
