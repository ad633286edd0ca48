"""The record of a run, the labels of its signals, and its file format."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nbdebug.atomic_files import write_atomically
from nbdebug.exceptions import SetupError
from nbdebug.records.table import FloatArray, HistogramTable, StepTable
from nbdebug.tensors.histogram_bins import BIN_COUNT, TENSOR_STATISTICS

if TYPE_CHECKING:
    from pathlib import Path

    import pandas

_MAX_LAYER_ROWS, _MAX_HISTOGRAMS, _MAX_EVENTS_PER_KIND = 512, 128, 1000
StepArray = NDArray[np.int64]
_FILE_SIGNATURE = b"nbdebug record 1\n"
_CHUNK_HEADER = struct.Struct("<III")
_METADATA_START = b'{"head": '  # of the header of a chunk with metadata
_TABLE_NAMES = ("run", "evaluations", "layers")
SIGNAL_LABELS = {
    "eval_loss": "validation loss",
    "sample_train_loss": "loss of fixed training samples",
    "sample_val_loss": "loss of fixed validation samples",
    "sample_train_score": "score of fixed training samples",
    "sample_val_score": "score of fixed validation samples",
    "sample_changed": "share of predictions that changed",
    "generated_loss": "loss of fixed outputs that another network judges",
    "real_loss": "loss of real samples in their place",
    "other_loss": "loss of another model that the loop trains",
    "lr": "learning rate",
    "gradient_norm": "gradient norm",
    "raw_gradient_norm": "gradient norm before clipping",
    "step_seconds": "seconds per step",
    "wait_seconds": "seconds waiting for data",
}


@dataclass(frozen=True)
class RecordedModule:
    """A submodule of the model: its path, class name and own parameters, its weight first.

    ``seen`` tells whether its output was observed, ``trains`` whether any of its parameters is trainable.
    """

    name: str
    kind: str = ""
    parameters: tuple[str, ...] = ()
    seen: bool = False
    trains: bool = True


@dataclass
class RunEvent:
    """An event at a step, such as a new epoch, a skipped step or a finding."""

    step: int
    kind: str
    text: str = ""


@dataclass
class Record:
    """All recorded data of a run.

    ``run`` has a row per step: loss, lr, momentum, gradient_norm, clip_scale, step_seconds, wait_seconds, skipped, and
    other_loss, the latest loss of another model that the loop trains.
    ``evaluations`` has occasional measurements: eval_loss of the user's own validation; sample_train_loss,
    sample_val_loss, sample_train_score, sample_val_score, sample_changed of fixed samples; generated_loss,
    real_loss and judged_sigma where another network judges the outputs; and logged values.
    ``layers`` has columns ``family.statistic|tensor``. A row of ``shapes`` has a histogram for each of
    ``histogram_names`` so far, ``family|tensor``, all zero if there was none.
    """

    about: dict[str, Any] = field(default_factory=dict)
    modules: list[RecordedModule] = field(default_factory=list)
    run: StepTable = field(default_factory=StepTable)
    evaluations: StepTable = field(default_factory=StepTable)
    layers: StepTable = field(default_factory=lambda: StepTable(max_rows=_MAX_LAYER_ROWS))
    shapes: HistogramTable = field(default_factory=lambda: HistogramTable(BIN_COUNT, _MAX_HISTOGRAMS))
    histogram_names: list[str] = field(default_factory=list)
    events: list[RunEvent] = field(default_factory=list)

    def signals(self) -> list[str]:
        """Return the names of all signals that have a value."""
        run_signals = [*self.run.columns, *self.evaluations.columns]
        return [*run_signals, *dict.fromkeys(name.partition("|")[0] for name in self.layers.columns)]

    def tensors(self, signal: str) -> list[str]:
        """Return the tensors for which a signal was measured; empty for a signal of the whole run."""
        return [
            tensor
            for name in self.layers.columns
            for measured_signal, _, tensor in [name.partition("|")]
            if measured_signal == signal
        ]

    def series(self, signal: str, tensor: str = "") -> tuple[StepArray, FloatArray]:
        """Return steps and values of a signal; both empty if it was never measured.

        The signal is one of the whole run (``"loss"``), or of a tensor (``"gradient.norm"``, ``"conv1.weight"``).
        """
        if tensor:
            return self.layers.column(f"{signal}|{tensor}")
        return (self.run if signal in self.run.columns else self.evaluations).column(signal)

    def histograms(self, family: str, tensor: str) -> tuple[StepArray, NDArray[np.uint8]]:
        """Return steps, and packed histograms of shape (rows, bins); empty if there are none."""
        name = f"{family}|{tensor}"
        if name not in self.histogram_names:
            return np.zeros(0, np.int64), np.zeros((0, BIN_COUNT), np.uint8)
        position, shapes = self.histogram_names.index(name), self.shapes
        rows_by_step = {
            step: packed_row
            for index, step in enumerate(shapes.steps)
            if position < len(packed_row := shapes.row(index))
        }
        rows = [packed_row[position] for packed_row in rows_by_step.values()]
        return np.array(list(rows_by_step), np.int64), np.array(rows, np.uint8).reshape(-1, BIN_COUNT)

    def add_event(self, step: int, kind: str, description: str) -> None:
        """Store an event, up to a thousand of each kind."""
        if len(self.events_of_kind(kind)) < _MAX_EVENTS_PER_KIND:
            self.events.append(RunEvent(step, kind, description))

    def events_of_kind(self, kind: str) -> list[RunEvent]:
        """Return the events of one kind."""
        return [event for event in self.events if event.kind == kind]

    @property
    def steps(self) -> int:
        """The last recorded step."""
        return int(self.run.steps[-1]) if self.run.rows else 0

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per value: step, signal, place, value."""
        import pandas as pd

        parts = [self._long_format(table) for table in (self.run, self.evaluations, self.layers)]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    def _long_format(self, table: StepTable) -> pandas.DataFrame:
        import pandas as pd

        rows, columns = np.nonzero(~np.isnan(table.values))
        names = np.array([name.partition("|")[::2] for name in table.columns], object).reshape(-1, 2)
        cells = {"signal": names[columns, 0], "place": names[columns, 1], "value": table.values[rows, columns]}
        return pd.DataFrame({"step": table.steps[rows], **cells})

    def save(self, path: str | Path) -> None:
        """Write the record to a file, which ``nbdebug.load`` reads."""

        _write_record(self, path)

    def metadata(self) -> dict[str, Any]:
        """Return the metadata, ready for JSON."""
        return {
            "about": self.about,
            "modules": [asdict(item) for item in self.modules],
            "events": [asdict(item) for item in self.events],
            "drawn": self.histogram_names,
        }


def layer_columns(histogram_names: Iterable[str]) -> list[str]:
    """Return the columns of ``layers`` for histogram names ``family|tensor``: all statistics of each, in order."""
    pairs = [histogram_name.partition("|")[::2] for histogram_name in histogram_names]
    return [f"{family}.{statistic}|{tensor}" for family, tensor in pairs for statistic in TENSOR_STATISTICS]


@dataclass
class RecordWriter:
    """Keeps a file up to date with a growing record.

    Appends what is new. Only after a table was thinned, the file is rewritten next to the old one, which it then
    replaces. A reader leaves out what a killed writer has appended in part. Raises SetupError if writing fails.
    """

    path: Path
    written_rows: dict[str, tuple[int, int]] = field(default_factory=dict)

    def update(self, record: Record) -> None:
        """Write what is new since the last update; after a failure, the next update writes everything."""
        strides = {name: getattr(record, name).stride for name in (*_TABLE_NAMES, "shapes")}
        is_new = not self.written_rows or any(self.written_rows[name][0] != n for name, n in strides.items())
        try:
            with _convert_os_errors(self.path):
                if is_new:
                    self._rewrite(record)
                else:
                    with open(self.path, "ab") as file:
                        self.append_new(file, record)
        except SetupError:
            self.written_rows = {}
            raise

    def _rewrite(self, record: Record) -> None:
        """Replace the file in one step."""
        self.written_rows, content = {}, BytesIO()
        content.write(_FILE_SIGNATURE)
        self.append_new(content, record)
        write_atomically(self.path, content.getvalue())

    def append_new(self, file: BinaryIO, record: Record) -> None:
        """Write the new rows, then the metadata."""
        for name in _TABLE_NAMES:
            table: StepTable = getattr(record, name)
            start = self.written_rows.get(name, (0, 0))[1]
            if table.rows > start or not start:
                head = {"table": name, "columns": list(table.columns), "stride": table.stride}
                body = table.steps[start:].tobytes() + table.values[start:].tobytes()
                _write_chunk(file, {**head, "rows": table.rows - start}, body)
            self.written_rows[name] = table.stride, table.rows
        start = self.written_rows.get("shapes", (0, 0))[1]
        for step, row in zip(record.shapes.steps[start:], record.shapes.rows[start:], strict=True):
            _write_chunk(file, {"shape": step, "stride": record.shapes.stride, "width": record.shapes.width}, row)
        self.written_rows["shapes"] = record.shapes.stride, len(record.shapes.rows)
        _write_chunk(file, {"head": record.metadata()}, b"")


@contextmanager
def _convert_os_errors(path: Path) -> Iterator[None]:
    """Convert an OSError in the block to a SetupError."""
    try:
        yield
    except OSError as error:
        raise SetupError(f"record is {str(path)!r}; expected a file that can be written ({error}).") from None


def _write_chunk(file: BinaryIO, header: dict[str, Any], body: bytes) -> None:
    """Write a chunk: its lengths and checksum, a line of JSON, then bytes."""
    encoded_header = json.dumps(header).encode()
    file.write(
        _CHUNK_HEADER.pack(len(encoded_header), len(body), zlib.crc32(encoded_header + body)) + encoded_header + body
    )


def _write_record(record: Record, path: str | Path) -> None:
    """Write a whole record to a file."""
    RecordWriter(Path(path)).update(record)


class RecordReader:
    """Keeps a record up to date with its growing file; a file that replaces it makes another ``record``."""

    def __init__(self, path: Path) -> None:
        self.path, self.record = path, Record()
        self._file: tuple[int, int] | None = None
        self._position = 0

    def update(self) -> bool:
        """Read the complete chunks that are new, and return whether the record is another one since the last call.

        Raises SetupError if the file is not a record. Nothing in the file is executed.
        """
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                identity = status.st_dev, status.st_ino
                is_other = identity != self._file or status.st_size < self._position
                if is_other:
                    if file.read(len(_FILE_SIGNATURE)) != _FILE_SIGNATURE:
                        raise _not_a_record(self.path, "an nbdebug record")
                    self.record, self._file, self._position = Record(), identity, len(_FILE_SIGNATURE)
                chunks = _read_chunks(file, self._position, status.st_size)
                for header, body, self._position in chunks:
                    _add_chunk(self.record, header, body)
        except OSError as error:
            raise _not_a_record(self.path, f"a record ({error})") from None
        return is_other


def _not_a_record(path: Path, expected: str) -> SetupError:
    return SetupError(f"path is {str(path)!r}; expected {expected}. Save one: run.save(path).")


def load(path: str | Path) -> Record:
    """Load a record from a file up to the last complete chunk; the file may still grow.

    Raises SetupError if it is not a record. Nothing in the file is executed.
    """
    reader = RecordReader(Path(path))
    reader.update()
    return reader.record


def _read_chunks(file: BinaryIO, start: int, size: int) -> Iterator[tuple[dict[str, Any], bytes, int]]:
    """Yield the header, the body and the end of each complete chunk; of successive metadata only the last.

    Metadata are written again with each update, so they are most of a long record; only their lengths are read.
    """
    position, metadata = start, -1
    while True:
        file.seek(position)
        lengths = file.read(_CHUNK_HEADER.size + len(_METADATA_START))
        if len(lengths) < _CHUNK_HEADER.size:
            break
        header_size, body_size, _ = _CHUNK_HEADER.unpack_from(lengths)
        end = position + _CHUNK_HEADER.size + header_size + body_size
        if end > size:
            break
        if lengths.endswith(_METADATA_START):
            metadata = position
        elif (chunk := _read_chunk(file, position)) is not None:
            yield *chunk, end
        else:
            break
        position = end
    if metadata >= 0 and (chunk := _read_chunk(file, metadata)) is not None:
        yield *chunk, position


def _read_chunk(file: BinaryIO, position: int) -> tuple[dict[str, Any], bytes] | None:
    """Return the header and the body of a complete chunk; None if its checksum differs."""
    file.seek(position)
    header_size, body_size, checksum = _CHUNK_HEADER.unpack(file.read(_CHUNK_HEADER.size))
    data = file.read(header_size + body_size)
    if zlib.crc32(data) != checksum:
        return None
    return json.loads(data[:header_size]), data[header_size:]


def _add_chunk(record: Record, header: dict[str, Any], body: bytes) -> None:
    """Add one chunk to a record."""
    if "head" in header:
        metadata = header["head"]
        record.about, record.histogram_names = metadata["about"], metadata["drawn"]
        record.modules = [
            RecordedModule(**{**fields, "parameters": tuple(fields["parameters"])}) for fields in metadata["modules"]
        ]
        record.events = [RunEvent(**fields) for fields in metadata["events"]]
    elif "shape" in header:
        shapes: HistogramTable = record.shapes
        shapes.stride, shapes.width = header["stride"], header["width"]
        shapes.steps.append(header["shape"])
        shapes.rows.append(body)
    else:
        table: StepTable = getattr(record, header["table"])
        table.widen(header["columns"])
        steps = np.frombuffer(body, np.int64, header["rows"])
        values = np.frombuffer(body, np.float32, offset=steps.nbytes).reshape(header["rows"], len(header["columns"]))
        table.append_unconditionally(steps.tolist(), values)
        table.stride = header["stride"]


def signal_label(signal: str) -> str:
    """Return the label of a signal; logged signals keep their names."""
    return SIGNAL_LABELS.get(signal, signal)
