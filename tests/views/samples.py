"""Views as a real session would make them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nbdebug.finding import Finding, Location
from nbdebug.tools.lr_range.data import Suggestion, Sweep
from nbdebug.tools.lr_range.view import LrRangeView
from nbdebug.tools.overfit.view import ExampleCard, OverfitView
from nbdebug.views.findings import FindingsView
from nbdebug.views.line_chart import LineChart
from nbdebug.views.page import View
from nbdebug.views.table import CellTag, Column, FoldableTable, TableRow, TextCell

NASTY = '</script><img src=x onerror="window.broken = true"><!--<script>'
CELL = (
    (5, "    x = self.pool(F.relu(self.conv2(x)))"),
    (6, "    x = self.fc(x.flatten(1))"),
    (7, "    return F.softmax(x, dim=1)"),
    (8, ""),
    (9, "model = Net()"),
)


def curves(steps: int = 300) -> LineChart:
    """Two losses, one of them with a gap."""
    train = [2.3 * math.exp(-i / 60) + 0.02 * math.sin(i) for i in range(steps)]
    validation: list[float] = [2.4 * math.exp(-i / 70) + 0.2 for i in range(steps)]
    validation[40:42] = [math.nan, math.inf]
    return LineChart.from_columns(
        range(steps),
        {"train": train, "validation": validation},
        title="Training",
        y_label="loss",
        marks=[(100, "lr ÷ 10"), (200, "best")],
        limits=[(0.12, "attainable floor")],
        status=f"step {steps} of {steps}",
    )


def findings() -> FindingsView:
    """A cause with two consequences, a warning, a note, and one check left out."""
    cause = Finding(
        message="Probabilities go into CrossEntropyLoss: the loss cannot fall below 1.461.",
        where=Location(
            module="net.head", cell=12, line=7, source=CELL[2][1], context=CELL, file="/tmp/ipykernel_1/12.py"
        ),
        cause="The forward pass ends in softmax and the loss applies its own.",
        fix="return x  # CrossEntropyLoss applies log_softmax itself",
        evidence={"row_sum": 1.0, "smallest_loss": 1.46117, "range": (0.0312, 0.2281)},
        explains=("T608", "L208"),
        code="L201",
        name="softmax-before-cross-entropy",
        severity="error",
    )
    stuck = Finding("16 examples cannot be memorized.", code="T608", name="cannot-overfit", severity="error")
    initial = Finding("The initial loss is 2.303.", code="L208", name="initial-loss-off", severity="warning")
    place = Location(
        parameter="head.bias", file="/home/me/train.py", line=31, source="opt = Adam(model.body.parameters())"
    )
    missed = Finding(
        "2 parameters are in no group.", place, code="O503", name="parameter-not-optimized", severity="warning"
    )
    constant = Finding("11 of 64 features never vary.", code="D112", name="constant-feature", severity="note")
    return FindingsView(
        subtitle="Net, 31,402 parameters",
        findings=[one.to_dict() for one in (cause, stuck, missed, initial, constant)],
        not_checked=[{"code": "D108", "name": "split-overlap", "why": "there is no validation loader"}],
        checked=12,
    )


def row(step: int, count: int, attempt: int = 0, right: float = 1.0) -> dict[str, Any]:
    """One recorded step of the tiny-batch test."""
    score = [right / (1 + math.exp(-(step - 20 - 3 * i) / 8)) for i in range(count)]
    loss = sum(-math.log(p + 1e-4) for p in score) / count
    predictions = [i % 10 if p > 0.5 else (i + 3) % 10 for i, p in enumerate(score)]
    return {"attempt": attempt, "step": step, "loss": loss, "score": score, "prediction": predictions}


def overfit(count: int = 8, side: int = 8, steps: int = 100) -> OverfitView:
    """Two attempts at a batch of pictures."""
    pictures = np.random.default_rng(0).integers(0, 255, (count, side, side, 3), dtype=np.uint8)
    return OverfitView(
        attempts=["your SGD, lr 0.1", "Adam, lr 0.001"],
        examples=[ExampleCard(i % 10, f"#{i}", pictures[i] if i % 2 else pictures[i, ..., 0]) for i in range(count)],
        rows=[row(step, count, attempt, 1 - 0.2 * attempt) for attempt in (0, 1) for step in range(steps)],
        floor=0.0,
        verdict="pass",
        headline=f"All {count} examples are memorized.",
        reasons=["the loss is 0.001 above its floor"],
        ruled_out=["contradictory duplicates"],
        class_names=[f"digit {i}" for i in range(10)],
        log=True,
    )


def table(blocks: int = 2, layers: int = 3) -> FoldableTable:
    """Layers in blocks, some of them frozen, one with a finding."""
    columns = [
        Column("module", hint="Where it is."),
        Column("shape", "code"),
        Column("parameters", "bar"),
        Column("trainable", "share"),
        Column("rate", "number"),
        Column("findings"),
    ]
    missed = CellTag("O503", "error", "parameter-not-optimized: No parameter group holds 0.1.weight.")
    rows = [TableRow("Net", ["[8, 4] → [8, 3]", blocks * layers * 20, 0.5, None, ()])]
    for block in range(blocks):
        rows.append(TableRow(str(block), [None, layers * 20, 1 - block % 2, None, ()], "Sequential", 1))
        for layer in range(layers):
            frozen, found = TextCell("frozen", -1.0, "soft"), [missed] if (block, layer) == (0, 1) else ()
            cells = ["[8, 4] → [8, 4]", 20 + layer, 1 - block % 2, frozen if block % 2 else 0.1 / (layer + 1), found]
            rows.append(TableRow(str(layer), cells, "Linear", 2, [("weight", "[4, 4] n=16 x∈[-1, 1] μ=0 σ=0.5 f32")]))
    return FoldableTable("Summary", "Net, 120 parameters", columns, rows, note="One more has no place.", rooted=True)


def nasty() -> list[View]:
    """Each view with markup in every text."""
    words: dict[str, Any] = {"title": NASTY, "status": NASTY}
    where = Location(NASTY, NASTY, 1, 2, NASTY, 3, NASTY, None, ((3, NASTY),))
    finding = Finding(NASTY, where, NASTY, NASTY, {NASTY: NASTY, "list": [NASTY]}, (), NASTY, NASTY, "error")
    skipped = [{"code": NASTY, "name": NASTY, "why": NASTY}]
    examples = [ExampleCard(NASTY, NASTY), ExampleCard(1, NASTY)]
    verdict: dict[str, Any] = {
        "headline": NASTY,
        "reasons": [NASTY],
        "ruled_out": [NASTY],
        "quantity": NASTY,
        "attempts": [NASTY],
    }
    lines: dict[str, Any] = {"series": {NASTY: [(0, 1), (1, 2)]}, "marks": [(0, NASTY)], "limits": [(1, NASTY)]}
    return [
        LineChart(**words, **lines, x_label=NASTY, y_label=NASTY),
        FindingsView(
            NASTY, NASTY, [finding.to_dict()], skipped, 1, {"done": 0, "total": 1, "name": NASTY, "seconds_left": 1}
        ),
        OverfitView(**words, **verdict, verdict="fail", examples=examples, rows=[row(0, 2)], class_names=[NASTY] * 10),
        FoldableTable(
            **words,
            columns=[Column(NASTY, hint=NASTY), Column(NASTY, "code", NASTY), Column(NASTY)],
            rows=[
                TableRow(
                    NASTY,
                    [TextCell(NASTY, None, "error"), [CellTag(NASTY, "error", NASTY)]],
                    NASTY,
                    0,
                    [(NASTY, NASTY)],
                )
            ],
            notice=(NASTY, "error"),
            note=NASTY,
            noun=NASTY,
        ),
        LrRangeView(
            **words,
            sweeps=[Sweep(0, (0.1, 1.0), (2.0, 1.0), (2.0, 1.0))],
            suggestions=[Suggestion(NASTY, 0.5, 0.4, 0.6, (0.5,))],
            verdict=NASTY,
            headline=NASTY,
            reasons=[NASTY],
            notes=[NASTY],
            judgement=NASTY,
            setting=NASTY,
            recipes={NASTY: NASTY},
        ),
    ]
