"""Tests of the terms of a loss: which outputs meet which targets, and the scalars made of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.autograd.loss_terms import LossTerm, find_terms, record_loss_calls

SCORES, VALUES = torch.randn(6, 3, requires_grad=True), torch.randn(6, requires_grad=True)
CLASSES, NUMBERS = torch.tensor([0, 1, 2, 0, 1, 2]), torch.randn(6)


def trace(loss_fn: Callable[[], Tensor]) -> list[LossTerm]:
    calls, _ = record_loss_calls(loss_fn)
    return find_terms(calls, (SCORES, VALUES), (CLASSES, NUMBERS))


def value_of(term: LossTerm) -> Tensor:
    assert term.value is not None
    return term.value


def sum_in_place() -> Tensor:
    total = torch.zeros(())
    total += F.cross_entropy(SCORES, CLASSES)
    total += F.mse_loss(VALUES, NUMBERS)
    return total


def sum_of_operators() -> Tensor:
    likelihood = SCORES.log_softmax(1)[torch.arange(6), CLASSES]
    return -likelihood.mean() + (NUMBERS - VALUES).square().mean()


LOSSES: dict[str, Callable[[], Tensor]] = {
    "functions": lambda: F.cross_entropy(SCORES, CLASSES) + F.mse_loss(VALUES, NUMBERS),
    "generator": lambda: sum(loss for loss in (F.cross_entropy(SCORES, CLASSES), F.mse_loss(VALUES, NUMBERS))),  # type: ignore[return-value]
    "stack": lambda: torch.stack([F.cross_entropy(SCORES, CLASSES), F.mse_loss(VALUES, NUMBERS)]).sum(),
    "in place": sum_in_place,
    "operators": sum_of_operators,
    "masked": lambda: (
        (F.cross_entropy(SCORES, CLASSES, reduction="none") * (CLASSES >= 0)).sum() / (CLASSES >= 0).sum()
        + (F.mse_loss(VALUES, NUMBERS, reduction="none") * (NUMBERS > -9)).mean()
    ),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_find_terms_of_two_pairs_returns_both_with_their_values(loss: str) -> None:
    terms = trace(LOSSES[loss])
    assert [(term.output is SCORES, term.target is CLASSES) for term in terms] == [(True, True), (False, False)]
    expected = F.cross_entropy(SCORES, CLASSES), F.mse_loss(VALUES, NUMBERS)
    values = [term.value for term in terms]
    assert [float(value) for value in values if value is not None] == pytest.approx([float(v) for v in expected])


def test_find_terms_with_loss_that_raises_returns_pair_without_scalars() -> None:
    terms = trace(lambda: F.mse_loss(VALUES, NUMBERS) + F.cross_entropy(SCORES, CLASSES + 5))
    assert [bool(term.scalars) for term in terms] == [True, False]


def test_find_terms_leaves_out_a_cost_that_only_chooses() -> None:
    def matched_error() -> Tensor:
        with torch.no_grad():
            order = (VALUES[:, None] - NUMBERS).abs().argmin(0)
        return F.mse_loss(VALUES[order], NUMBERS)

    (term,) = trace(matched_error)
    assert term.call.name == "mse_loss"


def test_find_terms_with_variance_of_the_model_includes_it() -> None:
    variances = torch.rand(6, requires_grad=True)
    calls, _ = record_loss_calls(lambda: F.gaussian_nll_loss(VALUES, NUMBERS, variances.exp()) + VALUES.square().mean())
    (term,) = find_terms(calls, (VALUES, variances), (NUMBERS,))
    assert term.output is VALUES
    expected = F.gaussian_nll_loss(VALUES, NUMBERS, variances.exp()) + VALUES.square().mean()
    assert float(value_of(term)) == pytest.approx(float(expected))


def test_find_terms_of_columns_counts_their_meetings() -> None:
    (term,) = trace(lambda: F.mse_loss(VALUES[:3], NUMBERS[:3]) + F.mse_loss(VALUES[3:], NUMBERS[3:]))
    assert term.meetings == 2
    expected = F.mse_loss(VALUES[:3], NUMBERS[:3]) + F.mse_loss(VALUES[3:], NUMBERS[3:])
    assert float(value_of(term)) == pytest.approx(float(expected))


def test_find_terms_prefers_scalars_without_other_outputs() -> None:
    calls, _ = record_loss_calls(lambda: F.mse_loss(VALUES, NUMBERS) + 0.1 * SCORES.square().mean())
    (term,) = find_terms(calls, (VALUES, SCORES), (NUMBERS,))
    assert float(value_of(term)) == pytest.approx(float(F.mse_loss(VALUES, NUMBERS)))


def test_find_terms_of_two_embeddings_finds_target_after_both() -> None:
    signs = torch.tensor([1.0, -1.0] * 3)
    others = torch.randn(6, 3, requires_grad=True)
    calls, _ = record_loss_calls(lambda: F.cosine_embedding_loss(SCORES, others, signs))
    assert [
        (term.output is SCORES, term.target is signs) for term in find_terms(calls, (SCORES, others), (signs,))
    ] == [(True, True)]


UNRELATED: dict[str, Callable[[], Tensor]] = {
    "apart": lambda: SCORES.square().mean() + NUMBERS.sum(),
    "weights": lambda: (VALUES * NUMBERS).mean(),
    "mask": lambda: VALUES[CLASSES > 0].sum(),
}


@pytest.mark.parametrize("loss", UNRELATED)
def test_find_terms_without_comparison_returns_none(loss: str) -> None:
    assert trace(UNRELATED[loss]) == []
