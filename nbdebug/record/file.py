"""One file for a record: chunks that are appended while the run goes on, so that a crash loses the last one at most."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.record.record import Event, Layer, Record
from nbdebug.record.table import Shapes, Table

MAGIC = b"nbdebug record 1\n"
FRAME = struct.Struct("<III")
TABLES = ("run", "evaluations", "layers")


@dataclass
class Writer:
    """Keeps a file up to date with a record that grows.

    What is new is appended; only when a table was thinned is the file written anew beside the old one, and put in its
    place. Raises SetupError where nothing can be written.
    """

    path: Path
    written: dict[str, tuple[int, int]] = field(default_factory=dict)

    def update(self, record: Record) -> None:
        """Writes what has come since the last time."""
        strides = {name: getattr(record, name).stride for name in (*TABLES, "shapes")}
        if not self.written or any(self.written[name][0] != stride for name, stride in strides.items()):
            self.written = {}
            fresh = self.path.with_name(self.path.name + ".new")
            with writing(self.path):
                with open(fresh, "wb") as file:
                    file.write(MAGIC)
                    self.append(file, record)
                os.replace(fresh, self.path)
        else:
            with writing(self.path), open(self.path, "ab") as file:
                self.append(file, record)

    def append(self, file: BinaryIO, record: Record) -> None:
        """Writes the rows that are new, then the parts that are no numbers."""
        for name in TABLES:
            table: Table = getattr(record, name)
            start = self.written.get(name, (0, 0))[1]
            if table.rows > start or not start:
                head = {"table": name, "columns": list(table.columns), "stride": table.stride}
                body = table.steps[start:].tobytes() + table.values[start:].tobytes()
                put(file, {**head, "rows": table.rows - start}, body)
            self.written[name] = table.stride, table.rows
        start = self.written.get("shapes", (0, 0))[1]
        for step, row in zip(record.shapes.steps[start:], record.shapes.rows[start:], strict=True):
            put(file, {"shape": step, "stride": record.shapes.stride, "width": record.shapes.width}, row)
        self.written["shapes"] = record.shapes.stride, len(record.shapes.rows)
        put(file, {"head": record.head()}, b"")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A block that writes a file; what stands in its way is raised as SetupError."""
    try:
        yield
    except OSError as error:
        raise SetupError(f"record is {str(path)!r}; expected a file that can be written ({error}).") from None


def put(file: BinaryIO, head: dict[str, Any], body: bytes) -> None:
    """One chunk: the lengths and the checksum, then a line of JSON, then bytes."""
    text = json.dumps(head).encode()
    file.write(FRAME.pack(len(text), len(body), zlib.crc32(text + body)) + text + body)


def write(record: Record, path: str | Path) -> None:
    """A whole record in one file."""
    Writer(Path(path)).update(record)


def load(path: str | Path) -> Record:
    """The record in a file, as far as it is whole; it may still grow.

    Raises SetupError for what is no record. Nothing in the file is executed.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise SetupError(f"path is {str(path)!r}; expected a record ({error}). Save one: run.save(path).") from None
    if not data.startswith(MAGIC):
        raise SetupError(f"path is {str(path)!r}; expected a record of nbdebug. Save one: run.save(path).")
    record = Record()
    for head, body in chunks(data):
        take(record, head, body)
    return record


def chunks(data: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    """The chunks of a file up to the first one that is not whole."""
    at = len(MAGIC)
    while at + FRAME.size <= len(data):
        text, body, check = FRAME.unpack_from(data, at)
        start, middle, at = at + FRAME.size, at + FRAME.size + text, at + FRAME.size + text + body
        if at > len(data) or zlib.crc32(data[start:at]) != check:
            return
        yield json.loads(data[start:middle]), data[middle:at]


def take(record: Record, head: dict[str, Any], body: bytes) -> None:
    """Adds one chunk to a record."""
    if "head" in head:
        found = head["head"]
        record.about, record.drawn = found["about"], found["drawn"]
        record.modules = [Layer(**{**one, "parameters": tuple(one["parameters"])}) for one in found["modules"]]
        record.events = [Event(**one) for one in found["events"]]
    elif "shape" in head:
        shapes: Shapes = record.shapes
        shapes.stride, shapes.width = head["stride"], head["width"]
        shapes.steps.append(head["shape"])
        shapes.rows.append(body)
    else:
        table: Table = getattr(record, head["table"])
        table.widen(head["columns"])
        steps = np.frombuffer(body, np.int64, head["rows"])
        values = np.frombuffer(body, np.float32, offset=steps.nbytes).reshape(head["rows"], len(head["columns"]))
        table.put(steps.tolist(), values)
        table.stride = head["stride"]
