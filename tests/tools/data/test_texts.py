"""Tests of damaged texts, scripts and unknown tokens."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import TensorDataset

from nbdebug.tools.data.languages import recognize_language
from nbdebug.tools.data.text_statistics import is_damaged

from .setups import ListDataset, profile_of


@pytest.mark.parametrize(
    "text",
    ["über", "naïve café", "Привет", "日本語", "plain", "£5", "50 °C", "ÃO", "\N{LEFT DOUBLE QUOTATION MARK}quoted"],
)
def test_texts_of_many_languages_are_whole(text: str) -> None:
    assert not is_damaged(text)


@pytest.mark.parametrize("text", ["über", "naïve café", "Привет", "it\N{RIGHT SINGLE QUOTATION MARK}s"])
def test_texts_decoded_by_a_wrong_encoding_are_damaged(text: str) -> None:
    assert is_damaged(text.encode("utf-8").decode("latin-1"))
    assert is_damaged(text.encode("latin-1", "ignore").decode("utf-8", "replace") + "\N{REPLACEMENT CHARACTER}")


def test_damaged_texts_and_scripts_are_described() -> None:
    texts = ["straße", "дом", "house"] * 10 + ["Ã¼ber"]
    profile = profile_of(ListDataset([{"x": torch.rand(2), "text": text, "label": 0} for text in texts]))
    leaf = profile.splits[0].get_leaf("other", "text")
    assert leaf is not None
    assert leaf.texts is not None
    assert leaf.texts.damaged == 1
    assert leaf.texts.scripts == (("Latin", 21), ("Cyrillic", 10))
    assert "1 of 31 texts were decoded by a wrong encoding, such as 'Ã¼ber'" in profile.to_text()


SENTENCES = {
    "English": ["The film is better than it was in the book.", "You have not seen this one, but they are good"],
    "German": ["Der Film ist nicht so gut wie das Buch.", "Ich habe mit dem Hund auf den Zug gewartet"],
    "French": ["Je ne sais pas si le film est bon pour les enfants.", "Il est venu avec une amie dans la ville"],
    "Spanish": ["El libro es muy bueno, pero la película no.", "Los niños y las niñas van por el parque"],
    "Italian": ["Non sono sicuro che il film sia bello.", "La casa della nonna è grande e anche bella"],
    "Dutch": ["Ik heb het boek niet gelezen, maar de film is goed.", "Zij zijn met een vriend naar de stad"],
    "Swedish": ["Jag har inte sett filmen, men den är bra.", "Det var en dag som alla andra"],
    "Portuguese": ["O filme não foi bom, mas eu gostei.", "Os livros são para uma pessoa como você"],
    "Polish": ["Nie wiem, jak to jest po polsku.", "To jest dla mnie, ale nie na długo"],
    "Finnish": ["Se on hyvä elokuva, mutta en ole nähnyt sitä.", "Hän oli siellä, kun minä tulin ja niin"],
    "": ["Smith", "42 km", "lorem ipsum dolor", "Привет мир"],
}


@pytest.mark.parametrize("language", SENTENCES)
def test_language_is_recognized_by_its_commonest_words(language: str) -> None:
    assert [recognize_language(text) for text in SENTENCES[language]] == [language] * len(SENTENCES[language])


@pytest.mark.parametrize("is_shifted", [False, True])
def test_languages_that_differ_between_the_splits_are_a_fault(is_shifted: bool) -> None:
    mixed = [SENTENCES["English" if row % 4 else "German"][row % 2] for row in range(80)]
    splits = mixed, [SENTENCES["German"][row % 2] for row in range(40)] if is_shifted else mixed[:40]
    train, val = ([{"x": torch.rand(2), "text": text, "label": 0} for text in split] for split in splits)
    profile = profile_of(ListDataset(train), ListDataset(val))
    check = next(check for check in profile.checks if check.name == "languages of other text")
    assert check.verdict == ("fault" if is_shifted else "no fault")
    text = "the languages of other text are English 75%, German 25% in training and German 100% in validation"
    assert (text in profile.to_text()) == is_shifted


@pytest.mark.parametrize(("share", "verdict"), [(0.05, "no fault"), (0.3, "fault")])
def test_share_of_unknown_tokens_is_judged(share: float, verdict: str) -> None:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(2, 30, (100, 12), generator=generator)
    tokens[torch.rand(tokens.shape, generator=generator) < share] = 1
    tokens[:, 9:] = 0
    dataset = TensorDataset(tokens, torch.arange(100) % 2)
    dataset.vocabulary = ["<pad>", "<unk>", *(f"w{i}" for i in range(28))]  # type: ignore[attr-defined]
    profile = profile_of(dataset)
    unknown = profile.unknown_tokens[0]
    assert unknown.share == pytest.approx(float((tokens == 1).sum() / (tokens != 0).sum()))
    assert next(check for check in profile.checks if check.name == "training: unknown tokens").verdict == verdict
