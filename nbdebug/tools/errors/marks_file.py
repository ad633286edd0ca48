"""Tags and notes in a CSV file: a row a sample, to be read and edited by anyone with anything.

CSV and not JSON lines, since spreadsheets and ``pandas.read_csv`` open it, and a label is then fixed where it is seen.
"""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from nbdebug.exceptions import SetupError

BETWEEN = "; "  # tags of one sample
OWN = ("key", "tags", "note", "fingerprint")
PATIENCE = 5.0  # seconds to wait for another process that writes
STALE = 30.0  # seconds after which a lock is left over from a process that died


@dataclass(frozen=True)
class Mark:
    """What is written of one sample; ``others`` are the columns of what was said of it, and those of the user's own."""

    tags: frozenset[str] = frozenset()
    note: str = ""
    fingerprint: str = ""
    others: dict[str, str] = field(default_factory=dict)


Written = dict[int, Mark]


def read(path: Path) -> Written:
    """All marks of a file by key; none where there is no file.

    Raises SetupError, with the line, for what is not such a file.
    """
    try:
        text = path.read_text("utf-8-sig") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, f"cannot be read ({error})", "a CSV file in UTF-8") from error
    if not text.strip():
        return {}
    head = text.lstrip().partition("\n")[0]
    rows = csv.DictReader(StringIO(text, newline=""), delimiter=max(",;\t", key=head.count), restkey="")
    if "key" not in (rows.fieldnames or ()) or "tags" not in (rows.fieldnames or ()):
        raise unreadable(path, f"begins with {head[:80]!r}", "a CSV file with the columns key and tags")
    found: Written = {}
    try:
        for row in rows:
            if "" in row:
                raise unreadable(path, f"has more cells in line {rows.line_num} than in its head", "as many")
            if any(row.values()):
                key = key_of(row, path, rows.line_num)
                found[key] = both(found.get(key), mark_of(row))
    except csv.Error as error:
        raise unreadable(path, f"has a line {rows.line_num} that is no CSV ({error})", "CSV") from error
    return found


def both(one: Mark | None, other: Mark) -> Mark:
    """Two rows of the same sample as one."""
    if one is None:
        return other
    notes = [note for note in dict.fromkeys((one.note, other.note)) if note]
    others = {**one.others, **other.others}
    return Mark(one.tags | other.tags, "\n".join(notes), other.fingerprint or one.fingerprint, others)


def key_of(row: dict[str, str], path: Path, line: int) -> int:
    """The key of a row."""
    try:
        key = float(row["key"])  # a spreadsheet may have made 3 into 3.0
        if not key.is_integer():
            raise ValueError
        return int(key)
    except (TypeError, ValueError) as error:
        found = f"has the key {row['key']!r} in line {line}"
        raise unreadable(path, found, "the place of a sample, a whole number") from error


def mark_of(row: dict[str, str]) -> Mark:
    """The mark of a row."""
    others = {name: value or "" for name, value in row.items() if name and name not in OWN}
    tags = frozenset(one for part in (row["tags"] or "").split(BETWEEN.strip()) if (one := part.strip()))
    return Mark(tags, row.get("note") or "", row.get("fingerprint") or "", others)


def unreadable(path: Path, found: str, wanted: str) -> SetupError:
    """What is said of a file that is left as it is."""
    return SetupError(f"{path} {found}; expected {wanted}. Repair it, or give tags= another path; it was not changed.")


def write(path: Path, marks: Written) -> None:
    """Puts a new file in the place of the old one: whoever reads meanwhile sees the one or the other, whole."""
    names = list(dict.fromkeys(name for mark in marks.values() for name in mark.others))
    out = StringIO(newline="")
    rows = csv.DictWriter(out, [*OWN[:3], *names, OWN[3]], lineterminator="\n")
    rows.writeheader()
    for key in sorted(marks):
        one = marks[key]
        own = {"key": key, "tags": BETWEEN.join(sorted(one.tags)), "note": one.note, "fingerprint": one.fingerprint}
        rows.writerow({**one.others, **own})
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with new.open("w", encoding="utf-8", newline="") as file:
            file.write(out.getvalue())
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def merged(before: Written, ours: Written, theirs: Written) -> Written:
    """What both changed since ``before``: tags put on or taken off by either, our note where we wrote one."""
    out = {}
    for key in sorted({*ours, *theirs}):
        old, own, other = (found.get(key, Mark()) for found in (before, ours, theirs))
        tags = (other.tags | (own.tags - old.tags)) - (old.tags - own.tags)
        note = own.note if own.note != old.note else other.note
        mark = Mark(tags, note, own.fingerprint or other.fingerprint, {**own.others, **other.others})
        if tags or note or (key in theirs and not (other.tags or other.note)):  # a row that somebody left to fill in
            out[key] = mark
    return out


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """A block in which no other process writes this file; raises SetupError where one does not end."""
    lock = path.with_name(f".{path.name}.lock")
    until = time.monotonic() + PATIENCE
    while not taken(lock):
        if time.monotonic() > until:
            raise SetupError(f"{path} is being written by another process; expected to be alone. Delete {lock}.")
        time.sleep(0.01)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def taken(lock: Path) -> bool:
    """Whether the lock is ours now; one that a dead process left over is taken away first."""
    try:
        if time.time() - lock.stat().st_mtime > STALE:
            lock.unlink(missing_ok=True)
    except OSError:
        pass
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    except OSError as error:
        raise SetupError(f"{lock.parent} is not writable ({error}); expected a folder. Give tags= a path.") from error
    return True
