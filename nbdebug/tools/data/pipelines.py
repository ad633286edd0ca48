"""Compares two preprocessing pipelines step by step, such as those of training and of serving."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.options import check_option_names
from nbdebug.preserve import Preserve, seed_all
from nbdebug.result import Result
from nbdebug.tools.data.array_differences import OutputDifference, find_difference
from nbdebug.validation import describe_type, validate_int
from nbdebug.views.table import Cell, CellTag, Column, FoldableTable, TableRow

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View

_Step = tuple[str, Callable[[Any], Any]]
_END = "(end)"


@dataclass(frozen=True)
class _StepComparison:
    """One step of both pipelines; ``disagreeing`` samples agreed before it and differ after it.

    ``first_sample`` is the first of them, with its ``difference``.
    """

    number: int
    names: tuple[str, str]
    disagreeing: int = 0
    first_sample: int | None = None
    difference: OutputDifference | None = None


@dataclass(frozen=True, eq=False)
class PipelineComparison(Result):
    """The steps of two pipelines, and the first step and sample at which their outputs disagree.

    ``final_disagreements`` is the number of the ``samples`` whose final outputs differ.
    """

    steps: tuple[_StepComparison, ...]
    samples: int
    final_disagreements: int

    @property
    def agrees(self) -> bool:
        """True if the outputs of all steps agree for all samples."""
        return self.first is None

    @property
    def first(self) -> _StepComparison | None:
        """The first step after which outputs disagree; None if all agree."""
        return next((step for step in self.steps if step.disagreeing), None)

    @property
    def headline(self) -> str:
        """The first disagreement in one line."""
        first = self.first
        if first is None or first.difference is None:
            return f"both pipelines agree on {self.samples:,} samples"
        names = " and ".join(dict.fromkeys(first.names))
        return (
            f"the pipelines disagree from step {first.number} ({names}) on, for sample {first.first_sample}: "
            f"{first.difference.text}; {self.final_disagreements:,} of {self.samples:,} final outputs differ"
        )

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per step."""
        import pandas as pd

        rows = [
            {
                "step": step.number,
                "first": step.names[0],
                "second": step.names[1],
                "disagreeing": step.disagreeing,
                "sample": step.first_sample,
                "kind": step.difference.kind if step.difference else None,
                "difference": step.difference.text if step.difference else "",
                "largest": step.difference.largest if step.difference else np.nan,
            }
            for step in self.steps
        ]
        return pd.DataFrame(rows)

    def draw(self, ax: Axes) -> None:
        """Draw the number of samples that disagree from each step on."""
        from nbdebug.views.images import named_bars

        named_bars(ax, [_step_name(step) for step in self.steps], [step.disagreeing for step in self.steps])
        ax.set(xlabel="samples that disagree from this step on", title="pipelines")

    def view(self) -> View:
        """Return a table of the steps."""
        columns = [Column("step"), Column("outputs"), Column("samples", "number"), Column("difference")]
        rows = [TableRow(_step_name(step), _step_cells(step)) for step in self.steps]
        notice = (f"{self.headline[0].upper()}{self.headline[1:]}.", "good" if self.agrees else "warning")
        return FoldableTable(title="Pipelines", columns=columns, rows=rows, notice=notice, noun="steps")  # type: ignore[arg-type]

    def to_text(self) -> str:
        """Return the result as plain text."""
        lines = [f"nbdebug compare_pipelines: {self.headline}"]
        for step in self.steps:
            count = "1 sample disagrees" if step.disagreeing == 1 else f"{step.disagreeing:,} samples disagree"
            text = f"{count}: {step.difference.text}" if step.difference else "agree"
            lines.append(f"  {_step_name(step)}: {text}")
        return "\n".join(lines)


def _step_name(step: _StepComparison) -> str:
    return f"{step.number}: {' / '.join(dict.fromkeys(step.names))}"


def _step_cells(step: _StepComparison) -> list[Cell]:
    if step.difference is None:
        return [[CellTag("agree", "good")], None, None]
    text = f"sample {step.first_sample}: {step.difference.text}"
    return [[CellTag("differ", "warning")], step.disagreeing, text]


@check_option_names()
def compare_pipelines(f: Any, g: Any, samples: Iterable[Any], *, limit: int = 256, seed: int = 0) -> PipelineComparison:
    """Find the first step and sample at which two preprocessing pipelines disagree.

    A pipeline is a function, a ``torch.nn.Sequential``, a list of functions, or an object whose ``transforms`` are its
    steps, such as ``torchvision.transforms.Compose``. Each gets a copy of each sample, and the same random numbers.
    Raises SetupError for anything else, and without samples.

    Args:
        f: The first pipeline, such as that of training.
        g: The second pipeline, such as that of serving.
        samples: Samples as the pipelines take them.
        limit: Maximum number of samples.
        seed: Seed of the random numbers.
    """
    limit, seed = validate_int("limit", limit), validate_int("seed", seed, minimum=0)
    if not isinstance(samples, Iterable) and not hasattr(samples, "__getitem__"):
        raise SetupError(f"samples is {describe_type(samples)}; expected samples to iterate over. Pass a list.")
    steps = list(_steps(f, "f")), list(_steps(g, "g"))
    count = max(map(len, steps))
    names = [tuple(side[i][0] if i < len(side) else _END for side in steps) for i in range(count)]
    disagreeing: Counter[int] = Counter()
    first: dict[int, tuple[int, OutputDifference]] = {}
    total = final = 0
    modules = [item for item in (f, g) if isinstance(item, nn.Module)]
    with Preserve(*modules), torch.no_grad():
        for number, sample in enumerate(islice(samples, limit)):
            outputs = [_run_steps(side, sample, seed + number, count) for side in steps]
            differences = [find_difference(one, other) for one, other in zip(*outputs, strict=True)]
            total, final = total + 1, final + (differences[-1] is not None)
            step = _first_disagreement(differences, len(steps[0]) == len(steps[1]))
            if step is not None:
                disagreeing[step] += 1
                difference = differences[step]
                assert difference is not None
                first.setdefault(step, (number, difference))
    if not total:
        raise SetupError("samples is empty; expected at least one sample. Pass some raw samples.")
    compared = [
        _StepComparison(i + 1, (str(pair[0]), str(pair[1])), disagreeing[i], *first.get(i, (None, None)))
        for i, pair in enumerate(names)
    ]
    return PipelineComparison(tuple(compared), total, final)


def _steps(pipeline: Any, name: str) -> Iterator[_Step]:
    """Yield the steps of a pipeline in order; those of nested pipelines in their place."""
    parts = getattr(pipeline, "transforms", None)
    if isinstance(pipeline, (nn.Sequential, list, tuple)):
        parts = list(pipeline)
    if isinstance(parts, Sequence) and not isinstance(parts, str):
        for number, part in enumerate(parts):
            yield from _steps(part, f"{name}[{number}]")
        return
    if isinstance(pipeline, type) or not callable(pipeline):
        raise SetupError(
            f"{name} is {describe_type(pipeline)}; expected a function, a torch.nn.Sequential, a list of functions or "
            "an object with transforms. Pass one of these."
        )
    yield getattr(pipeline, "__name__", type(pipeline).__name__), pipeline


def _run_steps(steps: Sequence[_Step], sample: Any, seed: int, count: int) -> list[Any]:
    """Return the output of each step; the last output, or the exception that ended the run, stands for the rest."""
    seed_all(seed)
    outputs: list[Any] = []
    value = deepcopy(sample)
    for _, step in steps:
        try:
            value = step(value)
        except Exception as error:
            outputs.append(error)
            break
        outputs.append(deepcopy(value))
    return outputs + [outputs[-1]] * (count - len(outputs)) if outputs else [value] * count


def _first_disagreement(differences: Sequence[OutputDifference | None], is_aligned: bool) -> int | None:
    """Return the first step that differs; of pipelines of other lengths that end alike, none does."""
    if not is_aligned and differences[-1] is None:
        return None
    return next((step for step, difference in enumerate(differences) if difference is not None), None)
