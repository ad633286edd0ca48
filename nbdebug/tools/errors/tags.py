"""Tags and notes on samples, in memory and in an optional CSV file."""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdebug.atomic_files import write_atomically
from nbdebug.exceptions import SetupError
from nbdebug.sample_display.samples import evenly_spaced_indices

if TYPE_CHECKING:
    from nbdebug.predictions.table import PredictionTable
    from nbdebug.sample_display import SampleDisplay

_TAG_SEPARATOR = "; "  # between the tags of one sample
_FILE_COLUMNS = ("key", "tags", "note", "fingerprint")
_LOCK_TIMEOUT = 5.0  # seconds to wait for another writing process
_STALE_LOCK_AGE = 30.0  # seconds after which a lock belongs to a dead process
DEFAULT_TAGS = ("wrong label", "ambiguous", "fix later")
_MAX_CHECKED_FINGERPRINTS = 200  # fingerprints compared when a file is opened
_MAX_NEW_FINGERPRINTS = 500  # fingerprints per save, since each sample must be fetched
_DescribeSample = Callable[[int], Mapping[str, str]]
_ComputeFingerprints = Callable[[list[int]], Mapping[int, str]]


@dataclass(frozen=True)
class _SampleTags:
    """The tags and note of one sample; ``others`` are descriptive columns, and columns added by the user."""

    tags: frozenset[str] = frozenset()
    note: str = ""
    fingerprint: str = ""
    other_columns: dict[str, str] = field(default_factory=dict)


_TagTable = dict[int, _SampleTags]


def _read_tags(path: Path) -> _TagTable:
    """Return all rows of a file by key; empty if there is no file.

    Raises SetupError, with the line number, for an invalid file.
    """
    try:
        text = path.read_text("utf-8-sig") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise _file_error(path, f"cannot be read ({error})", "a CSV file in UTF-8") from error
    if not text.strip():
        return {}
    head = text.lstrip().partition("\n")[0]
    rows = csv.DictReader(StringIO(text, newline=""), delimiter=max(",;\t", key=head.count), restkey="")
    if "key" not in (rows.fieldnames or ()) or "tags" not in (rows.fieldnames or ()):
        raise _file_error(path, f"begins with {head[:80]!r}", "a CSV file with the columns key and tags")
    tag_table: _TagTable = {}
    try:
        for row in rows:
            if "" in row:
                raise _file_error(path, f"has more cells in line {rows.line_num} than in its header", "the same number")
            if any(row.values()):
                key = _parse_key(row, path, rows.line_num)
                tag_table[key] = _combine_rows(tag_table.get(key), _parse_row(row))
    except csv.Error as error:
        raise _file_error(path, f"is not valid CSV in line {rows.line_num} ({error})", "CSV") from error
    return tag_table


def _combine_rows(first: _SampleTags | None, second: _SampleTags) -> _SampleTags:
    """Combine two rows of the same sample."""
    if first is None:
        return second
    notes = [note for note in dict.fromkeys((first.note, second.note)) if note]
    other_columns = {**first.other_columns, **second.other_columns}
    return _SampleTags(
        first.tags | second.tags, "\n".join(notes), second.fingerprint or first.fingerprint, other_columns
    )


def _parse_key(row: dict[str, str], path: Path, line: int) -> int:
    try:
        key = float(row["key"])  # a spreadsheet may have turned 3 into 3.0
        if not key.is_integer():
            raise ValueError
        return int(key)
    except (TypeError, ValueError) as error:
        problem = f"has the key {row['key']!r} in line {line}"
        raise _file_error(path, problem, "an integer, the dataset index of a sample") from error


def _parse_row(row: dict[str, str]) -> _SampleTags:
    other_columns = {name: value or "" for name, value in row.items() if name and name not in _FILE_COLUMNS}
    tags = frozenset(tag for part in (row["tags"] or "").split(_TAG_SEPARATOR.strip()) if (tag := part.strip()))
    return _SampleTags(tags, row.get("note") or "", row.get("fingerprint") or "", other_columns)


def _file_error(path: Path, problem: str, expected: str) -> SetupError:
    """Return the error for a file that is left unchanged."""
    fix = "Repair it, or pass another path as tags=; the file was not changed."
    return SetupError(f"{path} {problem}; expected {expected}. {fix}")


def _write_tags(path: Path, tag_table: _TagTable) -> None:
    """Replace the file atomically, so that readers see either the old or the new version."""
    names = list(dict.fromkeys(name for row_tags in tag_table.values() for name in row_tags.other_columns))
    out = StringIO(newline="")
    rows = csv.DictWriter(out, [*_FILE_COLUMNS[:3], *names, _FILE_COLUMNS[3]], lineterminator="\n")
    rows.writeheader()
    for key in sorted(tag_table):
        sample_tags = tag_table[key]
        own_columns = {
            "key": key,
            "tags": _TAG_SEPARATOR.join(sorted(sample_tags.tags)),
            "note": sample_tags.note,
            "fingerprint": sample_tags.fingerprint,
        }
        rows.writerow({**sample_tags.other_columns, **own_columns})
    write_atomically(path, out.getvalue().encode())


def _merge_changes(before: _TagTable, ours: _TagTable, theirs: _TagTable) -> _TagTable:
    """Merge both sides' changes since ``before``: tags added or removed by either, our note if we changed it."""
    out = {}
    for key in sorted({*ours, *theirs}):
        old_row, our_row, their_row = (table.get(key, _SampleTags()) for table in (before, ours, theirs))
        tags = (their_row.tags | (our_row.tags - old_row.tags)) - (old_row.tags - our_row.tags)
        note = our_row.note if our_row.note != old_row.note else their_row.note
        merged_row = _SampleTags(
            tags,
            note,
            our_row.fingerprint or their_row.fingerprint,
            {**our_row.other_columns, **their_row.other_columns},
        )
        if tags or note or (key in theirs and not (their_row.tags or their_row.note)):  # an empty row to fill in
            out[key] = merged_row
    return out


@contextmanager
def _exclusive_lock(path: Path) -> Iterator[None]:
    """Lock the file against other processes; raise SetupError on timeout."""
    lock = path.with_name(f".{path.name}.lock")
    until = time.monotonic() + _LOCK_TIMEOUT
    while not _acquire_lock(lock):
        if time.monotonic() > until:
            raise SetupError(f"{path} is being written by another process; expected exclusive access. Delete {lock}.")
        time.sleep(0.01)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _acquire_lock(lock: Path) -> bool:
    """Acquire the lock, removing a stale one left by a dead process; return whether it succeeded."""
    try:
        if time.time() - lock.stat().st_mtime > _STALE_LOCK_AGE:
            lock.unlink(missing_ok=True)
    except OSError:
        pass
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    except OSError as error:
        raise SetupError(
            f"{lock.parent} is not writable ({error}); expected a folder. Pass another path as tags=."
        ) from error
    return True


def _no_columns(_: Any) -> dict[Any, str]:
    return {}


class Tags:
    """Tags and notes by sample key: the dataset index, or else the row.

    With ``path``, existing tags are read, and each change is saved at once. ``describe(key)`` describes a sample in the
    file, ``fingerprints(keys)`` detects whether samples have changed. Raises SetupError for an unreadable file, which
    is left unchanged.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        describe: _DescribeSample = _no_columns,
        fingerprints: _ComputeFingerprints = _no_columns,
    ) -> None:
        self.by_key: dict[int, set[str]] = {}
        self.notes: dict[int, str] = {}
        self.path: Path | None = None
        self.describe, self.fingerprints = describe, fingerprints
        self.saved_rows: _TagTable = {}
        if path is not None:
            self.save(path)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "describe": _no_columns, "fingerprints": _no_columns}

    def tag(self, keys: Iterable[int], tag: str, on: bool = True) -> None:
        """Add a tag to samples, or remove it."""
        name = tag.replace(";", ",").strip()
        for key in keys:
            sample_tags = self.by_key.setdefault(int(key), set())
            sample_tags.add(name) if on and name else sample_tags.discard(name)
        self.save()

    def note(self, keys: Iterable[int], text: str) -> None:
        """Set a note on samples; an empty text removes it."""
        for key in keys:
            if text:
                self.notes[int(key)] = text
            else:
                self.notes.pop(int(key), None)
        self.save()

    def tagged(self, tag: str | None = None) -> list[int]:
        """Return the sorted keys that have a tag, or any tag."""
        return sorted(key for key, sample_tags in self.by_key.items() if (tag in sample_tags if tag else sample_tags))

    def save(self, path: str | Path | None = None) -> None:
        """Save to the file, and to another one from now on if ``path`` is given; do nothing without a file.

        Changes that others made to the file are merged. Raises SetupError for a file that cannot be read or written;
        the file and the tags are then left unchanged.
        """
        if path is not None and Path(path) != self.path:
            _read_tags(Path(path))  # raises before the old file is given up
            self.path, self.saved_rows = Path(path), {}
        if self.path is None:
            return
        with _exclusive_lock(self.path):
            file_rows = _read_tags(self.path)
            merged_rows = _merge_changes(self.saved_rows, self.to_file_rows(), file_rows)
            if merged_rows != file_rows:
                _write_tags(self.path, merged_rows)
        self.saved_rows = merged_rows
        self.by_key = {key: set(row.tags) for key, row in merged_rows.items() if row.tags}
        self.notes = {key: row.note for key, row in merged_rows.items() if row.note}

    def to_file_rows(self) -> _TagTable:
        """Return the tags and notes as rows of the file; rows already in the file keep their description."""
        keys = sorted({*self.notes, *(key for key, sample_tags in self.by_key.items() if sample_tags)})
        new_fingerprints = self.fingerprints(
            [key for key in keys if key not in self.saved_rows][:_MAX_NEW_FINGERPRINTS]
        )
        return {
            key: _SampleTags(
                frozenset(self.by_key.get(key, ())),
                self.notes.get(key, ""),
                self.saved_rows[key].fingerprint if key in self.saved_rows else new_fingerprints.get(key, ""),
                self.saved_rows[key].other_columns if key in self.saved_rows else {**self.describe(key)},
            )
            for key in keys
        }

    def changed_samples(self) -> list[int]:
        """Return the tagged samples whose content has changed, checking at most 200."""
        saved_fingerprints = {key: row.fingerprint for key, row in self.saved_rows.items() if row.fingerprint}
        keys = sorted(saved_fingerprints)
        current_fingerprints = (
            self.fingerprints([keys[i] for i in evenly_spaced_indices(len(keys), _MAX_CHECKED_FINGERPRINTS)])
            if keys
            else {}
        )
        return [key for key, fingerprint in current_fingerprints.items() if fingerprint != saved_fingerprints[key]]


def create_tags(path: str | Path | None, table: PredictionTable, samples: SampleDisplay | None) -> Tags:
    """Return the tags of a table, with descriptions of its rows and fingerprints of its samples."""
    rows = {} if table.index is None else {int(key): row for row, key in enumerate(table.index)}

    def describe(key: int) -> Mapping[str, str]:
        row = key if table.index is None else rows.get(key, -1)
        return table.describe_row(row) if 0 <= row < len(table) else {}

    return Tags(path, describe, samples.fingerprints if samples is not None else lambda _: {})


def changed_samples_note(tags: Tags) -> tuple[str, ...]:
    """Return a note if tagged samples have changed since they were tagged."""
    changed = tags.changed_samples()
    if not changed:
        return ()
    some = ", ".join(map(str, changed[:5])) + (" …" if len(changed) > 5 else "")
    return (f"tagged samples that have changed since {tags.path} was written ({len(changed)}): {some}",)
