"""Scalars of TensorBoard event files: records of protocol buffers, read without TensorFlow and without checksums.

Formats: TFRecord (length, checksum, data, checksum), ``tensorflow/core/util/event.proto`` and ``summary.proto``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}
_Field = tuple[int, int, int, bytes]  # number, wire type, varint value, bytes
_FORMATS = {1: "<f", 2: "<d"}  # DT_FLOAT and DT_DOUBLE of types.proto


def read_scalars(path: Path) -> Iterator[tuple[str, int, float]]:
    """Yield tag, step and value of each scalar in a file; a truncated last record ends the file."""
    data, position = path.read_bytes(), 0
    while position + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, position)
        if position + 16 + length > len(data):
            return
        yield from _event_scalars(data[position + 12 : position + 12 + length])
        position += 16 + length


def _event_scalars(event: bytes) -> Iterator[tuple[str, int, float]]:
    """Yield the scalars of one event: field 2 is its step, field 5 its summary."""
    fields = list(_fields(event))
    step = next((value for number, wire, value, _ in fields if number == 2 and wire == _VARINT), 0)
    for number, wire, _, summary in fields:
        if number == 5 and wire == _BYTES:
            for value_number, _, _, message in _fields(summary):
                if value_number == 1 and (scalar := _scalar(message)) is not None:
                    yield scalar[0], step, scalar[1]


def _scalar(message: bytes) -> tuple[str, float] | None:
    """Return tag and value of a summary value: field 1 is the tag, 2 a float, 8 a tensor."""
    tag, value = "", None
    for number, wire, _, content in _fields(message):
        if number == 1:
            tag = content.decode("utf-8", "replace")
        elif number == 2 and wire == _FIXED32:
            value = struct.unpack("<f", content)[0]
        elif number == 8:
            value = _tensor_value(content)
    return (tag, float(value)) if value is not None else None


def _tensor_value(message: bytes) -> float | None:
    """Return the value of a tensor of one float: fields 4 (raw content), 5 (floats) or 6 (doubles)."""
    fields = list(_fields(message))
    form = _FORMATS.get(next((value for number, _, value, _ in fields if number == 1), 0), "")
    contents = [content for number, _, _, content in fields if number in (4, 5, 6)]
    if not form or not contents or len(contents[0]) != struct.calcsize(form):
        return None
    return float(struct.unpack(form, contents[0])[0])


def _fields(message: bytes) -> Iterator[_Field]:
    """Yield the fields of a protocol buffer message; an unknown wire type ends it."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        wire, value, size = key & 7, 0, _SIZES.get(key & 7, 0)
        if wire == _VARINT:
            value, position = _varint(message, position)
        elif wire == _BYTES:
            size, position = _varint(message, position)
        elif not size:
            return
        yield key >> 3, wire, value, message[position : position + size]
        position += size


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """Return a variable-length integer and the position after it."""
    value, shift = 0, 0
    while position < len(message):
        byte = message[position]
        value, shift, position = value | (byte & 0x7F) << shift, shift + 7, position + 1
        if not byte & 0x80:
            break
    return value, position
