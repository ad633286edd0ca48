"""E708: a metric is averaged over batches although it must be computed over all rows."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sized
from dataclasses import replace
from typing import Any

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.batch_averages import BatchAverage, Divisor
from nbdebug.loop_monitor.correct_counts import CorrectCount
from nbdebug.loop_monitor.loop_numbers import expression_line
from nbdebug.loop_monitor.metric_code import (
    AveragedMetric,
    accumulation_line,
    accumulation_lines,
    averaged_metrics,
    counts_over_batches,
    is_division,
    last_batch_only,
)
from nbdebug.loop_monitor.shared_meters import SharedMeter
from nbdebug.loop_monitor.training_averages import LossDivisor, TrainingAverage
from nbdebug.rule_engine.metric_edits import count_rows, reset_counters, weigh_by_rows
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import mlp, rings, train, training_setup
from nbdebug.setup import Setup
from nbdebug.setup.loaders import epoch_batch_sizes
from nbdebug.source.assignments import covering_statement, last_assignment, next_assignment, own_statements
from nbdebug.source.location import SourceLine, get_location
from nbdebug.source.search import assignment_targets, enclosing_scope, read_names, syntax_tree

_CAUSES = {
    "whole": (
        "The metric is not a mean over rows, so its mean over batches is a different number, which depends on the "
        "batch size."
    ),
    "perplexity": "The mean of exponentials is larger than the exponential of the mean, which defines the perplexity.",
    "root": "The mean of square roots is smaller than the square root of the mean, which defines the metric.",
    "means": "Each batch has the same weight, so the rows of a small last batch have a larger weight than all others.",
    "last": "The metric is recomputed for each batch, and the values of the previous batches are discarded.",
    "count": "The sum counts rows, but it is divided by the number of batches.",
}
_FIXES = {
    "count": "accuracy = {metric} / len(loader.dataset)   # the number of rows, not of batches",
    "whole": "outputs.append(output); targets.append(y)   # in the loop; after it, once: {metric} of all rows",
    "perplexity": "total += loss.item() * len(y)   # and after the loop: math.exp(total / len(loader.dataset))",
    "root": "total += ((output - y) ** 2).sum().item()   # and after the loop: (total / len(loader.dataset)) ** 0.5",
    "means": "total += loss.item() * len(y)   # and after the loop: total / len(loader.dataset)",
    "last": "right += hits.sum().item()\nrows += len(y)   # in the loop; after it: right / rows",
}
_DIVISORS_BY_KIND: dict[str, Divisor] = {"count": "batches", "continued": "evaluations", "means": "equal weights"}
_DIVISOR_CAUSES = {
    "": _CAUSES["whole"],
    "batches": "The sum counts each row once, but it is divided by the number of batches.",
    "rows": "The loss of a batch is already a mean over its rows, so the sum must be divided by the number of batches.",
    "evaluations": "The counts are not reset to zero before an evaluation, so the metric lags behind the model.",
    "equal weights": _CAUSES["means"],
}
_DIVISOR_FIXES = {
    "": "outputs.append(output); targets.append(y)   # in the loop; after it, once: "
    "metric(torch.cat(outputs), torch.cat(targets))",
    "batches": "total / len(loader.dataset)   # the number of rows, not of batches",
    "rows": "total += loss.item() * len(y)   # in the loop; after it: total / len(loader.dataset)",
    "evaluations": "correct, total = 0, 0   # before each evaluation",
    "equal weights": "total += metric * len(y)   # in the loop; after it: total / len(loader.dataset)",
}

_MIN_DIFFERENCE = 0.02  # of a mean over batches of different sizes from that over all rows, relative to it
_TRAINING_CAUSES: dict[LossDivisor, str] = {
    "rows": _DIVISOR_CAUSES["rows"],
    "batches": _DIVISOR_CAUSES["batches"],
    "validation batches": "The sum over the training loader is divided by the length of the validation loader.",
    "batches of one epoch": "The sum is not reset to zero when an epoch begins.",
}
_TRAINING_FIXES: dict[LossDivisor, str] = {
    "rows": _DIVISOR_FIXES["rows"],
    "batches": _DIVISOR_FIXES["batches"],
    "validation batches": "total / len(train_loader)",
    "batches of one epoch": "total = 0.0   # at the start of each epoch",
}


@rule("E708", "warning")
def metric_averaging(loop: LoopSummary, setup: Setup, *, warn: float = 1.25, note: float = 1.02) -> Iterator[Finding]:
    """A metric is averaged over batches of different size, or must be computed over all rows at once.

    ## What it does
    Parses the loops in which the model is called without a backward pass, and looks for sums and lists that are
    averaged later: of F1, precision, recall, AUC, R² and similar metrics, of perplexities and square roots, and of
    batch means if the last batch is smaller. Looks for values that each validation batch overwrites and that are used
    only after the loop: they belong to the last batch alone. Finds variables that grow by the number of correct
    predictions of each validation batch, and reports those that are divided by the number of batches or are not reset
    to zero before the next evaluation.

    ## Why it matters
    The number is not what its name says and changes with the batch size: two models evaluated with different batch
    sizes cannot be compared. If there are few batches, a last one of a few rows dominates.

    ## How it is measured
    By the syntax around the lines that called the model; ambiguous cases are not reported. Metrics that do not
    decompose into rows are also recognized by their values: after at least two evaluations, a number of the loop equals
    the mean over batches of R², a correlation, F1, precision, recall, AUC and the like within 2e-5, and differs by more
    than 1e-3 from the same metric on all rows. A single evaluation suffices for the exact number of correct predictions
    for each batch, if it is more than one and no round number. A loss of torch whose sum is divided by the wrong
    number, of batches or of rows, is recognized in the same way; so are the training losses of the first four epochs,
    also if their sum is divided by the number of validation batches, or is not reset to zero when an epoch begins; and
    the accuracy, if it is that of all evaluations so far, or its correct predictions are divided by the number of
    batches. A number is reported if, after two evaluations, it is the mean of a list that several objects share. Counts
    are recognized by their values in at least two batches, whatever computes them; so are means of the accuracy and of
    errors over batches of different sizes. For means, the batch sizes of the validation loader are used: their mean is
    as uncertain as that of fewer rows, by the factor N·Σ1/(B²·n). It is a warning from ``warn`` = 1.25, a fifth of the
    rows lost, and a note from ``note`` = 1.02, or if the number itself is known and differs by less than 2% from the
    mean over all rows.

    ## How to fix
    Multiply by the batch size and divide by the number of rows. Collect outputs and targets if the metric must be
    computed over all rows, or use a metric that accumulates, as in torchmetrics and torcheval.

    ## When to ignore
    When each batch is a case of its own, such as a query or the pixels of one image, and the mean over cases is
    intended.

    ## References
    Forman and Scholz 2010, doi:10.1145/1882471.1882479, on F1 and AUC averaged over parts. Kish 1965, Survey Sampling,
    for the factor. Documentation of torchmetrics: why not to average over batches.
    """
    if not loop.forward_passes.calls:
        raise NotChecked("no forward pass of the model was recorded in your loop")
    sizes = epoch_batch_sizes(setup.val_loader)
    by_code = [*_findings_in_counts(loop, sizes, warn), *_findings_in_code(setup, loop, sizes, warn, note)]
    yield from by_code
    if max(sizes, default=2) > 1:
        yield from _findings_by_value(loop, sizes, warn, note, by_code)
    if loop.shared_meter is not None:
        yield _shared_meter_finding(loop.shared_meter)
    forward_line = loop.forward_passes.lines.get("forward")
    yield from (_training_finding(average, forward_line) for average in loop.training_averages)


def _findings_in_counts(loop: LoopSummary, sizes: list[int], warn: float) -> Iterator[Finding]:
    """Yield the findings of variables that count correct predictions."""
    for count in loop.correct_counts if max(sizes, default=2) > 1 else ():
        yield from (_finding(metric, sizes, 0.0, warn) for metric in counts_over_batches(count.name, count.line))
    yield from (_continued_finding(count) for count in loop.correct_counts if count.continued)


def _findings_in_code(
    setup: Setup, loop: LoopSummary, all_sizes: list[int], warn: float, note: float
) -> Iterator[Finding]:
    """Yield the findings of the code around the lines that call the model."""
    validation = loop.forward_passes.lines.get("validation")
    for line in loop.forward_passes.calls:
        sizes = all_sizes if line == validation else []
        if sizes and (len(sizes) == 1 or max(sizes) == 1):
            continue
        for average in dict.fromkeys(last_batch_only(line)) if sizes else ():
            yield _finding(average, sizes, 0.0, warn)
        factor = _variance_factor(sizes)
        for average in dict.fromkeys(averaged_metrics(line, is_loader_known=line == validation)):
            if average.kind != "means" or factor >= note:
                yield _finding(average, sizes, factor, warn, sum(sizes) == _row_count(setup.val_loader))


def _findings_by_value(
    loop: LoopSummary, sizes: list[int], warn: float, note: float, by_code: list[Finding]
) -> Iterator[Finding]:
    """Yield the findings of numbers of the loop, unless the code has shown the same mistake."""
    kinds = {finding.evidence["kind"] for finding in by_code}
    files = {finding.where.file for finding in by_code if finding.evidence["kind"] in ("whole", "root")}
    shown: set[Divisor] = {divisor for kind, divisor in _DIVISORS_BY_KIND.items() if kind in kinds}
    shown |= {"evaluations"} if loop.shared_meter is not None else set()
    factor = _variance_factor(sizes)
    for average in loop.batch_averages:
        is_uneven = average.divisor == "equal weights"
        is_shown = average.divisor in shown and average.metric != "loss"
        if average.line.file not in files and not is_shown and not (is_uneven and factor < note):
            is_small = factor < warn or abs(average.value - average.whole) < _MIN_DIFFERENCE * abs(average.whole)
            yield replace(_average_finding(average), severity="note" if is_uneven and is_small else None)


def _mean_edits(average: AveragedMetric, covers_all: bool) -> tuple[Edit, ...]:
    """Return the change of a wrong mean; ``covers_all`` tells whether an evaluation covers all rows of its dataset."""
    if average.kind == "count":
        return count_rows(average.line)
    return weigh_by_rows(average.line) if average.kind == "means" and covers_all else ()


def _finding(
    average: AveragedMetric, sizes: list[int], factor: float, warn: float, covers_all: bool = False
) -> Finding:
    if average.kind == "means":
        first, last, count = sizes[0], sizes[-1], len(sizes)
        message = (
            f"A metric is averaged over {count} batches of different size: the last one has {last} "
            f"row{'s' * (last > 1)}, the others {first}, so each row of the last batch counts {first / last:.3g} times "
            f"as much. The mean is as uncertain as one over {sum(sizes) / factor:.0f} of the {sum(sizes)} rows."
        )
    elif average.kind == "count":
        batches, rows = (f" {len(sizes)}", f" {sum(sizes)}") if sizes else ("", "")
        message = (
            f"{average.metric} counts the correct predictions and is divided by the number of batches{batches}; "
            f"expected the number of rows{rows}."
        )
    elif average.kind == "last":
        message = (
            f"After the loop, {average.metric} covers only the last of {len(sizes)} batches, {sizes[-1]} rows; "
            f"expected all {sum(sizes)}."
        )
    else:
        message = (
            f"{average.metric} is computed for each batch and averaged; it must be computed over all rows at once."
        )
    return Finding(
        message=message,
        where=average.line.where(),
        cause=_CAUSES[average.kind],
        fix=average.fix or _FIXES[average.kind].format(metric=average.metric),
        edits=_mean_edits(average, covers_all),
        evidence={
            "line": average.line.text.strip(),
            "kind": average.kind,
            "batches": len(sizes),
            "rows": sum(sizes),
            "rows of the first and the last batch": (sizes[0], sizes[-1]) if sizes else (),
            "first over last": sizes[0] / sizes[-1] if sizes else None,
            "factor": factor,
            "rows of equal uncertainty": sum(sizes) / factor if factor else None,
        },
        severity="note" if average.kind == "means" and factor < warn else None,
    )


def _continued_finding(count: CorrectCount) -> Finding:
    """Report a count of correct predictions that no evaluation sets back to zero."""
    return Finding(
        message=f"{count.name} counts the correct predictions and is not reset to zero: {count.continued} "
        "evaluations began with its value from the end of the previous evaluation.",
        where=(accumulation_line(count.name, count.line) or count.line).where(),
        cause="The metric is that of all evaluations so far, so it lags behind the model.",
        fix=f"{count.name} = 0   # before each evaluation",
        edits=reset_counters(accumulation_line(count.name, count.line) or count.line),
        evidence={"kind": "continued", "continued evaluations": count.continued},
    )


def _row_count(loader: Any) -> int | None:
    """Return the length of the dataset of a loader; None for one without a length."""
    dataset = getattr(loader, "dataset", None)
    return len(dataset) if isinstance(dataset, Sized) else None


def _variance_factor(sizes: list[int]) -> float:
    """Return how much larger the variance of a mean over batches is than that of the mean over their rows."""
    return sum(sizes) * sum(1 / size for size in sizes) / len(sizes) ** 2 if sizes else 0.0


def _average_finding(average: BatchAverage) -> Finding:
    """Report a number that equals a wrong mean of a metric or the loss over the batches."""
    where = _averaging_line(average.line)
    if average.divisor == "evaluations":
        line = _default_list_line(average.line.file) or _counter_line(average.line.file)
        subject, where = "the accuracy over all evaluations so far", line or where
    elif average.divisor == "equal weights":
        subject = f"the mean of the {average.metric} of {average.batches} batches of different sizes"
    elif average.divisor:
        if average.metric == "accuracy":
            assigned = next_assignment(average.line, {average.name})
            where = assigned or expression_line(average.line, average.name) or where
        term = "the mean losses" if average.divisor == "rows" else "the losses times the rows of each batch"
        term = "the correct predictions" if average.metric == "accuracy" else term
        subject = f"the sum of {term} of {average.batches} batches, divided by the number of {average.divisor}"
    else:
        subject = f"the mean of the {average.metric} of {average.batches} batches"
    metric = f"the {average.metric}" if average.divisor else "it"
    return Finding(
        message=f"{average.name} is {average.value:.4g}: {subject}. On all {average.rows:,} rows "
        f"{'of the latest one' if average.divisor == 'evaluations' else 'together'} {metric} is {average.whole:.4g}.",
        where=where.where(),
        cause=_DIVISOR_CAUSES[average.divisor],
        fix=_DIVISOR_FIXES[average.divisor],
        edits=_average_edits(average.divisor, where),
        evidence={
            "metric": average.metric,
            "mean over batches": average.value,
            "on all rows": average.whole,
            "batches": average.batches,
        },
    )


def _average_edits(divisor: Divisor, line: SourceLine) -> tuple[Edit, ...]:
    """Return the change of a wrong mean: the rows for the batches, or counters that start again."""
    if divisor == "batches":
        return count_rows(line)
    return reset_counters(line) if divisor == "evaluations" else ()


def _training_finding(average: TrainingAverage, forward_line: SourceLine | None) -> Finding:
    """Report a number that equals a wrong mean of the training losses of an epoch."""
    is_weighted, is_total = average.divisor == "batches", average.divisor == "batches of one epoch"
    term = "the losses times the rows of each batch" if is_weighted else "the mean losses"
    scope = "all epochs" if is_total else f"the {average.batches} batches of an epoch"
    return Finding(
        message=f"{average.name} is the sum of {term} of {scope}, divided by the number of {average.divisor}, "
        f"{average.count}: {average.value:.4g}. The mean loss of that epoch is {average.mean:.4g}.",
        where=get_location(_averaging_line(forward_line) if forward_line else None),
        cause=_TRAINING_CAUSES[average.divisor],
        fix=_TRAINING_FIXES[average.divisor],
        evidence={
            "divisor": average.divisor,
            "value": average.value,
            "mean": average.mean,
            "batches": average.batches,
            "count": average.count,
        },
        explains=("T611",),
    )


def _shared_meter_finding(meter: SharedMeter) -> Finding:
    """Report a number of an evaluation that is the mean of a list which several objects share."""
    return Finding(
        message=f"{meter.variable} is the mean of all {meter.count:,} values in {meter.name}, {meter.value:.4g}. The "
        f"mean of the {meter.added:,} values that the latest evaluation added is {meter.mean:.4g}.",
        where=meter.line.where(),
        cause="Several objects share one list: a default value and an attribute of a class are created once.",
        fix="self.values = []   # in __init__, a new list for each object",
        evidence={"kind": "shared", "value": meter.value, "mean": meter.mean, "values": meter.count},
        explains=("E707", "T611"),
    )


def _counter_line(file: str) -> SourceLine | None:
    """Return the only line of a file that sets to zero what a function both adds up and divides by another variable."""
    tree = syntax_tree(file)
    lines = set[SourceLine]()
    for function in ast.walk(tree) if tree else ():
        if isinstance(function, (ast.FunctionDef, ast.Module)):
            statements = [*own_statements(function)]
            divisors = {
                name
                for part in statements
                for node in ast.walk(part)
                if is_division(node)
                for name in read_names(node.right)
            }
            for part in statements:
                if isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name) and part.target.id in divisors:
                    line = SourceLine(file, part.lineno, getattr(function, "name", "<module>"))
                    lines |= {first for first in [last_assignment(line, part.target.id, changes=False)] if first}
    return lines.pop() if len(lines) == 1 else None


def _default_list_line(file: str) -> SourceLine | None:
    """Return the only line of a file that gives a parameter a list by default, to which its function appends."""
    tree = syntax_tree(file)
    lines = {
        SourceLine(file, default.lineno, function.name)
        for function in (ast.walk(tree) if tree else ())
        if isinstance(function, ast.FunctionDef)
        for argument, default in _defaults(function.args)
        if isinstance(default, ast.List) and _appends_to(function, argument)
    }
    return lines.pop() if len(lines) == 1 else None


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the names of parameters with a default, and the default."""
    positional = [*arguments.posonlyargs, *arguments.args]
    with_default = positional[len(positional) - len(arguments.defaults) :]
    yield from ((item.arg, default) for item, default in zip(with_default, arguments.defaults, strict=True))
    yield from ((item.arg, default) for item, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))


def _appends_to(function: ast.FunctionDef, name: str) -> bool:
    """Check whether a function adds to a list, which then keeps what it got in earlier calls."""
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    subjects = [call for call in calls if isinstance(call, ast.Attribute) and call.attr in ("append", "extend")]
    sums = [node.target for node in ast.walk(function) if isinstance(node, ast.AugAssign)]
    return any(getattr(node, "id", "") == name for node in (*(call.value for call in subjects), *sums))


def _averaging_line(line: SourceLine) -> SourceLine:
    """Return the only line that adds up or collects numbers in the loop around a line, or reads the list of them."""
    lines = {number for number in accumulation_lines(line) if number >= line.number}
    if len(lines) == 1:
        return SourceLine(line.file, lines.pop(), line.function)
    return _next_reading_line(line) or line


def _next_reading_line(line: SourceLine) -> SourceLine | None:
    """Return the next statement that reads what a comprehension on a line collects."""
    statement, scope = covering_statement(line), enclosing_scope(line)
    is_collected = isinstance(statement, ast.Assign) and isinstance(statement.value, (ast.ListComp, ast.GeneratorExp))
    if statement is None or scope is None or not is_collected:
        return None
    names = {getattr(target, "id", "") for target in assignment_targets(statement)}
    later = [node.lineno for node in own_statements(scope) if node.lineno > line.number and read_names(node) & names]
    return SourceLine(line.file, min(later), line.function) if later else None


def bad() -> Setup:
    """Validation in two batches of 128 rows and one of a single row."""
    return training_setup(mlp(8, 32, 2), rings(), rings(257, seed=1), torch.nn.CrossEntropyLoss(), lr=1e-2)


def bad_loop(setup: Setup) -> None:
    """Averages the losses of all batches."""
    train(setup, 15)
    assert setup.loss_fn is not None
    total = 0.0
    with torch.no_grad():
        for x, y in setup.val_loader:
            total += setup.loss_fn(setup.model(x), y).item()
    total / len(setup.val_loader)


def good() -> Setup:
    """The same data."""
    return bad()


def good_loop(setup: Setup) -> None:
    """Weights each batch by its size."""
    train(setup, 15)
    assert setup.loss_fn is not None
    total = 0.0
    with torch.no_grad():
        for x, y in setup.val_loader:
            total += setup.loss_fn(setup.model(x), y).item() * len(y)
    total / len(setup.val_loader.dataset)
