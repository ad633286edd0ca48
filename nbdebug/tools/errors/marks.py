"""What the user writes on samples: tags and notes; in memory, and in a file where one is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nbdebug.tools.errors.marks_file import Mark, Written, alone, merged, read, write

if TYPE_CHECKING:
    from nbdebug.predictions.table import Table
    from nbdebug.samples import Samples

TAGS = ("wrong label", "ambiguous", "fix later")
MOST_CHECKED = 200  # tagged samples whose fingerprints are compared when a file is opened
MOST_PRINTED = 500  # samples tagged at once of which a fingerprint is taken: each must be fetched

Said = Callable[[int], Mapping[str, str]]
Prints = Callable[[list[int]], Mapping[int, str]]


class Marks:
    """Tags and notes by the key of a sample: its place in the data set, else its row.

    With ``path``, what is there already is read, and each change is saved at once. ``said(key)`` is what a row of the
    file tells of a sample, ``fingerprints(keys)`` what tells whether it has changed. Raises SetupError for a file that
    cannot be read, which stays as it is.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        said: Said = lambda _: {},
        fingerprints: Prints = lambda _: {},
    ) -> None:
        self.tags: dict[int, set[str]] = {}
        self.notes: dict[int, str] = {}
        self.path: Path | None = None
        self.said, self.fingerprints = said, fingerprints
        self.saved: Written = {}
        if path is not None:
            self.save(path)

    def tag(self, keys: Iterable[int], tag: str, on: bool = True) -> None:
        """Puts a tag on samples, or takes it off."""
        name = tag.replace(";", ",").strip()
        for key in keys:
            found = self.tags.setdefault(int(key), set())
            found.add(name) if on and name else found.discard(name)
        self.save()

    def note(self, keys: Iterable[int], text: str) -> None:
        """Writes a note on samples; an empty one takes it off."""
        for key in keys:
            if text:
                self.notes[int(key)] = text
            else:
                self.notes.pop(int(key), None)
        self.save()

    def tagged(self, tag: str | None = None) -> list[int]:
        """The keys that have a tag, or any, in order."""
        return sorted(key for key, tags in self.tags.items() if (tag in tags if tag else tags))

    def save(self, path: str | Path | None = None) -> None:
        """Saves to the file, and to another one from now on where a path is given; nothing without either.

        What others wrote into the file meanwhile is kept, and known here from now on. Raises SetupError for a file that
        cannot be read or written; it stays as it is then, and so does what is marked here.
        """
        if path is not None and Path(path) != self.path:
            read(Path(path))  # refuses before anything is given up
            self.path, self.saved = Path(path), {}
        if self.path is None:
            return
        with alone(self.path):
            theirs = read(self.path)
            found = merged(self.saved, self.written(), theirs)
            if found != theirs:
                write(self.path, found)
        self.saved = found
        self.tags = {key: set(mark.tags) for key, mark in found.items() if mark.tags}
        self.notes = {key: mark.note for key, mark in found.items() if mark.note}

    def written(self) -> Written:
        """What is marked here, as rows of a file; what is in the file already is described there."""
        keys = sorted({*self.notes, *(key for key, tags in self.tags.items() if tags)})
        prints = self.fingerprints([key for key in keys if key not in self.saved][:MOST_PRINTED])
        return {
            key: Mark(
                frozenset(self.tags.get(key, ())),
                self.notes.get(key, ""),
                self.saved[key].fingerprint if key in self.saved else prints.get(key, ""),
                self.saved[key].others if key in self.saved else {**self.said(key)},
            )
            for key in keys
        }

    def changed(self) -> list[int]:
        """The marked samples that are not what they were when they were marked, out of at most 200."""
        known = {key: mark.fingerprint for key, mark in self.saved.items() if mark.fingerprint}
        keys = sorted(known)
        at = np.unique(np.linspace(0, max(len(keys) - 1, 0), min(len(keys), MOST_CHECKED)).astype(int)).tolist()
        now = self.fingerprints([keys[one] for one in at])
        return [key for key, found in now.items() if found != known[key]]


def marks_of(path: str | Path | None, table: Table, samples: Samples | None) -> Marks:
    """The marks of a table, with what it says of its rows and the fingerprints of its samples."""
    rows = {} if table.index is None else {int(key): row for row, key in enumerate(table.index)}

    def said(key: int) -> Mapping[str, str]:
        row = key if table.index is None else rows.get(key, -1)
        return table.said(row) if 0 <= row < len(table) else {}

    return Marks(path, said, samples.fingerprints if samples is not None else lambda _: {})


def unlike(marks: Marks) -> tuple[str, ...]:
    """A note where marked samples have changed under their marks."""
    found = marks.changed()
    if not found:
        return ()
    some = ", ".join(map(str, found[:5])) + (" …" if len(found) > 5 else "")
    return (f"{len(found)} tagged samples are not what they were when {marks.path} was written: {some}",)
