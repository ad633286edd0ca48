"""The weights of every head are those of the formula, and the model gives what it gives without being heard."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.inference.model_runner import get_model_runner
from nbdebug.internals import attention
from nbdebug.internals.attention import recording_attention

SIZE, HEADS = 8, 2


def by_hand(module: nn.MultiheadAttention, query: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax of the products of queries and keys, head by head, from the weights of the module alone."""
    weight, bias = module.in_proj_weight, module.in_proj_bias
    found = []
    for head in range(HEADS):
        rows = slice(head * SIZE // HEADS, (head + 1) * SIZE // HEADS)
        q = query @ weight[:SIZE][rows].T + bias[:SIZE][rows]
        k = key @ weight[SIZE : 2 * SIZE][rows].T + bias[SIZE : 2 * SIZE][rows]
        scores = q @ k.mT / (SIZE // HEADS) ** 0.5
        found.append((scores if mask is None else scores.masked_fill(mask, -torch.inf)).softmax(-1))
    return torch.stack(found, 1)


class Calls(nn.Module):
    """Multi-head attention called in one way or another."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.attend, self.options = nn.MultiheadAttention(SIZE, HEADS, batch_first=True), options

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        return self.attend(x, x if y is None else y, x if y is None else y, **self.options)[0]


class Own(nn.Module):
    """Attention written by hand, or by the function."""

    def __init__(self, by_hand: bool, **options: Any) -> None:
        super().__init__()
        self.all, self.by_hand, self.options = nn.Linear(SIZE, 3 * SIZE), by_hand, options

    def parts(self, x: Tensor) -> Any:
        """Queries, keys and values, samples × heads × positions × numbers."""
        return self.all(x).view(*x.shape[:2], 3, HEADS, SIZE // HEADS).permute(2, 0, 3, 1, 4)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.parts(x)
        if not self.by_hand:
            return F.scaled_dot_product_attention(q, k, v, **self.options).mean((1, 2)).softmax(-1)
        weights = F.dropout(F.softmax(q @ k.mT / 2, -1), 0.1, self.training)
        return (weights @ v).mean((1, 2)).softmax(-1)


@pytest.mark.parametrize("options", [{}, {"need_weights": False}, {"average_attn_weights": False}])
def test_multi_head_attention_is_that_of_the_formula(options: dict[str, Any]) -> None:
    model, x = Calls(**options), torch.randn(3, 5, SIZE)
    (found,) = attention(model, x).layers
    assert found.weights == pytest.approx(by_hand(model.attend, x, x).detach().numpy(), abs=1e-6)
    assert (found.layer, found.kind, found.may_be_self_attention) == ("attend", "multi-head attention", True)


def test_masks_and_other_keys_are_minded() -> None:
    mask = torch.ones(5, 5, dtype=torch.bool).triu(1)
    model, x, y = (
        Calls(attn_mask=mask, is_causal=True, need_weights=False),
        torch.randn(2, 5, SIZE),
        torch.randn(2, 5, 8),
    )
    (found,) = attention(model, x).layers
    assert found.weights == pytest.approx(by_hand(model.attend, x, x, mask).detach().numpy(), abs=1e-6)
    crossed = Calls()
    (found,) = attention(crossed, (x, y)).layers
    assert found.weights == pytest.approx(by_hand(crossed.attend, x, y).detach().numpy(), abs=1e-6)
    assert not found.may_be_self_attention


@pytest.mark.parametrize("first", [True, False])
def test_a_transformer_layer_takes_no_short_cut_while_it_is_heard(first: bool) -> None:
    block = nn.TransformerEncoderLayer(SIZE, HEADS, 16, batch_first=first)
    model = nn.TransformerEncoder(block, 2, enable_nested_tensor=first).eval()
    x = torch.randn(3, 5, SIZE) if first else torch.randn(5, 3, SIZE)
    found = attention(model, (x,)) if first else attention(Turned(model), x.transpose(0, 1))
    assert [one.layer.removeprefix("inner.") for one in found.layers] == ["layers.0.self_attn", "layers.1.self_attn"]
    rows = x if first else x.transpose(0, 1)
    assert found.layers[0].weights == pytest.approx(
        by_hand(model.layers[0].self_attn, rows, rows).detach().numpy(), abs=1e-6
    )
    assert torch.backends.mha.get_fastpath_enabled()


class Turned(nn.Module):
    """A model that has its positions first, given samples first."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.transpose(0, 1)).transpose(0, 1)


OPTIONS = [
    {},
    {"is_causal": True},
    {"scale": 0.1, "dropout_p": 0.5},
    {"attn_mask": torch.ones(5, 5, dtype=torch.bool).triu(1)},
    {"attn_mask": torch.linspace(-1, 1, 25).view(5, 5)},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_function_of_attention_is_heard_in_own_modules(options: dict[str, Any]) -> None:
    model, x = Own(False, **options), torch.randn(3, 5, SIZE)
    (found,) = attention(model, x).layers
    assert (found.kind, found.weights.shape) == ("dot-product attention", (3, HEADS, 5, 5))
    q, k, v = model.parts(x)
    without = {name: value for name, value in options.items() if name != "dropout_p"}
    expected = F.scaled_dot_product_attention(q, k, v, **without).nan_to_num(0.0)
    assert torch.allclose(torch.from_numpy(found.weights) @ v, expected, atol=1e-5)


def test_a_softmax_that_multiplies_looks_like_attention_and_one_of_classes_does_not() -> None:
    model, x = Own(True), torch.randn(3, 5, SIZE)
    found = attention(model, x)
    q, k, _ = model.parts(x)
    (one,) = found.layers
    assert one.weights == pytest.approx((q @ k.mT / 2).softmax(-1).detach().numpy(), abs=1e-6)
    assert found.notes == ("Probably attention (a softmax multiplied as a matrix): the model.",)
    assert len(attention(nn.Sequential(nn.Linear(8, 3), nn.Softmax(-1), nn.Linear(3, 2)), torch.randn(4, 6, 8))) == 0


class Shaped(nn.Module):
    """Attention of one form or another: heads folded into samples, products by einsum, one query, windows."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form, self.line, self.window = form, nn.Linear(SIZE, SIZE), nn.MultiheadAttention(SIZE, HEADS)

    def forward(self, x: Tensor) -> Tensor:
        size, length, _ = x.shape
        q = self.line(x).view(size, length, HEADS, -1).transpose(1, 2)
        if self.form == "folded":
            q = q.reshape(size * HEADS, length, -1)
            return torch.bmm(torch.bmm(q, q.mT).softmax(2), q).view(size, -1)
        if self.form == "einsum":
            return torch.einsum("bhij,bhjd->bhid", torch.einsum("bhid,bhjd->bhij", q, q).softmax(dim=-1), q).flatten(1)
        if self.form == "one query":
            return torch.bmm(F.softmax(x.sum(2), dim=1).unsqueeze(1), x)[:, 0]
        parts = x.reshape(size * 2, length // 2, SIZE).transpose(0, 1)
        return self.window(parts, parts, parts)[0].transpose(0, 1).reshape(size, -1)


@pytest.mark.parametrize(
    ("form", "shape"), [("folded", (2, 6, 6)), ("einsum", (2, 6, 6)), ("one query", (1, 1, 6)), ("windows", (4, 3, 3))]
)
@pytest.mark.parametrize("count", [1, 3])
def test_attention_of_other_forms_is_samples_by_heads(form: str, shape: tuple[int, ...], count: int) -> None:
    found = attention(Shaped(form), torch.randn(count, 6, SIZE))
    (one,) = found.layers
    assert one.weights.shape == (count, *shape)
    assert one.weights.sum(-1) == pytest.approx(np.ones((count, *shape[:2])), abs=1e-5)
    assert (one.windows, found.rollout() is None) == ((2, True) if form == "windows" else (1, form == "one query"))


@pytest.mark.parametrize("model", [Calls(need_weights=False), Own(False, dropout_p=0.3), Own(True)])
def test_the_output_is_the_same_to_the_last_bit(model: nn.Module) -> None:
    x = torch.randn(3, 5, SIZE)
    look = get_model_runner(model)
    torch.manual_seed(0)
    expected = model.eval()(x)
    torch.manual_seed(0)
    with recording_attention(look.model) as heard:
        assert torch.equal(model(x), expected)
    assert len([one for one in heard.records if one is not None]) == 1


def test_too_many_weights_are_not_computed_but_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["nbdebug.internals.attention"], "MAX_WEIGHTS", 10)  # the package names the function
    found = attention(Calls(), torch.randn(1, 5, SIZE))
    assert len(found) == 0
    assert "attend (SetupError: it has 50 weights; expected at most 10" in found.notes[0]


def test_rollout_and_entropy() -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(SIZE, HEADS, 16, batch_first=True), 3)
    found = attention(model, torch.randn(2, 5, SIZE))
    rolled = found.rollout()
    assert rolled is not None
    expected = np.eye(5)
    for one in found.layers:
        expected = (one.weights.mean(1) + np.eye(5)) / 2 @ expected
    assert rolled[0] == pytest.approx(expected, abs=1e-6)
    assert len(rolled[1]) == 3
    weights = found.layers[0].weights.astype(np.float64)
    assert found.layers[0].entropy == pytest.approx(-(weights * np.log(weights)).sum(-1).mean(-1) / np.log(5))


def test_what_nobody_looks_at_is_padding_and_counts_not() -> None:
    block = nn.TransformerEncoderLayer(SIZE, HEADS, 16, batch_first=True)

    class Padded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = block

        def forward(self, x: Tensor, shut: Tensor) -> Tensor:
            return self.block(x, src_key_padding_mask=shut)

    x, shut = torch.randn(2, 5, SIZE), torch.zeros(2, 5, dtype=torch.bool)
    shut[0, 3:] = True
    (found,) = attention(Padded(), (x, shut)).layers
    assert found.unused_keys.tolist() == [[False, False, False, True, True], [False] * 5]
    alone = attention(block, x[:1, :3]).layers[0]
    assert found.entropy[0] == pytest.approx(alone.entropy[0])


def test_models_of_transformers_are_heard() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8
    )
    model = transformers.BertModel(config).eval()
    given = {"input_ids": torch.randint(20, (2, 5)), "attention_mask": torch.tensor([[1, 1, 1, 1, 0]] * 2)}
    for way in ("sdpa", "eager"):
        model.set_attn_implementation(way)
        found = attention(model, given)
        model.set_attn_implementation("eager")
        expected = model(**given, output_attentions=True).attentions
        for one, other in zip(found.layers, expected, strict=True):
            assert one.weights == pytest.approx(other.detach().numpy(), abs=1e-6)
        assert [one.layer for one in found.layers] == [f"encoder.layer.{n}.attention.self" for n in range(2)]
