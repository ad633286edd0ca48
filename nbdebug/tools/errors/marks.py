"""What the user writes on samples: tags and notes."""

from __future__ import annotations

from collections.abc import Iterable

TAGS = ("wrong label", "ambiguous", "fix later")


class Marks:
    """Tags and notes by the key of a sample: its place in the data set, else its row."""

    def __init__(self) -> None:
        self.tags: dict[int, set[str]] = {}
        self.notes: dict[int, str] = {}

    def tag(self, keys: Iterable[int], tag: str, on: bool = True) -> None:
        """Puts a tag on samples, or takes it off."""
        for key in keys:
            found = self.tags.setdefault(int(key), set())
            found.add(tag) if on else found.discard(tag)

    def note(self, keys: Iterable[int], text: str) -> None:
        """Writes a note on samples; an empty one takes it off."""
        for key in keys:
            if text:
                self.notes[int(key)] = text
            else:
                self.notes.pop(int(key), None)

    def tagged(self, tag: str | None = None) -> list[int]:
        """The keys that have a tag, or any, in order."""
        return sorted(key for key, tags in self.tags.items() if (tag in tags if tag else tags))
