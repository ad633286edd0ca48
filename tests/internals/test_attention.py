"""Tests of attention()."""

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


def expected_attention(module: nn.MultiheadAttention, query: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax of the products of queries and keys per head, from the weights of the module."""
    weight, bias = module.in_proj_weight, module.in_proj_bias
    heads = []
    for head in range(HEADS):
        rows = slice(head * SIZE // HEADS, (head + 1) * SIZE // HEADS)
        q = query @ weight[:SIZE][rows].T + bias[:SIZE][rows]
        k = key @ weight[SIZE : 2 * SIZE][rows].T + bias[SIZE : 2 * SIZE][rows]
        scores = q @ k.mT / (SIZE // HEADS) ** 0.5
        heads.append((scores if mask is None else scores.masked_fill(mask, -torch.inf)).softmax(-1))
    return torch.stack(heads, 1)


class MultiheadModel(nn.Module):
    """Multi-head attention called with options."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.attend, self.options = nn.MultiheadAttention(SIZE, HEADS, batch_first=True), options

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        return self.attend(x, x if y is None else y, x if y is None else y, **self.options)[0]


class CustomAttention(nn.Module):
    """Attention in explicit operations, or by scaled_dot_product_attention."""

    def __init__(self, explicit: bool, **options: Any) -> None:
        super().__init__()
        self.all, self.explicit, self.options = nn.Linear(SIZE, 3 * SIZE), explicit, options

    def parts(self, x: Tensor) -> Any:
        """Queries, keys and values, samples × heads × positions × numbers."""
        return self.all(x).view(*x.shape[:2], 3, HEADS, SIZE // HEADS).permute(2, 0, 3, 1, 4)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.parts(x)
        if not self.explicit:
            return F.scaled_dot_product_attention(q, k, v, **self.options).mean((1, 2)).softmax(-1)
        weights = F.dropout(F.softmax(q @ k.mT / 2, -1), 0.1, self.training)
        return (weights @ v).mean((1, 2)).softmax(-1)


@pytest.mark.parametrize(
    "options", [{}, {"need_weights": False}, {"average_attn_weights": False}], ids=["default", "no weights", "per head"]
)
def test_attention_of_multihead_module_matches_formula(options: dict[str, Any]) -> None:
    model, x = MultiheadModel(**options), torch.randn(3, 5, SIZE)
    (layer,) = attention(model, x).layers
    assert layer.weights == pytest.approx(expected_attention(model.attend, x, x).detach().numpy(), abs=1e-6)
    assert (layer.layer, layer.kind, layer.may_be_self_attention) == ("attend", "multi-head attention", True)


def test_attention_with_mask_or_other_keys_matches_formula() -> None:
    mask = torch.ones(5, 5, dtype=torch.bool).triu(1)
    model, x, y = (
        MultiheadModel(attn_mask=mask, is_causal=True, need_weights=False),
        torch.randn(2, 5, SIZE),
        torch.randn(2, 5, 8),
    )
    (layer,) = attention(model, x).layers
    assert layer.weights == pytest.approx(expected_attention(model.attend, x, x, mask).detach().numpy(), abs=1e-6)
    cross_model = MultiheadModel()
    (layer,) = attention(cross_model, (x, y)).layers
    assert layer.weights == pytest.approx(expected_attention(cross_model.attend, x, y).detach().numpy(), abs=1e-6)
    assert not layer.may_be_self_attention


@pytest.mark.parametrize("batch_first", [True, False])
def test_attention_of_transformer_encoder_matches_formula_and_restores_fast_path(batch_first: bool) -> None:
    block = nn.TransformerEncoderLayer(SIZE, HEADS, 16, batch_first=batch_first)
    model = nn.TransformerEncoder(block, 2, enable_nested_tensor=batch_first).eval()
    x = torch.randn(3, 5, SIZE) if batch_first else torch.randn(5, 3, SIZE)
    result = attention(model, (x,)) if batch_first else attention(PositionsFirst(model), x.transpose(0, 1))
    assert [layer.layer.removeprefix("inner.") for layer in result.layers] == [
        "layers.0.self_attn",
        "layers.1.self_attn",
    ]
    rows = x if batch_first else x.transpose(0, 1)
    assert result.layers[0].weights == pytest.approx(
        expected_attention(model.layers[0].self_attn, rows, rows).detach().numpy(), abs=1e-6
    )
    assert torch.backends.mha.get_fastpath_enabled()


class PositionsFirst(nn.Module):
    """Passes samples to a model that expects positions first."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.transpose(0, 1)).transpose(0, 1)


OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "causal": {"is_causal": True},
    "scale and dropout": {"scale": 0.1, "dropout_p": 0.5},
    "boolean mask": {"attn_mask": torch.ones(5, 5, dtype=torch.bool).triu(1)},
    "additive mask": {"attn_mask": torch.linspace(-1, 1, 25).view(5, 5)},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_attention_of_scaled_dot_product_function_matches_its_output(options: dict[str, Any]) -> None:
    model, x = CustomAttention(False, **options), torch.randn(3, 5, SIZE)
    (layer,) = attention(model, x).layers
    assert (layer.kind, layer.weights.shape) == ("dot-product attention", (3, HEADS, 5, 5))
    q, k, v = model.parts(x)
    deterministic_options = {name: value for name, value in options.items() if name != "dropout_p"}
    expected = F.scaled_dot_product_attention(q, k, v, **deterministic_options).nan_to_num(0.0)
    assert torch.allclose(torch.from_numpy(layer.weights) @ v, expected, atol=1e-5)


def test_attention_includes_softmax_before_matmul_but_not_class_softmax() -> None:
    model, x = CustomAttention(True), torch.randn(3, 5, SIZE)
    result = attention(model, x)
    q, k, _ = model.parts(x)
    (layer,) = result.layers
    assert layer.weights == pytest.approx((q @ k.mT / 2).softmax(-1).detach().numpy(), abs=1e-6)
    assert result.notes == ("Probably attention (a softmax multiplied as a matrix): the model.",)
    assert len(attention(nn.Sequential(nn.Linear(8, 3), nn.Softmax(-1), nn.Linear(3, 2)), torch.randn(4, 6, 8))) == 0


class AttentionForm(nn.Module):
    """Attention with heads folded into samples, products by einsum, one query, or windows."""

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
def test_attention_of_other_forms_has_sample_and_head_axes(form: str, shape: tuple[int, ...], count: int) -> None:
    result = attention(AttentionForm(form), torch.randn(count, 6, SIZE))
    (layer,) = result.layers
    assert layer.weights.shape == (count, *shape)
    assert layer.weights.sum(-1) == pytest.approx(np.ones((count, *shape[:2])), abs=1e-5)
    assert (layer.windows, result.rollout() is None) == ((2, True) if form == "windows" else (1, form == "one query"))


@pytest.mark.parametrize(
    "model",
    [MultiheadModel(need_weights=False), CustomAttention(False, dropout_p=0.3), CustomAttention(True)],
    ids=["multi-head", "scaled dot product", "explicit softmax"],
)
def test_recording_attention_keeps_output_bitwise_equal(model: nn.Module) -> None:
    x = torch.randn(3, 5, SIZE)
    runner = get_model_runner(model)
    torch.manual_seed(0)
    expected = model.eval()(x)
    torch.manual_seed(0)
    with recording_attention(runner.model) as recorder:
        assert torch.equal(model(x), expected)
    assert len([record for record in recorder.records if record is not None]) == 1


def test_attention_above_max_weights_is_skipped_with_note(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["nbdebug.internals.attention"]  # the attribute of the package is the function
    monkeypatch.setattr(module, "MAX_WEIGHTS", 10)
    result = attention(MultiheadModel(), torch.randn(1, 5, SIZE))
    assert len(result) == 0
    assert "attend (SetupError: it has 50 weights; expected at most 10" in result.notes[0]


def test_attention_rollout_and_entropy_match_definitions() -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(SIZE, HEADS, 16, batch_first=True), 3)
    result = attention(model, torch.randn(2, 5, SIZE))
    rollout = result.rollout()
    assert rollout is not None
    expected = np.eye(5)
    for layer in result.layers:
        expected = (layer.weights.mean(1) + np.eye(5)) / 2 @ expected
    assert rollout[0] == pytest.approx(expected, abs=1e-6)
    assert len(rollout[1]) == 3
    weights = result.layers[0].weights.astype(np.float64)
    assert result.layers[0].entropy == pytest.approx(-(weights * np.log(weights)).sum(-1).mean(-1) / np.log(5))


def test_attention_entropy_excludes_padding_keys() -> None:
    block = nn.TransformerEncoderLayer(SIZE, HEADS, 16, batch_first=True)

    class PaddedBlock(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = block

        def forward(self, x: Tensor, padding: Tensor) -> Tensor:
            return self.block(x, src_key_padding_mask=padding)

    x, padding = torch.randn(2, 5, SIZE), torch.zeros(2, 5, dtype=torch.bool)
    padding[0, 3:] = True
    (layer,) = attention(PaddedBlock(), (x, padding)).layers
    assert layer.unused_keys.tolist() == [[False, False, False, True, True], [False] * 5]
    unpadded = attention(block, x[:1, :3]).layers[0]
    assert layer.entropy[0] == pytest.approx(unpadded.entropy[0])


def test_attention_of_transformers_bert_matches_its_own_output() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8
    )
    model = transformers.BertModel(config).eval()
    inputs = {"input_ids": torch.randint(20, (2, 5)), "attention_mask": torch.tensor([[1, 1, 1, 1, 0]] * 2)}
    for implementation in ("sdpa", "eager"):
        model.set_attn_implementation(implementation)
        result = attention(model, inputs)
        model.set_attn_implementation("eager")
        expected = model(**inputs, output_attentions=True).attentions
        for layer, weights in zip(result.layers, expected, strict=True):
            assert layer.weights == pytest.approx(weights.detach().numpy(), abs=1e-6)
        assert [layer.layer for layer in result.layers] == [f"encoder.layer.{n}.attention.self" for n in range(2)]
