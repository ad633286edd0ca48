"""The language of a text by its commonest words, and languages that differ between the splits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from nbdebug.formatting import join_names
from nbdebug.statistics.distribution_distances import DistributionDistance, category_distance
from nbdebug.statistics.power import detectable_cramers_v

_COMMON_WORDS = {
    "Dutch": "de het een van en niet dat is op te zijn voor met ik je maar ook naar",
    "English": "the of and to is that it was for with not this are you but have they",
    "Finnish": "ja on ei se että oli hän mutta kun olen niin mitä tämä joka ovat myös",
    "French": "le la les et des une est que dans pour pas qui sur avec je il vous du",
    "German": "der die und das nicht ist ich zu mit auf ein eine den von sie für dem es",
    "Italian": "il che di non una per con sono della è gli anche le si ma ho nel più",
    "Polish": "nie na się że do to jest jak po ale za tak od już był dla przez",
    "Portuguese": "os que não uma com para do da em por mais como são um foi mas ao eu",
    "Spanish": "el los las que una por con para del es como pero más se lo su muy y",
    "Swedish": "och att det som en på är av för inte den med till jag har om var ett",
}
_WORDS = {language: frozenset(words.split()) for language, words in _COMMON_WORDS.items()}
_MIN_COMMON_WORDS, _MAX_WORDS = 2, 60
_LEVEL, _MIN_EFFECT = 0.01, 0.1


def recognize_language(text: str) -> str:
    """Return the language of which a text has most of the commonest words; "" for fewer than two, and for a tie.

    Of its first sixty words, each counts once (Grefenstette 1995, Comparing Two Language Identification Schemes).
    """
    words = set(re.findall(r"[^\W\d_]+", text.lower())[:_MAX_WORDS])
    counts = sorted(((len(words & common), language) for language, common in _WORDS.items()), reverse=True)
    (most, language), (second, _) = counts[:2]
    return language if most >= _MIN_COMMON_WORDS and most > second else ""


@dataclass(frozen=True)
class LanguageComparison:
    """The languages of the texts of one leaf in training and validation, of ``rows`` recognized texts each."""

    leaf: str
    distance: DistributionDistance
    rows: tuple[int, int]
    shares: tuple[str, str]
    languages: int

    @property
    def is_shifted(self) -> bool:
        """True if the languages differ between the splits."""
        return self.distance.p < _LEVEL and self.distance.effect >= _MIN_EFFECT

    @property
    def detectable_effect(self) -> float:
        """The smallest Cramér's V that would have been shown with 90% probability."""
        return max(detectable_cramers_v(*self.rows, max(self.languages, 2), _LEVEL), _MIN_EFFECT)

    @property
    def text(self) -> str:
        """The shares of the languages in words."""
        return f"the languages of {self.leaf} are {self.shares[0]} in training and {self.shares[1]} in validation"


def compare_languages(leaves: Iterable[tuple[str, dict[str, int], dict[str, int]]]) -> Iterator[LanguageComparison]:
    """Yield the comparison of each leaf: its title, and the texts of each language in training and validation."""
    for title, train, val in leaves:
        if not train or not val:
            continue
        names = sorted(train.keys() | val.keys())
        counts = [np.array([split.get(name, 0) for name in names], np.float64) for split in (train, val)]
        rows = sum(train.values()), sum(val.values())
        yield LanguageComparison(
            title, category_distance(*counts), rows, (_share_text(train), _share_text(val)), len(names)
        )


def _share_text(counts: dict[str, int]) -> str:
    total = sum(counts.values())
    return join_names([f"{name} {count / total:.0%}" for name, count in list(counts.items())[:3]], 3)
