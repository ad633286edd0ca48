"""Result of the summary: plain data, text and table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from nbdebug.finding import Finding
from nbdebug.result import Result
from nbdebug.tensors.summary import TensorSummary
from nbdebug.tools.summary.optimizer_groups import ParameterGroup
from nbdebug.views import table
from nbdebug.views.images import named_bars
from nbdebug.views.shape_graph import ShapeTrace
from nbdebug.views.table import Cell, CellTag, Column, FoldableTable, TextCell, cell_text, format_percent, limit_rows

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View

Status = Literal["ran", "raised", "cut off", "not reached", "not called", "holds"]
_MAX_BARS = 20
_MAX_SHAPES = 3
_MAX_LISTED_GROUPS = 4
_MAX_OPEN_ROWS = 60
_COLUMNS = (
    Column("module", hint="Click a row to see its inputs, outputs, parameters and buffers."),
    Column("findings", hint="Findings so far; click to read them."),
    Column("input → output", "code", "Shapes of the first call in one forward pass."),
    Column("parameters", "bar", "Shared parameters count once; the bar shows the share of the whole model."),
    Column("multiply-adds", "number", "Of its matrix products, convolutions and attention for this batch, forward."),
    Column("memory", "number", "Of the outputs of its layers for this batch; training keeps most of them."),
    Column("trainable", "share", "Share of parameters with requires_grad."),
    Column("mode", hint="train or eval, which dropout and batch normalization depend on."),
    Column("optimizer", hint="Parameter group and its current learning rate."),
    Column("weight", "code", "Range, mean and standard deviation of the current weight; sorted by standard deviation."),
)
_SETTING_COLUMNS = ("trainable", "mode", "optimizer")  # not displayed if they say the same in every row
_OPTIONAL_COLUMNS = ("findings", "multiply-adds", "memory", *_SETTING_COLUMNS)  # not displayed if empty
_MAX_LINES = 100


@dataclass(frozen=True)
class SummaryRow:
    """One submodule at one of its paths.

    ``parameters`` counts the values that no earlier submodule holds, ``own`` those that the module holds itself,
    ``tied`` the values shared with earlier modules, ``trainable`` all trainable ones, ``loose`` the trainable ones in
    no optimizer. ``status`` says how far the forward pass came; a module that only "holds" others has no forward of its
    own. ``weights`` and ``buffers`` are its own tensors, by name. ``multiply_adds`` counts those of one forward pass,
    and ``output_bytes`` the memory of the outputs of its layers; ``held_bytes`` is the memory of its parameters, their
    gradients and its buffers, and ``gradient`` its share of the squared norm of the present gradient, None without one.
    """

    path: str
    kind: str
    level: int
    status: Status
    calls: int
    inputs: tuple[TensorSummary, ...]
    outputs: tuple[TensorSummary, ...]
    parameters: int
    own: int
    tied: int
    trainable: int
    training: bool
    groups: tuple[ParameterGroup, ...]
    loose: int
    weights: tuple[tuple[str, TensorSummary], ...] = field(default=(), repr=False)
    buffers: tuple[tuple[str, TensorSummary], ...] = field(default=(), repr=False)
    same_as: str | None = None
    findings: tuple[Finding, ...] = ()
    multiply_adds: int = 0
    output_bytes: int = 0
    held_bytes: int = 0
    gradient: float | None = None

    @property
    def name(self) -> str:
        """The last part of its path; for the whole model its class."""
        return self.path.rpartition(".")[2] or self.kind

    @property
    def share(self) -> float | None:
        """The trainable share of its parameters; None without any."""
        total = self.parameters + self.tied
        return self.trainable / total if total else None

    @property
    def first_weight(self) -> TensorSummary | None:
        """Its first own parameter, usually the weight."""
        return self.weights[0][1] if self.weights else None


@dataclass
class _SummaryView(FoldableTable):
    """A row per submodule; ``trace`` holds the calls of a forward pass that raised."""

    module: ClassVar[str] = "tools/summary/page.js"

    trace: ShapeTrace = field(default_factory=ShapeTrace)

    def state(self) -> dict[str, Any]:
        """Return the rows and the calls."""
        return {**super().state(), "trace": self.trace.state()}

    def html(self) -> str:
        """Return a table of the submodules and, if the pass raised, one of the calls."""
        return super().html() + self.trace.html()


@dataclass(frozen=True)
class Summary(Result):
    """A row for each submodule, the whole model first.

    ``stopped`` says why the forward pass ended early, if it did, and ``trace`` holds the calls up to that one;
    ``batch`` describes the batch; ``optimizers`` is their number; ``unlocated_findings`` are findings without a
    submodule; ``is_checked`` says whether any tool has reported yet.
    """

    rows: tuple[SummaryRow, ...]
    batch: str = ""
    stopped: str = ""
    trace: ShapeTrace = field(default_factory=ShapeTrace)
    optimizers: int = 0
    unlocated_findings: tuple[Finding, ...] = ()
    is_checked: bool = False

    @property
    def model_row(self) -> SummaryRow:
        """The row of the model itself."""
        return self.rows[0]

    def view(self) -> View:
        """Return a table that folds like the model."""

        return _summary_view(self)

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per submodule; ``low`` to ``std`` are those of its first parameter."""
        import pandas as pd

        counts = ("parameters", "tied", "trainable", "loose", "multiply_adds", "output_bytes")
        fields = ("path", "kind", "status", "calls", *counts, "training")
        rows = [{name: getattr(row, name) for name in fields} | _row_statistics(row) for row in self.rows]
        columns = [*fields, "inputs", "outputs", "groups", "low", "high", "mean", "std", "marks", "findings"]
        return pd.DataFrame(rows, columns=columns)

    def draw(self, ax: Axes) -> None:
        """Draw the number of own parameters of the largest twenty submodules, frozen ones in gray."""
        largest = {row.path for row in sorted(self.rows, key=lambda row: -row.own)[:_MAX_BARS]}
        rows = [row for row in self.rows if row.own and row.path in largest]
        colors = ["C0" if row.trainable else "lightgray" for row in rows]
        named_bars(ax, [row.path or row.name for row in rows], [row.own for row in rows], color=colors)
        ax.set(xlabel="parameters", title=f"{self.model_row.name}: {self.model_row.parameters:,} parameters")

    def to_text(self) -> str:
        """Return the result as plain text."""

        return _summary_text(self)


def _row_statistics(row: SummaryRow) -> dict[str, Any]:
    first_weight = row.first_weight
    statistics = {name: getattr(first_weight, name, None) for name in ("low", "high", "mean", "std")}
    return {
        **statistics,
        "marks": " ".join(first_weight.marks) if first_weight else "",
        "inputs": tuple(item.shape for item in row.inputs),
        "outputs": tuple(item.shape for item in row.outputs),
        "groups": tuple(map(str, row.groups)),
        "findings": tuple(finding.code for finding in row.findings),
    }


def model_line(result: Summary) -> str:
    """Return the totals of the model in one line."""
    whole = result.model_row
    share = f"{format_percent(whole.share)} trainable" if whole.share is not None else ""
    optimizer = optimizer_text(whole, result) if result.optimizers else "no optimizer"
    work = f"{short_count(whole.multiply_adds).strip()} multiply-adds" if whole.multiply_adds else ""
    memory = f"{short_count(whole.output_bytes)}B of outputs" if whole.output_bytes else ""
    parts = [whole.name, f"{whole.parameters:,} parameters", share, _mode_text(result), optimizer, work, memory]
    return " · ".join(filter(None, [*parts, f"batch {result.batch}" if result.batch else ""]))


def short_count(count: int) -> str:
    """Format like 950, 12.3 k or 4.56 G."""
    for factor, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} "


def _shown_columns(result: Summary) -> list[int]:
    """Return the indices of the columns, without those that are empty or say the same in every row with parameters."""
    rows = [(_row_cells(row, result), row.share is not None) for row in result.rows]

    def texts(i: int, column: Column) -> set[str]:
        is_mode = column.name == "mode"
        return {cell_text(cells[i], column) for cells, has_parameters in rows if has_parameters or is_mode}

    def is_shown(i: int, column: Column) -> bool:
        if column.name in _SETTING_COLUMNS:
            return len(texts(i - 1, column)) > 1
        return column.name not in _OPTIONAL_COLUMNS or any(cells[i - 1] for cells, _ in rows)

    return [i for i, column in enumerate(_COLUMNS) if is_shown(i, column)]


def _mode_text(result: Summary) -> str:
    training = sum(row.training for row in result.rows)
    if training in (0, len(result.rows)):
        return f"{'train' if training else 'eval'} mode"
    return f"{training} of {len(result.rows)} modules in train mode"


def stop_text(result: Summary) -> str:
    """Return where and why the forward pass ended early; empty if it did not."""
    if not result.stopped:
        return ""
    raised = next((row.path or row.name for row in result.rows if row.status == "raised"), None)
    met = f" What met: {result.trace.operands}." if result.trace.operands else ""
    return f"The forward pass stopped{f' in {raised}' if raised else ''}: {result.stopped.removesuffix('.')}.{met}"


def findings_note(result: Summary) -> str:
    """Return the findings that no row shows, or that nothing was checked yet."""
    if not result.is_checked:
        return "No checks have run yet; run dbg.checkup(), and call summary() again to see its findings."
    if not result.unlocated_findings:
        return ""
    codes = ", ".join(dict.fromkeys(finding.code for finding in result.unlocated_findings))
    return f"Findings without a module: {codes}; see dbg.findings."


def kind_text(row: SummaryRow) -> str:
    """Return the class of a submodule, the first path of a shared one, and the number of its calls."""
    kind = row.kind if row.path else ""
    same_module = f"= {row.same_as or 'the model'}" if row.same_as is not None else ""
    call_count = f"×{row.calls}" if row.calls > 1 and row.same_as is None else ""
    return " ".join(filter(None, [kind, same_module, call_count]))


def _shapes_text(portraits: Sequence[TensorSummary]) -> str:
    runs = [(name, len(list(group))) for name, group in groupby(map(_shape_text, portraits))]
    texts = [name if count == 1 else f"{name} ×{count}" for name, count in runs]
    hidden = len(texts) - _MAX_SHAPES
    return ", ".join(texts[:_MAX_SHAPES]) + (f", +{hidden}" if hidden > 0 else "") or "–"


def _shape_text(tensor: TensorSummary) -> str:
    return "nested" if tensor.shape is None else str([*tensor.shape])


def optimizer_text(row: SummaryRow, result: Summary) -> str:
    """Return the optimizer groups of a submodule, and how many of its values are in none."""
    group_text = _group_texts(row.groups)
    ungrouped_text = f"{row.loose:,} in no group" if row.loose and result.optimizers else ""
    return "; ".join(filter(None, [group_text, ungrouped_text]))


def _group_texts(groups: Sequence[ParameterGroup]) -> str:
    """Return one text per optimizer, which merges its groups with the range of their learning rates."""
    owners = dict.fromkeys(group.owner for group in groups)
    return "; ".join(_merge_group_texts([group for group in groups if group.owner == owner]) for owner in owners)


def _merge_group_texts(groups: Sequence[ParameterGroup]) -> str:
    if len(groups) == 1:
        return str(groups[0])
    numbers = (
        ", ".join(str(group.group) for group in groups)
        if len(groups) <= _MAX_LISTED_GROUPS
        else f"{len(groups)} in all"
    )
    rates = sorted({group.rate for group in groups if group.rate is not None})
    rate_range = " to ".join(f"{rate:.4g}" for rate in dict.fromkeys([*rates[:1], *rates[-1:]]))
    return f"{groups[0].owner}, groups {numbers}" + (f", lr {rate_range}" if rate_range else "")


def _summary_view(result: Summary) -> _SummaryView:
    """Return the summary as a table that folds like the model."""
    paths_with_faults = {
        path for row in result.rows if row.findings or row.status == "raised" for path in _parent_paths(row.path)
    }
    max_open_level = max(row.level for row in limit_rows(result.rows, _MAX_OPEN_ROWS))
    shown = _shown_columns(result)
    return _SummaryView(
        trace=result.trace,
        title="Summary",
        status=model_line(result),
        columns=tuple(_COLUMNS[i] for i in shown),
        rows=[
            table.TableRow(
                row.name,
                [_row_cells(row, result)[i - 1] for i in shown if i],
                kind_text(row),
                row.level,
                _tensor_details(row),
                folded=row.level >= max_open_level and row.path not in paths_with_faults,
            )
            for row in result.rows
        ],
        notice=(stop_text(result), "error" if result.stopped else ""),
        note=findings_note(result),
        noun="modules",
        rooted=True,
    )


def _parent_paths(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:n]) for n in range(len(parts))]


def _row_cells(row: SummaryRow, result: Summary) -> list[Cell]:
    """Return the cells of a row, in the order of the columns."""
    first_weight = row.first_weight
    return [
        [
            CellTag(finding.code, finding.severity or "note", f"{finding.name}: {finding.message}")
            for finding in row.findings
        ],
        shape_flow(row),
        _parameter_cell(row),
        TextCell(short_count(row.multiply_adds).strip(), row.multiply_adds) if row.multiply_adds else None,
        TextCell(f"{short_count(row.output_bytes)}B", row.output_bytes) if row.output_bytes else None,
        row.share,
        TextCell("train" if row.training else "eval", tone="" if row.training == result.model_row.training else "note"),
        optimizer_text(row, result) or None,
        TextCell(first_weight.values_text, first_weight.std) if first_weight and first_weight.values_text else None,
    ]


def shape_flow(row: SummaryRow) -> Cell:
    """The shapes of inputs and outputs, or the status of the forward pass."""
    if row.status == "raised":
        return TextCell(f"{_shapes_text(row.inputs)} → raised", None, "error")
    if row.outputs:
        return f"{_shapes_text(row.inputs)} → {_shapes_text(row.outputs)}"
    if row.status == "cut off":
        return f"{_shapes_text(row.inputs)} → …"
    return TextCell(row.status, tone="soft") if row.status != "holds" else None


def _parameter_cell(row: SummaryRow) -> Cell:
    """The number of parameters; those shared with an earlier module are marked as tied."""
    if row.tied:
        words = f"{row.parameters:,} + {row.tied:,} tied" if row.parameters else f"{row.tied:,} tied"
        return TextCell(words, row.parameters)
    return row.parameters or None


def _tensor_details(row: SummaryRow) -> list[tuple[str, str]]:
    inputs = [("input", str(tensor)) for tensor in row.inputs]
    outputs = [("output", str(tensor)) for tensor in row.outputs]
    return [*inputs, *outputs, *((name, str(tensor)) for name, tensor in row.weights + row.buffers)]


def _summary_text(result: Summary) -> str:
    """Return one line per submodule in aligned columns, followed by its findings."""
    rows = limit_rows(result.rows, _MAX_LINES)
    lines = [[column.name for column in _COLUMNS], *(_row_texts(row, result) for row in rows)]
    widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    hidden = len(result.rows) - len(rows)
    hidden_note = f"… and {hidden:,} more modules at deeper levels" if hidden else ""
    finding_lines = [_finding_line(row, finding) for row in result.rows for finding in row.findings]
    heading = [f"nbdebug summary: {model_line(result)}", stop_text(result)]
    return "\n".join(
        filter(
            None,
            [
                *heading,
                *(_align(cells, widths) for cells in lines),
                hidden_note,
                *finding_lines,
                result.trace.to_text(),
                findings_note(result),
            ],
        )
    )


def _row_texts(row: SummaryRow, result: Summary) -> list[str]:
    name = f"{'  ' * row.level}{row.name} {kind_text(row)}".rstrip()
    return [name, *map(cell_text, _row_cells(row, result), _COLUMNS[1:])]


def _align(texts: Sequence[str], widths: Sequence[int]) -> str:
    sides = [">" if column.kind in ("bar", "share", "number") else "<" for column in _COLUMNS]
    return "  ".join(f"{text:{side}{width}}" for text, side, width in zip(texts, sides, widths, strict=True)).rstrip()


def _finding_line(row: SummaryRow, finding: Finding) -> str:
    return f"{row.path or row.name}: {finding.severity} {finding.code} {finding.name}: {finding.message}"
