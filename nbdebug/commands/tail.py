"""The command that follows recorded runs in a terminal: tail."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from nbdebug.formatting import encodable_text, format_value
from nbdebug.watching.attached_run import POLL_SECONDS, AttachedRun, attach

_SIGNALS = ("loss", "eval_loss", "lr", "gradient_norm")
_CURVE_POINTS, _MAX_EVENTS = 16, 5


def tail(options: Namespace) -> int:
    """Follow runs in the terminal until all have ended, or until Ctrl-C."""
    runs = [attach(folder) for folder in options.folders]
    with suppress(KeyboardInterrupt):
        if sys.stdout.isatty() and find_spec("rich") is not None:
            _follow_by_rich(runs)
        else:
            for line in follow_as_text(runs):
                print(encodable_text(line), flush=True)
    return 0


def follow_as_text(runs: Sequence[AttachedRun]) -> Iterator[str]:
    """Yield a line whenever a run has new steps, one for each new event, and the findings when it has ended."""
    steps, events, ended = [0] * len(runs), [0] * len(runs), [False] * len(runs)
    while not all(ended):
        for index, attached in enumerate(runs):
            if ended[index]:
                continue
            if attached.update():
                steps[index], events[index] = 0, 0
            record, name = attached.record, attached.folder.path.name
            new_events = [event for event in record.events[events[index] :] if event.kind != "epoch"]
            events[index] = len(record.events)
            yield from (f"{name}  step {event.step}: {event.kind} {event.text}" for event in new_events)
            if record.steps > steps[index]:
                steps[index] = record.steps
                yield f"{name}  {_describe_numbers(attached)}"
            if attached.is_finished:
                ended[index] = True
                yield attached.to_text()
        time.sleep(0.0 if all(ended) else POLL_SECONDS)


def _describe_numbers(attached: AttachedRun) -> str:
    """Return the last step and the last value of the signals of a run, in one line."""
    values = {signal: attached.record.series(signal)[1] for signal in _SIGNALS}
    texts = [f"{signal} {format_value(float(series[-1]))}" for signal, series in values.items() if len(series)]
    return "  ".join([f"step {attached.record.steps}", *texts])


def _follow_by_rich(runs: Sequence[AttachedRun]) -> None:
    """Follow runs in one table that Rich draws again and again."""
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with Live(console=console, refresh_per_second=2) as live:
        while True:
            for attached in runs:
                attached.update()
            live.update(_table(runs))
            if all(attached.is_finished for attached in runs):
                break
            time.sleep(POLL_SECONDS)
    for attached in runs:
        console.print(attached.to_text(), markup=False)


def _table(runs: Sequence[AttachedRun]) -> Any:
    """Return a table of Rich with a row for each run."""
    from rich.table import Table
    from rich.text import Text

    from nbdebug.views.line_chart import sparkline

    table = Table("run", "state", "last numbers", "loss", "events")
    for attached in runs:
        losses = attached.record.series("loss")[1]
        curve = sparkline(losses[:: -(-len(losses) // _CURVE_POINTS)].tolist()) if len(losses) else ""
        events = [f"{event.step}: {event.text}" for event in attached.record.events if event.kind == "finding"]
        numbers = _describe_numbers(attached)
        cells = (attached.folder.path.name, attached.status, numbers, curve, "\n".join(events[-_MAX_EVENTS:]))
        table.add_row(*map(Text, cells))  # brackets in a name or a message are no markup
    return table
