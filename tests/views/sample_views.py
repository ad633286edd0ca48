"""Views with the contents of a real session, and views with hostile text in every field."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from nbdebug.crashes.crash_report import CrashView
from nbdebug.finding import Finding, Location, RelatedLine
from nbdebug.tools.batch_size.view import BatchSizeRow, BatchSizeView
from nbdebug.tools.compare_optimizers.view import CandidatePanel, OptimizerComparisonView
from nbdebug.tools.divergence.strip import DivergenceStrip, StripRow
from nbdebug.tools.lr_range.data import Suggestion, Sweep
from nbdebug.tools.lr_range.view import LrRangeView
from nbdebug.tools.overfit.view import ExampleCard, OverfitView
from nbdebug.tools.profile.view import ProfileView
from nbdebug.views.findings import FindingsView
from nbdebug.views.line_chart import LineChart
from nbdebug.views.page import View
from nbdebug.views.shape_graph import ShapeTrace, TraceRow
from nbdebug.views.table import CellTag, Column, FoldableTable, TableRow, TextCell

from .hostile_text import HOSTILE_TEXT

CELL_LINES = (
    (5, "    x = self.pool(F.relu(self.conv2(x)))"),
    (6, "    x = self.fc(x.flatten(1))"),
    (7, "    return F.softmax(x, dim=1)"),
    (8, ""),
    (9, "model = Net()"),
)


def line_chart_view(steps: int = 300) -> LineChart:
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


def profile_view(text: str = "") -> ProfileView:
    """Twelve steps of three phases, a row in each table, and a roofline; ``text`` replaces all texts."""
    names = ("data", "forward", "backward")
    row = {
        "cells": [text or "39: torch.save(state, path)", *[text or "1.2 ms"] * 8],
        "part": 0.4,
        "mark": "",
        "code": "",
    }
    tried = {**row, "mark": "recommended", "code": text or "train_loader = DataLoader(dataset, num_workers=4)"}
    points = [{"name": text or "fc", "intensity": 12.0, "rate": 3e10}, {"name": "", "intensity": 1.0, "rate": 1e9}]
    return ProfileView(
        status=text or "12 steps of your loop on cpu",
        headline=text or "The step waits 40% of its time for data.",
        tone="warning",
        reasons=[text or "4 workers were measured to gain 1.6×."],
        code=text or "train_loader = DataLoader(dataset, num_workers=4)",
        where=text or "cell 3, line 12: image = decode(path)",
        phases=[
            {"index": i, "name": name, "text": text or name, "milliseconds": text or "1 ms", "percent": "33%"}
            for i, name in enumerate(names)
        ],
        steps=[[0.4 + 0.01 * i, 1.0, 2.0] for i in range(12)],
        tables={"lines": [row], "trials": [tried], "modules": [row], "latencies": [row]},
        roofline={"flops": 9e10, "bytes": 1e10, "points": points},
        notes=[text or "A step is short."],
    )


def findings_view() -> FindingsView:
    """An error with two consequences, a warning, a note, and a rule that was not checked."""
    cause = Finding(
        message="Probabilities go into CrossEntropyLoss: the loss cannot fall below 1.461.",
        where=Location(
            module="net.head",
            cell=12,
            line=7,
            source=CELL_LINES[2][1],
            context=CELL_LINES,
            file="/tmp/ipykernel_1/12.py",
        ),
        cause="The forward pass ends in softmax and the loss applies its own.",
        fix="return x  # CrossEntropyLoss applies log_softmax itself",
        evidence={"row_sum": 1.0, "smallest_loss": 1.46117, "range": (0.0312, 0.2281)},
        explains=("T608", "L208"),
        code="L201",
        name="softmax-before-cross-entropy",
        severity="error",
    )
    overfit_error = Finding("16 examples cannot be memorized.", code="T608", name="cannot-overfit", severity="error")
    loss_warning = Finding("The initial loss is 2.303.", code="L208", name="initial-loss-off", severity="warning")
    location = Location(
        parameter="head.bias", file="/home/me/train.py", line=31, source="opt = Adam(model.body.parameters())"
    )
    optimizer_warning = Finding(
        "2 parameters are in no group.", location, code="O503", name="parameter-not-optimized", severity="warning"
    )
    feature_note = Finding("11 of 64 features never vary.", code="D112", name="constant-feature", severity="note")
    return FindingsView(
        subtitle="Net, 31,402 parameters",
        findings=[
            finding.to_dict() for finding in (cause, overfit_error, optimizer_warning, loss_warning, feature_note)
        ],
        not_checked=[{"code": "D108", "name": "split-overlap", "why": "there is no validation loader"}],
        checked=12,
    )


def residual_trace(blocks: int = 1) -> ShapeTrace:
    """A model of residual blocks, the last of which raises at its addition."""
    rows = [TraceRow("", "Net", "float32 [4, 3, 16, 16]", "", "cut off")]
    before, same, half = 0, "float32 [4, 16, 16, 16]", "float32 [4, 32, 8, 8]"
    for block in range(blocks + 1):
        is_last, start = block == blocks, len(rows)
        output = half if is_last else same
        path = f"blocks.{block}"
        rows += [
            TraceRow(path, "Block", same, "" if is_last else same, "cut off" if is_last else "ran", 1, (before,)),
            TraceRow(f"{path}.conv", "Conv2d", same, output, "ran", 2, (before,)),
            TraceRow(path, "relu", output, output, "ran", 2, (start + 1,), "", True),
        ]
        met = f"x {same} · y {half}" if is_last else ""
        status, outputs = ("raised", "") if is_last else ("ran", same)
        inputs = f"{same}, {output}"
        rows.append(TraceRow(path, "add", inputs, outputs, status, 2, (before, start + 2), met, True))
        before = start + 3
    return ShapeTrace(tuple(rows), ("head",))


def crash_view(blocks: int = 1) -> CrashView:
    """A finding, and the calls up to the addition that raised."""
    findings = findings_view().findings[:1]
    return CrashView("Crash", "RuntimeError: sizes differ", findings, checked=39, trace=residual_trace(blocks))


def overfit_row(step: int, count: int, attempt: int = 0, top_score: float = 1.0) -> dict[str, Any]:
    """One recorded step of the tiny-batch test."""
    score = [top_score / (1 + math.exp(-(step - 20 - 3 * i) / 8)) for i in range(count)]
    loss = sum(-math.log(p + 1e-4) for p in score) / count
    predictions = [i % 10 if p > 0.5 else (i + 3) % 10 for i, p in enumerate(score)]
    return {"attempt": attempt, "step": step, "loss": loss, "score": score, "prediction": predictions}


def overfit_view(count: int = 8, side: int = 8, steps: int = 100) -> OverfitView:
    """Two attempts at a batch of images."""
    images = np.random.default_rng(0).integers(0, 255, (count, side, side, 3), dtype=np.uint8)
    return OverfitView(
        attempts=["your SGD, lr 0.1", "Adam, lr 0.001"],
        examples=[ExampleCard(i % 10, f"#{i}", images[i] if i % 2 else images[i, ..., 0]) for i in range(count)],
        rows=[overfit_row(step, count, attempt, 1 - 0.2 * attempt) for attempt in (0, 1) for step in range(steps)],
        floor=0.0,
        verdict="pass",
        headline=f"All {count} examples are memorized.",
        reasons=["the loss is 0.001 above its floor"],
        ruled_out=["contradictory duplicates"],
        class_names=[f"digit {i}" for i in range(10)],
        log=True,
    )


def divergence_view(text: str = "loss") -> DivergenceStrip:
    """A comparison of two runs that part at the third of five steps."""
    rows = [
        StripRow(text, [0.0, 0.0, 1e-3, 0.1, 1.0], ["step 2", "step 3", text]),
        StripRow("weights", [0.0, None, None, None, 1e-6], ["step 1", "step 5", text]),
    ]
    return DivergenceStrip(
        status=text,
        headline=text,
        tone="warning",
        steps=range(1, 6),
        rows=rows,
        first=2,
        columns=(text, "last equal", "first different", "values there"),
        details=[(text, text)],
        notes=[text],
    )


def table_view(blocks: int = 2, layers: int = 3) -> FoldableTable:
    """Layers in blocks, some of them frozen, one with a finding."""
    columns = [
        Column("module", hint="Where it is."),
        Column("shape", "code"),
        Column("parameters", "bar"),
        Column("trainable", "share"),
        Column("rate", "number"),
        Column("findings"),
    ]
    tag = CellTag("O503", "error", "parameter-not-optimized: No parameter group holds 0.1.weight.")
    rows = [TableRow("Net", ["[8, 4] → [8, 3]", blocks * layers * 20, 0.5, None, ()])]
    for block in range(blocks):
        rows.append(TableRow(str(block), [None, layers * 20, 1 - block % 2, None, ()], "Sequential", 1))
        for layer in range(layers):
            frozen, tags = TextCell("frozen", -1.0, "soft"), [tag] if (block, layer) == (0, 1) else ()
            cells = [
                "[8, 4] → [8, 4]",
                20 + layer,
                1 - block % 2,
                frozen if block % 2 else 0.1 / (layer + 1),
                tags,
            ]
            rows.append(TableRow(str(layer), cells, "Linear", 2, [("weight", "[4, 4] n=16 x∈[-1, 1] μ=0 σ=0.5 f32")]))
    return FoldableTable("Summary", "Net, 120 parameters", columns, rows, note="One more has no place.", rooted=True)


def candidate_panel(name: str, rank: int, speed: float, **fields: Any) -> CandidatePanel:
    """A candidate whose loss falls at a given speed."""
    x = range(1, 101, 2)
    losses = [0.2 + 2 * math.exp(-speed * i) for i in x]
    low, high = ([value + offset for value in losses] for offset in (-0.1, 0.1))
    evaluation_steps = [20, 40, 60, 80, 100]
    validation = [losses[i // 2 - 1] + 0.05 for i in evaluation_steps]
    ends = {"train": losses[-1], "val": validation[-1], "error": 0.02}
    defaults = {"rate": "lr 0.01, as passed", "words": "learns, stable", "tone": "good", **ends, **fields}
    return CandidatePanel(
        name,
        rank=rank,
        x=x,
        middle=losses,
        low=low,
        high=high,
        looks=evaluation_steps,
        validation=validation,
        **defaults,
    )


def comparison_view(**fields: Any) -> OptimizerComparisonView:
    """Five candidates, one of them diverged."""
    diverged_candidate = CandidatePanel(
        "SGD, one-cycle", "lr 30", 5, "diverges with 3 of 3 seeds", "error", x=[1, 2, 3], middle=[2, 90, 1e9]
    )
    panels = [
        candidate_panel("AdamW", 1, 0.1),
        candidate_panel("Adam", 1, 0.09),
        candidate_panel("SGD+momentum", 3, 0.05),
        candidate_panel("SGD", 4, 0.02),
    ]
    defaults: dict[str, Any] = {
        "panels": [*panels, replace(diverged_candidate, low=diverged_candidate.middle, high=diverged_candidate.middle)],
        "verdict": "tie",
        "headline": "AdamW and Adam are tied.",
        "reasons": ["your optimizer is worse"],
        "notes": ["all candidates start from your weights"],
        "code": "optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)",
        "steps": 100,
        "judged_by": "val",
    }
    return OptimizerComparisonView(**{**defaults, **fields})


def batch_size_view(**fields: Any) -> BatchSizeView:
    """Five sizes, one suggested and one current."""
    rows = [
        BatchSizeRow(8 * 2**i, 2**20 * (4 + 2**i), f"{4 + 2**i} MiB", 800 * (i + 1), 700, 900, 10.0 * 2**i)
        for i in range(5)
    ]
    defaults: dict[str, Any] = {
        "rows": rows,
        "suggestion": 64,
        "now": 32,
        "headline": "Suggested batch size 64.",
        "code": "batch_size=64",
    }
    return BatchSizeView(**{**defaults, "reasons": ["it is enough"], "notes": ["measured"], **fields})


def hostile_views() -> list[View]:
    """Each view with hostile text in every field."""
    texts: dict[str, Any] = {"title": HOSTILE_TEXT, "status": HOSTILE_TEXT}
    location = Location(HOSTILE_TEXT, HOSTILE_TEXT, 1, 2, HOSTILE_TEXT, 3, HOSTILE_TEXT, None, ((3, HOSTILE_TEXT),))
    finding = Finding(
        HOSTILE_TEXT,
        location,
        HOSTILE_TEXT,
        HOSTILE_TEXT,
        {HOSTILE_TEXT: HOSTILE_TEXT, "list": [HOSTILE_TEXT]},
        (),
        HOSTILE_TEXT,
        HOSTILE_TEXT,
        "error",
        related=(RelatedLine(Location(file=HOSTILE_TEXT, line=4, source=HOSTILE_TEXT), HOSTILE_TEXT),),
    )
    not_checked = [{"code": HOSTILE_TEXT, "name": HOSTILE_TEXT, "why": HOSTILE_TEXT}]
    examples = [ExampleCard(HOSTILE_TEXT, HOSTILE_TEXT), ExampleCard(1, HOSTILE_TEXT)]
    banner: dict[str, Any] = {
        "headline": HOSTILE_TEXT,
        "code": HOSTILE_TEXT,
        "reasons": [HOSTILE_TEXT],
        "notes": [HOSTILE_TEXT],
    }
    verdict: dict[str, Any] = {
        "headline": HOSTILE_TEXT,
        "reasons": [HOSTILE_TEXT],
        "ruled_out": [HOSTILE_TEXT],
        "quantity": HOSTILE_TEXT,
        "attempts": [HOSTILE_TEXT],
    }
    lines: dict[str, Any] = {
        "series": {HOSTILE_TEXT: [(0, 1), (1, 2)]},
        "marks": [(0, HOSTILE_TEXT)],
        "limits": [(1, HOSTILE_TEXT)],
    }
    return [
        profile_view(HOSTILE_TEXT),
        CrashView(
            trace=ShapeTrace((TraceRow(*([HOSTILE_TEXT] * 4), "raised", operands=HOSTILE_TEXT),), (HOSTILE_TEXT,))
        ),
        LineChart(**texts, **lines, x_label=HOSTILE_TEXT, y_label=HOSTILE_TEXT),
        FindingsView(
            HOSTILE_TEXT,
            HOSTILE_TEXT,
            [finding.to_dict()],
            not_checked,
            1,
            {"done": 0, "total": 1, "name": HOSTILE_TEXT, "seconds_left": 1},
        ),
        OverfitView(
            **texts,
            **verdict,
            verdict="fail",
            examples=examples,
            rows=[overfit_row(0, 2)],
            class_names=[HOSTILE_TEXT] * 10,
        ),
        FoldableTable(
            **texts,
            columns=[
                Column(HOSTILE_TEXT, hint=HOSTILE_TEXT),
                Column(HOSTILE_TEXT, "code", HOSTILE_TEXT),
                Column(HOSTILE_TEXT),
            ],
            rows=[
                TableRow(
                    HOSTILE_TEXT,
                    [TextCell(HOSTILE_TEXT, None, "error"), [CellTag(HOSTILE_TEXT, "error", HOSTILE_TEXT)]],
                    HOSTILE_TEXT,
                    0,
                    [(HOSTILE_TEXT, HOSTILE_TEXT)],
                )
            ],
            notice=(HOSTILE_TEXT, "error"),
            note=HOSTILE_TEXT,
            noun=HOSTILE_TEXT,
        ),
        LrRangeView(
            **texts,
            sweeps=[Sweep(0, (0.1, 1.0), (2.0, 1.0), (2.0, 1.0))],
            suggestions=[Suggestion(HOSTILE_TEXT, 0.5, 0.4, 0.6, (0.5,))],
            verdict=HOSTILE_TEXT,
            headline=HOSTILE_TEXT,
            reasons=[HOSTILE_TEXT],
            notes=[HOSTILE_TEXT],
            judgement=HOSTILE_TEXT,
            setting=HOSTILE_TEXT,
            recipes={HOSTILE_TEXT: HOSTILE_TEXT},
        ),
        comparison_view(
            **texts,
            **banner,
            panels=[replace(candidate_panel("", 1, 0.1), name=HOSTILE_TEXT, rate=HOSTILE_TEXT, words=HOSTILE_TEXT)],
        ),
        batch_size_view(**texts, **banner, rows=[BatchSizeRow(8, 1, HOSTILE_TEXT, 1, 1, 1, 1)]),
        divergence_view(HOSTILE_TEXT),
    ]
