"""Tests of suspect labels, and of the power that each check states."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.tools.data import data

from .setups import AnyInput, EndlessStream, digits, profile_of, profile_of_tensors


def test_flipped_labels_of_digits_are_listed_with_given_and_predicted_class() -> None:
    (x, y), val = digits()
    true = y.clone()
    y[:60] = (y[:60] + torch.arange(60) % 9 + 1) % 10
    profile = profile_of_tensors((x, y), val)
    quality = profile.labels.splits[0]
    assert quality.looks_wrong
    first = quality.suspects[:40]
    assert np.mean([suspect.index < 60 for suspect in first]) >= 0.95
    assert np.mean([suspect.predicted == true[suspect.index] for suspect in first if suspect.index < 60]) >= 0.95
    assert all(suspect.label == y[suspect.index] for suspect in first)
    assert "labels look wrong" in profile.to_text()
    assert set(profile.drop_list("train", ["suspects"])) >= {suspect.index for suspect in first}


def test_clean_digits_have_no_wrong_labels_and_state_the_power() -> None:
    profile = profile_of_tensors(*digits())
    assert profile.labels.faults == []
    check = next(check for check in profile.checks if check.name == "training: wrong labels")
    assert check.verdict == "no fault"
    assert "2% of random wrong labels" in check.power


def test_random_labels_are_unrelated_and_wrong_labels_not_decidable() -> None:
    (x, y), val = digits()
    y = y[torch.randperm(len(y), generator=torch.Generator().manual_seed(1))]
    profile = profile_of_tensors((x, y), val)
    assert "training targets look unrelated" in profile.labels.faults[0]
    verdicts = {check.name: check.verdict for check in profile.checks}
    assert verdicts["training: targets unrelated to the inputs"] == "fault"
    assert verdicts["training: wrong labels"] == "not decidable"


def test_unlabeled_data_leave_label_checks_undecided() -> None:
    profile = data(Setup(AnyInput(), DataLoader(TensorDataset(torch.rand(200, 4)), 16)))
    checks = {check.name: check for check in profile.checks}
    assert checks["wrong labels"].verdict == "not decidable"
    assert checks["wrong labels"].power


def test_first_samples_of_stream_decide_nothing_about_the_rest() -> None:
    profile = data(Setup(AnyInput(), DataLoader(EndlessStream(), 8), loss_fn=nn.CrossEntropyLoss()), samples=80)
    checks = {check.name: check for check in profile.checks}
    assert checks["training: missing or infinite values"].verdict == "not decidable"


def test_power_for_missing_values_depends_on_the_number_of_samples() -> None:
    dataset = TensorDataset(torch.rand(3000, 3), torch.zeros(3000).long())
    few, many = (profile_of(dataset, samples=samples).checks[0].power for samples in (30, 3000))
    assert few == "a fault of 7.4% of the samples"
    assert many == "a fault of 0.033% of the samples"


def test_labels_are_judged_by_given_probabilities() -> None:
    (x, y), val = digits()
    probabilities = torch.nn.functional.one_hot(y, 10) * 0.9 + 0.01
    probabilities = probabilities + 0.05 * torch.rand(probabilities.shape, generator=torch.Generator().manual_seed(0))
    probabilities = probabilities / probabilities.sum(1, keepdim=True)
    y[:50] = (y[:50] + 1) % 10
    profile = profile_of_tensors((x, y), val, pred_probs=probabilities)
    quality = profile.labels.splits[0]
    assert quality.source == "pred_probs"
    assert {suspect.index for suspect in quality.suspects} == set(range(50))
    assert quality.noise.low < 50 / 1198 < quality.noise.high


class Parity(nn.Module):
    """Embeds rows by the product of their signs and a length; no learner on the rows finds the product."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Dropout(0.5)
        self.head = nn.Linear(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of shape (batch, 2)."""
        logits: Tensor = self.head(self.hidden(x.sign().prod(1, keepdim=True) * x[:, :1].abs()))
        return logits


@pytest.mark.parametrize("embed", [True, "hidden"])
def test_labels_are_judged_by_learners_on_embeddings_of_the_model(embed: bool | str) -> None:
    x = torch.randn(300, 9, generator=torch.Generator().manual_seed(0))
    y = (x.sign().prod(1) > 0).long()
    y[:15] = 1 - y[:15]
    model = Parity().train()
    profile = data(Setup(model, DataLoader(TensorDataset(x, y), 32), loss_fn=nn.CrossEntropyLoss()), embed=embed)
    (quality,) = profile.labels.splits
    assert not quality.relation.is_related
    assert quality.looks_wrong
    assert {suspect.index for suspect in quality.suspects} == set(range(15))
    assert quality.source == f"learners on the {'input of layer head' if embed is True else 'output of layer hidden'}"
    assert model.hidden.training


@pytest.mark.parametrize("seed", [37, 50, 51])
def test_labels_that_chance_predicts_slightly_better_than_a_constant_are_unrelated(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(200, 3, generator=generator), (torch.rand(200, generator=generator) < 0.3).long()
    profile = profile_of(DataLoader(TensorDataset(x, y), 32))
    relation = profile.labels.splits[0].relation
    assert relation.score > relation.shuffled
    assert not relation.is_related


def test_unknown_layers_of_embeddings_are_refused() -> None:
    train = TensorDataset(torch.rand(20, 3), torch.zeros(20).long())
    with pytest.raises(SetupError, match="embed is 'head'; expected a layer of the model"):
        profile_of(train, embed="head")
    with pytest.raises(SetupError, match="has no linear layer"):
        profile_of(train, embed=True)


def test_other_forms_of_probabilities_are_refused() -> None:
    train, val = digits()
    with pytest.raises(SetupError, match=r"pred_probs of train has the shape \(3, 10\); expected \(1198, classes\)"):
        profile_of_tensors(train, val, pred_probs=torch.ones(3, 10) / 10)
    with pytest.raises(SetupError, match="expected probabilities"):
        profile_of_tensors(train, val, pred_probs=torch.randn(1198, 10))


def sides(seed: int, rows: int, slope: float, flipped: int = 0) -> tuple[Tensor, Tensor]:
    """Rows on both sides of a line, which the labels tell apart the better the larger ``slope`` is; some are wrong."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 4, generator=generator)
    y = (torch.sigmoid(slope * x[:, 0]) > torch.rand(rows, generator=generator)).long()
    y[:flipped] = 1 - y[:flipped]
    return x, y


@pytest.mark.parametrize(("slope", "verdict"), [(1.0, "not decidable"), (40.0, "fault")])
def test_few_samples_do_not_look_less_ambiguous_than_many(slope: float, verdict: str) -> None:
    profile = profile_of_tensors(sides(0, 600, slope), sides(1, 300, 40, flipped=30))
    checks = {check.name: check for check in profile.checks}
    assert checks["validation: wrong labels"].verdict == verdict
    quality = profile.labels.get_split("val")
    assert quality is not None
    assert bool(quality.suspects) == quality.looks_wrong == (verdict == "fault")
