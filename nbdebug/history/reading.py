"""Read a history from objects, texts and files of the common loggers; nothing that is read is executed."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.history.curves import EXPORTED, History, Series, Unit
from nbdebug.history.mlflow_store import Points, is_database, is_metric_line, read_database, read_metric_text
from nbdebug.history.tensorboard import read_scalars
from nbdebug.validation import describe_value

_POSITIONS: dict[str, Unit] = {
    "step": "step",
    "global_step": "step",
    "_step": "step",
    "iteration": "step",
    "iter": "step",
    "epoch": "epoch",
}
_EXPECTED = (
    "a dictionary of lists, a list of rows, a DataFrame, a text, or the path of a JSON, CSV, log, TensorBoard or "
    "MLflow file or folder"
)
_NAME = r"[A-Za-z_][\w/.-]*(?: [A-Za-z][\w/.-]*)*"
_PAIR = re.compile(rf"({_NAME})\s*[:=]\s*([-+]?(?:\d*\.?\d+(?:e[-+]?\d+)?|nan|inf))", re.I)
_MAX_BYTES = 200_000_000


def read_history(source: Any) -> History:
    """Return the curves of any supported source; raise SetupError for another one, or without numbers."""
    if isinstance(source, Path) or (isinstance(source, str) and "\n" not in source and not _is_json(source)):
        history = _read_path(Path(source).expanduser())
    elif isinstance(source, str):
        history = _read_text(source)
    else:
        history = _read_object(source)
    if not history.series:
        raise SetupError("history has no numbers; expected at least a curve of the loss. Log it at each epoch or step.")
    return history


def _is_json(text: str) -> bool:
    return text.lstrip().startswith(("{", "["))


def _read_object(source: Any) -> History:
    """Return a history of a dictionary, a list of rows, a DataFrame, or an object with one of them as ``history``."""
    inner = getattr(source, "history", None) or getattr(getattr(source, "state", None), "log_history", None)
    if isinstance(inner, (Mapping, list)):
        return _read_object(inner)
    if isinstance(source, Mapping):
        if isinstance(source.get("log_history"), list):
            return _from_rows(source["log_history"], "trainer state")
        return _from_columns(source, "history")
    if hasattr(source, "columns") and hasattr(source, "to_dict"):
        columns = {str(name): list(source[name]) for name in source.columns}
        return _from_columns(columns, "DataFrame", nan_is_missing=True)
    if isinstance(source, Sequence) and source and all(isinstance(row, Mapping) for row in source):
        return _from_rows(source, "rows")
    raise SetupError(f"history is {describe_value(source)}; expected {_EXPECTED}. Pass one of them.")


def _from_columns(columns: Mapping[str, Any], source: str, nan_is_missing: bool = False) -> History:
    """Return a history of lists by name. In a table with gaps, NaN is a gap where another column has a value."""
    lists = {
        str(name): list(values) for name, values in columns.items() if isinstance(values, (list, tuple, np.ndarray))
    }
    position = next((name for name in _POSITIONS if name in lists), None)
    index = lists.get(position, []) if position else []
    has_gaps = nan_is_missing and len({_count_numbers(values) for values in lists.values()}) > 1
    points: Points = {}
    for name, values in lists.items():
        if name in _POSITIONS:
            continue
        for row, value in enumerate(values):
            number = _number(value)
            if number is not None and not (has_gaps and math.isnan(number)):
                place = _number(index[row]) if row < len(index) else None
                points.setdefault(name, []).append((place, number))
    return _from_points(points, _POSITIONS[position] if position else "epoch", source)


def _count_numbers(values: Iterable[Any]) -> int:
    return sum(1 for value in values if (number := _number(value)) is not None and not math.isnan(number))


def _from_rows(rows: Iterable[Mapping[str, Any]], source: str) -> History:
    """Return a history of rows, each with some of the quantities; a summary of the whole run is left out."""
    kept = [row for row in rows if not {"train_runtime", "total_flos"} & row.keys()]
    position = next((name for name in _POSITIONS if any(name in row for row in kept)), None)
    points: Points = {}
    for row in kept:
        for name, value in row.items():
            if name not in _POSITIONS and (number := _number(value)) is not None:
                points.setdefault(str(name), []).append((_number(row.get(position)) if position else None, number))
    return _from_points(points, _POSITIONS[position] if position else "epoch", source)


def _from_points(points: Points, unit: Unit, source: str) -> History:
    """Return a history of points; positions that are missing or do not grow are replaced by 1, 2, 3 ..."""
    series, notes = {}, []
    for name, pairs in points.items():
        places = [place for place, _ in pairs]
        values = np.array([value for _, value in pairs], float)
        known = [place for place in places if place is not None and math.isfinite(place)]
        if len(known) == len(places) and all(a < b for a, b in pairwise(known)):
            series[name] = Series(np.array(known, float), values)
            continue
        if known:
            notes.append(f"The positions of {name!r} do not grow, so its values are counted.")
        series[name] = Series(np.arange(1, len(values) + 1, dtype=float), values)
    return History(series, unit, source, tuple(notes[:3]))


def _number(value: Any) -> float | None:
    """Return a number, also of a text or a tensor of one value; None for anything else and for empty cells."""
    if value is None or isinstance(value, bool) or (isinstance(value, str) and not value.strip()):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def _read_text(text: str) -> History:
    """Return a history of JSON, of CSV, or of a log with pairs such as ``val_loss: 0.31``."""
    if _is_json(text) and (value := _parse_json(text)) is not None:
        return _read_object(value)
    header = text.lstrip().partition("\n")[0]
    if "," in header and not _PAIR.search(header):
        return _from_rows(list(csv.DictReader(io.StringIO(text.lstrip()))), "CSV")
    return _from_log(text)


def _parse_json(text: str) -> Any:
    """Return the value of JSON, or the rows of JSON lines; None for a log that begins like JSON."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        try:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except json.JSONDecodeError:
            return None


def _from_log(text: str) -> History:
    """Return a history of a log; a new row begins where a name repeats, and ``epoch`` gives its position."""
    rows: list[dict[str, Any]] = [{}]
    for line in text.splitlines():
        epoch = re.search(r"epoch\D{0,3}(\d+)", line, re.I)
        pairs = [(name.strip().lower().replace(" ", "_"), value) for name, value in _PAIR.findall(line)]
        pairs = [(re.sub(r"^epoch_?\d*_?", "", name), value) for name, value in pairs if not name.startswith("epoch")]
        if epoch and "epoch" in rows[-1] and rows[-1]["epoch"] != epoch[1]:
            rows.append({})
        if epoch:
            rows[-1]["epoch"] = epoch[1]
        for name, value in pairs:
            if name in rows[-1] and not epoch:
                rows.append({})
            rows[-1][name] = value
    return _from_rows([row for row in rows if row], "log")


def _read_path(path: Path) -> History:
    """Return the history of a file or a folder by its name and its content."""
    if path.is_dir():
        return _read_folder(path)
    if not path.is_file():
        raise SetupError(f"history is {str(path)!r}, which is no file; expected {_EXPECTED}. Check the path.")
    if path.stat().st_size > _MAX_BYTES:
        raise SetupError(f"history is {path.stat().st_size:,} bytes; expected at most {_MAX_BYTES:,}. Log fewer steps.")
    if "tfevents" in path.name:
        return _from_events([path])
    if is_database(path):
        points = read_database(path)
        return _from_points(points, _metric_unit(points), "MLflow")
    text = path.read_text(encoding="utf-8", errors="replace")
    if is_metric_line(text.partition("\n")[0]):
        return _from_points({path.name: read_metric_text(text)}, "step", "MLflow")
    return _read_text(text)


def _read_folder(folder: Path) -> History:
    """Return the history of a folder of TensorBoard events or of MLflow metrics."""
    if events := sorted(folder.rglob("*tfevents*")):
        return _from_events(events)
    root = folder / "metrics" if (folder / "metrics").is_dir() else folder
    points: Points = {}
    for path in sorted(path for path in root.rglob("*") if path.is_file() and path.stat().st_size < _MAX_BYTES):
        with open(path, encoding="utf-8", errors="replace") as file:
            if is_metric_line(file.readline()):
                points[path.relative_to(root).as_posix()] = read_metric_text(path.read_text(encoding="utf-8"))
    if not points:
        raise SetupError(f"history is the folder {str(folder)!r} without event or metric files; expected {_EXPECTED}.")
    return _from_points(points, _metric_unit(points), "MLflow")


def _metric_unit(points: Points) -> Unit:
    """Return epochs if all metrics count 0, 1, 2 ... or 1, 2, 3 ..., else steps; steps if nbdebug wrote them."""
    if any(name.startswith(EXPORTED) for name in points):
        return "step"
    counts = all([place for place, _ in pairs] in _countings(len(pairs)) for pairs in points.values())
    return "epoch" if counts else "step"


def _countings(length: int) -> tuple[list[float], list[float]]:
    return [float(i) for i in range(length)], [float(i + 1) for i in range(length)]


def _from_events(paths: Sequence[Path]) -> History:
    """Return the scalars of event files; those of a subfolder, such as ``validation``, have its name before theirs."""
    folders = {path.parent for path in paths}
    points: Points = {}
    for path in paths:
        prefix = f"{path.parent.name}/" if len(folders) > 1 else ""
        for tag, step, value in read_scalars(path):
            points.setdefault(f"{prefix}{tag}", []).append((float(step), value))
    return _from_points(points, _metric_unit(points) if points else "step", "TensorBoard")
