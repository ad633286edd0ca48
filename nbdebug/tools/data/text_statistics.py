"""Damaged characters, scripts and languages of texts."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass, field

from nbdebug.tools.data.languages import recognize_language

_MAX_LETTERS, _MAX_EXAMPLE = 200, 40
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_SINGLE_BYTE_ENCODINGS = ("latin-1", "cp1252")


@dataclass(frozen=True)
class TextStatistics:
    """The texts of one leaf.

    ``damaged`` texts have characters that were lost or decoded by a wrong encoding, such as ``example``. ``scripts``
    counts the texts by the script of most of their letters, and ``languages`` by language where it is recognized, the
    most common first.
    """

    damaged: int = 0
    example: str = ""
    scripts: tuple[tuple[str, int], ...] = ()
    languages: tuple[tuple[str, int], ...] = ()


@dataclass
class TextCounter:
    """Counts damaged texts, scripts and languages."""

    damaged: int = 0
    example: str = ""
    scripts: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)

    def add(self, text: str) -> None:
        """Count one text."""
        if language := recognize_language(text):
            self.languages[language] += 1
        if text.isascii():
            self.scripts["Latin"] += any(character.isalpha() for character in text[:_MAX_LETTERS])
            return
        if is_damaged(text):
            self.damaged += 1
            self.example = self.example or text[:_MAX_EXAMPLE]
        letters = Counter(_script(character) for character in text[:_MAX_LETTERS] if character.isalpha())
        if letters:
            self.scripts[letters.most_common(1)[0][0]] += 1

    def statistics(self) -> TextStatistics:
        """Return the counts so far."""
        scripts = tuple((name, count) for name, count in self.scripts.most_common() if count)
        return TextStatistics(self.damaged, self.example, scripts, tuple(self.languages.most_common()))


def is_damaged(text: str) -> bool:
    """Return whether characters are replaced, or UTF-8 was decoded as Latin-1 or Windows-1252.

    Text in another encoding is hardly ever valid UTF-8 by chance (Dürst 1997, The Properties and Promises of UTF-8).
    """
    if text.isascii():
        return False
    return _REPLACEMENT in text or any(_is_utf8_in(text, encoding) for encoding in _SINGLE_BYTE_ENCODINGS)


def _is_utf8_in(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding).decode("utf-8")
    except UnicodeError:
        return False
    return True


def _script(character: str) -> str:
    """Return the script of a letter by its Unicode name; the ideographs of Chinese, Japanese and Korean are one."""
    return unicodedata.name(character, "unknown").partition(" ")[0].capitalize()
